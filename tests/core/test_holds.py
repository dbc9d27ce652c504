"""Room that is kept for somebody: who is kept out, who gets it, and that it always ends."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.core.clock import SimClock
from foresail.core.holds import Holds
from foresail.core.journal import Journal
from foresail.core.kubernetes import KubernetesPod
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preempting import LEAVING_S, NOMINATED_S, Preempting
from foresail.core.preemption import Preemption
from foresail.core.queue import Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, PodSpec
from foresail.policies.profiles.load import load_profile
from foresail.testing import make_table


class World:
    """A cluster that notes what it is asked for, and when; nobody goes unless the test says so."""

    def __init__(self, *cpu_milli: int, policy: str = "best-fit", preemption: Preempting | None = None) -> None:
        self.table = make_table(allocatable=[(cpu, 0, 0) for cpu in cpu_milli])
        self.clock = SimClock()
        self.log: list[tuple[float, str]] = []
        self.journal: list[tuple[float, str, str, str]] = []
        journal = Journal(self.clock, lambda one: self.journal.append((one.time_s, one.pod, one.node, one.detail)))
        self.scheduler = Scheduler(
            self, load_profile(policy), Queue(self.clock), preemption=preemption, journal=journal
        )

    def note(self, what: str) -> None:
        self.log.append((self.clock.now(), what))

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.note(f"{pod.name} on {placement.node}")

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self.note(f"{pod.name} refused: {why.main_reason}")

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> None: ...

    def policy_failed(self, pods: list[Pod], error: Exception) -> None:
        raise error

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        self.note(f"{pod.name} for {' '.join(placed.pod.name for placed in plan.evictions)}")

    def submit(self, name: str, cpu_milli: int, **options: object) -> None:
        self.scheduler.submit(Pod(name, self.table.shape(PodSpec(cpu_milli=cpu_milli)), **options))  # type: ignore[arg-type]

    def run(self) -> list[tuple[float, str]]:
        self.scheduler.run_until_idle()
        log, self.log = self.log, []
        return log

    def run_to(self, time_s: float) -> list[tuple[float, str]]:
        """Whatever is to be done at its own times up to this one."""
        log = []
        while (next_s := self.scheduler.next_time_s()) <= time_s:
            self.clock.advance_to(next_s)
            log += self.run()
        self.clock.advance_to(time_s)
        return log + self.run()

    def begin_to_end(self, name: str) -> None:
        """The pod is told to go, and takes its time."""
        placed = self.table.forget(name)
        spec = replace(placed.pod.spec, kubernetes=KubernetesPod(terminating=True))
        pod = Pod(name, self.table.shape(spec), priority=placed.pod.priority)
        self.table.assume(pod, Placement(placed.row, self.table.names[placed.row]))


# --- nominations -----------------------------------------------------------------------------------------------------


def test_a_nomination_whose_victims_nobody_tells_to_go_ends_and_is_planned_anew():
    world = World(4, preemption=Preempting())
    world.submit("low", 3)
    world.run()
    world.submit("high", 3, priority=1)
    assert world.run()[0] == (0.0, "high for low")
    assert world.run_to(1.0) == []
    # The replica that led has lost its lead, say, before it could delete anybody.
    assert world.scheduler.next_time_s() == NOMINATED_S
    log = world.run_to(NOMINATED_S)
    assert [what.split(":")[0] for _, what in log] == ["high for low", "high refused"]
    world.scheduler.release("low")
    assert world.run() == [(NOMINATED_S, "high on node-0")]
    assert world.scheduler.next_time_s() == math.inf


def test_victims_that_are_being_deleted_are_waited_for_but_not_for_ever():
    world = World(4, preemption=Preempting())
    world.submit("low", 3)
    world.run()
    world.submit("high", 3, priority=1)
    assert world.run()[0] == (0.0, "high for low")
    world.begin_to_end("low")
    assert world.run_to(LEAVING_S - 1) == []
    log = world.run_to(LEAVING_S)
    assert [what.split(":")[0] for _, what in log] == ["high for ", "high refused"]


def test_whoever_a_nomination_kept_out_is_woken_when_it_ends():
    world = World(4, preemption=Preempting(may_preempt=lambda pod: pod.name == "high"))
    world.submit("low", 3)
    world.run()
    world.submit("high", 3, priority=1)
    world.submit("small", 1, priority=1)
    assert [what for _, what in world.run()][-1] == "small refused: are held for a pod that others are leaving for"
    world.scheduler.withdraw("high")
    assert world.run() == [(0.0, "small on node-0")]


# --- holds of others -------------------------------------------------------------------------------------------------


def test_a_hold_keeps_others_out_until_it_ends_and_then_wakes_them():
    world = World(4)
    owner = Pod("owner", world.table.shape(PodSpec(cpu_milli=3)))
    assert world.scheduler.hold(owner, "node-0", 20.0, "it comes soon") == ""
    world.submit("other", 2)
    world.submit("small", 1)
    assert world.run() == [(0.0, "other refused: are held for another pod"), (0.0, "small on node-0")]
    assert world.run_to(19.0) == []
    assert world.run_to(30.0) == [(20.0, "other on node-0")]


def test_its_owner_gets_the_room_and_more_priority_need_not_care():
    world = World(4, 9, policy="least-allocated")
    owner = Pod("owner", world.table.shape(PodSpec(cpu_milli=3)))
    world.scheduler.hold(owner, "node-0", 20.0, "it comes soon")
    world.scheduler.submit(owner)
    assert world.run() == [(0.0, "owner on node-0")]
    assert len(world.scheduler.holds) == 0
    urgent = Pod("urgent", world.table.shape(PodSpec(cpu_milli=8)), priority=0)
    world.scheduler.hold(urgent, "node-1", 20.0, "it comes soon")
    world.submit("more", 8, priority=1)
    assert world.run() == [(0.0, "more on node-1")]


def test_room_that_is_kept_no_longer_is_in_the_journal_unless_its_pod_has_got_it():
    world = World(4, 9, policy="least-allocated", preemption=Preempting())
    table, scheduler = world.table, world.scheduler
    owner, other = (Pod(name, table.shape(PodSpec(cpu_milli=3))) for name in ("owner", "other"))
    scheduler.hold(owner, "node-0", 20.0, "it comes soon")
    scheduler.hold(owner, "node-0", 30.0, "it comes soon")
    assert world.journal == []
    scheduler.hold(owner, "node-1", 20.0, "here rather")
    assert world.journal.pop() == (0.0, "owner", "node-0", "the pod holds node-1 now")
    scheduler.hold(Pod("chief", owner.shape, priority=1), "node-1", 10.0, "it is more urgent")
    assert world.journal.pop() == (0.0, "owner", "node-1", "chief, of more priority, holds it now")
    world.run_to(10.0)
    assert world.journal.pop() == (10.0, "chief", "node-1", "its time is over")
    scheduler.hold(other, "node-0", 20.0, "it comes soon")
    scheduler.withdraw("other")
    assert world.journal.pop() == (10.0, "other", "node-0", "the pod needs it no more")
    scheduler.hold(owner, "node-0", 20.0, "it comes soon")
    scheduler.submit(owner)
    assert (world.run(), world.journal) == ([(10.0, "owner on node-0")], [])
    scheduler.hold(other, "node-0", 20.0, "though there is no room")
    scheduler.submit(other)
    assert world.run() == [(10.0, "other on node-1")]
    assert world.journal.pop() == (10.0, "other", "node-0", "the pod has node-1")
    world.submit("high", 8, priority=1)
    assert world.run()[0] == (10.0, "high for other")
    scheduler.release("owner")
    scheduler.holds.release("high", "said by whoever knows")
    assert world.journal == [(10.0, "high", "node-1", "said by whoever knows")]


def test_a_hold_has_a_node_and_an_end():
    world = World(4)
    owner = Pod("owner", world.table.shape(PodSpec(cpu_milli=3)))
    assert world.scheduler.hold(owner, "node-9", 20.0, "") == "there is no node node-9"
    with pytest.raises(ValueError, match="a hold ends"):
        world.scheduler.hold(owner, "node-0", math.inf, "")


# --- pods that move --------------------------------------------------------------------------------------------------


def test_one_that_another_has_put_where_its_room_is_held_is_not_counted_twice():
    world = World(4)
    owner = Pod("owner", world.table.shape(PodSpec(cpu_milli=2)))
    world.scheduler.hold(owner, "node-0", 20.0, "it comes soon")
    world.table.assume(owner, Placement(0, "node-0"))
    assert world.scheduler.holds.holders(Pod("other", owner.shape), world.table) == {}
    world.submit("other", 2)
    assert world.run() == [(0.0, "other on node-0")]


def test_a_pod_that_moves_finds_its_room_before_all_who_wait():
    world = World(4, 4)
    world.submit("filler", 2)
    world.submit("mover", 3)
    world.submit("twin", 3, arrival_s=-1.0)
    assert [what.split(":")[0] for _, what in world.run()] == ["twin on node-0", "filler on node-1", "mover refused"]
    world.scheduler.release("filler")
    assert [what for _, what in world.run()] == ["mover on node-1"]
    world.scheduler.release("twin")
    assert world.scheduler.hold_to_move("mover", "node-0", 60.0, "node-1 is to be empty") == ""
    # It still stands on its node, and its new one is closed to others already, also to those who request the same.
    world.submit("late", 2, arrival_s=-3.0)
    world.submit("earlier", 3, arrival_s=-2.0)
    assert [what.split(":")[0] for _, what in world.run()] == ["late refused", "earlier refused"]
    world.scheduler.evict("mover")
    assert [what.split(":")[0] for _, what in world.run()] == ["late on node-1", "mover on node-0", "earlier refused"]
    assert len(world.scheduler.holds) == 0


def test_why_a_pod_cannot_move_is_told():
    world = World(4, 2, 4)
    world.submit("mover", 3)
    world.submit("other", 3)
    world.run()
    scheduler = world.scheduler
    where = world.table.names[world.table.placed["mover"].row]
    assert scheduler.hold_to_move("nobody", "node-1", 9.0, "") == "it has no node"
    assert scheduler.hold_to_move("mover", where, 9.0, "") == f"it stands on {where} already"
    assert scheduler.hold_to_move("mover", "node-7", 9.0, "") == "there is no node node-7"
    assert scheduler.hold_to_move("mover", "node-1", 9.0, "") == "node-1 does not take it: have too little cpu"
    assert scheduler.hold_to_move("mover", "", 9.0, "") == f"it stands on {where} already"
    assert len(scheduler.holds) == 0


def test_without_a_node_the_policy_says_where_to():
    world = World(4, 9, policy="most-allocated")
    world.submit("tight", 3)
    world.submit("mover", 3)
    world.run()
    world.scheduler.release("tight")
    assert world.scheduler.hold_to_move("mover", "", 9.0, "closer together") == ""
    world.scheduler.evict("mover")
    assert [what for _, what in world.run()] == ["mover on node-0"]


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.floats(0, 100)), max_size=20))
def test_the_next_end_is_that_of_a_hold_that_there_is(steps):
    table, holds = make_table(free=[(4, 0, 0)]), Holds()
    pods = [table.pod(f"p{number}", PodSpec(cpu_milli=1)) for number in range(5)]
    for number, comes, until_s in steps:
        if comes:
            holds.hold(pods[number], f"n{number}", until_s=until_s, why="")
        else:
            holds.release(pods[number].uid)
        assert holds.next_time_s() == min((held.until_s for held in holds), default=math.inf)
        assert {held.pod.uid for held in holds.expired(50.0)} == {
            held.pod.uid for held in holds if held.until_s <= 50.0
        }
