"""Time, so that the same scheduler runs in virtual and in real time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds since a beginning of its own; never runs backwards."""

    def now(self) -> float: ...


class SimClock:
    """Time that stands still until it is moved."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now(self) -> float:
        return self._now_s

    def advance_to(self, time_s: float) -> None:
        if time_s < self._now_s:
            raise ValueError(f"the clock stands at {self._now_s} s and cannot go back to {time_s} s")
        self._now_s = time_s


class WallClock:
    """Real time, counted from when the clock was made."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._start_s
