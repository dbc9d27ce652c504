import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.decide import decide
from foresail.core.model import Placement, Pod
from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.core.table import GPU, NodeTable
from foresail.policies.profiles.load import load_profile

MODELS = ("T4", "V100")
node_specs = st.lists(
    st.builds(
        NodeSpec,
        name=st.uuids().map(str),
        cpu_milli=st.integers(0, 16_000),
        memory_bytes=st.integers(0, 1 << 34),
        gpu_count=st.integers(0, 4),
        gpu_model=st.sampled_from(MODELS),
        max_pods=st.sampled_from((0, 2, 110)),
        extended=st.sampled_from(((), (("example.com/fpga", 2),))),
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def pod_specs(draw: st.DrawFn) -> PodSpec:
    gpu_count = draw(st.integers(0, 2))
    return PodSpec(
        cpu_milli=draw(st.integers(0, 8_000)),
        memory_bytes=draw(st.integers(0, 1 << 33)),
        gpu_count=gpu_count,
        gpu_milli=draw(st.integers(1, 1000)) if gpu_count == 1 else 1000 * (gpu_count > 0),
        gpu_models=draw(st.sampled_from(((), ("T4",), ("V100", "T4", "V100")))),
        extended=draw(st.sampled_from(((), (("example.com/fpga", 1),), (("example.com/unheard-of", 1),)))),
    )


def columns(table: NodeTable) -> list[list[object]]:
    names = ("free", "gpu_free", "gpu_pods", "pod_count")
    return [getattr(table, name).tolist() for name in names]


@settings(max_examples=60, deadline=None)
@given(
    nodes=node_specs,
    pods=st.lists(pod_specs(), min_size=1, max_size=25),
    leaving=st.randoms(use_true_random=False),
    policy=st.sampled_from(("fgd", "best-fit", "gpu-packing", "least-allocated", "random", "power:1+fgd:2")),
)
def test_nothing_is_ever_over_capacity_and_departures_restore_the_exact_state(nodes, pods, leaving, policy):
    extended = [name for spec in pods for name, _ in spec.extended]
    table = NodeTable(nodes, extended=extended)
    profile = load_profile(policy)
    from_workload(profile, table, pods)
    idle = columns(table)
    for index, spec in enumerate(pods):
        pod = Pod(f"pod-{index}", table.shape(spec))
        outcome = decide(pod, table, profile)
        if isinstance(outcome, Placement):
            table.assume(pod, outcome)
            model = table.models[table.gpu_model[outcome.row]]
            assert len(set(outcome.devices)) == spec.gpu_count
            assert not spec.gpu_count or not spec.gpu_models or model in spec.gpu_models
        assert (table.free >= 0).all()
        assert (table.gpu_free >= 0).all()
        assert (table.gpu_free.sum(axis=1) == table.free[:, GPU]).all()
        assert ((table.max_pods == 0) | (table.pod_count <= table.max_pods)).all()
        if leaving.random() < 0.3 and table.placed:
            table.forget(leaving.choice(sorted(table.placed, key=str)))
    for uid in list(table.placed):
        table.forget(uid)
    assert columns(table) == idle


def from_workload(profile, table, pods):
    profile.learn(Workload([str(at) for at in range(len(pods))], pods, np.arange(len(pods))), table.all)


def two_nodes() -> NodeTable:
    return NodeTable([NodeSpec("a", 4000, 8, 2, "T4"), NodeSpec("b", 4000, 8)])


def test_a_pod_cannot_be_booked_twice():
    table = two_nodes()
    pod = table.pod("p", PodSpec(1000))
    table.assume(pod, Placement(0, "a"))
    with pytest.raises(ValueError, match="p is already on a; forget it first"):
        table.assume(pod, Placement(1, "b"))
    assert table.free[:, 0].tolist() == [3000, 4000]


def test_touched_rows_are_those_since_the_cursor_and_each_once_unless_very_few():
    table = NodeTable([NodeSpec(f"node-{at:02d}", 4000, 8) for at in range(20)])
    touched = [3, 0, 0, 1, 0, 7, 7, 7, 2, 3, 19, 0, 3, 3, 5, 1]
    for at, row in enumerate(touched):
        table.assume(Pod(f"p{at}", table.shape(PodSpec(1))), Placement(row, table.names[row]))
    for cursor in range(len(touched) + 1):
        rows = table.touched_since(cursor).tolist()
        assert set(rows) == set(touched[cursor:])
        assert len(touched) - cursor < 12 or len(rows) == len(set(rows))
    few = NodeTable([NodeSpec(name, 4000, 8) for name in "ab"])
    for at, row in enumerate([1, 1, 1]):
        few.assume(Pod(f"p{at}", few.shape(PodSpec(1))), Placement(row, few.names[row]))
    assert few.touched_since(0).tolist() == [1]


def test_a_resource_that_only_a_pod_names_is_nowhere_free():
    table = two_nodes()
    outcome = decide(
        table.pod("p", PodSpec(1000, extended=(("example.com/fpga", 1),))), table, load_profile("best-fit")
    )
    assert str(outcome) == "0/2 nodes fit p: 2 have too little example.com/fpga"
    assert table.resources == ("cpu", "memory", "gpu", "example.com/fpga")


def test_a_node_that_is_down_is_passed_over_until_it_is_back():
    table = two_nodes()
    profile = load_profile("best-fit")
    table.set_down(0, down=True)
    table.set_unschedulable(1, unschedulable=True)
    outcome = decide(table.pod("p", PodSpec(1000)), table, profile)
    assert str(outcome) == "0/2 nodes fit p: 1 are cordoned, 1 are down"
    table.set_down(0, down=False)
    assert decide(table.pod("p", PodSpec(1000)), table, profile).node == "a"


def test_peers_are_counted_by_node_and_gone_when_they_leave():
    table = two_nodes()
    pod = table.pod("p", PodSpec(1000, owner="ReplicaSet/web"))
    table.assume(pod, Placement(1, "b"))
    assert table.peers(pod.group).tolist() == [0, 1]
    table.forget("p")
    assert table.peers(pod.group).tolist() == [0, 0]


def test_the_lowest_rank_wins_a_tie():
    table = NodeTable([NodeSpec(name, 4000, 8) for name in "abc"], rank=[2, 0, 1])
    assert decide(table.pod("p", PodSpec(1000)), table, load_profile("least-allocated")).node == "b"
