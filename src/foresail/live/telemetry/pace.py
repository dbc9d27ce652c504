"""At most so many a second, after so many at once, for each of many."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST = 1 << 14


class Paces:
    """How many requests each has left; those who have not asked for longest are forgotten first."""

    def __init__(self, per_second: float, at_once: float, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._now_s = now_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Who to how many are left, and as of when."""

    def allows(self, who: str) -> bool:
        """Whether one more is allowed; it counts if it is."""
        now_s = self._now_s()
        left, since_s = self._left.get(who, (self._at_once, now_s))
        left = min(self._at_once, left + (now_s - since_s) * self._per_second)
        allowed = left >= 1.0
        self._left[who] = (left - allowed, now_s)
        self._left.move_to_end(who)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return allowed
