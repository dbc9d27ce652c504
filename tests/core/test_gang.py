import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.answering import answered

from foresail.core.decide import decide
from foresail.core.gang import place_gang as asking_for_gang
from foresail.core.kubernetes import KubernetesPod, PodTerm, Requirement, Selector
from foresail.core.model import Placement, Pod
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile
from foresail.testing import make_table

GANG = Gang("g", 2)


def place_gang(members, table, profile, *, missing, decide=decide):
    return answered(asking_for_gang(members, table, profile, missing=missing), table, profile, decide)


def members(table: NodeTable, *cpu_milli: int) -> list[Pod]:
    return [Pod(f"g-{at}", table.shape(PodSpec(cpu_milli=cpu)), gang=GANG) for at, cpu in enumerate(cpu_milli)]


def columns(table: NodeTable) -> list[list[int]]:
    return [table.free.tolist(), table.gpu_free.tolist(), table.pod_count.tolist(), table.gpu_pods.tolist()]


def test_all_members_are_placed_where_there_is_room_for_all():
    table = make_table(allocatable=[(4, 0, 0), (2, 0, 0)])
    placed, refusal = place_gang(members(table, 4, 2), table, load_profile("best-fit"), missing=2)
    assert [(pod.name, placement.node) for pod, placement in placed] == [("g-0", "node-0"), ("g-1", "node-1")]
    assert refusal is None
    assert table.free[:, 0].tolist() == [0, 0]


def test_none_is_placed_where_one_is_short_and_the_table_is_as_before():
    table = make_table(allocatable=[(4, 0, 0), (2, 0, 0)])
    before = columns(table)
    placed, refusal = place_gang(members(table, 4, 3), table, load_profile("best-fit"), missing=2)
    assert placed == []
    assert str(refusal) == "0/2 nodes fit g-1: 2 have too little cpu"
    assert columns(table) == before
    assert table.placed == {}


def test_more_than_enough_members_are_placed_as_far_as_they_fit():
    table = make_table(allocatable=[(5, 0, 0)])
    placed, refusal = place_gang(members(table, 2, 4, 2, 1), table, load_profile("best-fit"), missing=2)
    assert [pod.name for pod, _ in placed] == ["g-0", "g-2", "g-3"]
    assert refusal is not None
    assert refusal.pod == "g-1"


def test_a_gang_that_misses_no_one_places_members_one_by_one():
    table = make_table(allocatable=[(1, 0, 0)])
    placed, refusal = place_gang(members(table, 2), table, load_profile("best-fit"), missing=0)
    assert (placed, refusal is None) == ([], False)


def test_once_the_gang_cannot_be_complete_nobody_else_is_decided_about():
    table = make_table(allocatable=[(4, 0, 0)])
    asked = []

    def listening(pod, table, profile):
        asked.append(pod.name)
        return decide(pod, table, profile)

    place_gang(members(table, 1, 9, 9, 1, 1), table, load_profile("best-fit"), missing=3, decide=listening)
    assert asked == ["g-0", "g-1", "g-3", "g-4"]  # g-2 asks what g-1 was refused
    asked.clear()
    table = make_table(allocatable=[(4, 0, 0)])
    place_gang(members(table, 1, 9, 9, 1, 1), table, load_profile("best-fit"), missing=4, decide=listening)
    assert asked == ["g-0", "g-1"]


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.integers(0, 6),
)
def test_a_gang_takes_its_room_whole_or_not_at_all(rooms, asks, missing):
    table = make_table(allocatable=[(room, 0, 0) for room in rooms])
    placed, refusal = place_gang(members(table, *asks), table, load_profile("best-fit"), missing=missing)
    assert (table.free >= 0).all()
    assert len(placed) == 0 or len(placed) >= missing
    assert len(table.placed) == len(placed)
    assert int(table.free[:, 0].sum()) == sum(rooms) - sum(pod.spec.cpu_milli for pod, _ in placed)
    assert (len(placed) == len(asks)) == (refusal is None) or len(asks) < missing
    # What one after another would find, each onto its best node; no other order of the members is tried.
    plain = make_table(allocatable=[(room, 0, 0) for room in rooms])
    alone = []
    for pod in members(plain, *asks):
        outcome = decide(pod, plain, load_profile("best-fit"))
        if isinstance(outcome, Placement):
            plain.assume(pod, outcome)
            alone.append((pod.name, outcome.node))
    together = [(pod.name, placement.node) for pod, placement in placed]
    assert together == (alone if len(alone) >= missing else [])


def test_a_member_that_is_placed_already_is_refused():
    table = make_table(allocatable=[(9, 0, 0)])
    pods = members(table, 1)
    place_gang(pods, table, load_profile("best-fit"), missing=1)
    with pytest.raises(ValueError, match="g-0 is already on node-0; forget it first"):
        place_gang(pods, table, load_profile("best-fit"), missing=1)


def test_a_member_may_be_what_another_waits_for():
    table = NodeTable([NodeSpec("a", 9, 9, labels=(("host", "a"),))])
    term = PodTerm("host", Selector((Requirement("app", "In", ("web",)),)), ("default",))
    follower = table.shape(PodSpec(kubernetes=KubernetesPod(affinity=(term,))))
    leader = table.shape(PodSpec(labels=(("app", "web"),)))
    pods = [Pod(f"g-{at}", shape, gang=GANG) for at, shape in enumerate((follower, leader, follower))]
    placed, refusal = place_gang(pods, table, load_profile("kubernetes"), missing=2)
    assert [pod.name for pod, _ in placed] == ["g-1", "g-2"]
    assert str(refusal) == "0/1 nodes fit g-0: 1 node(s) didn't match pod affinity rules"
