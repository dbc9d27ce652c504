"""What the resizes of a node work with, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from foresail.core.clock import Clock
from foresail.core.holds import Holds
from foresail.core.journal import Journal
from foresail.core.model import Pod
from foresail.core.scheduler import Scheduler
from foresail.live.actions.resizing import PodResizer
from foresail.live.cache.cache import Cache
from foresail.live.resizes.record import ResizeRecords
from foresail.live.resizes.settings import ResizeSettings

_HOLD_S = 60.0


class Outcome(StrEnum):
    """How a resize ended; the value is the label of its figures."""

    DONE = "done"
    """The container runs with it."""
    ALLOCATED = "allocated"
    """The kubelet has set it aside; that the container runs with it was not seen in time."""
    INFEASIBLE = "infeasible"
    """The node can never give so much: rolled back."""
    DEFERRED = "deferred"
    """The node did not give it in time: rolled back."""
    NO_ROOM = "no_room"
    """The room that it needs did not come in time: never asked for."""
    GIVEN_BACK = "given_back"
    """It had only made room for one that came to nothing: rolled back."""
    REFUSED = "refused"
    """The API server, or a rule of Kubernetes, does not allow it."""
    CHANGED = "changed"
    """Somebody else has given the pod another amount meanwhile, which it keeps."""
    GONE = "gone"
    """The pod has left."""
    REPLACED = "replaced"
    """Another amount was asked for before anything had come of it."""


@dataclass(frozen=True, slots=True)
class ResizeEnd:
    """How a resize ended, and after how long."""

    outcome: Outcome
    took_s: float
    """From when it was asked for to its end."""
    allocated_s: float | None = None
    """From when it was asked for until the kubelet had set it aside."""


class Pace:
    """Lets so many pass in a second, one after the other."""

    def __init__(self, most_a_second: float, clock: Clock) -> None:
        self._apart_s = 1.0 / most_a_second
        self._clock = clock
        self._next_s = clock.now()

    async def take(self) -> None:
        """Until it is one's turn."""
        now_s = self._clock.now()
        at_s = max(now_s, self._next_s)
        self._next_s = at_s + self._apart_s
        if at_s > now_s:
            await asyncio.sleep(at_s - now_s)


class Reserve:
    """Room that growths are about to take, kept from pods that our own scheduler would place there."""

    def __init__(self, cache: Cache, clock: Clock, scheduler: Scheduler | None) -> None:
        self._cache = cache
        self._clock = clock
        self._scheduler = scheduler
        self._milli: dict[str, int] = {}

    @property
    def holds(self) -> Holds:
        """All that is held, this among it."""
        return Holds() if self._scheduler is None else self._scheduler.holds

    def milli(self, node: str) -> int:
        """What is kept on a node."""
        uid = _uid(node)
        return self._milli.get(node, 0) if self.holds.get(uid) is not None else 0

    def keep(self, node: str, milli: int, priority: int) -> None:
        """Keep so much of a node, and no more, against pods of no more priority."""
        if self._scheduler is None or (milli <= 0 and node not in self._milli):
            return
        uid = _uid(node)
        if milli > 0:
            self._milli[node] = milli
            pod = self._cache.expect(_stand_in(uid, milli, priority))
            if isinstance(pod, Pod):
                until_s = self._clock.now() + _HOLD_S
                self.holds.hold(pod, node, until_s=until_s, why="pods there are about to grow")
            return
        del self._milli[node]
        self.holds.release(uid)
        self._cache.expect_no_more(uid)
        row = self._cache.table.row_of.get(node)
        if row is not None:
            self._scheduler.node_changed(row)


def _uid(node: str) -> str:
    return f"growths on {node}"


def _stand_in(uid: str, milli: int, priority: int) -> dict[str, object]:
    return {
        "metadata": {"name": uid, "namespace": "", "uid": uid},
        "spec": {
            "priority": priority,
            "containers": [{"name": "growths", "resources": {"requests": {"cpu": f"{milli}m"}}}],
        },
    }


class Rest(NamedTuple):
    """Until when a pod is left alone."""

    until_s: float
    """On the clock."""
    why: str
    only_growth: bool
    """Whether it may be given less all the same."""


_RESTING = frozenset({Outcome.INFEASIBLE, Outcome.DEFERRED, Outcome.NO_ROOM, Outcome.REFUSED})


@dataclass(frozen=True, slots=True)
class ResizeTools:
    """What the resizes of all nodes share."""

    resizer: PodResizer
    cache: Cache
    clock: Clock
    journal: Journal
    records: ResizeRecords
    settings: ResizeSettings
    reserve: Reserve
    pace: Pace
    hand: str
    may_act: Callable[[], bool]
    """Whether acts are ours to make, asked right before each."""
    ended: Callable[[ResizeEnd], None]
    """Is told how each resize ended."""
    rests: dict[str, Rest] = field(default_factory=dict)
    """Pods whose resize came to nothing, by uid."""

    def leave_alone(self, uid: str, outcome: Outcome, why: str) -> None:
        """A pod's resize came to nothing: it is not tried again at once."""
        if outcome in _RESTING:
            until_s = self.clock.now() + self.settings.rest_s
            self.rests[uid] = Rest(until_s, why, only_growth=outcome is not Outcome.REFUSED)

    def counted_milli(self, uid: str) -> int | None:
        """What a pod counts for where it stands: the largest of what it asks for, has set aside and runs with."""
        placed = self.cache.table.placed.get(uid)
        return None if placed is None else placed.pod.spec.cpu_milli

    def against(self, uid: str, node: str, cpu_milli: int, promised_milli: int) -> str:
        """Why a pod cannot request so much on its node; empty if it can. `promised_milli` is others'."""
        placed = self.cache.table.placed.get(uid)
        if placed is None:
            return "it is not running any more"
        kept_milli = self.reserve.milli(node)
        return self.reserve.holds.against_resize(
            placed, cpu_milli, self.cache.table, promised_milli=promised_milli - kept_milli
        )
