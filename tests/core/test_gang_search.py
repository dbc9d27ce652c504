"""The search for an arrangement of a gang, held against arrangements that were made, or looked for, without it."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.clock import SimClock
from foresail.core.gang_search import GangSearch, NoRoomTogether, SearchLimits
from foresail.core.holds import Holds
from foresail.core.kubernetes import KubernetesPod, PodTerm, Requirement, Selector, SpreadConstraint
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.snapshot import place_all
from foresail.testing import make_table

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REFUSED = NoFit("g-0", 2, {"have too little cpu": 2})


def gang_of(table, specs, *, missing=None):
    gang = Gang("g", len(specs) if missing is None else missing)
    return [Pod(f"g-{at}", table.shape(spec), gang=gang) for at, spec in enumerate(specs)]


def search(table, pods, *, missing=None, profile="best-fit", holds=None, clock=None, limits=None):
    return GangSearch(
        pods,
        table,
        load_profile(profile),
        missing=len(pods) if missing is None else missing,
        holds=holds or Holds(),
        clock=clock or SimClock(),
        limits=limits or SearchLimits(),
    )


def columns(table):
    return [table.free.tolist(), table.gpu_free.tolist(), table.pod_count.tolist(), dict(table.placed)]


def cpu(*milli):
    return [PodSpec(cpu_milli=amount) for amount in milli]


def nodes(*cpu_milli, zones=None):
    return NodeTable(
        [
            NodeSpec(
                f"n-{at}",
                amount,
                1 << 34,
                labels=((HOST, f"n-{at}"), *(((ZONE, zones[at]),) if zones else ())),
            )
            for at, amount in enumerate(cpu_milli)
        ]
    )


# --- what one pass misses --------------------------------------------------------------------------------------------


def test_a_small_member_leaves_the_large_node_to_the_large_one():
    table = nodes(8, 4)
    # worst-fit: the small member comes first and takes the large node.
    outcomes = place_all(table, gang_of(table, cpu(3, 7)), load_profile("least-allocated"))
    assert {outcome.pod.name: outcome.placement.node for outcome in outcomes} == {"g-0": "n-1", "g-1": "n-0"}


def test_members_beyond_the_minimum_follow_those_that_were_searched_for():
    table = nodes(8, 8, 4, 4)
    outcomes = place_all(table, gang_of(table, cpu(3, 3, 7, 7), missing=3), load_profile("least-allocated"))
    assert sorted(outcome.placement.node for outcome in outcomes) == ["n-0", "n-1", "n-2", "n-3"]


def test_shares_of_one_gpu_are_packed_as_they_fit():
    table = make_table(allocatable=(9, 9, 2000), gpu_devices=[[1000, 600]])
    shares = [PodSpec(gpu_count=1, gpu_milli=milli) for milli in (400, 600, 600)]
    found = search(table, gang_of(table, shares)).find(REFUSED)
    assert sorted((pod.gpu_milli, placement.devices) for pod, placement in found) == [
        (400, (0,)),
        (600, (0,)),
        (600, (1,)),
    ]


# --- how a search ends -----------------------------------------------------------------------------------------------


def test_that_there_is_no_arrangement_is_proved():
    table = nodes(5, 5)
    before = columns(table)
    answer = search(table, gang_of(table, cpu(3, 3, 4))).find(REFUSED)
    assert isinstance(answer, NoRoomTogether)
    assert answer.is_proved
    assert str(answer) == f"{REFUSED}; its gang fits in no other arrangement either"
    assert columns(table) == before


def test_a_search_gives_up_after_its_tries_and_says_so():
    table = nodes(5, 6)
    before = columns(table)
    answer = search(table, gang_of(table, cpu(3, 3, 4)), limits=SearchLimits(tries=1)).find(REFUSED)
    assert not answer.is_proved
    assert str(answer) == f"{REFUSED}; the search for an arrangement of its gang gave up after 1 tries"
    assert columns(table) == before


def test_a_search_gives_up_when_its_time_is_over():
    class Ticking:
        now_s = 0.0

        def now(self):
            self.now_s += 0.02
            return self.now_s

    table = nodes(5, 6)
    answer = search(table, gang_of(table, cpu(3, 3, 4)), clock=Ticking(), limits=SearchLimits(seconds=0.05)).find(
        REFUSED
    )
    assert not answer.is_proved
    assert str(answer).endswith("gave up after 50 ms")


@pytest.mark.parametrize(
    ("asks", "missing", "worthwhile"),
    [((3, 3), 2, False), ((3, 4), 2, True), ((3, 4), 0, False), ((3, 4), 3, False), ((3, 4) * 40, 80, False)],
)
def test_only_small_gangs_of_several_kinds_are_searched_for(asks, missing, worthwhile):
    table = nodes(5, 6)
    assert search(table, gang_of(table, cpu(*asks)), missing=missing).is_worthwhile is worthwhile


def test_a_share_takes_another_device_where_the_chosen_one_leads_nowhere(tmp_path):
    profile = tmp_path / "spread.toml"
    profile.write_text('devices = "most-free"\n[[scores]]\npolicy = "best-fit"\n')
    table = make_table(allocatable=(9, 9, 2000), gpu_devices=[[1000, 700]])
    shares = [PodSpec(gpu_count=1, gpu_milli=milli) for milli in (500, 500, 700)]
    found = search(table, gang_of(table, shares), profile=str(profile)).find(REFUSED)
    assert sorted((pod.gpu_milli, placement.devices) for pod, placement in found) == [
        (500, (0,)),
        (500, (0,)),
        (700, (1,)),
    ]


def homes_of(found):
    return {pod.name: placement.node for pod, placement in found}


def four_by_four(count=2):
    return NodeTable([NodeSpec(f"n-{at}", 4, 4, labels=((HOST, f"n-{at}"),)) for at in range(count)])


MEMORY_FIRST = [PodSpec(cpu_milli=1, memory_bytes=4), *cpu(3, 3)]
"""The first is looked at first, and goes where least is left."""


def test_of_two_equal_nodes_the_one_that_is_held_is_another():
    table = four_by_four()
    holds = Holds()
    holds.hold(Pod("other", table.shape(PodSpec(cpu_milli=1))), "n-0", until_s=9.0, why="it moves")
    found = search(table, gang_of(table, MEMORY_FIRST), holds=holds).find(REFUSED)
    assert homes_of(found)["g-0"] == "n-1"


def test_of_two_equal_nodes_the_fuller_is_another():
    table = four_by_four()
    table.assume(Pod("there", table.shape(PodSpec(cpu_milli=1))), Placement(0, "n-0"))
    found = search(table, gang_of(table, MEMORY_FIRST)).find(REFUSED)
    assert homes_of(found)["g-0"] == "n-1"


def test_of_two_equal_nodes_the_one_that_more_members_may_use_is_another():
    table = NodeTable(
        [
            NodeSpec("n-0", 4, 4, labels=(("left", "y"), ("right", "y"))),
            NodeSpec("n-1", 4, 4, labels=(("left", "y"),)),
            NodeSpec("n-2", 4, 4, labels=(("right", "y"),)),
        ]
    )
    left, right = (("left", "y"),), (("right", "y"),)
    specs = [PodSpec(cpu_milli=4, node_selector=left), *[PodSpec(cpu_milli=3, node_selector=right)] * 2]
    assert homes_of(search(table, gang_of(table, specs)).find(REFUSED))["g-0"] == "n-1"


def test_of_two_equal_nodes_one_in_another_zone_is_another():
    table = nodes(2, 2, 1, zones="abb")
    lead = Selector((Requirement("role", "In", ("lead",)),))
    follower = KubernetesPod(affinity=(PodTerm(ZONE, lead, ("default",)),))
    specs = [PodSpec(cpu_milli=2, labels=(("role", "lead"),)), PodSpec(cpu_milli=1, kubernetes=follower)]
    found = search(table, gang_of(table, specs), profile="kubernetes").find(REFUSED)
    assert homes_of(found) == {"g-0": "n-1", "g-1": "n-2"}


def test_what_is_held_for_others_is_left_to_them():
    table = nodes(8, 4)
    holds = Holds()
    holds.hold(Pod("other", table.shape(PodSpec(cpu_milli=2))), "n-0", until_s=9.0, why="it moves")
    pods = gang_of(table, cpu(3, 7))
    assert search(table, pods, holds=holds).find(REFUSED).is_proved
    assert isinstance(search(table, gang_of(table, cpu(3, 6)), holds=holds).find(REFUSED), list)
    important = [Pod(f"h-{at}", pod.shape, priority=1, gang=pod.gang) for at, pod in enumerate(pods)]
    assert isinstance(search(table, important, holds=holds).find(REFUSED), list)


def test_equal_nodes_are_tried_once():
    # Pigeons and holes: without symmetry the proof would look at more than a million arrangements.
    table = nodes(*[10] * 9)
    pods = gang_of(table, cpu(*[6] * 9, 7))
    assert search(table, pods, limits=SearchLimits(tries=12)).find(REFUSED).is_proved


def test_room_that_nobody_can_use_ends_a_path_early():
    rng = random.Random(17)  # noqa: S311
    homes = [rng.randrange(8) for _ in range(16)]
    asks = [(rng.randint(1, 20), rng.randint(1, 20)) for _ in homes]
    rooms = [
        [sum(ask[at] for ask, home in zip(asks, homes, strict=True) if home == node) for at in (0, 1)]
        for node in range(8)
    ]
    table = NodeTable([NodeSpec(f"n-{at}", *room) for at, room in enumerate(rooms)])
    pods = gang_of(table, [PodSpec(cpu_milli=cpu, memory_bytes=memory) for cpu, memory in asks])
    found = search(table, pods, limits=SearchLimits(tries=100)).find(REFUSED)
    assert is_sound(table, found, len(pods))


# --- properties ------------------------------------------------------------------------------------------------------


def is_sound(table, found, missing):
    """Whether the answer fits, counted from the specs alone."""
    used = Counter()
    for pod, placement in found:
        used[placement.node, "cpu"] += pod.spec.cpu_milli
        used[placement.node, "memory"] += pod.spec.memory_bytes
    room = {
        (spec.name, what): getattr(spec, f"{what}_{unit}")
        for spec in table.specs
        for what, unit in (("cpu", "milli"), ("memory", "bytes"))
    }
    return len({pod.name for pod, _ in found}) == missing and all(used[key] <= room[key] for key in used)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=2, max_size=5),
    st.integers(0, 2),
)
def test_an_arrangement_is_found_if_and_only_if_there_is_one(rooms, asks, spare):
    missing = max(1, len(asks) - spare)
    table = NodeTable([NodeSpec(f"n-{at}", *room) for at, room in enumerate(rooms)])
    pods = gang_of(table, [PodSpec(cpu_milli=cpu, memory_bytes=memory) for cpu, memory in asks])
    before = columns(table)
    answer = search(table, pods, missing=missing, limits=SearchLimits(tries=10**9)).find(REFUSED)
    assert columns(table) == before

    def fits(homes):
        return all(
            sum(ask[at] for ask, home in zip(asks, homes, strict=True) if home == node) <= room[at]
            for node, room in enumerate(rooms)
            for at in (0, 1)
        )

    choices = range(-1, len(rooms))  # -1: it stays without a node
    exists = any(
        sum(home >= 0 for home in homes) >= missing and fits(homes)
        for homes in itertools.product(choices, repeat=len(asks))
    )
    if exists:
        assert is_sound(table, answer, missing)
    else:
        assert answer.is_proved


@st.composite
def arranged(draw):
    """Up to 16 members on up to 64 nodes, made by cutting rooms into members, so that an arrangement exists."""
    node_count = draw(st.integers(2, 64))
    homes = draw(st.lists(st.integers(0, node_count - 1), min_size=2, max_size=16))
    asks = [(draw(st.integers(1, 9)), draw(st.integers(1, 9))) for _ in homes]
    slack = draw(st.integers(0, 2))
    rooms = [[slack, slack] for _ in range(node_count)]
    for home, (cpu_milli, memory) in zip(homes, asks, strict=True):
        rooms[home][0] += cpu_milli
        rooms[home][1] += memory
    return rooms, draw(st.permutations(asks))


@settings(deadline=None, max_examples=150)
@given(arranged())
def test_every_gang_of_sixteen_that_fits_is_found_within_the_usual_limits(made):
    rooms, asks = made
    table = NodeTable([NodeSpec(f"n-{at}", *room) for at, room in enumerate(rooms)])
    pods = gang_of(table, [PodSpec(cpu_milli=cpu, memory_bytes=memory) for cpu, memory in asks])
    found = search(table, pods).find(REFUSED)
    assert isinstance(found, list), found
    assert is_sound(table, found, len(pods))


ROLES = ["plain", "apart", "spread", "joined"]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(2, 3), st.sampled_from("ab")), min_size=2, max_size=4),
    st.lists(
        st.tuples(st.integers(1, 2), st.sampled_from(ROLES), st.sampled_from([-1, -1, 0, 1])), min_size=2, max_size=4
    ),
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["plain", "apart"]), st.integers(0, 1)), max_size=2),
)
def test_gangs_that_keep_apart_or_spread_or_follow_are_found_if_some_order_places_them(rooms, asks, standing):
    """Each member has its CPU, its role, and the one node it may go to or -1; some pods of other gangs stand there."""
    table = nodes(*[room for room, _ in rooms], zones=[zone for _, zone in rooms])
    own = Selector((Requirement("gang", "In", ("g",)),))
    lead = Selector((Requirement("role", "In", ("plain",)),))
    rules = {
        "plain": KubernetesPod(),
        "apart": KubernetesPod(anti_affinity=(PodTerm(HOST, own, ("default",)),)),
        "spread": KubernetesPod(spread=(SpreadConstraint(1, ZONE, own, hard=True),)),
        "joined": KubernetesPod(affinity=(PodTerm(ZONE, lead, ("default",)),)),
    }

    def spec_of(cpu_milli, role, home=-1):
        selector = ((HOST, f"n-{home}"),) if home >= 0 else ()
        labels = (("gang", "g"), ("role", role))
        return PodSpec(cpu_milli=cpu_milli, labels=labels, node_selector=selector, kubernetes=rules[role])

    for at, (cpu_milli, role, row) in enumerate(standing):
        table.assume(Pod(f"standing-{at}", table.shape(spec_of(cpu_milli, role))), Placement(row, f"n-{row}"))
    pods = gang_of(table, [spec_of(*ask) for ask in asks])
    before = columns(table)
    answer = search(table, pods, profile="kubernetes", limits=SearchLimits(tries=10**9)).find(REFUSED)
    assert columns(table) == before
    everybody = [*asks, *((cpu_milli, role, -1) for cpu_milli, role, _ in standing)]
    there = tuple((len(asks) + at, row) for at, (_, _, row) in enumerate(standing))
    exists = some_order_places(rooms, everybody, there)
    assert isinstance(answer, list) == exists
    if exists:
        steps = [(int(pod.name[2:]), placement.row) for pod, placement in answer]
        assert sorted(member for member, _ in steps) == list(range(len(asks)))
        assert all(may_stand(rooms, everybody, [*there, *steps[:at]], *step) for at, step in enumerate(steps))
    else:
        assert answer.is_proved


def some_order_places(rooms, asks, placed=()):
    left = set(range(len(asks))) - {member for member, _ in placed}
    return not left or any(
        may_stand(rooms, asks, placed, member, row) and some_order_places(rooms, asks, (*placed, (member, row)))
        for member in left
        for row in range(len(rooms))
    )


def may_stand(rooms, asks, placed, member, row):
    """kube-scheduler's rules for these four kinds of pods, written down anew."""
    here = [other for other, home in placed if home == row]
    if sum(asks[other][0] for other in [*here, member]) > rooms[row][0]:
        return False
    _, role, only_home = asks[member]
    if only_home not in (-1, row):
        return False
    if here and (role == "apart" or any(asks[other][1] == "apart" for other in here)):
        return False
    zone = rooms[row][1]
    if role == "spread":
        counts = Counter({name: 0 for at, (_, name) in enumerate(rooms) if only_home in (-1, at)})
        counts.update(rooms[home][1] for _, home in placed if only_home in (-1, home))
        return counts[zone] + 1 - min(counts.values()) <= 1
    if role == "joined":
        return any(asks[other][1] == "plain" and rooms[home][1] == zone for other, home in placed)
    return True
