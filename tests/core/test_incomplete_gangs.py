"""Gangs that wait for same_lane: what is told, and when; the history is of (second, gang, members, how many more)."""

import pytest

from foresail.core.clock import SimClock
from foresail.core.incomplete_gangs import IncompleteGangs
from foresail.core.model import Pod
from foresail.core.queue import Queue
from foresail.core.spec import Gang, NodeSpec, PodSpec
from foresail.core.table import NodeTable


class World:
    """A queue with a roll call, and what it told whenever it asked for a look."""

    def __init__(self):
        self.clock = SimClock()
        self.queue = Queue(self.clock, incomplete_gangs=IncompleteGangs(self.clock))
        self.shape = NodeTable([NodeSpec("n", 1000, 0)]).shape(PodSpec(cpu_milli=1))
        self.told = []

    def add(self, *names, gang):
        for name in names:
            self.queue.add(Pod(name, self.shape, gang=gang))

    def until(self, time_s):
        """Let time pass, with a look whenever the queue needs one."""
        while (at_s := self.queue.next_time_s()) <= time_s:
            self.clock.advance_to(max(at_s, self.clock.now()))
            self.look()
        self.clock.advance_to(time_s)

    def look(self):
        for gang, members, more in self.queue.incomplete():
            self.told.append((self.clock.now(), gang.name, " ".join(pod.name for pod in members), more))
        self.queue.give_up()

    def news(self):
        told, self.told = self.told, []
        return told


@pytest.fixture
def world():
    return World()


def test_members_are_told_after_a_second_how_many_more_they_wait_for(world):
    world.add("a", "b", gang=Gang("g", 5))
    assert world.queue.incomplete() == []
    world.until(100)
    assert world.told == [(1, "g", "a b", 3)]


def test_every_change_is_told_after_a_pause_that_doubles(world):
    gang = Gang("g", 9, timeout_s=1e9)
    for number in range(8):
        world.clock.advance_to(100.0 * number)
        world.add(f"p{number}", gang=gang)
        world.until(100 * number + 99)
    assert [at_s % 100 for at_s, *_ in world.told] == [1, 2, 4, 8, 16, 30, 30, 30]
    assert [more for *_, more in world.told] == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_gang_that_comes_one_by_one_is_not_told_every_number(world):
    gang = Gang("g", 500, timeout_s=1e9)
    for number in range(499):
        world.add(f"p{number}", gang=gang)
        world.until(world.clock.now() + 0.9)
    assert [at_s for at_s, *_ in world.told] == pytest.approx([30 * turn for turn in range(1, 15)], abs=15)
    world.news()
    world.until(1000)
    assert [more for *_, more in world.told] == [1]


def test_a_gang_that_comes_quickly_is_told_nothing(world):
    for number in range(500):
        world.add(f"p{number}", gang=Gang("g", 500))
        world.until(world.clock.now() + 0.02)
    assert world.told == []
    assert world.queue.next_time_s() == 600  # but may still be given up


def test_what_changes_nothing_is_told_once(world):
    gang = Gang("g", 4)
    world.queue.members_placed(gang, 1)
    world.add("a", gang=gang)
    world.until(5)
    world.queue.members_placed(gang, 1)
    world.until(50)
    assert world.told == [(1, "g", "a", 2)]


def test_members_that_go_and_others_that_come_are_counted_anew(world):
    gang = Gang("g", 3)
    world.add("a", "b", gang=gang)
    world.until(10)
    world.queue.remove("a")
    world.until(20)
    world.queue.remove("b")
    world.add("c", gang=gang)
    world.until(30)
    assert world.told == [(1, "g", "a b", 1), (12, "g", "b", 2), (21, "g", "c", 2)]


def test_a_gang_that_asks_for_more_or_less_is_told_the_new_number(world):
    world.add("a", "b", gang=Gang("g", 3))
    world.until(10)
    world.queue.members_placed(Gang("g", 5), 0)
    world.until(20)
    world.queue.members_placed(Gang("g", 2), 0)
    world.until(30)
    assert world.told == [(1, "g", "a b", 1), (12, "g", "a b", 3)]


def test_a_complete_gang_is_told_nothing_until_it_loses_a_member(world):
    gang = Gang("g", 2)
    world.add("a", "b", gang=gang)
    lane, _ = world.queue.pop()
    world.queue.sleep(lane)
    world.until(10)
    assert world.news() == []
    world.queue.remove("a")
    world.until(20)
    assert world.news() == [(11, "g", "b", 1)]


def test_a_gang_that_has_started_waits_for_nobody(world):
    gang = Gang("g", 2)
    world.add("a", "b", gang=gang)
    lane, pods = world.queue.pop()
    world.queue.done(lane, pods)
    world.add("c", gang=gang)
    world.until(10)
    assert world.told == []


def test_a_gang_that_was_given_up_begins_anew(world):
    gang = Gang("g", 3, timeout_s=60)
    world.add("a", gang=gang)
    world.until(100)
    world.add("a", "b", gang=gang)
    world.until(150)
    assert world.told == [(1, "g", "a", 2), (101, "g", "a b", 1)]


def test_gangs_are_told_in_the_order_in_which_they_fell_quiet(world):
    world.add("a", gang=Gang("one", 3))
    world.until(0.5)
    world.add("b", gang=Gang("two", 3))
    world.until(0.9)
    world.add("c", gang=Gang("one", 3))
    world.until(10)
    assert world.told == [(1.5, "two", "b", 2), (1.9, "one", "a c", 1)]
