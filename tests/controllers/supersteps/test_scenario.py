"""Planning over scenarios: splits that no exchange makes better, changes only where they pay."""

import itertools

import numpy as np
import pytest
from tests.plain_supersteps import made_up

from foresail.controllers.supersteps.exchange import exchange
from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook
from foresail.controllers.supersteps.scenario import Scenario
from foresail.controllers.supersteps.splitting import cost_of, greedy
from foresail.controllers.supersteps.tables import Tables
from foresail.forecast.runtime.monotone import MonotoneRuntime
from foresail.forecast.runtime.profile import RuntimeProfile


def job(tasks, seed=1, **options):
    workloads, shares, seconds = made_up(tasks, seed)
    grid = ShareGrid(tasks, total_milli=3000 * tasks, **options)
    profile = RuntimeProfile(tuple(f"t{at}" for at in range(tasks)), workloads, shares, seconds)
    return MonotoneRuntime(profile).curves(grid.shares_milli), grid


def every_split(tasks, units):
    for cuts in itertools.combinations(range(units + tasks - 1), tasks - 1):
        yield np.diff([-1, *cuts, units + tasks - 1]) - 1


def plain_cost(seconds, split):
    return sum(max(row[task][units] for task, units in enumerate(split)) for row in seconds)


@pytest.mark.parametrize("seed", range(6))
def test_no_exchange_of_a_pair_is_left_that_helps(seed):
    tasks = 2 + seed
    curves, grid = job(tasks, seed)
    seconds = curves.seconds(np.random.default_rng(seed).uniform(8, 52, (12, tasks)))
    split = greedy(seconds, np.ones(12), grid.units)
    before = split.copy()
    exchange(np.ascontiguousarray(seconds.transpose(1, 2, 0)), 0, len(seconds), split, 10_000)
    assert split.sum() == grid.units
    assert split.min() >= 0
    cost = plain_cost(seconds, split)
    assert cost == pytest.approx(cost_of(seconds, split), rel=1e-12)
    assert cost <= plain_cost(seconds, before) + 1e-9
    for source, target, step in itertools.product(range(tasks), range(tasks), (1, 2, 4, 8, 16)):
        if source != target and split[source] >= step and split[target] + step <= grid.most:
            other = split.copy()
            other[source] -= step
            other[target] += step
            assert plain_cost(seconds, other) >= cost - 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_for_one_superstep_the_split_is_the_best_there_is(seed):
    curves, grid = job(3, seed, step_milli=400)
    workloads = np.random.default_rng(seed).uniform(10, 50, (3, 1))
    split = Scenario(curves, grid, window=1).plan(SplitOutlook(0, 1, None, workloads))
    seconds = curves.seconds(workloads.T)
    best = min(plain_cost(seconds, other) for other in every_split(3, grid.units))
    assert plain_cost(seconds, split) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("first", [0, 5, 9])
def test_only_the_rows_between_are_looked_at(first):
    curves, grid = job(5, 3)
    seconds = curves.seconds(np.random.default_rng(3).uniform(8, 52, (12, 5)))
    other = seconds.copy()
    other[:first] *= 7.0
    other[first + 3 :] *= 5.0
    splits = []
    for rows in (seconds, other):
        split = grid.even()
        exchange(np.ascontiguousarray(rows.transpose(1, 2, 0)), first, first + 3, split, 10_000)
        splits.append(split)
    np.testing.assert_array_equal(*splits)
    assert plain_cost(seconds[first : first + 3], splits[0]) < plain_cost(seconds[first : first + 3], grid.even())


def plain_plan(curves, grid, workloads, errors, current, penalty_s):
    """Every way to cut the supersteps into spans, every split for each, over all errors (paths × tasks × supersteps).

    What keeping and what changing costs, and for each split what a plan costs that begins with it. A span that begins
    later has the errors of forecasts that are made then.
    """
    ahead = workloads.shape[1]
    splits = list(every_split(grid.tasks, grid.units))

    def mean_s(split, start, k):
        found = []
        for error in errors:
            table = curves.seconds(workloads[:, k] + error[:, k - start])
            found.append(max(table[task, units] for task, units in enumerate(split)))
        return sum(found) / len(found)

    sums = {}
    for start in range(ahead):
        for at, split in enumerate(splits):
            sums[at, start, start] = 0.0
            for k in range(start, ahead):
                sums[at, start, k + 1] = sums[at, start, k] + mean_s(split, start, k)
    after = {ahead: -penalty_s}  # a plan that ends needs no change

    def with_rest(at, start, end):
        return sums[at, start, end] + penalty_s + after[end]

    for start in reversed(range(ahead)):
        ends = range(start + 1, ahead + 1)
        after[start] = min(with_rest(at, start, end) for at in range(len(splits)) for end in ends)
    begin = {tuple(split): min(with_rest(at, 0, end) for end in range(1, ahead + 1)) for at, split in enumerate(splits)}
    return begin[tuple(current)], after[0] + penalty_s, begin


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("drawn", [0, 3, 6])
def test_plans_are_those_that_every_way_through_the_scenarios_says(seed, drawn):
    curves, grid = job(2, seed, step_milli=200)
    rng = np.random.default_rng(seed)
    workloads, penalty_s = rng.uniform(14, 46, (2, 3)), 4.0
    errors = rng.normal(0, 1, (drawn, 2, 3)) * [2.0, 5.0, 8.0]
    scenarios = workloads + errors if drawn else None
    errors = np.concatenate([errors, -errors]) if drawn else np.zeros((1, 2, 3))
    planner = Scenario(curves, grid, window=3, penalty_s=penalty_s, scenarios=max(2 * drawn, 2))
    answers = set()
    for current in every_split(2, grid.units):
        keeping, changing, begin = plain_plan(curves, grid, workloads, errors, current, penalty_s)
        outlook = SplitOutlook(4, 3, current, workloads, scenarios)
        answer = planner.plan(outlook)
        assert planner.spans(outlook).cheapest_s[0] + penalty_s == pytest.approx(changing, abs=1e-6)
        if abs(keeping - changing) > 1e-6:
            assert (answer is None) == (keeping < changing)
        if answer is not None:
            assert begin[tuple(answer)] + penalty_s == pytest.approx(changing, abs=1e-6)
        answers.add(answer is None)
    assert answers == {True, False}
    first = planner.plan(SplitOutlook(0, 3, None, workloads, scenarios))
    assert begin[tuple(first)] + penalty_s == pytest.approx(changing, abs=1e-6)


def test_where_keeping_costs_just_as_much_the_split_is_kept():
    curves, grid = job(3)
    workloads = np.random.default_rng(1).uniform(10, 50, (3, 4))
    planner = Scenario(curves, grid, window=4, penalty_s=0.0)
    best = planner.plan(SplitOutlook(0, 1, None, workloads))
    assert planner.plan(SplitOutlook(3, 1, best, workloads)) is None


@pytest.mark.parametrize("tasks", [3, 8, 20])
def test_tables_have_the_seconds_of_curves(tasks):
    curves, _ = job(tasks, 2)
    tables, rng = Tables(curves), np.random.default_rng(4)
    for rows in (5, 9, 2):  # also into memory that was longer
        workloads = rng.uniform(0, 60, (rows, tasks))
        np.testing.assert_array_equal(tables.table(workloads), curves.seconds(workloads).transpose(1, 2, 0))


def test_what_would_cost_more_than_it_gains_is_kept():
    curves, grid = job(4)
    workloads = np.random.default_rng(1).uniform(10, 50, (4, 6))
    outlook = SplitOutlook(3, 50, grid.even(), workloads)
    assert Scenario(curves, grid, penalty_s=0.0).plan(outlook) is not None
    assert Scenario(curves, grid, penalty_s=1e6).plan(outlook) is None


def test_scenarios_are_weighed_with_their_mirror_images():
    curves, grid = job(4)
    rng = np.random.default_rng(2)
    workloads = rng.uniform(20, 40, (4, 6))
    planner = Scenario(curves, grid, scenarios=16)
    assert planner.scenarios == 8
    drawn = workloads + rng.normal(0, 6, (8, 4, 6))
    mirrored = 2 * workloads - drawn
    split = planner.plan(SplitOutlook(0, 9, None, workloads, drawn))
    np.testing.assert_array_equal(split, planner.plan(SplitOutlook(0, 9, None, workloads, mirrored)))
    sure = planner.plan(SplitOutlook(0, 9, None, workloads))
    rows = curves.seconds(np.concatenate([drawn, mirrored]).transpose(2, 0, 1).reshape(-1, 4))
    assert cost_of(rows, split) <= cost_of(rows, sure)


def test_a_cap_is_kept_and_the_end_of_a_job_is_not_looked_beyond():
    curves, grid = job(3, cap_milli=3600)
    workloads = np.array([[50.0] * 6, [10.0] * 6, [12.0] * 6])
    split = grid.milli(Scenario(curves, grid).plan(SplitOutlook(0, 2, None, workloads)))
    assert max(split) <= 3600
    assert sum(split) == 9000
    last = workloads.copy()
    last[:, 2:] = 30.0  # after the job
    assert grid.milli(Scenario(curves, grid).plan(SplitOutlook(0, 2, None, last))) == split
    for left, ahead in ((1, 1), (2, 2), (6, 6), (7, 6)):
        spans = Scenario(curves, grid).spans(SplitOutlook(0, left, None, workloads))
        assert (len(spans.cheapest_s), spans.paths.shape[2]) == (ahead + 1, ahead)


def test_a_task_with_nothing_to_do_gives_its_last_step():
    table = np.array([[9.0, 6.0, 4.0, 3.0], [1.0, 0.5, 0.4, 0.3]])[:, :, None]  # tasks × steps × one row
    split = np.array([2, 1])
    exchange(table, 0, 1, split, 10)
    assert split.tolist() == [3, 0]


def test_where_one_step_does_not_help_two_may():
    table = np.array([[9.0, 9.0, 4.0, 4.0], [3.0, 3.0, 3.0, 1.0]])[:, :, None]
    split = np.array([0, 2])
    exchange(table, 0, 1, split, 10)
    assert split.tolist() == [2, 0]


def test_of_equal_gains_the_first_task_has_its_step():
    seconds = np.array([[[8.0, 5.0], [1.0, 1.0]], [[1.0, 1.0], [8.0, 5.0]]])  # rows × tasks × steps
    assert greedy(seconds, np.ones(2), 1).tolist() == [1, 0]


def test_more_cpu_than_helps_counts_as_what_helps():
    workloads, shares, seconds = made_up(2, 1)
    grid = ShareGrid(2, total_milli=15000)  # the profile ends at 7000
    curves = MonotoneRuntime(RuntimeProfile(("a", "b"), workloads, shares, seconds)).curves(grid.shares_milli)
    outlook = SplitOutlook(3, 9, np.array([70, 60]), np.array([[10.0] * 6, [50.0] * 6]))
    assert Scenario(curves, grid).plan(outlook) is None


@pytest.mark.parametrize(("options", "message"), [({"window": 0}, "window is 0"), ({"scenarios": 3}, "scenarios is 3")])
def test_what_cannot_be_is_refused(options, message):
    curves, grid = job(2)
    with pytest.raises(ValueError, match=message):
        Scenario(curves, grid, **options)
