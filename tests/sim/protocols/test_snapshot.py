"""Pods placed on a cluster as it stands: order, gangs, and a word for each pod that fits nowhere."""

from hypothesis import given
from hypothesis import strategies as st

from foresail.core.model import Placement, Pod
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.kubernetes import FILTERS
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.snapshot import place_all

BOTH = Gang("default/g", 2)


def table_of(*cpus):
    return NodeTable([NodeSpec(f"n{at}", cpu * 1000, 2**40) for at, cpu in enumerate(cpus)])


def pod_of(table, name, cpu, **more):
    return Pod(name, table.shape(PodSpec(cpu_milli=cpu * 1000)), **more)


def told(table, pods, **more):
    answers = place_all(table, pods, load_profile("kubernetes", filters=FILTERS), **more)
    return [(one.pod.name, one.placement.node if one.placement else one.why) for one in answers]


def test_higher_priority_first_then_who_came_first_and_each_sees_those_before():
    table = table_of(2)
    pods = [
        pod_of(table, "late", 1, arrival_s=2),
        pod_of(table, "early", 1, arrival_s=1),
        pod_of(table, "important", 1, arrival_s=9, priority=5),
        pod_of(table, "small", 0, arrival_s=9),
    ]
    seen = []
    assert told(table, pods, on_progress=lambda done, total: seen.append((done, total))) == [
        ("important", "n0"),
        ("early", "n0"),
        ("small", "n0"),
        ("late", "1 Insufficient cpu"),
    ]
    assert seen == [(1, 4), (2, 4), (3, 4)]


def test_a_gang_holds_together_and_leaves_its_room_to_others():
    table = table_of(1)
    pods = [
        pod_of(table, "g-0", 1, gang=BOTH),
        pod_of(table, "g-1", 1, gang=BOTH),
        pod_of(table, "alone", 1, arrival_s=1),
    ]
    assert told(table, pods) == [
        ("alone", "n0"),
        ("g-0", "its gang default/g does not fit together: 0/1 nodes fit g-0: 1 Insufficient cpu"),
        ("g-1", "its gang default/g does not fit together: 0/1 nodes fit g-0: 1 Insufficient cpu"),
    ]


def test_a_gang_waits_for_its_members_and_counts_those_that_stand():
    table = table_of(4)
    one = [pod_of(table, "g-0", 1, gang=BOTH)]
    assert told(table, one) == [("g-0", "its gang default/g starts with 2 members; there are 1")]
    assert told(table, one, placed_members={"default/g": 1}.__getitem__) == [("g-0", "n0")]


def test_a_member_more_of_a_gang_that_has_started_stands_alone():
    table = table_of(2)
    pods = [pod_of(table, f"g-{at}", 1, gang=BOTH) for at in range(3)]
    assert told(table, pods) == [("g-0", "n0"), ("g-1", "n0"), ("g-2", "1 Insufficient cpu")]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from([None, BOTH])), max_size=10),
)
def test_everyone_has_an_answer_and_no_node_holds_more_than_it_has(cpus, asked):
    table = table_of(*cpus)
    pods = [pod_of(table, f"p{at}", cpu, priority=p, gang=gang) for at, (cpu, p, gang) in enumerate(asked)]
    answers = place_all(table, pods, load_profile("kubernetes", filters=FILTERS))
    assert sorted(one.pod.name for one in answers) == sorted(pod.name for pod in pods)
    assert all(isinstance(one.placement, Placement) != bool(one.why) for one in answers)
    assert (table.free[:, 0] >= 0).all()
    assert {one.pod.uid: one.placement.row for one in answers if one.placement} == {
        uid: held.row for uid, held in table.placed.items()
    }
    assert sum(one.pod.gang is BOTH for one in answers if one.placement) != 1
