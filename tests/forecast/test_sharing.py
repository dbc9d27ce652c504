"""Ends under sharing, against closed forms and a slow oracle that goes by small steps."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.forecast.sharing import fair_ends_s, in_order, shortest_first_ends_s


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
