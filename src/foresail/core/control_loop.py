"""Gives controllers their turns, checks what they answer and hands it on: one loop for every world.

A periodic controller (`every_s`) has its first turn at the moment the loop is made, and then one every `every_s` from
that moment on: turn k is due at start + k × every_s. A loop that comes late gives one turn, not all that were missed,
and goes on with the next that lies ahead. One with `next_time_s()` is asked when the loop is made and after each of its
turns. Nobody gets two turns at one instant; of several that are due, turns go in the order in which they were named,
and each sees what those before it have changed.

An answer is carried out whole or, if anything in it is nonsense, not at all. What makes sense but cannot be done is
declined with a reason, and the rest goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from foresail.core.candidates import candidates_of, weighed
from foresail.core.clock import Clock
from foresail.core.control import (
    Action,
    Candidate,
    Controller,
    Hold,
    Move,
    Periodic,
    Resize,
    RunningPod,
    Steered,
    Timed,
    View,
)
from foresail.core.journal import Journal, Weighed, What
from foresail.core.model import Pod
from foresail.errors import ControllerError

DRY_RUN = "dry run: "
"""What details in the journal begin with where nothing is carried out."""
_REST_AFTER_FAILURE_S = 60.0


class ControlLoop:
    """The controllers of one world, and when each has its next turn."""

    def __init__(
        self,
        controllers: Mapping[str, Controller],
        clock: Clock,
        journal: Journal,
        *,
        dry_run: bool = False,
        failed: Callable[[ControllerError], None] | None = None,
    ) -> None:
        """`dry_run` notes actions and carries none out. `failed` is told of a controller that raises or answers with
        nonsense, and the loop goes on: that controller keeps its next turn. Without it the error is raised.
        """
        self._clock = clock
        self._journal = journal
        self._dry_run = dry_run
        self._failed = failed
        self.acting = ""
        """Whose answer is being carried out; for worlds in which what is handed over may come to nothing later."""
        self._turns = [_Turns(name, controller, clock.now()) for name, controller in controllers.items()]

    def next_time_s(self) -> float:
        """When somebody wants a turn next, on the loop's clock; infinity for never."""
        return min((turns.next_s for turns in self._turns), default=math.inf)

    def run_due(self, view_factory: Callable[[], View], steered: Steered) -> int:
        """Give everybody whose time has come a turn; say how many actions were carried out."""
        now_s = self._clock.now()
        done = 0
        for turns in self._turns:
            if turns.next_s > now_s:
                continue
            view = view_factory()
            turns.plan_after_failure(now_s)
            try:
                actions = checked(turns.name, turns.act(view), view)
                candidates = turns.candidates(view) if self._journal.hears_candidates else []
                turns.plan(now_s)
            except ControllerError as error:
                if self._failed is None:
                    raise
                self._failed(error)
                continue
            self.acting = turns.name
            became: dict[tuple[Hashable, str], Weighed] = {}
            for action in shrinking_first(actions, view):
                declined = self._carry_out(turns.name, action, view, steered)
                done += not declined and not self._dry_run
                if isinstance(action, Move):
                    became[action.pod.uid, action.node] = Weighed.DECLINED if declined else Weighed.CHOSEN
            for one in weighed(turns.name, candidates, became, view):
                self._journal.weigh(one)
        return done

    def _carry_out(self, by: str, action: Action, view: View, steered: Steered) -> str:
        """Have an action done and note it; why it cannot be done, empty if it is."""
        running = view.running.get(action.pod.uid)
        what, node, how = _in_words(action, running)
        declined = _obstacle(action, running)
        if not declined and not self._dry_run:
            declined = _hand_over(action, running, steered)
        detail = f"{what} declined: {declined}" if declined else f"{how}: {action.why}"
        self._journal.note(
            What.DECLINE if declined else what,
            pod=action.pod.name,
            node=node,
            detail=f"{DRY_RUN}{detail}" if self._dry_run else detail,
            by=by,
        )
        return declined


class _Turns:
    """One controller, and when it has its next turn."""

    def __init__(self, name: str, controller: Controller, start_s: float) -> None:
        self.name = name
        self._controller = controller
        self._start_s = start_s
        if not isinstance(controller, Controller):
            raise ControllerError(f'controller "{name}" has no act(view)')
        every_s: Any = getattr(controller, "every_s", None)
        if isinstance(controller, Timed) == isinstance(controller, Periodic):
            has = "both every_s and" if isinstance(controller, Timed) else "neither every_s nor"
            raise ControllerError(f'controller "{name}" has {has} next_time_s(); give it one of them')
        if isinstance(controller, Periodic) and not (_is_number(every_s) and 0 < every_s < math.inf):
            raise ControllerError(f'controller "{name}": every_s is {every_s!r}; it is a number of seconds above 0')
        self._every_s: float | None = every_s
        self.next_s = start_s if every_s is not None else self._said_s()

    def act(self, view: View) -> Any:
        try:
            return self._controller.act(view)
        except ControllerError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise ControllerError(f'controller "{self.name}" raised {said} at {view.now_s:g} s') from error

    def candidates(self, view: View) -> list[Candidate]:
        """What it weighed in the turn that it has just had."""
        return candidates_of(self.name, self._controller, view)

    def plan_after_failure(self, now_s: float) -> None:
        """The next turn if the one at `now_s` comes to nothing; one that cannot say when gets it a little later."""
        if self._every_s is not None:
            self.plan(now_s)
        else:
            self.next_s = now_s + _REST_AFTER_FAILURE_S

    def plan(self, now_s: float) -> None:
        """Find the next turn after the one at `now_s`."""
        if self._every_s is not None:
            count = math.floor((now_s - self._start_s) / self._every_s) + 1
            self.next_s = self._start_s + count * self._every_s
            if self.next_s <= now_s:  # the quotient may come out just below the whole number that it is
                self.next_s = self._start_s + (count + 1) * self._every_s
            return
        said_s = self._said_s()
        if said_s <= now_s:
            raise ControllerError(
                f'controller "{self.name}": next_time_s() is {said_s:g} s, but it has its turn at {now_s:g} s now; '
                f"the next one is later, or infinity for never"
            )
        self.next_s = said_s

    def _said_s(self) -> float:
        try:
            said_s = self._controller.next_time_s()  # type: ignore[attr-defined]  # Timed, or it would be Periodic
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            raise ControllerError(f'controller "{self.name}": next_time_s() raised {said}') from error
        if not _is_number(said_s) or math.isnan(said_s):
            raise ControllerError(f'controller "{self.name}": next_time_s() is {said_s!r}; it is a number of seconds')
        return float(said_s)


# --- is an answer one? -----------------------------------------------------------------------------------------------


def checked(by: str, answer: Any, view: View) -> list[Action]:
    """A controller's answer, if it makes sense; ControllerError names the controller, the pod and the value."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise ControllerError(
            f'controller "{by}" answered {answer!r:.200}; act returns a list of Move, Resize and Hold, or an empty one'
        )
    seen: set[Hashable] = set()
    for action in answer:
        if not isinstance(action, Move | Resize | Hold):
            raise ControllerError(
                f'controller "{by}" answered {action!r:.200}; an action is a Move, a Resize or a Hold'
            )
        wrong = _wrong_pod(action, view) or _wrong_place(action, view, seen) or _wrong_amount(action)
        if wrong:
            name = action.pod.name if isinstance(action.pod, Pod) else repr(action.pod)
            raise ControllerError(f'controller "{by}": {type(action).__name__} of {name:.200}: {wrong}')
    return list(answer)


def _wrong_pod(action: Action, view: View) -> str:
    pod: Any = action.pod
    why: Any = action.why
    if isinstance(pod, RunningPod):
        return "pod is a RunningPod; its Pod is in .pod"
    if not isinstance(pod, Pod):
        return f"pod is a {type(pod).__name__}, not a Pod"
    if not isinstance(why, str) or not why.strip():
        return f"why is {why!r}; say in words why"
    if not isinstance(action, Hold) and pod.uid not in view.running:
        return "it is not running; move and resize the pods in view.running"
    return ""


def _wrong_place(action: Action, view: View, seen: set[Hashable]) -> str:
    if not isinstance(action, Resize) and not _is_node(action, view):
        return f"there is no node {action.node!r}; the nodes are those in view.table.names"
    # Room is held at one node for a pod: a second hold would undo the first.
    said = (action.pod.uid, isinstance(action, Hold))
    if said in seen:
        return "it stands twice in one answer; say once what becomes of a pod"
    seen.add(said)
    return ""


def _is_node(action: Move | Hold, view: View) -> bool:
    node = action.node
    return isinstance(node, str) and (node in view.table.row_of or (node == "" and isinstance(action, Move)))


def _wrong_amount(action: Action) -> str:
    if isinstance(action, Hold) and not (_is_number(action.for_s) and 0 < action.for_s < math.inf):
        return f"for_s is {action.for_s!r}; a hold lasts a number of seconds above 0, and ends"
    if not isinstance(action, Resize):
        return ""
    cpu_milli, limit_milli = action.cpu_milli, action.cpu_limit_milli
    if not _is_whole(cpu_milli) or cpu_milli <= 0:
        return f"cpu_milli is {cpu_milli!r}; a request is a whole number of milli-CPU above 0"
    if limit_milli is not None and (not _is_whole(limit_milli) or limit_milli < 0):
        return f"cpu_limit_milli is {limit_milli!r}; a limit is a whole number of milli-CPU, 0 for none"
    if limit_milli and limit_milli < cpu_milli:
        return f"cpu_limit_milli is {limit_milli}, less than the {cpu_milli} that cpu_milli requests"
    return ""


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


# --- what becomes of it ----------------------------------------------------------------------------------------------


def shrinking_first(actions: Sequence[Action], view: View) -> list[Action]:
    """The actions as they are carried out: those that give CPU back first, then the others as they were given.

    So nobody is refused room that another gives back in the same answer. Resizes to what a pod has are left out.
    """
    first, then = [], []
    for action in actions:
        if isinstance(action, Resize):
            running = view.running[action.pod.uid]
            if action.cpu_milli < running.cpu_milli:
                first.append(action)
                continue
            if action.cpu_milli == running.cpu_milli and action.cpu_limit_milli in {None, running.cpu_limit_milli}:
                continue
        then.append(action)
    return [*first, *then]


def _obstacle(action: Action, running: RunningPod | None) -> str:
    """Why no world could do this; empty if nothing is known against it."""
    if running is None:
        return ""
    if isinstance(action, Move) and action.node == running.node:
        return f"it is on {running.node} already"
    if isinstance(action, Resize) and action.cpu_limit_milli is None:
        limit_milli = running.cpu_limit_milli
        if 0 < limit_milli < action.cpu_milli:
            return f"{action.cpu_milli} milli-CPU are above its limit of {limit_milli}; give cpu_limit_milli as well"
    return ""


def _hand_over(action: Action, running: RunningPod | None, steered: Steered) -> str:
    # The pod as the world knows it now: a controller may have kept one from before a resize.
    pod = action.pod if running is None else running.pod
    if isinstance(action, Move):
        return steered.move(pod, action.node, action.why)
    if isinstance(action, Resize):
        limit_milli = None if action.cpu_limit_milli is None else int(action.cpu_limit_milli)
        return steered.resize(pod, int(action.cpu_milli), limit_milli, action.why)
    return steered.hold(pod, action.node, float(action.for_s), action.why)


def _in_words(action: Action, running: RunningPod | None) -> tuple[What, str, str]:
    """What it is, on which node, and how much."""
    if isinstance(action, Hold):
        return What.HOLD, action.node, f"for {action.for_s:g} s"
    was_on, had_milli = ("", 0) if running is None else (running.node, running.cpu_milli)
    if isinstance(action, Move):
        return What.MOVE, action.node, f"from {was_on}"
    limit_milli = action.cpu_limit_milli
    limit = "" if limit_milli is None else f", limit {limit_milli}" if limit_milli else ", no limit"
    return What.RESIZE, was_on, f"{had_milli} → {action.cpu_milli} milli-CPU{limit}"
