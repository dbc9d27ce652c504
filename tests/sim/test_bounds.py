"""Bounds against closed forms, and against each other on random jobs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.spec import NodeSpec
from foresail.sim.bounds import (
    PooledJobs,
    earliest_end_s,
    pooled_sharing,
    shortest_remaining_first,
    shortest_to_target_first,
)
from foresail.testing import make_workload


def test_two_jobs_share_one_cpu():
    jobs = PooledJobs([0, 0], [4, 10], [1, 1], 1)
    assert pooled_sharing(jobs).tolist() == [8, 14]
    assert shortest_remaining_first(jobs).tolist() == [4, 14]
    assert earliest_end_s(jobs) == 14


def test_limits_hold_in_the_pool():
    # 3 CPUs: the one with limit 0.5 keeps it, the others get 1.25 each, until one is done and the other has its limit.
    jobs = PooledJobs([0, 0, 0], [10, 2.5, 6.5], [0.5, 2, 2], 3)
    assert pooled_sharing(jobs).tolist() == [20, 2, 2 + 4 / 2]
    # The two short ones take all three CPUs until the first of them is done.
    assert shortest_remaining_first(jobs).tolist() == [1.25 + 20, 1.25, 1.25 + (6.5 - 1.25) / 2]


def test_the_shortest_goes_first_also_when_it_comes_later():
    jobs = PooledJobs([0, 1], [10, 2], [1, 1], 1)
    assert shortest_remaining_first(jobs).tolist() == [12, 3]
    assert pooled_sharing(jobs).tolist() == [12, 5]


def test_one_that_comes_when_another_ends_meets_an_empty_pool():
    jobs = PooledJobs([0, 4], [4, 3], [1, 1], 1)
    assert pooled_sharing(jobs).tolist() == shortest_remaining_first(jobs).tolist() == [4, 7]


def test_the_makespan_bound_is_the_longest_job_or_the_work_of_all():
    assert earliest_end_s(PooledJobs([0, 7], [4, 3], [1, 2], 4)) == 8.5  # the last, at its limit
    assert earliest_end_s(PooledJobs([0, 0, 0], [8, 8, 8], [4, 4, 4], 4)) == 6  # all together
    assert earliest_end_s(PooledJobs([0, 10, 10], [1, 8, 8], [4, 4, 4], 4)) == 14  # those that come late, together


def test_whoever_has_least_to_its_target_goes_first_and_who_has_it_keeps_nobody():
    # Targets after 2, 3 and 1 CPU-seconds on one CPU; one without a target, which comes last.
    jobs = PooledJobs([0, 0, 1, 0], [20, 6, 4, 1], [1, 1, 1, 1], 1)
    found = shortest_to_target_first(jobs, np.array([0.1, 0.5, 0.25, np.nan]))
    assert found.tolist()[:3] == [2, 6, 3]
    assert np.isnan(found[3])


def test_jobs_of_a_trace_use_no_more_than_a_node():
    pods = {
        "free": {"cpu_milli": 100, "work_cpu_s": 5.0},
        "wide": {"cpu_milli": 100, "work_cpu_s": 5.0, "cpu_limit_milli": 9000},
        "narrow": {"cpu_milli": 100, "work_cpu_s": 5.0, "cpu_limit_milli": 500, "arrival_s": 3.0},
    }
    jobs = PooledJobs.of(make_workload(pods), [NodeSpec("a", 2000, 1), NodeSpec("b", 1000, 1)])
    assert jobs == PooledJobs([0, 0, 3], [5, 5, 5], [2, 2, 0.5], 3)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.floats(0.1, 100), st.sampled_from([0.5, 1.0, 4.0])), min_size=1, max_size=12
    )
)
def test_nobody_ends_before_the_bound_and_all_work_is_done(drawn):
    jobs = PooledJobs(*(list(column) for column in zip(*drawn, strict=True)), 4.0)
    least_s = earliest_end_s(jobs)
    alone_s = np.array(jobs.arrival_s) + np.array(jobs.work_cpu_s) / np.minimum(jobs.limit, 4.0)
    for ends_s in (pooled_sharing(jobs), shortest_remaining_first(jobs)):
        assert (ends_s >= alone_s - 1e-9).all()
        assert ends_s.max() >= least_s - 1e-9
