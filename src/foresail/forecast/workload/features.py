"""What a forecast of one value goes by: the last values, the same time on days before, and the calendar.

One kernel makes the features for fitting and for forecasting, of values up to the origin alone.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Days = npt.NDArray[np.int8]

LAGS = 8
_HARMONICS = 6
_SEASONS = 21
"""How many seasons back the mean of a time of day looks."""
_DAY_S = 86_400
_WEEKEND = 5
_HOLIDAY = 7

CONSTANT, LEVEL = 0, 1
_LAST = 2
_SEASONAL = _LAST + LAGS
_WAVES = _SEASONAL + 14
_DAYS = _WAVES + 4 * _HARMONICS
COUNT = _DAYS + 11
"""How many features a target has."""


@numba.njit(cache=True)
def _kind(days: Days, time_s: int) -> int:
    """Workday, Saturday, or Sunday and holidays: days of one kind are alike."""
    day = days[time_s // _DAY_S]
    return 0 if day < _WEEKEND else 1 if day == _WEEKEND else 2


@numba.njit(cache=True)
def _earlier(z: Floats, n: int, ahead: int, time_s: int, season_s: int, period: int, days: Days) -> tuple[float, ...]:
    """Values at the time of `ahead` rows after the origin, in seasons before.

    The last one, the last one on a day of the same kind, the mean of those on such days, the mean of all, and the mean
    of all with their neighbours.
    """
    last = math.nan
    alike = math.nan
    alike_sum = all_sum = wide_sum = 0.0
    alike_count = all_count = wide_count = 0
    kind = _kind(days, time_s)
    for back in range(1, _SEASONS + 1):
        at = n - 1 + ahead - back * period
        if at >= n:
            continue
        if at < 0:
            break
        if all_count == 0:
            last = z[at]
        all_sum += z[at]
        all_count += 1
        for near in range(max(at - 2, 0), min(at + 3, n)):
            wide_sum += z[near]
            wide_count += 1
        if _kind(days, time_s - back * season_s) == kind:
            if alike_count == 0:
                alike = z[at]
            alike_sum += z[at]
            alike_count += 1
    if all_count == 0:
        return z[n - 1], z[n - 1], z[n - 1], z[n - 1], z[n - 1]
    mean = all_sum / all_count
    # One more day of any kind counts among those of the same kind, so that the first of a kind is no surprise.
    return (
        last,
        last if alike_count == 0 else alike,
        (alike_sum + mean) / (alike_count + 1.0),
        mean,
        wide_sum / wide_count,
    )


@numba.njit(cache=True)
def fill(z: Floats, n: int, time_s: int, step_s: int, period: int, days: Days, out: Floats) -> None:
    """Features of the values 1, 2, … rows after row n − 1 of z, which is of `time_s`; out is horizon × COUNT.

    Rows of z from n on are not looked at. All that are values are relative to the mean of the last season.
    """
    season_s = period * step_s
    begin = max(0, n - period)
    level = 0.0
    for at in range(begin, n):
        level += z[at]
    level /= n - begin
    long_begin = max(0, n - 7 * period)
    long = 0.0
    for at in range(long_begin, n):
        long += z[at]
    long /= n - long_begin
    now = _earlier(z, n, 0, time_s, season_s, period, days)
    before = _earlier(z, n, -1, time_s - step_s, season_s, period, days)
    for index in range(out.shape[0]):
        ahead = index + 1
        row = out[index]
        at_s = time_s + ahead * step_s
        row[CONSTANT] = 1.0
        row[LEVEL] = level
        for lag in range(LAGS):
            row[_LAST + lag] = z[max(n - 1 - lag, 0)] - level
        then = _earlier(z, n, ahead, at_s, season_s, period, days)
        week = n - 1 + ahead - 7 * period
        f = _SEASONAL
        for number in range(5):
            row[f + number] = then[number] - level
        row[f + 5] = (z[week] if 0 <= week < n else then[1]) - level
        row[f + 6] = z[n - 1] - now[0]
        row[f + 7] = z[n - 1] - now[1]
        row[f + 8] = z[n - 1] - now[2]
        row[f + 9] = z[n - 1] - now[3]
        row[f + 10] = z[max(n - 2, 0)] - before[2]
        row[f + 11] = z[max(n - 2, 0)] - before[3]
        row[f + 12] = then[2] - now[2]
        row[f + 13] = long - level
        day = days[at_s // _DAY_S]
        is_off = 1.0 if day >= _WEEKEND else 0.0
        angle = 2.0 * math.pi * (at_s % season_s) / season_s
        f = _WAVES
        for harmonic in range(1, _HARMONICS + 1):
            row[f] = math.sin(harmonic * angle)
            row[f + 1] = math.cos(harmonic * angle)
            row[f + 2] = is_off * row[f]
            row[f + 3] = is_off * row[f + 1]
            f += 4
        f = _DAYS
        for number in range(8):
            row[f + number] = 1.0 if day == number else 0.0
        row[f + 8] = 1.0 if days[at_s // _DAY_S + 1] == _HOLIDAY else 0.0
        row[f + 9] = 1.0 if days[at_s // _DAY_S - 1] == _HOLIDAY else 0.0
        row[f + 10] = 1.0 if days[time_s // _DAY_S] == _HOLIDAY else 0.0


@numba.njit(cache=True)
def fill_all(
    z: Floats, times_s: Ints, step_s: int, period: int, days: Days, first: int, features: Floats, targets: Floats
) -> None:
    """Features and targets of all origins from row `first` on that have a whole horizon after them.

    features is origins × horizon × COUNT; targets is origins × horizon.
    """
    horizon = targets.shape[1]
    for index in range(targets.shape[0]):
        origin = first + index
        fill(z, origin + 1, times_s[origin], step_s, period, days, features[index])
        for ahead in range(horizon):
            targets[index, ahead] = z[origin + 1 + ahead]
