"""Shares by what jobs have left, and moves that even out the ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controllers.test_balance_and_gain import crowd, said

from foresail.controllers.focus import Focus, rates_for
from foresail.core.control import Move, Resize, View
from foresail.core.spec import NodeSpec, Training
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import check_controller, make_workload
from foresail.traces.trace import Trace

JOBS = st.lists(st.tuples(st.floats(0, 1000), st.floats(0.1, 8)), min_size=1, max_size=8)


def test_the_shortest_gets_all_it_can_use_and_the_longest_what_it_cannot_do_without():
    # 100 and 400 CPU-seconds, limit 4 of 4 CPUs: both can be done at 125 s whoever goes first, so the short one does.
    assert rates_for(4.0, [(100.0, 4.0), (400.0, 4.0)], 10.0) == [4.0, 0.0]
    # With a limit of 2 the long one needs 200 s, and not a moment of its 2 CPUs may be lost.
    assert rates_for(4.0, [(100.0, 4.0), (400.0, 2.0)], 10.0) == [2.0, 2.0]


def test_with_a_margin_a_long_job_that_could_just_wait_does_not():
    jobs = [(100.0, 4.0), (370.0, 3.2)]  # done at 117.5 s, of which the long one needs 115.6 s
    assert rates_for(4.0, jobs, 1.0) == [4.0, 0.0]
    assert rates_for(4.0, jobs, 1.0, margin=0.05) == pytest.approx([4 * 4 / 7.2, 4 * 3.2 / 7.2])


@given(JOBS, st.floats(0.5, 16), st.floats(0.5, 60), st.floats(0, 0.9))
def test_rates_keep_limits_and_leave_nothing_that_somebody_could_use(jobs, cpus, lasts_s, margin):
    jobs = [(left, min(limit, cpus)) for left, limit in jobs]
    rates = rates_for(cpus, jobs, lasts_s, margin=margin)
    assert all(-1e-9 <= rate <= limit + 1e-9 for rate, (_, limit) in zip(rates, jobs, strict=True))
    assert sum(rates) == pytest.approx(min(cpus, sum(limit for _, limit in jobs)), abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(5, 200), st.floats(0.5, 4)), min_size=1, max_size=6))
def test_all_are_done_as_early_as_they_can_be(jobs):
    cpus, step_s, now_s = 4.0, 1.0, 0.0
    left = [work for work, _ in jobs]
    earliest_s = max(sum(left) / cpus, *(work / limit for work, limit in jobs))
    while any(work > 1e-9 for work in left):
        there = [at for at, work in enumerate(left) if work > 1e-9]
        rates = rates_for(cpus, [(left[at], jobs[at][1]) for at in there], step_s)
        for at, rate in zip(there, rates, strict=True):
            left[at] -= rate * step_s
        now_s += step_s
    assert now_s <= earliest_s + 2 * step_s


def resizes(view: View, **options) -> dict[str, int]:
    actions = Focus(moves_a_round=0, **options).act(view)
    assert all(isinstance(action, Resize) for action in actions)
    return {action.pod.name: action.cpu_milli for action in actions}


def test_what_jobs_request_together_stays_what_it_was():
    view = crowd(6, 0, left=lambda at: 50.0 * (at + 1))
    found = resizes(view, dead_band=0.0)
    assert list(found) == [f"job-{at}" for at in range(6)]
    assert found["job-0"] == max(found.values())
    assert 3000 - 6 <= sum(found.values()) <= 3000
    assert min(found.values()) >= 0.02 * 500 - 1


def test_small_changes_are_not_made_and_limits_hold():
    view = crowd(2, left=lambda at: 100.0, limit=1000)  # both have all that they can use: equal shares, as they are
    assert resizes(view) == {}
    tight = crowd(3, left=lambda at: 10.0 * (at + 1), cpu=500, limit=600)
    assert all(milli <= 600 for milli in resizes(tight, dead_band=0.0).values())


def test_a_job_that_has_said_nothing_keeps_its_share():
    view = crowd(3, left=lambda at: 30.0 * (at + 1))
    silent = next(iter(view.running))
    told = {key: value for key, value in view.telemetry._readings.items() if key[0] != silent}
    view = View(view.now_s, view.table, view.running, type(view.telemetry)(told))
    assert "job-0" not in resizes(view, dead_band=0.0)


def test_a_crowded_node_gives_jobs_to_an_empty_one_but_not_those_that_are_nearly_done():
    actions = Focus(move_cost_s=5.0).act(crowd(6, 0, left=lambda at: 4.0 if at == 0 else 300.0))
    moves = [action for action in actions if isinstance(action, Move)]
    assert {node for _, node in said(moves)} == {"node-1"}
    assert "job-0" not in dict(said(moves))
    assert not {move.pod.uid for move in moves} & {one.pod.uid for one in actions if isinstance(one, Resize)}


def test_under_light_load_nobody_is_touched():
    assert Focus().act(crowd(2, 2, 1, left=lambda at: 100.0 + at)) == []


@pytest.mark.parametrize("aim", ["completion", "accuracy"])
def test_the_contract(aim):
    check_controller(Focus(aim=aim))


@pytest.mark.parametrize(
    "options", [{"every_s": 0.0}, {"move_every_s": -1.0}, {"floor": 1.0}, {"dead_band": -0.1}, {"aim": "glory"}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Focus(**options)


def test_jobs_end_sooner_in_the_mean_and_no_later_in_all():
    fine = Training("fine", steps=1000, report_every=10)
    pods = make_workload(
        {
            f"job-{at}": {
                "cpu_milli": 500,
                "work_cpu_s": 100.0 + 150 * (at % 4),
                "cpu_limit_milli": 4000,
                "arrival_s": 5.0 * at,
                "training": fine,
            }
            for at in range(12)
        }
    )
    trace = Trace("twelve", [NodeSpec(f"n{at}", 8000, 1 << 30) for at in range(2)], pods, {})
    settings = ClockSettings(work="shared-cpu", restart_time_s=10.0)
    alone = run_clock(trace, load_profile("least-allocated"), settings=settings).summary
    focused = run_clock(
        trace, load_profile("least-allocated"), settings=settings, controllers={"focus": Focus(move_cost_s=10.0)}
    ).summary
    assert focused["completion_s"]["mean"] < 0.9 * alone["completion_s"]["mean"]
    assert focused["makespan_s"] <= 1.02 * alone["makespan_s"]
