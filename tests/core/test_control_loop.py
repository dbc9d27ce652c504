"""Turns of controllers, what they may answer, and what becomes of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.core.clock import SimClock
from foresail.core.control import Action, Hold, Move, NoTelemetry, Resize, RunningPod, View
from foresail.core.control_loop import ControlLoop
from foresail.core.journal import Journal, Record, What
from foresail.core.model import Pod
from foresail.errors import ControllerError
from foresail.testing import make_pod, make_table


@dataclass
class Every:
    """Answers what it is told to, every so often."""

    every_s: float = 10.0
    answer: Any = ()
    turns_s: list[float] = field(default_factory=list)

    def act(self, view: View) -> Sequence[Action]:
        self.turns_s.append(view.now_s)
        return self.answer(view) if callable(self.answer) else self.answer


@dataclass
class At:
    """Wants turns at these times, one after the other."""

    times_s: list[float]
    turns_s: list[float] = field(default_factory=list)

    def next_time_s(self) -> float:
        return self.times_s[len(self.turns_s)] if len(self.turns_s) < len(self.times_s) else math.inf

    def act(self, view: View) -> Sequence[Action]:
        self.turns_s.append(view.now_s)
        return []


class Raises:
    every_s = 5.0

    def act(self, view: View) -> Sequence[Action]:
        raise KeyError("growth")


class Obedient:
    """Carries everything out, except on pods that it has words against."""

    def __init__(self, **against: str) -> None:
        self.done: list[tuple[Any, ...]] = []
        self._against = against

    def move(self, pod: Pod, node: str, why: str) -> str:
        return self._note("move", pod, node)

    def resize(self, pod: Pod, cpu_milli: int, cpu_limit_milli: int | None, why: str) -> str:
        assert type(cpu_milli) is int
        return self._note("resize", pod, cpu_milli, cpu_limit_milli)

    def hold(self, pod: Pod, node: str, for_s: float, why: str) -> str:
        return self._note("hold", pod, node, for_s)

    def _note(self, what: str, pod: Pod, *more: Any) -> str:
        declined = self._against.get(pod.name, "")
        if not declined:
            self.done.append((what, pod.name, *more))
        return declined


class World:
    """Two nodes; a and b run on node-0, c on node-1 with a limit, and d waits."""

    def __init__(self, *, dry_run: bool = False, failed: Any = None, steered: Obedient | None = None, **named: Any):
        self.clock = SimClock()
        self.records: list[Record] = []
        self.steered = steered or Obedient()
        self.table = make_table(allocatable=[(4000, 8, 0), (4000, 8, 0)])
        self.pods = {name: make_pod(name, cpu=1000) for name in "abcd"}
        self.running = {
            name: RunningPod(self.pods[name], node, 0.0, 1000, limit)
            for name, node, limit in (("a", "node-0", 0), ("b", "node-0", 0), ("c", "node-1", 1500))
        }
        self.journal = Journal(self.clock, self.records.append)
        self.loop = ControlLoop(named, self.clock, self.journal, dry_run=dry_run, failed=failed)

    def view(self) -> View:
        return View(self.clock.now(), self.table, self.running, NoTelemetry())

    def run(self) -> int:
        return self.loop.run_due(self.view, self.steered)

    def run_until(self, end_s: float) -> None:
        while (next_s := self.loop.next_time_s()) <= end_s:
            self.clock.advance_to(next_s)
            self.run()


def history(world: World) -> list[tuple[Any, ...]]:
    return [(one.what, one.pod, one.node, one.detail, one.by) for one in world.records]


# --- turns -----------------------------------------------------------------------------------------------------------


def test_a_period_begins_when_the_loop_is_made_and_turns_are_multiples_of_it():
    ten, three = Every(0.1), Every(3.0)
    world = World(ten=ten, three=three)
    world.run_until(9.0)
    assert three.turns_s == [0.0, 3.0, 6.0, 9.0]
    assert ten.turns_s == [count * 0.1 for count in range(len(ten.turns_s))]
    assert len(ten.turns_s) == 91 - (90 * 0.1 > 9.0)


def test_a_late_turn_is_given_once_and_the_next_keeps_the_beat():
    every = Every(10.0)
    world = World(every=every)
    world.run()
    world.clock.advance_to(47.0)
    world.run()
    assert world.run() == 0
    assert every.turns_s == [0.0, 47.0]
    assert world.loop.next_time_s() == 50.0


@given(st.floats(1e-3, 1e6), st.lists(st.floats(0.0, 1e9), max_size=20))
def test_the_next_turn_always_lies_ahead_and_by_no_more_than_a_period(every_s, moments):
    every = Every(every_s)
    world = World(every=every)
    for moment in sorted(moments):
        world.clock.advance_to(moment)
        world.run()
        ahead_s = world.loop.next_time_s() - moment
        assert 0.0 < ahead_s <= every_s * (1 + 1e-9) + moment * 1e-15
    assert len(every.turns_s) == len(set(every.turns_s))


def test_one_that_names_its_times_gets_them_and_then_none():
    at = At([2.0, 7.5])
    world = World(at=at)
    assert world.loop.next_time_s() == 2.0
    world.run()
    assert at.turns_s == []
    world.run_until(100.0)
    assert at.turns_s == [2.0, 7.5]
    assert world.loop.next_time_s() == math.inf


def test_a_time_that_has_passed_is_refused_by_name_and_never_runs_in_a_circle():
    failures: list[ControllerError] = []
    world = World(failed=failures.append, stuck=At([1.0, 1.0, 1.0, 1.0]))
    world.run_until(100.0)
    assert [str(failure) for failure in failures] == [
        f'controller "stuck": next_time_s() is 1 s, but it has its turn at {at} s now; '
        "the next one is later, or infinity for never"
        for at in (1, 61)
    ]


def test_turns_go_in_the_order_of_naming_and_later_ones_see_what_earlier_ones_did():
    seen = []
    first = Every(10.0, lambda view: [Resize(view.running["a"].pod, 500, "less")])
    second = Every(5.0, lambda view: seen.append(view.running["a"].cpu_milli) or [])
    world = World(first=first, second=second)

    def resize(pod, cpu_milli, cpu_limit_milli, why):
        world.running[pod.uid] = world.running[pod.uid]._replace(cpu_milli=cpu_milli)
        return ""

    world.steered.resize = resize
    world.run()
    assert seen == [500]


@pytest.mark.parametrize(
    ("controller", "said"),
    [
        (object(), 'controller "x" has no act(view)'),
        (Every(0.0), 'controller "x": every_s is 0.0; it is a number of seconds above 0'),
        (Every(math.inf), 'controller "x": every_s is inf; it is a number of seconds above 0'),
        (Every("10"), "controller \"x\": every_s is '10'; it is a number of seconds above 0"),
        (At([math.nan]), 'controller "x": next_time_s() is nan; it is a number of seconds'),
        (
            type("Neither", (), {"act": Every.act})(),
            'controller "x" has neither every_s nor next_time_s(); give it one of them',
        ),
        (
            type("Both", (At,), {"every_s": 1.0})([1.0]),
            'controller "x" has both every_s and next_time_s(); give it one of them',
        ),
    ],
)
def test_a_controller_without_sensible_turns_is_refused_at_once(controller, said):
    with pytest.raises(ControllerError) as error:
        World(x=controller)
    assert str(error.value) == said


# --- answers ---------------------------------------------------------------------------------------------------------

POD = World().pods


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answered None; act returns a list of Move, Resize and Hold, or an empty one"),
        (["a"], "answered 'a'; an action is a Move, a Resize or a Hold"),
        ([Move("a", "why")], ": Move of 'a': pod is a str, not a Pod"),
        ([Move(POD["a"], " ")], ": Move of a: why is ' '; say in words why"),
        ([Move(POD["a"], None)], ": Move of a: why is None; say in words why"),
        ([Move(POD["d"], "why")], ": Move of d: it is not running; move and resize the pods in view.running"),
        ([Resize(POD["d"], 5, "why")], ": Resize of d: it is not running; move and resize the pods in view.running"),
        (
            [Move(POD["a"], "why", "node-9")],
            ": Move of a: there is no node 'node-9'; the nodes are those in view.table.names",
        ),
        (
            [Hold(POD["d"], "", "why", 5.0)],
            ": Hold of d: there is no node ''; the nodes are those in view.table.names",
        ),
        (
            [Hold(POD["d"], "node-0", "why", math.inf)],
            ": Hold of d: for_s is inf; a hold lasts a number of seconds above 0, and ends",
        ),
        (
            [Hold(POD["d"], "node-0", "why", 0)],
            ": Hold of d: for_s is 0; a hold lasts a number of seconds above 0, and ends",
        ),
        (
            [Resize(POD["a"], 500.0, "why")],
            ": Resize of a: cpu_milli is 500.0; a request is a whole number of milli-CPU above 0",
        ),
        (
            [Resize(POD["a"], 0, "why")],
            ": Resize of a: cpu_milli is 0; a request is a whole number of milli-CPU above 0",
        ),
        (
            [Resize(POD["a"], True, "why")],
            ": Resize of a: cpu_milli is True; a request is a whole number of milli-CPU above 0",
        ),
        (
            [Resize(POD["a"], 500, "why", -1)],
            ": Resize of a: cpu_limit_milli is -1; a limit is a whole number of milli-CPU, 0 for none",
        ),
        (
            [Resize(POD["a"], 500, "why", 499)],
            ": Resize of a: cpu_limit_milli is 499, less than the 500 that cpu_milli requests",
        ),
        (
            [Resize(POD["a"], 500, "why"), Move(POD["a"], "why")],
            ": Move of a: it stands twice in one answer; say once what becomes of a pod",
        ),
        (
            [Hold(POD["d"], "node-0", "why", 5.0), Hold(POD["d"], "node-1", "why", 5.0)],
            ": Hold of d: it stands twice in one answer; say once what becomes of a pod",
        ),
    ],
)
def test_nonsense_is_an_error_that_names_controller_pod_and_value_and_nothing_is_done(answer, said):
    good = Resize(POD["b"], 700, "good")
    whole = [good, *answer] if isinstance(answer, list) else answer
    world = World(mine=Every(10.0, whole))
    with pytest.raises(ControllerError) as error:
        world.run()
    assert str(error.value) == f'controller "mine"{"" if said[0] == ":" else " "}{said}'
    assert world.steered.done == []
    assert world.records == []


def test_a_running_pod_where_its_pod_belongs_is_told_apart():
    world = World(mine=Every(10.0, lambda view: [Move(view.running["a"], "why")]))
    with pytest.raises(ControllerError, match=r"pod is a RunningPod; its Pod is in \.pod"):
        world.run()


def test_one_that_fails_is_told_of_and_keeps_its_turns_and_the_others_go_on():
    failures: list[ControllerError] = []
    other = Every(5.0)
    world = World(failed=failures.append, broken=Raises(), other=other)
    world.run_until(5.0)
    assert [str(failure) for failure in failures] == [
        f"controller \"broken\" raised KeyError: 'growth' at {at} s" for at in (0, 5)
    ]
    assert other.turns_s == [0.0, 5.0]
    with pytest.raises(ControllerError, match="growth"):
        World(broken=Raises()).run()


# --- what becomes of them --------------------------------------------------------------------------------------------


def test_everything_done_and_declined_is_in_the_journal_with_who_and_why():
    answer = [
        Resize(POD["a"], 1500, "grows fast", 2000),
        Move(POD["c"], "crowded", "node-0"),
        Resize(POD["b"], 500, "grows slowly", 0),
        Hold(POD["d"], "node-1", "comes soon", 30.0),
    ]
    world = World(mine=Every(10.0, answer), steered=Obedient(c="its volume cannot follow"))
    assert world.run() == 3
    assert world.steered.done == [("resize", "b", 500, 0), ("resize", "a", 1500, 2000), ("hold", "d", "node-1", 30.0)]
    assert history(world) == [
        (What.RESIZE, "b", "node-0", "1000 → 500 milli-CPU, no limit: grows slowly", "mine"),
        (What.RESIZE, "a", "node-0", "1000 → 1500 milli-CPU, limit 2000: grows fast", "mine"),
        (What.DECLINE, "c", "node-0", "move declined: its volume cannot follow", "mine"),
        (What.HOLD, "d", "node-1", "for 30 s: comes soon", "mine"),
    ]


def test_what_no_world_could_do_is_declined_before_anybody_is_asked():
    answer = [Move(POD["a"], "why", "node-0"), Resize(POD["c"], 1501, "why"), Resize(POD["b"], 1000, "as it is")]
    world = World(mine=Every(10.0, answer))
    assert world.run() == 0
    assert world.steered.done == []
    assert history(world) == [
        (What.DECLINE, "a", "node-0", "move declined: it is on node-0 already", "mine"),
        (
            What.DECLINE,
            "c",
            "node-1",
            "resize declined: 1501 milli-CPU are above its limit of 1500; give cpu_limit_milli as well",
            "mine",
        ),
    ]


def test_a_resize_to_what_a_pod_has_is_left_out_unless_its_limit_changes():
    answer = [
        Resize(POD["a"], 1000, "as it is", 0),
        Resize(POD["b"], 1000, "capped", 1200),
        Resize(POD["c"], 1000, "x"),
    ]
    world = World(mine=Every(10.0, answer))
    assert world.run() == 1
    assert world.steered.done == [("resize", "b", 1000, 1200)]


def test_room_may_be_held_for_a_pod_that_is_resized_in_the_same_answer():
    world = World(mine=Every(10.0, [Hold(POD["a"], "node-1", "soon", 5.0), Resize(POD["a"], 900, "smaller")]))
    assert world.run() == 2
    assert world.steered.done == [("resize", "a", 900, None), ("hold", "a", "node-1", 5.0)]


def test_a_dry_run_notes_everything_and_does_nothing():
    world = World(dry_run=True, mine=Every(10.0, [Move(POD["a"], "crowded", "node-1"), Move(POD["b"], "crowded")]))
    assert world.run() == 0
    assert world.steered.done == []
    assert history(world) == [
        (What.MOVE, "a", "node-1", "dry run: from node-0: crowded", "mine"),
        (What.MOVE, "b", "", "dry run: from node-0: crowded", "mine"),
    ]


def test_numbers_of_numpy_are_numbers_and_the_pod_is_the_one_that_the_world_knows():
    stale = make_pod("stale", cpu=1)
    stale.uid = "a"
    world = World(mine=Every(np.float64(10.0), [Resize(stale, np.int64(500), "why")]))
    world.run()
    assert world.steered.done == [("resize", "a", 500, None)]


@given(st.permutations("abc"), st.lists(st.integers(1, 2000), min_size=3, max_size=3))
def test_whatever_shrinks_comes_before_whatever_grows(order, amounts):
    answer = [Resize(POD[name], milli, "why", 0) for name, milli in zip(order, amounts, strict=True)]
    world = World(mine=Every(10.0, answer))
    world.run()
    shrinks = [milli < 1000 for _, _, milli, _ in world.steered.done]
    assert shrinks == sorted(shrinks, reverse=True)
    told = [
        name
        for shrinking in (True, False)
        for name, milli in zip(order, amounts, strict=True)
        if (milli < 1000) == shrinking and (milli != 1000 or name == "c")
    ]
    assert [name for _, name, _, _ in world.steered.done] == told
