"""Nodes that come, change and go: the table is the same as one made afresh from what there is in the end."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shown import ZONE, by_name

from foresail.core.decide import decide
from foresail.core.kubernetes import HostPort, KubernetesNode, KubernetesPod, PodTerm, Selector, SpreadConstraint
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.spec import Gang, NodeSpec, PodSpec, Taint, Workload
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile

NAMES = [f"n{number}" for number in range(6)]
IMAGES = (("app:1", 300 << 20), ("tool:2", 90 << 20))
node_specs = st.builds(
    NodeSpec,
    name=st.sampled_from(NAMES),
    cpu_milli=st.integers(0, 8_000),
    memory_bytes=st.integers(0, 1 << 33),
    gpu_count=st.integers(0, 5),
    gpu_model=st.sampled_from(("", "T4", "A10", "V100")),
    max_pods=st.sampled_from((0, 2, 110)),
    labels=st.sampled_from(((), ((ZONE, "a"),), ((ZONE, "b"), ("disk", "ssd")), (("disk", "hdd"),))),
    taints=st.sampled_from(((), (), (Taint("spot"),), (Taint("old", effect="PreferNoSchedule"),))),
    extended=st.sampled_from(((), (("example.com/fpga", 2),), (("example.com/nic", 1),))),
    unschedulable=st.sampled_from((False, False, False, True)),
    kubernetes=st.sampled_from((None, KubernetesNode(images=IMAGES[:1]), KubernetesNode(images=IMAGES))),
)
WEB = (("app", "web"),)
PODS = [
    PodSpec(500, 1 << 30),
    PodSpec(1000, 1 << 28, labels=WEB, owner="ReplicaSet/web"),
    PodSpec(100, 1 << 20, gpu_count=1, gpu_milli=300, gpu_models=("T4", "A10")),
    PodSpec(100, 1 << 20, gpu_count=2, gpu_milli=1000),
    PodSpec(100, 0, extended=(("example.com/nic", 1),)),
    PodSpec(100, 0, node_selector=((ZONE, "b"),), kubernetes=KubernetesPod(images=("app:1",))),
    PodSpec(100, 0, labels=WEB, kubernetes=KubernetesPod(host_ports=(HostPort(80),), terminating=True)),
    PodSpec(
        100,
        0,
        labels=WEB,
        kubernetes=KubernetesPod(
            spread=(SpreadConstraint(1, ZONE, Selector(), hard=True),),
            anti_affinity=(PodTerm("disk", Selector(), ("default",)),),
        ),
    ),
]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(node_specs, max_size=4)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from(NAMES), max_size=2)),
        st.tuples(st.just("assume"), st.integers(0, len(PODS) - 1), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("forget"), st.integers(0, 30)),
        st.tuples(st.just("drop shapes")),
    ),
    max_size=25,
)


def afresh(table: NodeTable) -> NodeTable:
    fresh = NodeTable(
        [table.specs[table.row_of[name]] for name in sorted(table.names)], extended=sorted(table.resources[3:])
    )
    fresh.widen(table.gpu_free.shape[1])
    for uid, held in table.placed.items():
        name = table.names[held.row]
        pod = Pod(held.pod.name, fresh.shape(held.pod.spec), uid=uid, gang=held.pod.gang)
        fresh.assume(pod, Placement(fresh.row_of[name], name, held.devices))
    return fresh


def answer(table: NodeTable, profile: object, spec: PodSpec) -> object:
    outcome = decide(table.pod("asks", spec), table, profile)
    if isinstance(outcome, NoFit):
        return outcome.reasons
    return outcome.node, outcome.devices, outcome.score


def learned(name: str, table: NodeTable) -> object:
    profile = load_profile(name)
    profile.learn(Workload([str(at) for at in range(len(PODS))], PODS, np.arange(len(PODS))), table.all)
    return profile


@settings(max_examples=120, deadline=None)
@given(steps, st.booleans())
def test_a_table_that_has_lived_is_the_same_as_one_made_afresh(steps, asked_early):
    table = NodeTable([])
    profiles = [learned(name, table) for name in ("kubernetes", "fgd")]
    if asked_early:
        by_name(table)
    for number, (kind, *what) in enumerate(steps):
        if kind == "put":
            table.put_nodes(*what)
        elif kind == "remove":
            standing = {uid for uid, held in table.placed.items() if table.names[held.row] in what[0]}
            assert {held.pod.uid for held in table.remove_nodes(*what)} == standing
        elif kind == "assume" and table.count:
            which, row, in_gang = what
            row %= table.count
            pod = Pod(str(number), table.shape(PODS[which]), gang=Gang("g", 1) if in_gang else None)
            table.widen(2)
            table.assume(pod, Placement(row, table.names[row], tuple(range(pod.gpu_count))))
        elif kind == "forget" and str(what[0]) in table.placed:
            table.forget(str(what[0]))
        elif kind == "drop shapes":
            table.drop_shapes([])
        if asked_early:
            for profile in profiles:
                answer(table, profile, PODS[number % len(PODS)])
    fresh = afresh(table)
    assert by_name(table) == by_name(fresh)
    for profile in profiles:
        newly = learned(profile.name, fresh)
        for spec in PODS:
            assert answer(table, profile, spec) == answer(fresh, newly, spec)


def test_equal_specs_change_nothing_and_amounts_alone_keep_what_is_remembered():
    table = NodeTable([])
    node = NodeSpec("a", 4000, 8)
    assert table.put_nodes([node, NodeSpec("b", 1, 1)]) == [0, 1]
    structure, touches = table.structure, table.touches
    assert table.put_nodes([NodeSpec("a", 4000, 8)]) == []
    assert (table.structure, table.touches) == (structure, touches)
    assert table.put_nodes([NodeSpec("a", 4500, 8)]) == [0]
    assert (table.structure, table.touched_since(touches).tolist()) == (structure, [0])
    table.put_nodes([NodeSpec("a", 4500, 8, labels=(("x", "y"),))])
    assert table.structure > structure


def test_a_node_that_shrinks_below_its_pods_has_less_than_nothing_free_and_recovers():
    table = NodeTable([NodeSpec("a", 4000, 8, 2, "T4")])
    table.assume(table.pod("p", PodSpec(3000, 4, 2, 1000)), Placement(0, "a", (0, 1)))
    table.put_nodes([NodeSpec("a", 1000, 8, 0, "T4")])
    assert (table.free.tolist(), table.gpu_free.tolist()) == ([[-2000, 4, -2000]], [[-1000, -1000]])
    table.put_nodes([NodeSpec("a", 4000, 8, 2, "T4")])
    assert (table.free.tolist(), table.gpu_free.tolist()) == ([[1000, 4, 0]], [[0, 0]])


def test_ties_go_by_name_whatever_the_order_of_coming():
    table = NodeTable([])
    for name in ("b", "c", "a"):
        table.put_nodes([NodeSpec(name, 4000, 8)])
    profile = load_profile("least-allocated")
    assert decide(table.pod("p", PodSpec(1000)), table, profile).node == "a"
    table.remove_nodes(["a", "unheard-of"])
    assert decide(table.pod("p", PodSpec(1000)), table, profile).node == "b"


def test_shapes_that_nobody_uses_are_dropped_and_their_numbers_are_not_used_again():
    table = NodeTable([NodeSpec("a", 4000, 8)])
    shapes = [table.shape(PodSpec(cpu)) for cpu in range(3)]
    table.assume(Pod("p", shapes[0]), Placement(0, "a"))
    table.drop_shapes([PodSpec(1)])
    assert table.shape_count == 2
    assert [table.shape(PodSpec(cpu)) is shapes[cpu] for cpu in range(3)] == [True, True, False]
    assert table.shape(PodSpec(2)).key not in [shape.key for shape in shapes]
