"""What the calendar says of a moment: which day of the week it is, and whether it is a holiday, by rule."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache

import numpy as np
import numpy.typing as npt

DAY_S = 86_400
_YEARS = range(1970, 2101)
WEEKEND = 5
"""Days of the week from this number on are a weekend's; Monday is 0."""
HOLIDAY = 7
"""What the table says of a holiday, instead of a day of the week."""
HOLIDAYS = ("us", "none")
"""Whose holidays are known."""


@lru_cache(maxsize=len(HOLIDAYS))
def day_table(holidays: str) -> npt.NDArray[np.int8]:
    """For each day since 1970-01-01 its day of the week, Monday is 0, or `HOLIDAY`; to the end of 2100."""
    first, last = dt.date(_YEARS.start, 1, 1), dt.date(_YEARS.stop, 1, 1)
    table = ((np.arange((last - first).days) + first.weekday()) % 7).astype(np.int8)
    if holidays == "us":
        for year in _YEARS:
            for day in us_federal_holidays(year):
                if day.year in _YEARS:
                    table[(day - first).days] = HOLIDAY
    table.setflags(write=False)
    return table


def us_federal_holidays(year: int) -> list[dt.date]:
    """The days on which federal holidays of this year are kept: one that falls on a weekend also on the next workday.

    A holiday on a Saturday is kept by offices on the Friday before it, and one on a Sunday on the Monday after it; both
    the day and its substitute are listed, since people go by either.
    """
    fixed = [dt.date(year, month, day) for month, day in ((1, 1), (7, 4), (11, 11), (12, 25))]
    if year >= 2021:
        fixed.append(dt.date(year, 6, 19))
    shift = {5: -1, 6: 1}
    substitutes = [day + dt.timedelta(days=shift[day.weekday()]) for day in fixed if day.weekday() in shift]
    by_week = [
        _nth(year, 1, 0, 3),  # Martin Luther King's birthday
        _nth(year, 2, 0, 3),  # Washington's birthday
        _last_monday(year, 5),  # Memorial Day
        _nth(year, 9, 0, 1),  # Labor Day
        _nth(year, 10, 0, 2),  # Columbus Day
        _nth(year, 11, 3, 4),  # Thanksgiving
    ]
    return sorted({*fixed, *substitutes, *by_week})


def _nth(year: int, month: int, weekday: int, count: int) -> dt.date:
    first = dt.date(year, month, 1)
    return first + dt.timedelta(days=(weekday - first.weekday()) % 7 + 7 * (count - 1))


def _last_monday(year: int, month: int) -> dt.date:
    last = dt.date(year, month + 1, 1) - dt.timedelta(days=1)
    return last - dt.timedelta(days=last.weekday())
