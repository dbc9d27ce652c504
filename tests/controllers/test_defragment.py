"""GPU pods move after departures, only where it pays, and every move is possible at its turn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controllers.naive_fragmentation import fragments, mix, of_table

from foresail.controllers import controller
from foresail.controllers.defragment import Defragment
from foresail.core.control import NoTelemetry, RunningPod, View
from foresail.core.model import Placement
from foresail.core.spec import Gang, NodeSpec
from foresail.forecast.typical_mix import TypicalMix
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.testing import check_controller, make_pod, make_table, make_workload
from foresail.testing.random_clusters import RandomCluster, feasible
from foresail.traces.trace import Trace

# --- by hand ---------------------------------------------------------------------------------------------------------
#
# Two nodes with two devices each. Half of a device is taken on each node, and the pods that come ask for both devices
# of a node: moved together, the halves leave one node for such a pod.


class World:
    """A table whose pods come and go by hand, and the looks at it."""

    def __init__(self, nodes=2, devices=2, **more):
        self.table = make_table(allocatable=[(64_000, 0, 1000 * devices)] * nodes, **more)
        self.running = {}

    def put(self, name, gpu, node, devices, cpu=1000, **more):
        annotations = more.pop("annotations", {})
        pod = make_pod(name, cpu=cpu, gpu=gpu, nodes=self.table, **more)
        self.table.assume(pod, Placement(self.table.row_of[node], node, devices))
        self.running[name] = RunningPod(pod, node, 0.0, cpu, annotations=annotations, stable_id=more.get("job"))
        return pod

    def drop(self, name):
        self.table.forget(name)
        del self.running[name]

    def look(self, one, now_s):
        return one.act(View(now_s, self.table, self.running, NoTelemetry()))


def halves(**more):
    """What stands there after a pod has left that took both devices of a third node."""
    world = World(nodes=3)
    world.put("a", 500, "node-0", (0,), **more)
    world.put("b", 500, "node-1", (0,), **more)
    world.put("big", 2000, "node-2", (0, 1))
    return world


def after_departure(world, one, now_s=30.0):
    assert world.look(one, 0.0) == []
    world.drop("big")
    return world.look(one, now_s)


def test_halves_come_together_after_a_departure():
    world, one = halves(), Defragment()
    # Seen: two halves and one pod for two devices. On node-0 (1500 idle of which 500 are useless to halves only if
    # below 500: none) F is 1/3 · 1500 for the big one; both halves on one device leave a node to it.
    moves = after_departure(world, one)
    typical = mix([make_pod(gpu=500, cpu=1000).spec] * 2 + [make_pod(gpu=2000, cpu=1000).spec])
    half_used = fragments(63_000, [500, 1000], "", typical)
    full, idle = fragments(62_000, [0, 1000], "", typical), fragments(64_000, [1000, 1000], "", typical)
    fall = float(2 * half_used - full - idle)
    assert (float(half_used), float(full), float(idle), fall) == (500.0, pytest.approx(1000 / 3), 0.0, 2000 / 3)
    assert [(move.pod.name, move.node) for move in moves] == [("a", "node-1")]
    assert moves[0].why == "667 milli-GPU less fragmented on node-0 and node-1 together"
    candidates = {one.pod.name: one for one in one.considered()}
    assert candidates["a"].gain == pytest.approx(fall / 1000 * 300)
    assert (candidates["a"].cost, candidates["a"].unit) == (0.5 * 30, "GPU-s")


def test_nothing_moves_before_a_gpu_pod_has_left():
    world, one = halves(), Defragment()
    world.put("cpu-only", 0, "node-0", ())
    assert [world.look(one, at) for at in (0.0, 30.0, 60.0)] == [[], [], []]
    world.drop("cpu-only")
    assert world.look(one, 90.0) == []
    world.drop("big")
    assert world.look(one, 120.0) != []
    assert one.considered() != []
    assert world.look(one, 150.0) == []
    assert one.considered() == []


def test_a_pod_that_was_replaced_has_not_left():
    world, one = halves(), Defragment()
    world.running["big"] = world.running["big"]._replace(stable_id="ns/big")
    assert world.look(one, 0.0) == []
    held = world.running.pop("big")
    world.running["big-2"] = held
    assert world.look(one, 30.0) == []


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({}, True),
        ({"gang": Gang("ring", 2)}, False),
        ({"annotations": {"foresail.dev/no-move": "true"}}, False),
        ({"annotations": {"foresail.dev/no-move": "false"}}, True),
        ({"annotations": {"foresail.dev/no-move": "False"}}, True),
    ],
)
def test_gangs_and_pods_that_are_not_to_be_moved_stay(change, moved):
    assert bool(after_departure(halves(**change), Defragment())) == moved


@pytest.mark.parametrize("flag", ["set_down", "set_unschedulable"])
def test_nodes_that_are_down_or_cordoned_are_no_targets(flag):
    world = halves()
    word = {"down": True} if flag == "set_down" else {"unschedulable": True}
    getattr(world.table, flag)(1, **word)
    moves = after_departure(world, Defragment())
    assert [(move.pod.name, move.node) for move in moves] == [("b", "node-0")]
    getattr(world.table, flag)(0, **word)
    world = halves()
    for row in range(3):
        getattr(world.table, flag)(row, **word)
    assert after_departure(world, Defragment()) == []


def test_only_what_is_worth_its_cost_is_moved():
    # 2/3 GPU · lasts_s against half a GPU · move_cost_s.
    assert after_departure(halves(), Defragment(lasts_s=30.0, move_cost_s=39.0))
    assert after_departure(halves(), Defragment(lasts_s=30.0, move_cost_s=41.0)) == []
    assert after_departure(halves(), Defragment(lasts_s=1.0, move_cost_s=0.0))


def test_a_moved_pod_rests_and_a_node_that_did_not_take_it_is_not_tried_again():
    world, one = halves(), Defragment(rest_s=100.0)
    assert [(move.pod.name, move.node) for move in after_departure(world, one)] == [("a", "node-1")]

    def depart(now_s):
        world.put("passing", 2000, "node-2", (0, 1))
        assert world.look(one, now_s) == []
        world.drop("passing")
        return [(move.pod.name, move.node) for move in world.look(one, now_s + 1)]

    # It was not moved: a is left alone, so b is.
    assert depart(40.0) == [("b", "node-0")]
    assert depart(50.0) == []
    # Both have rested: a did not get to node-1, so it is not sent there again, nor b to node-0.
    assert depart(150.0) == []


def test_a_round_has_so_many_moves_at_most():
    def crowd():
        world = World(nodes=9)
        for number in range(8):
            world.put(f"p{number}", 500, f"node-{number}", (0,))
        world.put("big", 2000, "node-8", (0, 1))
        return world

    assert len(after_departure(crowd(), Defragment(moves_a_round=2))) == 2
    assert len(after_departure(crowd(), Defragment(moves_a_round=100))) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every_s": 0}, "every_s is 0; it is a number of seconds above 0"),
        ({"lasts_s": math.inf}, "lasts_s is inf; it is a number of seconds above 0"),
        ({"move_cost_s": -1}, "move_cost_s is -1; it is a number of seconds, 0 or more"),
        ({"rest_s": math.nan}, "rest_s is nan; it is a number of seconds, 0 or more"),
        ({"moves_a_round": 0}, "moves_a_round is 0; it is 1 or more"),
        ({"remember": 0}, "remember is 0; typical pods are found among 1 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, said):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole message is compared
        Defragment(**options)
    assert str(error.value) == said


# --- on random clusters ----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_every_move_is_possible_at_its_turn_and_brings_what_it_says(seed, moves_a_round):
    random = np.random.default_rng(seed)
    cluster = RandomCluster(random)
    table = cluster.table(np.arange(cluster.count))
    if random.random() < 0.3:
        table.set_unschedulable(int(random.integers(table.count)), unschedulable=True)
    running = {
        uid: RunningPod(held.pod, table.names[held.row], 0.0, held.pod.spec.cpu_milli)
        for uid, held in table.placed.items()
    }
    leaving = [uid for uid, one in running.items() if one.pod.gpu_count]
    one = Defragment(moves_a_round=moves_a_round, move_cost_s=1.0, lasts_s=1.0)
    assert one.act(View(0.0, table, running, NoTelemetry())) == []
    if not leaving:
        return
    seen = [held.pod.spec for held in table.placed.values()]
    table.forget(leaving[0])
    del running[leaving[0]]
    before = {name: getattr(table, name).copy() for name in ("free", "gpu_free", "pod_count")}
    moves = one.act(View(30.0, table, running, NoTelemetry()))
    assert all(np.array_equal(getattr(table, name), values) for name, values in before.items())
    told = {candidate.pod.uid: candidate for candidate in one.considered()}
    typical = mix(seen)
    left = set()
    assert len(moves) <= moves_a_round
    assert len({move.pod.uid for move in moves}) == len(moves)
    for move in moves:
        row, source = table.row_of[move.node], running[move.pod.uid].node
        assert move.pod.gpu_count
        assert move.pod.gang is None
        assert not table.unschedulable[row]
        assert move.node not in left, "it would wait for the room of another"
        # Possible while the pod still stands where it was, as room is held before anybody leaves.
        assert row in feasible(move.pod, table)
        f_before = of_table(table, typical)
        best = None
        held = table.forget(move.pod.uid)
        devices = np.flatnonzero(table.gpu_free[row] >= move.pod.gpu_milli).tolist()
        choices = [(device,) for device in devices] if move.pod.shape.is_share else [devices[: move.pod.gpu_count]]
        for choice in choices:
            table.assume(held.pod, Placement(row, move.node, tuple(choice)))
            fall = f_before - of_table(table, typical)
            if best is None or fall > best[0]:
                best = (fall, tuple(choice))
            table.forget(move.pod.uid)
        table.assume(held.pod, Placement(row, move.node, best[1]))
        candidate = told[move.pod.uid]
        assert candidate.gain == pytest.approx(float(best[0]) / 1000)
        assert candidate.cost == pytest.approx(move.pod.gpu_count * move.pod.gpu_milli / 1000)
        assert candidate.gain > candidate.cost
        left.add(source)


def test_the_contract_holds():
    check_controller(Defragment())
    check_controller(controller("defragment"))


# --- what is typical -------------------------------------------------------------------------------------------------


def test_each_pod_counts_once_and_only_so_many_are_remembered():
    small, large = make_pod(gpu=500).spec, make_pod(gpu=2000).spec
    seen = TypicalMix(3)
    for _ in range(5):
        seen.see([("a", small), ("b", large)])
    assert len(seen) == 2
    seen.see([("c", small), ("d", small), ("b", large)])
    assert len(seen) == 3
    typical = seen.typical([""])
    assert (typical.gpu_milli.tolist(), typical.gpu_count.tolist()) == ([500, 1000], [1, 2])
    assert typical.share.tolist() == pytest.approx([2 / 3, 1 / 3])
    seen.see([("a", small)])  # it is back, or somebody of that name: one more
    assert len(seen) == 3
    assert len(TypicalMix().typical(["", "T4"]).share) == 0


# --- in the simulator ------------------------------------------------------------------------------------------------


def test_a_pod_that_waits_for_whole_devices_starts_sooner_and_the_moved_one_pays():
    half = {"cpu_milli": 1000, "gpu_count": 1, "gpu_milli": 500, "duration_s": 1000.0}
    both = {"cpu_milli": 1000, "gpu_count": 2, "gpu_milli": 1000}
    pods = {
        "a": half,
        "b": half,
        "first": {**both, "duration_s": 40.0},
        "second": {**both, "arrival_s": 30.0, "duration_s": 2000.0},
        "third": {**both, "arrival_s": 60.0, "duration_s": 100.0},
    }
    nodes = [NodeSpec(f"n{at}", 64_000, 0, 2, "T4") for at in range(3)]

    def run(controllers):
        log = []
        result = run_clock(
            Trace("test", nodes, make_workload(pods)),
            load_profile("fgd"),
            settings=ClockSettings(restart_time_s=30.0),
            controllers=controllers,
            first_node={"a": "n0", "b": "n1", "first": "n2"},
            listeners=[lambda record: log.append((record.time_s, str(record.what), record.pod, record.node))],
        )
        return log, result

    alone_log, alone = run({})
    log, result = run({"defragment": Defragment()})
    assert [one for one in alone_log if one[2] == "third"][1:] == [
        (60.0, "refuse", "third", ""),
        (1000.0, "start", "third", "n0"),
        (1100.0, "end", "third", "n0"),
    ]
    assert [one for one in log if one[0] >= 40.0 and one[1] != "refuse"] == [
        (40.0, "end", "first", "n2"),
        (40.0, "start", "second", "n2"),
        (60.0, "arrive", "third", ""),
        (60.0, "start", "a", "n1"),
        (60.0, "move", "a", "n1"),
        (60.0, "start", "third", "n0"),
        (160.0, "end", "third", "n0"),
        (1000.0, "end", "b", "n1"),
        (1030.0, "end", "a", "n1"),
        (2040.0, "end", "second", "n2"),
    ]
    assert alone.pods["end_s"][0] == 1000.0
    assert result.tables["distribution"]["to_node"].count("n1") == 1
