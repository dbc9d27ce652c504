"""Simulated bulk-synchronous jobs: ours against the published strategies, and nothing seen before its time."""

from dataclasses import replace

import numpy as np
import pytest

from foresail.errors import OptionError
from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.run import simulate_job
from foresail.experiments.supersteps.source import find_source
from foresail.forecast.runtime.generated import generate_profile
from foresail.traces.series import Series
from foresail.traces.supersteps.matrices import JobData


@pytest.fixture(scope="module")
def generated():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FORESAIL_DATA", raising=False)
        source = find_source(None)
    # Not the profile that comes along: it is measured anew now and then, and what is tested here is not its digits.
    return replace(source, profile=generate_profile(source.data.tasks))


@pytest.mark.parametrize(("grid_milli", "most_s"), [(100, 44_540), (50, 44_300)])
def test_with_perfect_forecasts_ours_is_below_the_published_best(bsp_data, grid_milli, most_s):
    run = simulate_job(find_source(bsp_data), JobRequest(forecast="perfect", grid_milli=grid_milli)).run
    assert run.total_s <= most_s


@pytest.mark.parametrize("changed", [{"penalty_s": 5.0}, {"penalty_s": 95.0}, {"length": 100}])
def test_ours_is_below_every_published_strategy(bsp_data, changed):
    source = find_source(bsp_data)
    ours = simulate_job(source, JobRequest(**changed)).run.total_s
    published = [("exppo", None), *(("static", n) for n in (1, 2, 3, 4)), ("dynamic-mpc", 3), ("dynamic-window", 2)]
    for strategy, window in published:
        request = JobRequest(strategy=strategy, window=window, forecast="published", **changed)
        assert ours < simulate_job(source, request).run.total_s, strategy


def test_a_made_up_job_runs_without_any_data(generated):
    assert generated.name == "generated"
    totals = {
        strategy: simulate_job(
            generated, JobRequest(strategy=strategy, forecast="seasonal-naive", length=60)
        ).run.total_s
        for strategy in ("exppo", "dynamic-mpc", "scenario")
    }
    assert min(totals, key=totals.get) == "scenario"


def test_one_seed_is_one_run(generated):
    request = JobRequest(forecast="seasonal-naive", length=12)
    runs = [simulate_job(generated, replace(request, seed=seed)).run for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].splits, runs[1].splits)
    assert not np.array_equal(runs[0].splits, runs[2].splits)


def test_nothing_is_seen_before_its_superstep(generated):
    """What comes after superstep 20 is replaced; until then every split stays what it was."""
    request = JobRequest(forecast="seasonal-naive", start=3, length=40)
    changed, rng = {}, np.random.default_rng(1)
    actual = generated.data.actual.copy()
    for task, (name, series) in enumerate(generated.series.items()):
        first = len(series) - generated.data.rows - actual.shape[2] + 1 + request.start + 20
        values = series.values.copy()
        # Within what the series had, so that the unit of workload stays the same.
        low, high = actual[task, :, 0].min(), actual[task, :, 0].max()
        kept = np.isin(values, (low, high))
        values[first:] = np.where(kept[first:], values[first:], rng.uniform(low, high, len(values) - first))
        changed[name] = Series(name, series.times_s, values)
        at = len(values) - generated.data.rows - actual.shape[2] + 1
        actual[task] = values[at + np.arange(generated.data.rows)[:, None] + np.arange(actual.shape[2])]
    data = JobData(generated.data.tasks, generated.data.series, actual, None)
    before = simulate_job(generated, request).run
    after = simulate_job(replace(generated, data=data, series=changed), request).run
    np.testing.assert_array_equal(before.splits[:21], after.splits[:21])
    assert not np.array_equal(before.splits[21:], after.splits[21:])


def test_jobs_of_more_tasks_have_the_tasks_again_with_other_series(generated):
    data = generated.data.of(11)
    assert data.tasks[8:] == ("affinity", "atomic", "bsearch")
    assert data.series[8:] == ("load_2", "load_3", "load_4")
    run = simulate_job(generated, JobRequest(forecast="perfect", tasks=11, length=4)).run
    assert run.splits.shape == (4, 11)


def test_totals_are_what_the_supersteps_say(generated):
    run = simulate_job(generated, JobRequest(forecast="perfect", length=50, penalty_s=7.0)).run
    changes = int((np.diff(run.splits, axis=0) != 0).any(axis=1).sum())
    assert run.reconfigurations == changes
    assert run.total_s == pytest.approx(run.seconds.max(axis=1).sum() + 7.0 * changes)
    assert run.work_s + run.waiting_s + run.reconfiguration_s == pytest.approx(run.total_s)


def test_what_was_not_published_is_said(generated):
    with pytest.raises(OptionError, match="this data has no forecasts"):
        simulate_job(generated, JobRequest(forecast="published"))
    with pytest.raises(OptionError, match='no forecast "ensembel"; did you mean "ensemble"'):
        simulate_job(generated, JobRequest(forecast="ensembel"))
