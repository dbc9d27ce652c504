"""A pod that stands somewhere and asks for other amounts: as if it had come so."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shown import ZONE, by_name

from foresail.core.decide import decide
from foresail.core.kubernetes import ClaimVolume, KubernetesPod, PodTerm, Selector
from foresail.core.model import Placement, Pod
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile

WEB = (("app", "web"),)
PODS = [
    PodSpec(500, 1 << 30),
    PodSpec(1000, 1 << 28, labels=WEB, owner="ReplicaSet/web"),
    PodSpec(100, 1 << 20, gpu_count=1, gpu_milli=300),
    PodSpec(100, 0, extended=(("example.com/nic", 1),)),
    PodSpec(100, 0, labels=WEB, kubernetes=KubernetesPod(anti_affinity=(PodTerm(ZONE, Selector(), ("default",)),))),
]


def table_with(pods: list[tuple[int, int, bool]]) -> NodeTable:
    nodes = [NodeSpec(f"n{at}", 8000, 1 << 33, 2, "T4", labels=((ZONE, f"z{at % 2}"),)) for at in range(3)]
    table = NodeTable(nodes, extended=["example.com/nic", "example.com/late"])
    for at, (which, row, in_gang) in enumerate(pods):
        gang = Gang("g", 1) if in_gang else None
        pod = Pod(str(at), table.shape(PODS[which]), gang=gang, priority=at % 3, arrival_s=float(at))
        table.assume(pod, Placement(row, table.names[row], tuple(range(pod.gpu_count))))
    return table


def resized(spec: PodSpec, cpu_milli: int, memory_bytes: int, nic: int) -> PodSpec:
    extended = (("example.com/late", nic),) if nic else ()
    return dataclasses.replace(spec, cpu_milli=cpu_milli, memory_bytes=memory_bytes, extended=extended)


def standing(table: NodeTable) -> list[object]:
    pods, held = table.standing.held_below(9, table.count)
    below = [[(one.pod.name, one.pod.spec) for one in table.standing.below(row, 9)] for row in range(table.count)]
    return [pods.tolist(), held.tolist(), below]


@settings(max_examples=100, deadline=None)
@given(
    pods=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.booleans()), min_size=1, max_size=8),
    changes=st.lists(
        st.tuples(st.integers(0, 7), st.integers(0, 5000), st.integers(0, 1 << 31), st.integers(0, 2)), max_size=6
    ),
    asked_early=st.booleans(),
)
def test_a_resized_pod_leaves_every_book_as_if_it_had_gone_and_come_anew(pods, changes, asked_early):
    in_place, anew = table_with(pods), table_with(pods)
    if asked_early:
        for table in (in_place, anew):
            by_name(table)
            standing(table)
    for which, *amounts in changes:
        uid = str(which % len(pods))
        cursor, structure = in_place.touches, in_place.structure
        held = in_place.resize(uid, resized(in_place.placed[uid].pod.spec, *amounts))
        assert in_place.structure != structure or held.row in in_place.touched_since(cursor)
        assert in_place.placed[uid] is held
        went = anew.forget(uid)
        pod = went.pod.with_shape(anew.shape(resized(went.pod.spec, *amounts)))
        anew.assume(pod, Placement(went.row, anew.names[went.row], went.devices))
    assert by_name(in_place) == by_name(anew)
    assert standing(in_place) == standing(anew)
    assert list(in_place.placed) == [str(at) for at in range(len(pods))]
    for held in list(in_place.placed.values()):
        in_place.forget(held.pod.uid)
    assert (in_place.free == in_place.allocatable).all()


def test_a_resized_pod_stands_where_it_stood_among_its_equals():
    table = NodeTable([NodeSpec("a", 8000, 8)])
    for name in ("first", "second"):
        table.assume(table.pod(name, PodSpec(1000)), Placement(0, "a"))
    assert [held.pod.name for held in table.standing.below(0, 1)] == ["first", "second"]
    table.resize("first", PodSpec(500))
    assert [held.pod.name for held in table.standing.below(0, 1)] == ["first", "second"]
    table.objects_changed()
    assert [held.pod.name for held in table.standing.below(0, 1)] == ["first", "second"]


def test_the_next_decision_sees_what_a_resize_has_freed():
    table = NodeTable([NodeSpec("a", 4000, 8)])
    profile = load_profile("best-fit")
    table.assume(table.pod("big", PodSpec(3000)), Placement(0, "a"))
    waiting = table.pod("waiting", PodSpec(2000))
    assert str(decide(waiting, table, profile)) == "0/1 nodes fit waiting: 1 have too little cpu"
    table.resize("big", PodSpec(2000))
    assert decide(waiting, table, profile).node == "a"


@pytest.mark.parametrize(
    "spec",
    [
        PodSpec(100, gpu_count=1, gpu_milli=1000),
        PodSpec(100, kubernetes=KubernetesPod(claims=(ClaimVolume("data"),))),
    ],
)
def test_gpus_and_volumes_cannot_change_under_a_running_pod(spec):
    table = NodeTable([NodeSpec("a", 4000, 8, 1, "T4")])
    table.assume(table.pod("p", PodSpec(100)), Placement(0, "a"))
    before = by_name(table)
    with pytest.raises(ValueError, match="p keeps its GPUs and its volumes while it runs"):
        table.resize("p", spec)
    assert by_name(table) == before
