"""Which gang has room kept for it, until when, and who may use it meanwhile; whole stories are in tests/sim."""

import math

import pytest

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.clock import SimClock
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.queue import Queue
from foresail.core.reservations import ReservationSettings
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, PodSpec
from foresail.policies.profiles.load import load_profile
from foresail.testing import make_table


class Cluster:
    """Starts every pod at once; knows of some when they end."""

    def __init__(self, *cpu_milli, after_s=0.0, most=1, backoff: Backoff = NO_BACKOFF, again_s=math.inf):
        self.table = make_table(allocatable=[(cpu, 0, 0) for cpu in cpu_milli])
        self.clock = SimClock()
        self.ends: dict[str, float] = {}
        self.started: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self.again_s = again_s
        self.given_up: list[Pod] = []
        self.scheduler = Scheduler(
            self,
            load_profile("best-fit"),
            Queue(self.clock, backoff=backoff),
            reservations=ReservationSettings(after_s, most),
            ends=lambda pod: self.ends.get(pod.name, math.inf),
        )

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.started[pod.name] = placement.node

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self.told[pod.name] = str(why)

    def give_up(self, _gang: Gang, members: list[Pod], _why: str) -> float:
        self.given_up = members
        return self.again_s

    def submit(self, name, cpu_milli, *, end_s=math.inf, **options):
        self.ends[name] = end_s
        shape = self.table.shape(PodSpec(cpu_milli=cpu_milli))
        self.scheduler.submit(Pod(name, shape, arrival_s=self.clock.now(), **options))

    def ring(self, *cpu_milli, name="g", timeout_s=600.0, least=None, **options):
        gang = Gang(name, least or len(cpu_milli), timeout_s)
        for at, cpu in enumerate(cpu_milli):
            self.submit(f"{name}-{at}", cpu, gang=gang, **options)

    def run(self, at_s=None):
        """Who has started by then; time goes on from one thing to do to the next."""
        self.scheduler.run_until_idle()
        while at_s is not None and (next_s := self.scheduler.next_time_s()) <= at_s:
            self.clock.advance_to(max(next_s, self.clock.now()))
            self.scheduler.run_until_idle()
            if self.scheduler.next_time_s() <= self.clock.now():
                break
        if at_s is not None:
            self.clock.advance_to(at_s)
        self.scheduler.run_until_idle()
        started, self.started = self.started, {}
        return started

    def held(self):
        return {held.pod.name: held.node for held in self.scheduler.holds}


def test_room_is_kept_once_the_gang_has_waited_long_enough():
    cluster = Cluster(2, 2, after_s=30)
    cluster.submit("a", 2)
    cluster.ring(2, 2)
    cluster.run(29.0)
    assert cluster.held() == {}
    cluster.run(30.0)
    assert cluster.held() == {"g-0": "node-0", "g-1": "node-1"}
    assert cluster.told["g-0"].endswith("; room for its gang is held on 2 nodes, which others have to leave first")
    cluster.submit("later", 1)
    assert cluster.run() == {}
    assert cluster.told["later"] == "0/2 nodes fit later: 2 are held for gang g"
    cluster.scheduler.release("a")
    assert cluster.run() == {"g-0": "node-0", "g-1": "node-1"}
    assert cluster.held() == {}


def test_a_gang_that_shrinks_below_its_minimum_holds_nothing():
    cluster = Cluster(2, 2)
    cluster.submit("a", 2)
    cluster.ring(2, 2)
    cluster.submit("later", 2)
    assert cluster.run() == {"a": "node-0"}
    cluster.scheduler.withdraw("g-1")
    assert cluster.run() == {"later": "node-1"}
    assert cluster.held() == {}


def test_one_of_more_members_than_needed_may_go_and_another_has_its_room():
    cluster = Cluster(2, 2)
    cluster.submit("a", 2)
    cluster.ring(2, 2, 2, least=2)
    cluster.run()
    assert cluster.held() == {"g-0": "node-0", "g-1": "node-1"}
    cluster.scheduler.withdraw("g-0")
    cluster.submit("later", 1)
    assert cluster.run() == {}
    assert sorted(cluster.held()) == ["g-1", "g-2"]


def test_a_gang_that_rests_after_it_gave_up_keeps_its_room_until_it_comes_again():
    cluster = Cluster(2, 2, again_s=30.0)
    cluster.submit("a", 2)
    cluster.ring(2, 2, timeout_s=100.0)
    cluster.run(100.0)
    assert [pod.name for pod in cluster.given_up] == ["g-0", "g-1"]
    cluster.submit("later", 1)
    assert cluster.run(129.0) == {}
    cluster.clock.advance_to(130.0)
    for pod in cluster.given_up:
        cluster.scheduler.submit(pod)
    assert cluster.run(161.0) == {}  # when the holds of the first time would have ended
    cluster.scheduler.release("a")
    assert sorted(cluster.run()) == ["g-0", "g-1"]


def test_a_gang_that_does_not_come_again_after_its_rest_loses_its_room():
    cluster = Cluster(2, 2, again_s=30.0)
    cluster.submit("a", 2)
    cluster.ring(2, 2, timeout_s=100.0)
    cluster.run(100.0)
    cluster.submit("later", 1)
    assert cluster.run(170.0) == {"later": "node-1"}


def test_a_gang_without_a_timeout_holds_room_for_a_day_at_most():
    cluster = Cluster(2, 2)
    cluster.submit("a", 2)
    cluster.ring(2, 2, timeout_s=math.inf)
    cluster.submit("later", 1)
    assert "later" not in cluster.run(86_399.0)
    assert cluster.run(86_400.0) == {"later": "node-1"}
    assert cluster.run(1e6) == {}
    assert cluster.held() == {}


@pytest.mark.parametrize(("most", "holds"), [(1, ["g-0", "g-1"]), (2, ["g-0", "g-1", "h-0"])])
def test_so_many_gangs_of_a_priority_hold_room_as_is_set(most, holds):
    cluster = Cluster(2, 2, 3, most=most)
    for name, cpu_milli in (("a", 2), ("c", 3)):
        cluster.submit(name, cpu_milli)
    cluster.ring(2, 2)
    cluster.run()
    cluster.clock.advance_to(1)
    cluster.ring(3, name="h")
    cluster.run()
    assert sorted(cluster.held()) == holds


def test_the_gang_that_came_first_is_the_first_in_line_also_when_it_is_complete_last():
    cluster = Cluster(2, 2)
    cluster.submit("a", 2)
    gang = Gang("g", 2)
    cluster.submit("g-0", 2, gang=gang)
    cluster.clock.advance_to(1)
    cluster.ring(2, 2, name="h")
    cluster.run()
    assert sorted(cluster.held()) == ["h-0", "h-1"]
    cluster.clock.advance_to(2)
    cluster.submit("g-1", 2, gang=gang)
    cluster.run()
    assert sorted(cluster.held()) == ["g-0", "g-1"]
    cluster.run(3)
    assert cluster.told["h-0"].endswith("; room is held for gang g, which came before")


def test_a_pod_of_more_priority_takes_the_room_and_the_gang_plans_anew():
    cluster = Cluster(4, 4)
    cluster.submit("a", 3)
    cluster.submit("b", 2)
    cluster.run()
    cluster.clock.advance_to(1)
    cluster.ring(4)
    cluster.run()
    (node,) = cluster.held().values()
    cluster.clock.advance_to(2)
    cluster.submit("urgent", 1, priority=5)
    cluster.run()
    cluster.run(3)
    assert len(cluster.held()) == 1
    assert node in {"node-0", "node-1"}


def test_nobody_is_tried_again_and_again_at_one_instant():
    """A world in which nothing more can happen comes to rest."""
    cluster = Cluster(2, 2, most=2)
    cluster.submit("a", 2)
    assert cluster.run() == {"a": "node-0"}
    for name in "ghij":
        cluster.ring(2, 2, name=name, priority="ghij".index(name) % 2, timeout_s=50.0)
    cluster.submit("later", 1)
    assert cluster.run(1000.0) == {"later": "node-1"}


def test_a_gang_that_has_lost_a_member_has_room_kept_for_it():
    """Else those that stand would wait for it for as long as small pods keep coming."""
    cluster = Cluster(2, 2, 2)
    cluster.ring(2, 2)
    assert cluster.run() == {"g-0": "node-0", "g-1": "node-1"}
    for at in range(2):
        cluster.submit(f"small-{at}", 1)
    assert set(cluster.run(1.0).values()) == {"node-2"}
    lost = cluster.scheduler.evict("g-1")
    cluster.table.set_unschedulable(lost.row, unschedulable=True)
    cluster.run(2.0)
    assert cluster.held() == {"g-1": "node-2"}
    cluster.scheduler.release("small-0")
    cluster.submit("later", 1)
    assert cluster.run(3.0) == {}
    cluster.scheduler.release("small-1")
    assert cluster.run(4.0) == {"g-1": "node-2"}
    assert cluster.held() == {}


def test_members_beyond_the_minimum_have_no_room_kept_for_them():
    cluster = Cluster(2, 2)
    cluster.ring(2, 2, 2, least=2)
    assert cluster.run() == {"g-0": "node-0", "g-1": "node-1"}
    assert cluster.held() == {}


def test_workers_start_without_a_launcher_that_comes_once_they_run_and_room_is_kept_for_it_then():
    cluster = Cluster(2, 2)
    gang = Gang("g", 3, later_members=1)
    cluster.submit("worker-0", 2, gang=gang)
    assert cluster.run() == {}
    cluster.submit("worker-1", 1, gang=gang)
    assert cluster.run() == {"worker-0": "node-0", "worker-1": "node-1"}
    cluster.submit("other", 1)
    assert cluster.run() == {"other": "node-1"}
    cluster.submit("launcher", 1, gang=gang)
    cluster.run(1.0)
    assert cluster.held() == {"launcher": "node-1"}
    cluster.scheduler.release("other")
    assert cluster.run() == {"launcher": "node-1"}
