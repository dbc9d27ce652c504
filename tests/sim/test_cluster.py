import math

import numpy as np
import pytest

from foresail.core.clock import SimClock
from foresail.core.journal import Journal, Record, What
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.spec import Gang, PodSpec, Workload
from foresail.errors import PolicyError
from foresail.sim.agenda import ARRIVAL, DEPARTURE, FAULT, Agenda
from foresail.sim.cluster import SimCluster
from foresail.sim.ledger import Ledger
from foresail.sim.work.fixed import FixedTime
from foresail.sim.work.work import Interruptions
from foresail.testing import make_table


class World:
    """A cluster of one node, its clock, its ledger and what it said."""

    def __init__(self, *duration_s: float, keeps_progress: bool = False) -> None:
        self.log: list[tuple[float, str, str]] = []
        self.clock = SimClock()
        self.table = make_table(allocatable=[(9, 0, 0)])
        names = [f"p{index}" for index in range(len(duration_s))]
        workload = Workload(names, [PodSpec()], np.zeros(len(names), dtype=np.int64), duration_s=np.array(duration_s))
        self.ledger = Ledger(names)
        self.agenda = Agenda(self.clock, len(names))
        work = FixedTime(workload, self.table, self.clock, self.agenda, Interruptions(keeps_progress=keeps_progress))
        self.cluster = SimCluster(self.table, self.clock, self.ledger, work, Journal(self.clock, self.note))
        shape = self.table.shape(PodSpec(cpu_milli=1))
        self.pods = [Pod(f"p{index}", shape, uid=index) for index in range(len(duration_s))]
        for pod in self.pods:
            self.cluster.arrive(pod)

    def note(self, record: Record) -> None:
        if record.what is not What.ARRIVE:
            self.log.append((record.time_s, record.what, record.pod or record.node))

    def start(self, index: int, at_s: float) -> None:
        self.clock.advance_to(at_s)
        self.cluster.bind(self.pods[index], Placement(0, "node-0"))

    def events(self) -> list[tuple[float, int]]:
        """Let time pass until nothing happens any more; what happened when, and to whom."""
        happened = []
        while (time_s := self.agenda.next_time_s()) < math.inf:
            self.clock.advance_to(time_s)
            while (event := self.agenda.pop()) is not None:
                happened.append((event[0], event[3]))
        return happened


def test_events_of_one_instant_come_by_kind_then_in_the_order_they_were_made():
    assert DEPARTURE < FAULT < ARRIVAL
    world = World(5, 3, 5)
    world.start(0, 0)
    world.start(2, 0)
    world.start(1, 2)
    assert world.events() == [(5, 0), (5, 2), (5, 1)]


def test_a_pod_without_an_end_has_no_departure():
    world = World(math.inf)
    world.start(0, 0)
    assert (world.events(), world.ledger.outcome) == ([], ["running"])


def test_a_pod_that_was_evicted_departs_only_after_its_new_run():
    world = World(5)
    world.start(0, 0)
    world.clock.advance_to(3)
    world.cluster.lose(0)
    assert world.agenda.next_time_s() == math.inf
    world.start(0, 4)
    assert world.events() == [(9, 0)]
    world.cluster.end(0)
    ledger = world.ledger
    assert world.log == [(0, "start", "p0"), (3, "evict", "p0"), (4, "start", "p0"), (9, "end", "p0")]
    assert (ledger.waited_s, ledger.ran_s, ledger.restarts, ledger.outcome) == ([1], [8], [1], ["finished"])
    assert {state: count for state, count in ledger.count.items() if count} == {"finished": 1}


def test_progress_may_be_kept():
    world = World(5, keeps_progress=True)
    world.start(0, 0)
    world.clock.advance_to(3)
    world.cluster.lose(0)
    world.start(0, 4)
    assert world.events() == [(6, 0)]


def test_a_gang_that_is_given_up_fails_with_its_reason():
    world = World(5, 5)
    world.clock.advance_to(7)
    world.cluster.give_up(Gang("g", 3), world.pods, "the gang gave up")
    assert world.log == [(7, "give_up", "p0"), (7, "give_up", "p1")]
    assert (world.ledger.reason, world.ledger.waited_s) == (["the gang gave up"] * 2, [7, 7])


def test_a_refusal_holds_for_all_who_ask_the_same():
    world = World(5, 5)
    world.cluster.refuse(world.pods[0], NoFit("p0", 1, {"are full": 1}))
    assert world.cluster.why_waiting(world.pods[1]) == "are full"


def test_who_runs_on_a_node_is_known_in_the_order_of_starts():
    world = World(5, 5, 5)
    for index in (2, 0, 1):
        world.start(index, 0)
    world.cluster.end(0)
    assert world.cluster.running_on(0) == [2, 1]


def test_a_profile_that_places_pods_on_a_node_that_is_down_is_told_so():
    world = World(5)
    world.table.set_down(0, down=True)
    with pytest.raises(PolicyError, match=r'p0 was placed on node-0, which is down; .* add "schedulable"'):
        world.start(0, 0)
