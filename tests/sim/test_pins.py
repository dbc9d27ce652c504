"""Pods that first start where an earlier run, or a table, says."""

from foresail.core.control import Move
from foresail.core.spec import NodeSpec
from foresail.policies.profiles.load import load_profile
from foresail.sim.checkpoint import Checkpoint
from foresail.sim.protocols.clock import run_clock
from foresail.testing import make_workload
from foresail.traces.trace import Trace

NODES = [NodeSpec(name, 1000, 2**30) for name in "abc"]


def trace(**pods):
    return Trace("t", NODES, make_workload(pods))


def where(result):
    return dict(zip(result.placements["pod"], result.placements["node"], strict=True))


def run(pods, first_node, **more):
    return run_clock(trace(**pods), load_profile("least-allocated"), first_node=first_node, **more)


def test_pods_start_where_they_are_pinned_and_the_policy_places_the_others():
    pods = {name: {"cpu_milli": 300, "duration_s": 10.0} for name in ("x", "y", "z")}
    result = run(pods, {"x": "c", "y": "c"})
    assert where(result) == {"x": "c", "y": "c", "z": "a"}
    assert result.summary["pins_not_kept"] == []


def test_a_pin_that_cannot_be_kept_is_told_and_the_policy_decides():
    pods = {name: {"cpu_milli": 700, "duration_s": 10.0} for name in ("x", "y", "z")}
    result = run(pods, {"x": "b", "y": "b", "z": "nowhere"})
    assert where(result) == {"x": "b", "y": "a", "z": "c"}
    assert result.summary["pins_not_kept"] == [
        {"pod": "y", "pinned_to": "b", "node": "a"},
        {"pod": "z", "pinned_to": "nowhere", "node": "c"},
    ]


def test_a_pin_holds_for_the_first_start_alone():
    class MoveOnce:
        every_s = 4.0

        def act(self, view):
            return [Move(one.pod, "away from b") for one in view.running.values() if one.node == "b"]

    pods = {"x": {"cpu_milli": 300, "duration_s": 10.0}}
    result = run(pods, {"x": "b"}, controllers={"mover": MoveOnce()})
    starts = [
        node
        for what, node in zip(result.tables["journal"]["what"], result.tables["journal"]["node"], strict=True)
        if what == "start"
    ]
    assert starts == ["b", "a"]
    assert result.summary["pins_not_kept"] == []


def test_a_run_without_pins_says_nothing_of_them():
    assert "pins_not_kept" not in run({"x": {"cpu_milli": 1, "duration_s": 1.0}}, {}).summary


def test_an_interrupted_run_keeps_its_pins(tmp_path):
    pods = {f"p{at}": {"cpu_milli": 300, "duration_s": 10.0, "arrival_s": float(at)} for at in range(6)}
    pins = {"p0": "c", "p1": "c", "p4": "b"}
    whole = run(pods, pins)
    path = tmp_path / "checkpoint"
    run(pods, pins, checkpoint=Checkpoint(path))
    again = Checkpoint(path)
    resumed = run(pods, pins, checkpoint=again)
    assert again.resumed == 6
    assert where(resumed) == where(whole)
    assert where(whole)["p1"] == "c"
