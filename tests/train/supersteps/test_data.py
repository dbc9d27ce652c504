"""Rows to train on, as workloads."""

import numpy as np

from foresail.train.supersteps.data import as_workloads


def test_forecasts_go_by_the_scale_of_the_values():
    rng = np.random.default_rng(1)
    actual = rng.uniform(-3, 7, (2, 9))
    drawn = rng.uniform(-3, 7, (9, 5, 2, 4))
    said = drawn[:, 0]
    workloads, forecasts, scenarios = as_workloads(actual, said, drawn, as_published=False)
    for series in range(2):
        low, high = actual[series].min(), actual[series].max()
        np.testing.assert_allclose(workloads[:, series], 10 + 40 * (actual[series] - low) / (high - low))
        np.testing.assert_allclose(forecasts[:, series], 10 + 40 * (said[:, series] - low) / (high - low))
    np.testing.assert_allclose(scenarios[:, 0], forecasts)


def test_as_published_every_column_of_forecasts_has_a_scale_of_its_own():
    rng = np.random.default_rng(1)
    actual, said = rng.uniform(-3, 7, (2, 9)), rng.uniform(0, 100, (9, 2, 4))
    workloads, forecasts, scenarios = as_workloads(actual, said, None, as_published=True)
    assert scenarios is None
    for series in range(2):
        column = said[:, series, 3]
        np.testing.assert_allclose(
            forecasts[:, series, 3], 10 + 40 * (column - column.min()) / (column.max() - column.min())
        )
        assert (workloads[:, series].min(), workloads[:, series].max()) == (10.0, 50.0)
