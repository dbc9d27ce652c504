"""Gangs of which too few members have come, and when to tell those who wait that they wait for others.

Not at once: the others are usually on their way, and a gang of 500 that comes one by one would be told 500 numbers.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from dataclasses import dataclass

from foresail.core.clock import Clock
from foresail.core.lane import NEVER_S, Lane

_QUIET_S = 1.0
"""A gang is told once nobody has come or gone for so long; twice as long after each time it was told."""
_LATEST_S = 30.0
"""After so long it is told although it keeps changing."""


@dataclass(slots=True, eq=False)
class _IncompleteGang:
    """What is known of one incomplete gang."""

    lane: Lane
    seen: tuple[int, int] = (0, 0)
    """How many members waited, and how many must, when they were last counted."""
    since_s: float = NEVER_S
    """When it first changed after it was told last; never, if it has not."""
    due_s: float = NEVER_S
    """When it is to be told."""
    told: int = 0
    """How often it was."""


class IncompleteGangs:
    """Counts the members of each gang, and says when one that is incomplete is to be told."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gangs: dict[Hashable, _IncompleteGang] = {}
        self._times: list[tuple[float, int, _IncompleteGang]] = []
        """One entry for each gang that is to be told, at the time it is due or before: that may be put off."""
        self._sequence = itertools.count()

    def count(self, lane: Lane) -> None:
        """A gang may have another number of members than before, or need another."""
        if not 0 < lane.waiting < lane.missing:
            self._gangs.pop(lane.key, None)
            return
        gang = self._gangs.get(lane.key)
        if gang is None:
            gang = self._gangs[lane.key] = _IncompleteGang(lane)
        now = (lane.waiting, lane.missing)
        if now == gang.seen:
            return
        gang.seen = now
        is_news = gang.since_s == NEVER_S
        now_s = self._clock.now()
        if is_news:
            gang.since_s = now_s
        quiet_s = min(_LATEST_S, _QUIET_S * 2.0 ** min(gang.told, 60))
        gang.due_s = min(now_s + quiet_s, gang.since_s + _LATEST_S)
        if is_news:
            heapq.heappush(self._times, (gang.due_s, next(self._sequence), gang))

    def next_time_s(self) -> float:
        """When the next gang is to be told."""
        while self._times:
            time_s, _, gang = self._times[0]
            if self._gangs.get(gang.lane.key) is not gang:
                heapq.heappop(self._times)  # complete or gone by now
            elif time_s < gang.due_s:
                heapq.heapreplace(self._times, (gang.due_s, next(self._sequence), gang))
            else:
                return time_s
        return NEVER_S

    def due(self) -> list[Lane]:
        """The gangs that are to be told now; each is asked for once, until it changes again."""
        lanes = []
        now_s = self._clock.now()
        while self.next_time_s() <= now_s:
            _, _, gang = heapq.heappop(self._times)
            gang.since_s = NEVER_S
            gang.told += 1
            lanes.append(gang.lane)
        return lanes
