"""What will happen in a simulated world, in order: by time, then by kind, then as it was planned."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable

from foresail.core.clock import Clock

DEPARTURE, RESUME, FAULT, ARRIVAL = range(4)
"""What happens at one instant happens in this order: rooms are free before nodes fail, and both before pods come."""

Event = tuple[float, int, int, int]
"""Time in seconds, kind, sequence within the kind, and what it is about: a pod's index or a fault's."""


class Agenda:
    """A heap of events. Of what a running pod does next there is one plan at a time; a new one replaces it."""

    def __init__(self, clock: Clock, pods: int) -> None:
        self._clock = clock
        self._events: list[Event] = []
        self._planned = 0
        self._generation = [-1] * pods
        """Which plan of a pod holds; events of all others are stale, and are dropped when their time comes."""

    def expect(self, events: Iterable[Event]) -> None:
        """Note what is known beforehand: arrivals and faults."""
        self._events = sorted([*self._events, *events])  # what is sorted is a heap

    def plan(self, index: int, time_s: float, kind: int = DEPARTURE) -> None:
        """Say what a running pod does next, and when."""
        number = self._planned
        self._planned += 1
        self._generation[index] = number
        heapq.heappush(self._events, (time_s, kind, number, index))

    def call_off(self, index: int) -> None:
        """Whatever was planned for the pod does not happen."""
        self._generation[index] = -1

    def next_time_s(self) -> float:
        """When something happens next, infinity for never."""
        events = self._events
        while events and self._is_stale(events[0]):
            heapq.heappop(events)
        return events[0][0] if events else math.inf

    def pop(self) -> Event | None:
        """The next event of this instant, if there is one."""
        events, now_s = self._events, self._clock.now()
        while events and events[0][0] <= now_s:
            event = heapq.heappop(events)
            if not self._is_stale(event):
                return event
        return None

    def _is_stale(self, event: Event) -> bool:
        _, kind, number, index = event
        return kind < FAULT and self._generation[index] != number
