"""The published rule, on views that say what jobs have reported."""

from __future__ import annotations

import pytest

from foresail.controllers.migrate import Migrate
from foresail.core.control import LOSS, STEPS_DONE, Move, RunningPod, View
from foresail.core.model import Placement
from foresail.testing import check_controller, make_pod, make_table
from foresail.testing.builders import Readings

CONVERGED = [(1, 10.0), (2, 5.0), (3, 4.9), (4, 4.85)]
"""Steps and losses every ten seconds: the largest fall first, then two that are less than a tenth of it."""
PROGRESSING = [(1, 10.0), (2, 8.0), (3, 6.0), (4, 4.0)]


class Told:
    """Jobs on nodes with what they report at each look; views of it, ten seconds apart."""

    def __init__(self, *counts: int) -> None:
        """So many nodes with room for eight jobs of a CPU each, and so many jobs on each."""
        self.table = make_table(allocatable=[(8000, 8, 0)] * len(counts))
        self.running: dict[str, RunningPod] = {}
        self.reports: dict[str, list[tuple[int, float]]] = {}

    def put(self, name: str, node: str, reports: list[tuple[int, float]], **more) -> None:
        pod = make_pod(name, cpu=1000, nodes=self.table)
        self.table.assume(pod, Placement(self.table.row_of[node], node))
        self.running[pod.uid] = RunningPod(pod, node, 0.0, 1000, **more)
        self.reports[pod.uid] = reports

    def views(self) -> list[View]:
        looks = max(map(len, self.reports.values()))
        found = []
        for at in range(looks):
            readings = {}
            for uid, reports in self.reports.items():
                step, loss = reports[min(at, len(reports) - 1)]
                readings |= {(uid, STEPS_DONE): float(step), (uid, LOSS): loss}
            found.append(View(10.0 * at, self.table, self.running, Readings(readings)))
        return found


def turns(told: Told, controller: Migrate) -> list[list[Move]]:
    return [controller.act(view) for view in told.views()]


def test_a_converged_job_leaves_the_node_where_most_others_progress():
    told = Told(2, 1)
    told.put("slow", "node-0", CONVERGED)
    told.put("fast", "node-0", PROGRESSING)
    controller = Migrate(round_s=10.0)
    (move,) = turns(told, controller)[3]
    assert (move.pod.name, move.node) == ("slow", "node-1")
    assert move.why == "converged beside 1 progressing jobs; node-1 has 0"
    # Once moved, never again.
    assert controller.act(told.views()[3]) == []


def test_a_job_stays_where_nobody_is_worse_off_for_it():
    told = Told(2, 2)
    told.put("slow", "node-0", CONVERGED)
    for at, node in enumerate(("node-0", "node-1")):
        told.put(f"fast-{at}", node, PROGRESSING)
    controller = Migrate(round_s=10.0)
    assert turns(told, controller)[3] == []
    (kept,) = controller.considered()
    assert (kept.pod.name, kept.node) == ("slow", "")


def test_rounds_are_as_far_apart_and_as_small_as_they_should_be():
    told = Told(3, 0)
    for name in ("a", "b"):
        told.put(name, "node-0", CONVERGED)
    told.put("fast", "node-0", PROGRESSING)
    controller = Migrate(round_s=30.0)
    assert [len(moves) for moves in turns(told, controller)] == [0, 0, 0, 1]
    assert [(one.pod.name, one.node) for one in controller.considered()] == [("a", "node-1"), ("b", "")]


def test_a_job_that_grows_again_is_left_alone():
    told = Told(2, 0)
    told.put("back", "node-0", [*CONVERGED[:3], (4, 2.0)])
    told.put("fast", "node-0", PROGRESSING)
    assert turns(told, Migrate(round_s=10.0))[3] == []


@pytest.mark.parametrize("more", [{"annotations": {"foresail.dev/no-move": "true"}}])
def test_whoever_says_no_is_left_alone(more):
    told = Told(2, 0)
    told.put("slow", "node-0", CONVERGED, **more)
    told.put("fast", "node-0", PROGRESSING)
    assert turns(told, Migrate(round_s=10.0))[3] == []


def test_the_target_has_room_and_is_open():
    told = Told(2, 0, 0)
    told.put("slow", "node-0", CONVERGED)
    told.put("fast", "node-0", PROGRESSING)
    told.table.set_unschedulable(told.table.row_of["node-1"], unschedulable=True)
    (move,) = turns(told, Migrate(round_s=10.0))[3]
    assert move.node == "node-2"


def test_the_contract():
    check_controller(Migrate())


@pytest.mark.parametrize(
    "options", [{"threshold": 0.0}, {"threshold": 2.0}, {"every_s": 0.0}, {"round_s": -1.0}, {"moves_a_round": 0}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Migrate(**options)
