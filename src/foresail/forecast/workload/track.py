"""What is known of one task's series so far: each new value is added, and nothing after it is there to be looked at."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.calendar import DAY_S, WEEKEND
from foresail.forecast.workload.features import COUNT, fill
from foresail.forecast.workload.prepared import SeriesKind

Floats = npt.NDArray[np.float64]
Days = npt.NDArray[np.int8]

_ROOM = 1024
SEASONS_KEPT = 24
"""Rows of this many seasons are enough for all features; older ones are forgotten now and then."""


class Track:
    """The values of one task so far, as z, and the time of the last one."""

    def __init__(self, number: int, kind: SeriesKind, days: Days, horizon: int) -> None:
        self.number = number
        """Of the series, among those of the model."""
        self.kind, self.days, self.horizon = kind, days, horizon
        self.z: Floats = np.zeros(_ROOM + 2 * SEASONS_KEPT * kind.period)
        self.count = 0
        self.time_s = 0
        self._features: Floats = np.zeros((horizon, COUNT))
        self._filled_at = (-1, 0)
        self._total = 0

    def add(self, z: float, time_s: int | None = None) -> None:
        """One new value, one step after the last one if nothing else is said."""
        if self.count == len(self.z):
            keep = SEASONS_KEPT * self.kind.period
            self.z[:keep] = self.z[self.count - keep : self.count]
            self.count = keep
        self.z[self.count] = z
        self.count += 1
        self._total += 1
        self.time_s = self.time_s + self.kind.step_s if time_s is None else time_s

    def features(self) -> Floats:
        """Horizon × COUNT; made once a value."""
        if self._filled_at != (self._total, self.time_s):
            kind = self.kind
            fill(self.z, self.count, self.time_s, kind.step_s, kind.period, self.days, self._features)
            self._filled_at = (self._total, self.time_s)
        return self._features

    def slot(self) -> int:
        """The time of the season at which the last value was measured, in rows."""
        return (self.time_s // self.kind.step_s) % self.kind.period

    def is_off(self) -> bool:
        """Whether the last value was measured on a weekend or a holiday."""
        return bool(self.days[self.time_s // DAY_S] >= WEEKEND)

    def ago(self, rows: int) -> float:
        """The value this many rows before the last one; the first one if there are not so many."""
        return float(self.z[max(self.count - 1 - rows, 0)])
