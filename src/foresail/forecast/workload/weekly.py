"""A week that all series of a group have in common, and ridge regression on how far from it each one has been."""

from __future__ import annotations

from typing import Self

import numba
import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.calendar import DAY_S
from foresail.forecast.workload.features import CONSTANT, LEVEL
from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.profile import usual_week
from foresail.forecast.workload.ridge import apply, solve
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Days = npt.NDArray[np.int8]

PENALTY = 0.003
"""Few features need less of it than many do."""
_LATEST = 4
_USUAL, _LATER, _LAST = 2, 3, 4
_MEANS = _LAST + _LATEST
_SEASON_AGO = _MEANS + 5
COUNT = _SEASON_AGO + 2


class Weekly:
    """ẑ(t+h) = level(t) + w_h · features, with the means of each time of the week over the series of a group."""

    def __init__(self, weights: Floats, weeks: list[Floats], groups: Ints) -> None:
        """`weights` are groups × horizon × COUNT; `weeks` are days × period, a table for each group."""
        self.weights, self.weeks, self.groups = weights, weeks, groups

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:  # noqa: ARG003 - nothing is drawn
        weeks = [usual_week(data, group) for group in range(data.groups)]
        weights = np.stack([solve(*_rows(data, g, week, horizon), PENALTY) for g, week in enumerate(weeks)])
        return cls(weights, weeks, np.array([kind.group for kind in data.kinds]))

    def arrays(self) -> Arrays:
        weeks = {f"week.{group}": week for group, week in enumerate(self.weeks)}
        return {**weeks, "weights": self.weights, "groups": self.groups}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        weights = arrays["weights"]
        return cls(weights, [arrays[f"week.{group}"] for group in range(len(weights))], arrays["groups"])

    def start(self, track: Track) -> _WeeklyOnline:
        group = int(self.groups[track.number])
        return _WeeklyOnline(track, self.weights[group], self.weeks[group])


class _WeeklyOnline:
    def __init__(self, track: Track, weights: Floats, week: Floats) -> None:
        self._track, self._weights, self._week = track, weights, week
        self._off = np.zeros(len(track.z))
        """How far each row of the track was from what is usual."""
        self._features = np.zeros((track.horizon, COUNT))
        self._seen = 0

    def observe(self) -> None:
        track = self._track
        # The track forgets its oldest rows at once; what is known of them goes with them.
        kept = track.count - 1
        if kept < self._seen:
            self._off[:kept] = self._off[self._seen - kept : self._seen]
        day = track.days[track.time_s // DAY_S]
        self._off[kept] = track.ago(0) - self._week[day, track.slot()]
        self._seen = track.count

    def forecast(self) -> Floats:
        track, kind = self._track, self._track.kind
        fill(
            *(track.z, self._off, track.count, track.time_s, kind.step_s, kind.period),
            *(track.days, self._week, self._features),
        )
        return apply(self._features, self._weights)


def _rows(data: Prepared, group: int, week: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Features (origins × horizon × COUNT) and targets (origins × horizon) of all series of a group."""
    features, targets = [], []
    for number in data.of_group(group):
        z, kind, times_s = data.z[number], data.kinds[number], data.times_s[number]
        off = z - week[data.days[times_s // DAY_S], (times_s // kind.step_s) % kind.period]
        first = min(kind.period, len(z) // 2)
        count = max(len(z) - horizon - first, 0)
        x = np.zeros((count, horizon, COUNT))
        for at in range(count):
            n = first + at + 1
            fill(z, off, n, int(times_s[n - 1]), kind.step_s, kind.period, data.days, week, x[at])
        features.append(x)
        targets.append(z[first + 1 + np.arange(count)[:, None] + np.arange(horizon)])
    return np.concatenate(features), np.concatenate(targets)


@numba.njit(cache=True)
def _mean_of_last(values: Floats, n: int, rows: int) -> float:
    begin = max(0, n - max(rows, 1))
    total = 0.0
    for at in range(begin, n):
        total += values[at]
    return total / (n - begin)


@numba.njit(cache=True)
def fill(
    z: Floats, off: Floats, n: int, time_s: int, step_s: int, period: int, days: Days, week: Floats, out: Floats
) -> None:
    """Features of the values 1, 2, … rows after row n − 1, which is of `time_s`; rows from n on are not looked at.

    `off` is how far each row of z was from what is usual, `week`, at its time.
    """
    level = _mean_of_last(z, n, period)
    now = week[days[time_s // DAY_S], (time_s // step_s) % period]
    means = np.empty(5)
    means[0] = _mean_of_last(off, n, 4)
    means[1] = _mean_of_last(off, n, period // 4)
    means[2] = _mean_of_last(off, n, period)
    means[3] = _mean_of_last(off, n, 3 * period)
    means[4] = _mean_of_last(off, n, 7 * period)
    for index in range(out.shape[0]):
        row = out[index]
        at_s = time_s + (index + 1) * step_s
        usual = week[days[at_s // DAY_S], (at_s // step_s) % period]
        row[CONSTANT] = 1.0
        row[LEVEL] = level
        row[_USUAL] = usual - level
        row[_LATER] = usual - now
        for lag in range(_LATEST):
            row[_LAST + lag] = off[max(n - 1 - lag, 0)]
        for number in range(5):
            row[_MEANS + number] = means[number]
        for number in range(2):
            at = n + index - (period if number == 0 else 7 * period)
            while at >= n:
                at -= period
            row[_SEASON_AGO + number] = off[at] if at >= 0 else 0.0
