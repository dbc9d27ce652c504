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


def test_nobody_is_moved_for_less_than_it_costs():
    assert Gain(move_cost_s=5.0).act(crowd(2, 0)) == []  # everybody has all that it can use
    assert Gain(move_cost_s=200.0).act(crowd(4, 0, 0)) == []  # standing still takes longer than what is saved
    assert Gain(move_cost_s=5.0).act(crowd(4, 0, 0, left=lambda at: 2.0)) == []


def test_scale_does_not_matter():
    for factor in (0.1, 1.0, 50.0):
        view = crowd(5, 1, 0, left=lambda at, factor=factor: factor * (40.0 + 20.0 * at))
        moved = said(Gain(move_cost_s=2.0 * factor).act(view))
        assert moved == said(Gain(move_cost_s=2.0).act(crowd(5, 1, 0, left=lambda at: 40.0 + 20.0 * at)))
        assert moved


def test_what_was_weighed_is_told():
    controller = Gain(move_cost_s=5.0)
    moves = controller.act(crowd(4, 0, 0))
    told = controller.considered()
    assert [(one.pod, one.node) for one in told] == [(move.pod, move.node) for move in moves]
    assert all(one.gain > 1.5 * one.cost == 7.5 for one in told)


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
