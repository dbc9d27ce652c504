"""Controllers that move jobs: evenly, or where that pays."""

from __future__ import annotations

import pytest

from foresail.controllers.balance import Balance
from foresail.controllers.gain import Gain
from foresail.core.control import CPU_USED_S, STEPS_DONE, STEPS_TOTAL, RunningPod, View
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, Training
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import check_controller, make_pod, make_table, make_workload
from foresail.testing.builders import Readings
from foresail.traces.trace import Trace


def crowd(*counts: int, cpu: int = 500, limit: int = 2000, left=lambda at: 100.0, cpus: tuple[int, ...] = ()) -> View:
    """So many jobs on each node, each with the work it has left, after half of it was done; nodes have four CPUs."""
    table = make_table(allocatable=[(one, 8, 0) for one in (cpus or (4000,) * len(counts))])
    running, readings, number = {}, {}, 0
    for node, count in enumerate(counts):
        for _ in range(count):
            pod = make_pod(f"job-{number}", cpu=cpu, nodes=table)
            table.assume(pod, Placement(node, f"node-{node}"))
            running[pod.uid] = RunningPod(pod, f"node-{node}", float(number), cpu, limit)
            readings |= {
                (pod.uid, CPU_USED_S): left(number),
                (pod.uid, STEPS_DONE): 50.0,
                (pod.uid, STEPS_TOTAL): 100.0,
            }
            number += 1
    return View(1000.0, table, running, Readings(readings))


def said(moves) -> list[tuple[str, str]]:
    return [(move.pod.name, move.node) for move in moves]


def test_jobs_are_spread_until_nobody_gains():
    assert said(Balance().act(crowd(5, 1, 2))) == [("job-4", "node-1"), ("job-3", "node-1")]


def test_a_node_with_more_cpu_gets_more_jobs():
    assert said(Balance().act(crowd(4, 4, cpus=(2000, 8000)))) == [
        ("job-3", "node-1"),
        ("job-2", "node-1"),
        ("job-1", "node-1"),
    ]


def test_a_balanced_cluster_is_left_alone_and_a_moved_job_rests():
    assert Balance().act(crowd(3, 3, 2)) == []
    controller, view = Balance(moves_a_round=1, rest_s=60.0), crowd(4, 0)
    first = said(controller.act(view))
    assert said(controller.act(View(view.now_s + 30, view.table, view.running, view.telemetry))) != first


def test_a_job_is_moved_where_all_together_save_more_than_it_costs():
    # Four jobs share four CPUs beside two idle nodes: each has 100 CPU-seconds left and may use two.
    # Two of them elsewhere, and everybody has all that it can use; there is nothing more to gain.
    assert [move.node for move in Gain(move_cost_s=5.0).act(crowd(4, 0, 0))] == ["node-1", "node-1"]


def test_nobody_is_moved_where_that_saves_nothing_worth_it():
    assert Gain(move_cost_s=5.0).act(crowd(2, 0)) == []  # everybody has all that it can use
    assert Gain(move_cost_s=200.0).act(crowd(4, 0, 0)) == []  # standing still takes longer than what is saved
    assert Gain(move_cost_s=5.0).act(crowd(4, 0, 0, left=lambda at: 2.0)) == []


def test_a_move_saves_more_of_the_pools_time_than_it_disturbs_of_the_pool():
    # Four jobs would be done at 100 s, 400 job-seconds in all. With one elsewhere, there at 5 + 50 s, the others share:
    # at 75 s. That saves 120 of 400, a quarter of the pool disturbed: 1.2 times its part.
    assert [move.why for move in Gain(move_cost_s=5.0, ratio=1.19, moves_a_round=1).act(crowd(4, 0, 0))] == [
        "saves 120 of 400 job-seconds"
    ]
    assert Gain(move_cost_s=5.0, ratio=1.21).act(crowd(4, 0, 0)) == []
    # The same nodes beside four idle jobs' worth of others: the pool is larger, and its mean end is what counts.
    pool = crowd(4, 0, 0, 2, left=lambda at: 100.0)  # two more jobs, done at 50 s: 500 job-seconds, six jobs
    assert Gain(move_cost_s=5.0, ratio=120 / 500 * 6 - 0.01).act(pool)
    assert not Gain(move_cost_s=5.0, ratio=120 / 500 * 6 + 0.01).act(pool)


def test_scale_does_not_matter():
    for factor in (0.1, 1.0, 50.0):
        view = crowd(5, 1, 0, left=lambda at, factor=factor: factor * (40.0 + 20.0 * at))
        moved = said(Gain(move_cost_s=2.0 * factor).act(view))
        assert moved == said(Gain(move_cost_s=2.0).act(crowd(5, 1, 0, left=lambda at: 40.0 + 20.0 * at)))
        assert moved


def test_what_was_weighed_is_told():
    controller = Gain(move_cost_s=5.0, moves_a_round=1)
    (move,) = controller.act(crowd(4, 0, 0))
    told = controller.considered()
    assert {one.pod.name for one in told} == {"job-0", "job-1", "job-2", "job-3"}
    assert (told[0].pod, told[0].node, told[0].why, told[0].cost) == (move.pod, move.node, move.why, 5.0)
    assert told[0].gain == pytest.approx(120.0)
    assert Gain().considered() == []


def test_a_job_that_would_itself_be_late_stays():
    # The one beside three long jobs would be done at 40 s by its weight; after standing still for 60 s it is late.
    controller = Gain(move_cost_s=60.0, ratio=0.0)
    assert controller.act(crowd(4, 0, left=lambda at: 40.0)) == []
    assert all("late" in one.why for one in controller.considered())


def test_a_job_that_may_not_be_moved_stays_and_counts():
    view = crowd(4, 0, 0)
    refused = {uid: one._replace(annotations={"foresail.dev/no-move": "true"}) for uid, one in view.running.items()}
    assert Gain(move_cost_s=5.0).act(View(view.now_s, view.table, refused, view.telemetry)) == []
    free = dict(view.running)
    for uid in list(free)[1:]:
        free[uid] = refused[uid]
    moved = Gain(move_cost_s=5.0).act(View(view.now_s, view.table, free, view.telemetry))
    assert said(moved) == [("job-0", "node-1")]


@pytest.mark.parametrize("controller", [Balance(), Gain()])
def test_the_contract(controller):
    check_controller(controller)


@pytest.mark.parametrize("controller", [Balance(), Gain(move_cost_s=10.0)])
def test_a_lopsided_start_is_over_sooner(controller):
    fine = Training("fine", steps=1000, report_every=10)
    pods = make_workload(
        {
            f"job-{at}": {"cpu_milli": 500, "work_cpu_s": 300.0 + 40 * at, "cpu_limit_milli": 2000, "training": fine}
            for at in range(8)
        }
    )
    nodes = [NodeSpec("n0", 4000, 1 << 30), NodeSpec("n1", 4000, 1 << 30)]
    settings = ClockSettings(work="shared-cpu", restart_time_s=10.0)
    trace = Trace("eight", nodes, pods, {})
    alone = run_clock(trace, load_profile("most-allocated"), settings=settings)
    steered = run_clock(trace, load_profile("most-allocated"), settings=settings, controllers={"moves": controller})
    assert set(alone.frame("placements")["node"]) == {"n0"}
    assert steered.summary["completion_s"]["mean"] < 0.75 * alone.summary["completion_s"]["mean"]
