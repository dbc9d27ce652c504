"""What a series, or a group of them, usually is at each time of its season, and on which days."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.calendar import DAY_S, HOLIDAY, WEEKEND
from foresail.forecast.workload.prepared import Prepared, SeriesKind

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Days = npt.NDArray[np.int8]

_OF_ALL_DAYS = 1.0
"""The mean of all days counts as this many days of each kind."""
_OF_ALIKE = 2.0
"""In a group's week the mean of all days counts as so many days of each kind, and that of its kind as so many."""
_KINDS = np.array([0, 0, 0, 0, 0, 1, 2, 2])
"""Days of one kind are alike: workdays, Saturdays, and Sundays with holidays."""
_HOUR_S = 3600


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


def usual_week(data: Prepared, group: int) -> Floats:
    """Means of all series of a group by day of the week, holidays apart, and time of the season: 8 × period."""
    sums, counts = _sums(data, group)
    mean = _means(sums.sum(axis=0), counts.sum(axis=0))
    found: Floats = np.zeros_like(sums)
    for kind in range(_KINDS.max() + 1):
        alike = kind == _KINDS
        of_kind = (sums[alike].sum(axis=0) + _OF_ALIKE * mean) / (counts[alike].sum(axis=0) + _OF_ALIKE)
        found[alike] = (sums[alike] + _OF_ALIKE * of_kind) / (counts[alike] + _OF_ALIKE)
    return found


def usual_hours(data: Prepared, group: int) -> Floats:
    """Means of all series of a group by hour of the season, for each row of it."""
    sums, counts = _sums(data, group)
    kind = data.kinds[data.of_group(group)[0]]
    hours = np.arange(kind.period) * kind.step_s // max(_HOUR_S, kind.step_s)
    by_hour = np.zeros((2, hours[-1] + 1))
    np.add.at(by_hour[0], hours, sums.sum(axis=0))
    np.add.at(by_hour[1], hours, counts.sum(axis=0))
    return _means(by_hour[0], by_hour[1])[hours]


def _sums(data: Prepared, group: int) -> tuple[Floats, Floats]:
    """Sums and numbers of values by day of the week and time of the season."""
    period = data.kinds[data.of_group(group)[0]].period
    sums, counts = np.zeros((HOLIDAY + 1, period)), np.zeros((HOLIDAY + 1, period))
    for number in data.of_group(group):
        times_s, kind = data.times_s[number], data.kinds[number]
        where = (data.days[times_s // DAY_S], (times_s // kind.step_s) % period)
        np.add.at(sums, where, data.z[number])
        np.add.at(counts, where, 1.0)
    return sums, counts


def _means(sums: Floats, counts: Floats) -> Floats:
    """The mean of everything where there is nothing."""
    found: Floats = np.where(counts > 0, sums / np.maximum(counts, 1.0), sums.sum() / max(counts.sum(), 1.0))
    return found
