"""The default forecaster on the published series: as good as promised, and nothing of it comes from the test rows."""

import numpy as np
import pytest

from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.run import simulate_job
from foresail.experiments.supersteps.source import find_source
from foresail.experiments.workload.data import ForecastData, find_series
from foresail.experiments.workload.evaluation import PUBLISHED, evaluate
from foresail.forecast.workload.fitting import DEFAULT
from foresail.forecast.workload.store import load, load_or_fit
from foresail.traces.series import Series


@pytest.fixture(scope="module")
def cache(bsp_data, tmp_path_factory):
    """A cache with the default forecaster in it, fitted here; it takes a quarter of a minute."""
    folder = tmp_path_factory.mktemp("cache")
    load_or_fit(DEFAULT, find_series(bsp_data).training(), folder=folder / "foresail" / "forecasters")
    return folder


def only_model(cache):
    (model,) = (cache / "foresail" / "forecasters").iterdir()
    return model


def test_the_default_forecaster_is_as_good_as_promised(bsp_data, cache):
    published, ours = evaluate(find_series(bsp_data), [], models=[load(only_model(cache))])
    assert published.forecaster == PUBLISHED
    np.testing.assert_allclose([published.mean(ahead) for ahead in (1, 5, 10)], [2.16, 5.84, 9.27], atol=0.01)
    assert ours.mean(1) <= 1.6
    assert ours.mean(5) <= 2.5
    assert ours.mean(10) <= 3.1
    assert 0.75 <= ours.mean_coverage() <= 0.85


def test_the_published_job_takes_no_longer_than_promised(bsp_data, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    source = find_source(bsp_data)
    totals = [simulate_job(source, JobRequest(seed=seed)).run.total_s for seed in range(1, 6)]
    assert len(set(totals)) == 5
    assert np.mean(totals) <= 46_600
    only_model(cache)  # jobs plan with the forecaster above, and have fitted no other


def test_weights_members_and_errors_are_the_same_whatever_the_test_rows_are(bsp_data, cache, tmp_path):
    whole, random = find_series(bsp_data), np.random.default_rng(1)
    other = []
    for series, known in zip(whole.series, whole.training(), strict=True):
        values, times_s = series.values.copy(), series.times_s.copy()
        assert len(values) - len(known) == 1000 + 19
        values[len(known) :] = random.normal(scale=1e6, size=len(values) - len(known))
        times_s[len(known) :] += 12_345_600
        other.append(Series(series.name, times_s, values))
    changed = ForecastData("changed", tuple(other), whole.test_rows, whole.horizon)
    load_or_fit(DEFAULT, changed.training(), folder=tmp_path)
    (again,) = tmp_path.iterdir()
    assert again.name == only_model(cache).name
    assert again.read_bytes() == only_model(cache).read_bytes()
