"""What a series usually is at each time of its season, on workdays and on days off."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.calendar import DAY_S, WEEKEND
from foresail.forecast.workload.prepared import SeriesKind

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Days = npt.NDArray[np.int8]

_OF_ALL_DAYS = 1.0
"""The mean of all days counts as this many days of each kind."""


def usual(z: Floats, times_s: Ints, kind: SeriesKind, days: Days) -> Floats:
    """Means by kind of day and time of the season, 2 × period."""
    slots, off = places(times_s, kind, days)
    sums, counts = np.zeros((2, kind.period)), np.zeros((2, kind.period))
    np.add.at(sums, (off, slots), z)
    np.add.at(counts, (off, slots), 1.0)
    whole = counts.sum(axis=0)
    mean = np.where(whole > 0, sums.sum(axis=0) / np.maximum(whole, 1.0), z.mean())
    found: Floats = (sums + _OF_ALL_DAYS * mean) / (counts + _OF_ALL_DAYS)
    return found


def places(times_s: Ints, kind: SeriesKind, days: Days) -> tuple[Ints, Ints]:
    """Times of the season in rows, and 1 for each that falls on a day off."""
    off = (days[times_s // DAY_S] >= WEEKEND).astype(np.int64)
    return (times_s // kind.step_s) % kind.period, off
