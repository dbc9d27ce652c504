"""Ends under sharing, against closed forms and a slow oracle that goes by small steps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.forecast.sharing import (
    DueJob,
    earliest_s,
    fair_ends_s,
    fair_progress,
    in_order,
    rates_in_time,
    shortest_first_ends_s,
)


def test_two_jobs_share_and_the_longer_goes_on_alone():
    assert fair_ends_s(1.0, [4.0, 10.0], [1.0, 1.0], [1.0, 1.0]) == pytest.approx([8.0, 14.0])


def test_limits_and_weights_hold():
    assert fair_ends_s(4.0, [6.0, 6.0], [3.0, 1.0], [4.0, 4.0]) == pytest.approx([2.0, 3.0])
    assert fair_ends_s(4.0, [6.0, 6.0], [3.0, 1.0], [1.0, 1.0]) == pytest.approx([6.0, 6.0])


def test_the_shortest_goes_first():
    assert shortest_first_ends_s(1.0, [10.0, 4.0], [1.0, 1.0]) == pytest.approx([14.0, 4.0])
    assert shortest_first_ends_s(3.0, [10.0, 4.0], [2.0, 2.0]) == pytest.approx([6.0, 2.0])
    assert in_order(3.0, [1, 0], [2.0, 2.0]) == [1.0, 2.0]


JOBS = st.lists(st.tuples(st.floats(0.5, 20), st.floats(0.1, 10), st.floats(0.2, 4)), min_size=1, max_size=6)


@settings(max_examples=50)
@given(JOBS, st.floats(0.5, 8))
def test_no_order_ends_before_all_work_can_be_done(jobs, capacity):
    left, weights, limits = (list(column) for column in zip(*jobs, strict=True))
    bound = max(sum(left) / capacity, *(work / min(limit, capacity) for work, limit in zip(left, limits, strict=True)))
    for ends in (fair_ends_s(capacity, left, weights, limits), shortest_first_ends_s(capacity, left, limits)):
        assert max(ends) >= bound - 1e-6
        assert all(end >= work / limit - 1e-6 for end, work, limit in zip(ends, left, limits, strict=True))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 5), st.floats(0.1, 10), st.floats(0.2, 4)), min_size=1, max_size=4))
def test_fair_ends_are_those_of_small_steps(jobs):
    left, weights, limits = (list(column) for column in zip(*jobs, strict=True))
    capacity, step_s, now_s = 2.0, 0.002, 0.0
    todo, ends = list(left), [0.0] * len(left)
    while any(work > 0 for work in todo):
        there = [at for at, work in enumerate(todo) if work > 0]
        level_low, level_high = 0.0, 1e6
        for _ in range(60):  # the level at which all together take what there is
            level = (level_low + level_high) / 2
            taken = sum(min(limits[at], weights[at] * level) for at in there)
            level_low, level_high = (level, level_high) if taken < capacity else (level_low, level)
        now_s += step_s
        for at in there:
            todo[at] -= min(limits[at], weights[at] * level_low) * step_s
            if todo[at] <= 0:
                ends[at] = now_s
    assert fair_ends_s(capacity, left, weights, limits) == pytest.approx(ends, rel=0.02, abs=0.05)


def test_nobody_gets_on_before_it_is_ready():
    # The short one comes after 3 s, takes the CPU and gives it back.
    assert shortest_first_ends_s(1.0, [10.0, 4.0], [1.0, 1.0], [0.0, 3.0]) == pytest.approx([14.0, 7.0])
    assert shortest_first_ends_s(1.0, [2.0, 4.0], [1.0, 1.0], [0.0, 5.0]) == pytest.approx([2.0, 9.0])
    assert shortest_first_ends_s(2.0, [0.0, 4.0], [1.0, 1.0], [3.0, 3.0]) == pytest.approx([3.0, 7.0])
    assert earliest_s(2.0, [10.0, 4.0], [2.0, 1.0], [0.0, 3.0]) == 7.0
    assert earliest_s(2.0, [10.0, 4.0], [2.0, 1.0], [0.0, 4.0]) == 8.0
    assert earliest_s(2.0, [10.0, 4.0], [0.5, 1.0]) == 20.0
    assert earliest_s(2.0, [], []) == 0.0


@settings(max_examples=50)
@given(JOBS, st.floats(0.5, 8), st.floats(0, 40))
def test_progress_is_made_as_the_ends_say(jobs, capacity, for_s):
    left, weights, limits = (list(column) for column in zip(*jobs, strict=True))
    done, ends_s = fair_progress(capacity, left, weights, limits, for_s)
    all_ends_s = fair_ends_s(capacity, left, weights, limits)
    for work, has, end_s, by_s in zip(left, done, ends_s, all_ends_s, strict=True):
        assert (end_s == pytest.approx(by_s)) if by_s <= for_s * (1 - 1e-9) else has <= work * (1 + 1e-9)
    # What is left then takes as much longer.
    rest = fair_ends_s(capacity, [max(0.0, a - b) for a, b in zip(left, done, strict=True)], weights, limits)
    late = [at for at, by_s in enumerate(all_ends_s) if by_s > for_s + 1e-3]
    assert [for_s + rest[at] for at in late] == pytest.approx([all_ends_s[at] for at in late], rel=1e-6, abs=1e-4)


DUE_JOBS = st.lists(
    st.builds(DueJob, st.floats(0, 1000), st.floats(0.1, 8), st.floats(-50, 300)), min_size=1, max_size=8
)


def due(jobs, due_s):
    return [DueJob(left, limit, due_s) for left, limit in jobs]


def test_the_shortest_gets_all_it_can_use_and_the_longest_what_it_cannot_do_without():
    # 100 and 400 CPU-seconds, limit 4 of 4 CPUs: both can be done at 125 s whoever goes first, so the short one does.
    assert rates_in_time(4.0, due([(100.0, 4.0), (400.0, 4.0)], 125.0), 10.0) == [4.0, 0.0]
    # With a limit of 2 the long one needs 200 s, and not a moment of its 2 CPUs may be lost.
    assert rates_in_time(4.0, due([(100.0, 4.0), (400.0, 2.0)], 200.0), 10.0) == [2.0, 2.0]


def test_who_is_due_first_goes_before_one_that_is_shorter():
    jobs = [DueJob(10.0, 4.0, 100.0), DueJob(40.0, 4.0, 10.0)]
    assert rates_in_time(4.0, jobs, 5.0) == [0.0, 4.0]
    # One that can wait for half of the next while gets half of it.
    assert rates_in_time(4.0, [DueJob(10.0, 4.0, 100.0), DueJob(40.0, 4.0, 12.5)], 5.0) == [2.0, 2.0]


def test_where_not_all_can_be_in_time_the_shortest_get_what_is_not_urgent():
    late = due([(100.0, 4.0), (400.0, 4.0)], 0.0)
    assert rates_in_time(4.0, late, 10.0) == pytest.approx([2.0, 2.0])
    assert rates_in_time(4.0, late, 10.0, urgent=0.5) == pytest.approx([3.0, 1.0])
    assert rates_in_time(4.0, late, 10.0, urgent=0.0) == pytest.approx([4.0, 0.0])


@given(DUE_JOBS, st.floats(0.5, 16), st.floats(0.5, 60), st.floats(0, 1))
def test_rates_keep_limits_and_leave_nothing_that_somebody_could_use(jobs, cpus, lasts_s, urgent):
    jobs = [job._replace(limit=min(job.limit, cpus)) for job in jobs]
    rates = rates_in_time(cpus, jobs, lasts_s, urgent=urgent)
    assert all(-1e-9 <= rate <= job.limit + 1e-9 for rate, job in zip(rates, jobs, strict=True))
    assert sum(rates) == pytest.approx(min(cpus, sum(job.limit for job in jobs)), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(5, 200), st.floats(0.5, 4)), min_size=1, max_size=6))
def test_all_are_done_as_early_as_they_can_be(jobs):
    cpus, step_s, now_s = 4.0, 1.0, 0.0
    left = [work for work, _ in jobs]
    by_s = earliest_s(cpus, left, [limit for _, limit in jobs])
    while any(work > 1e-9 for work in left):
        there = [at for at, work in enumerate(left) if work > 1e-9]
        todo = [(left[at], jobs[at][1]) for at in there]
        rates = rates_in_time(cpus, due(todo, earliest_s(cpus, *zip(*todo, strict=True))), step_s)
        for at, rate in zip(there, rates, strict=True):
            left[at] -= rate * step_s
        now_s += step_s
    assert now_s <= by_s + (len(jobs) + 2) * step_s  # each may waste a part of its last step


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(5, 200), st.floats(0.5, 4)), min_size=1, max_size=6), st.floats(1.05, 2.0))
def test_nobody_is_done_much_later_than_it_is_due_where_fair_shares_are_in_time(jobs, patience):
    cpus, step_s, now_s = 4.0, 1.0, 0.0
    left, limits = [work for work, _ in jobs], [limit for _, limit in jobs]
    dues_s = [patience * end_s for end_s in fair_ends_s(cpus, left, [1.0] * len(left), limits)]
    while any(work > 1e-9 for work in left):
        there = [at for at, work in enumerate(left) if work > 1e-9]
        known = [DueJob(left[at], limits[at], dues_s[at] - now_s) for at in there]
        for at, rate in zip(there, rates_in_time(cpus, known, step_s), strict=True):
            left[at] -= rate * step_s
            if left[at] <= 1e-9:
                assert now_s <= 1.05 * dues_s[at] + 3 * step_s
        now_s += step_s
