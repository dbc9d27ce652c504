"""No forecaster looks at what comes after its origin, and none learns from the rows that it is judged on."""

import numpy as np
import pytest
from tests.forecast.workload.small_series import HORIZON, ROWS, corrupted

from foresail.forecast.workload.calendar import day_table
from foresail.forecast.workload.features import COUNT, fill
from foresail.forecast.workload.fitted import TaskSeries, Units
from foresail.forecast.workload.fitting import FORECASTERS, fit
from foresail.forecast.workload.store import load, save

OWN = Units()


def said(fitted, whole, origins, units=OWN):
    """Forecasts, quantiles and scenarios from each origin, of an object that is told one value after another."""
    tasks = [TaskSeries(one.head(ROWS), units, one.times_s[ROWS:]) for one in whole]
    online = fitted.start(tasks)
    found = []
    for row in range(ROWS, ROWS + origins):
        found.append(online.forecast(HORIZON))
        found.extend(online.quantiles(HORIZON, (0.1, 0.9)))
        found.extend(online.scenarios(HORIZON, 3, np.random.default_rng(1)))
        online.observe([units.workload(one.values[row]) for one in whole])
    return np.stack(found)


@pytest.mark.parametrize("name", FORECASTERS)
def test_a_forecaster_neither_learns_from_test_rows_nor_sees_what_comes(name, whole, quick_lstm, tmp_path):
    fitted = fit(name, [one.head(ROWS) for one in whole], horizon=HORIZON)
    other = [corrupted(one, ROWS) for one in whole]
    again = fit(name, [one.head(ROWS) for one in other], horizon=HORIZON)
    first, second = (save(model, tmp_path / f"{at}.npz").read_bytes() for at, model in enumerate((fitted, again)))
    assert first == second

    origins = 8
    expected = said(fitted, whole, origins)
    assert np.isfinite(expected).all()
    # Everything after the last origin is something else; the last origin has seen origins − 1 values of the test.
    later = [corrupted(one, ROWS + origins - 1) for one in whole]
    assert np.array_equal(said(fitted, later, origins), expected)
    # And a value before it is looked at.
    earlier = [corrupted(one, ROWS + origins - 2) for one in whole]
    assert not np.array_equal(said(fitted, earlier, origins), expected)

    # A file brings the same forecaster back.
    assert np.array_equal(said(load(tmp_path / "0.npz"), whole, origins), expected)

    # Units, which may come from anywhere, only change how forecasts are written.
    units = Units(least=40.0, most=170.0, low=10.0, high=50.0)
    np.testing.assert_allclose(said(fitted, whole, origins, units), units.workload(expected), rtol=1e-9)


def test_features_are_made_of_rows_up_to_the_origin_alone(whole):
    z, n = whole[0].values.copy(), 200
    rows = [np.zeros((30, COUNT)) for _ in range(2)]
    for out in rows:
        fill(z, n, int(whole[0].times_s[n - 1]), 3600, 24, day_table("us"), out)
        z[n:] = np.nan
    assert np.array_equal(*rows)
    assert np.isfinite(rows[0]).all()
