"""Gangs that are to be close: the smallest domain that holds them, the profile's choice of it, and counted reasons."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.clock import SimClock
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.queue import Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, NodeSpec, PodSpec, parse_topology, written_topology
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile


class Cluster:
    """Nodes as (cpu, rack, zone); starts every pod at once."""

    def __init__(self, *nodes, policy="best-fit"):
        labels = [[(key, value) for key, value in (("rack", rack), ("zone", zone)) if value] for _, rack, zone in nodes]
        specs = [NodeSpec(f"n{at}", cpu, 0, labels=tuple(labels[at])) for at, (cpu, *_) in enumerate(nodes)]
        self.table = NodeTable(specs)
        self.started: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self.scheduler = Scheduler(self, load_profile(policy), Queue(SimClock()))

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.started[pod.name] = placement.node

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self.told[pod.name] = str(why)

    def place(self, *cpus, least=None, name="g", topology="required:rack"):
        labels, required = parse_topology(topology)
        gang = Gang(name, least or len(cpus), topology=labels, topology_required=required)
        for at, cpu in enumerate(cpus):
            self.submit(f"{name}-{at}", cpu, gang)
        return self.run()

    def submit(self, name, cpu, gang=None):
        self.scheduler.submit(Pod(name, self.table.shape(PodSpec(cpu_milli=cpu)), gang=gang))

    def run(self):
        self.scheduler.run_until_idle()
        started, self.started = self.started, {}
        return started


MEMBERS = {"g-0", "g-1", "g-2"}
TWO_RACKS = [(3, "a", ""), (2, "a", ""), (3, "b", ""), (3, "b", "")]


def test_a_gang_goes_to_the_rack_that_holds_it():
    """Best-fit alone would put the first member on the smaller node of rack a."""
    assert Cluster(*TWO_RACKS).place(2, 3, 1, topology="") == {"g-0": "n1", "g-1": "n0", "g-2": "n2"}
    assert Cluster(*TWO_RACKS).place(2, 3, 1) == {"g-0": "n2", "g-1": "n3", "g-2": "n2"}


@pytest.mark.parametrize(
    ("topology", "started"),
    [
        ("preferred:rack", {"g-0", "g-1", "g-2"}),
        ("required:rack", set()),
        ("required:rack,zone", {"g-0", "g-1", "g-2"}),
    ],
)
def test_a_gang_that_no_rack_holds_goes_on_to_the_next_label_or_anywhere_or_waits(topology, started):
    nodes = [(3, "a", "z"), (3, "b", "y"), (3, "c", "y"), (3, "d", "y"), (3, "", "")]
    cluster = Cluster(*nodes)
    found = cluster.place(3, 3, 3, topology=topology)
    assert set(found) == started
    if topology == "required:rack,zone":
        assert set(found.values()) == {"n1", "n2", "n3"}
    if not started:
        assert cluster.told["g-0"] == (
            "0/5 nodes fit g-0: 4 are in a rack that does not hold 3 of its gang together, 1 have no label rack"
        )


@pytest.mark.parametrize(("policy", "node"), [("best-fit", "n0"), ("least-allocated", "n1")])
def test_of_racks_that_hold_it_the_profile_chooses(policy, node):
    cluster = Cluster((4, "a", ""), (9, "b", ""), (2, "c", ""), policy=policy)
    assert set(cluster.place(2, 2).values()) == {node}


def test_within_a_rack_a_gang_is_searched_for_as_anywhere():
    """The small member goes first to the node that the large one needs, unless every arrangement is tried."""
    cluster = Cluster((4, "a", ""), (5, "a", ""), (9, "b", ""), (9, "c", ""), policy="least-allocated")
    cluster.submit("other", 9)
    cluster.submit("another", 9)
    cluster.run()
    assert cluster.place(4, 5) == {"g-0": "n0", "g-1": "n1"}


def test_members_that_come_later_join_the_others():
    cluster = Cluster((2, "a", ""), (9, "b", ""), (1, "a", ""))
    gang = Gang("g", 2, topology=("rack",), topology_required=True)
    cluster.submit("full", 9)
    cluster.run()
    for at in range(2):
        cluster.submit(f"g-{at}", 1, gang)
    assert cluster.run() == {"g-0": "n2", "g-1": "n0"}
    cluster.scheduler.release("full")
    for at in range(2, 4):
        cluster.submit(f"g-{at}", 1, gang)
    assert cluster.run() == {"g-2": "n0"}
    assert cluster.told["g-3"] == "0/3 nodes fit g-3: 2 have too little cpu, 1 are not in the rack of gang g"


@settings(max_examples=200, deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["a", "b", "c", ""])), min_size=1, max_size=6),
    cpus=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    policy=st.sampled_from(["best-fit", "least-allocated", "random"]),
)
def test_a_gang_is_within_one_rack_exactly_if_one_holds_it(nodes, cpus, policy):
    cluster = Cluster(*((cpu, rack, "") for cpu, rack in nodes), policy=policy)
    found = cluster.place(*cpus)
    racks = {rack for _, rack in nodes if rack}
    holds = {rack for rack in racks if fits([cpu for cpu, own in nodes if own == rack], cpus)}
    assert bool(found) == bool(holds)
    assert len(found) in (0, len(cpus))
    assert {nodes[int(node[1:])][1] for node in found.values()} <= holds
    assert len({nodes[int(node[1:])][1] for node in found.values()}) <= 1
    used = [sum(cpus[int(pod[2:])] for pod, node in found.items() if node == f"n{at}") for at in range(len(nodes))]
    assert all(total <= cpu for total, (cpu, _) in zip(used, nodes, strict=True))


def fits(rooms, cpus):
    """Every way is tried."""
    for choice in itertools.product(range(len(rooms)), repeat=len(cpus)):
        used = [0] * len(rooms)
        for at, cpu in zip(choice, cpus, strict=True):
            used[at] += cpu
        if all(total <= room for total, room in zip(used, rooms, strict=True)):
            return True
    return False


@pytest.mark.parametrize("text", ["", "required:rack", "preferred:rack,zone"])
def test_a_topology_is_read_as_it_is_written(text):
    labels, required = parse_topology(text)
    assert written_topology(Gang("g", 1, topology=labels, topology_required=required)) == text


@pytest.mark.parametrize("text", ["rack", "close:rack", "required:", "preferred:rack,,zone"])
def test_a_topology_that_cannot_be_read(text):
    with pytest.raises(ValueError, match=f'the topology is "{text}"; write required: or preferred: and node labels'):
        parse_topology(text)
