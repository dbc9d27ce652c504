"""`scenario` beside the published strategies: below every one of them. bench/superstep_sweep.py has the long form."""

import pytest

from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.run import simulate_job
from foresail.experiments.supersteps.source import find_source

STRATEGIES = [
    ("exppo", None),
    *(("static", window) for window in (1, 2, 3, 4)),
    *(("dynamic-mpc", window) for window in (3, 5, 10)),
    *(("dynamic-window", window) for window in (2, 3, 5)),
]


def total_s(source, strategy, window, forecast, penalty_s, length):
    request = JobRequest(
        strategy=strategy, window=window, forecast=forecast, penalty_s=penalty_s, length=length, seed=1
    )
    return simulate_job(source, request).run.total_s


@pytest.mark.parametrize("penalty_s", [5.0, 95.0])
def test_with_a_forecaster_that_is_quick_to_fit_scenario_is_below_all(bsp_data, penalty_s):
    source = find_source(bsp_data)
    ours = total_s(source, "scenario", None, "seasonal-naive", penalty_s, 100)
    for strategy, window in STRATEGIES:
        assert ours < total_s(source, strategy, window, "published", penalty_s, 100), (strategy, window)


def test_with_the_very_same_published_forecasts_scenario_is_below_the_best_that_was_published(bsp_data):
    """A learned strategy took 49158.03; those that are ours to run take more, which test_published holds."""
    assert total_s(find_source(bsp_data), "scenario", None, "published", 15.0, 400) < 49158.03


def test_perfect_forecasts_are_used_better(bsp_data):
    assert total_s(find_source(bsp_data), "scenario", None, "perfect", 15.0, 400) < 44540


@pytest.mark.parametrize("forecast", ["perfect", "seasonal-naive"])
def test_on_a_made_up_job_scenario_is_below_others_with_the_same_forecasts(monkeypatch, forecast):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    source = find_source(None)
    ours = total_s(source, "scenario", None, forecast, 15.0, 100)
    for strategy, window in [("static", 2), ("static", 3), ("dynamic-mpc", 10)]:
        assert ours < total_s(source, strategy, window, forecast, 15.0, 100), (strategy, window)
