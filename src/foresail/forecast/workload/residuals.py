"""How wrong a forecaster was on rows that it had not learnt from: whole paths, from which scenarios are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.prepared import SeriesKind

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NEAR = 4
"""Times of the season are similar within one in this many parts of it."""
_OF_ALL_HOURS = 10.0
"""The spread of all hours counts as this many paths of each hour."""
_WIDER = 1.1
"""Errors to come are drawn so much wider than those of validation: its folds are nearer to what was learnt from."""
_HOUR_S = 3600
_FEWEST = 24
"""With fewer paths at similar times, those of all times are drawn from."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Paths of errors in rolling validation, on the scale of z, with series and time of each origin."""

    paths: Floats
    """Paths × horizon; centred, so that scenarios lie around the forecast, and divided by both spreads."""
    series: Ints
    times_s: Ints
    spreads: Floats
    """Of each series."""
    hours: Floats
    """Series × hours of the season: how much larger errors are when the value to come falls in this hour."""

    @classmethod
    def of(cls, errors: Sequence[Floats], times_s: Sequence[Ints], kinds: Sequence[SeriesKind]) -> Residuals:
        """From the errors of each series, origins × horizon, and the times of their origins."""
        centred = []
        groups = [kind.group for kind in kinds]
        for number, group in enumerate(groups):
            alike = np.concatenate([errors[other] for other, its in enumerate(groups) if its == group])
            centred.append(errors[number] - (alike.mean(axis=0) if len(alike) else 0.0))
        spreads = np.array([np.sqrt((one**2).mean()) if one.size else 0.0 for one in centred])
        spreads[spreads == 0] = 1.0
        even = [one / spread for one, spread in zip(centred, spreads, strict=True)]
        fall_in = [
            _hours(kind, (times // kind.step_s) % kind.period, one.shape[1])
            for kind, times, one in zip(kinds, times_s, even, strict=True)
        ]
        most = 1 + max(int(_hours(kind, np.array([kind.period - 2]), 1).max()) for kind in kinds)
        hours = np.ones((len(kinds), most))
        for group in set(groups):
            of = [number for number, its in enumerate(groups) if its == group]
            hours[of] = _by_hour([even[number] for number in of], [fall_in[number] for number in of], most)
        return cls(
            np.concatenate([one / hours[at][fall_in[at]] for at, one in enumerate(even)]),
            np.concatenate([np.full(len(one), number) for number, one in enumerate(errors)]).astype(np.int64),
            np.concatenate(list(times_s)).astype(np.int64),
            spreads,
            hours,
        )

    def _scale(self, kind: SeriesKind, number: int, slot: int) -> Floats:
        """What a path that begins at this time of the season is to be multiplied by, for each row ahead."""
        ahead = _hours(kind, np.array([slot]), self.paths.shape[1])[0]
        scale: Floats = _WIDER * self.spreads[number] * self.hours[number][ahead]
        return scale

    @cached_property
    def _rows(self) -> list[Ints]:
        return [np.nonzero(self.series == number)[0] for number in range(len(self.spreads))]

    @cached_property
    def _together(self) -> list[tuple[int, ...]]:
        """For each series, all whose paths begin at the very same times."""
        times = [self.times_s[rows].tobytes() for rows in self._rows]
        return [tuple(other for other, its in enumerate(times) if its and its == one) for one in times]

    @cached_property
    def _near(self) -> dict[tuple[int, int, bool], Ints]:
        return {}

    def near(self, kinds: Sequence[SeriesKind], number: int, slot: int, *, alone: bool = False) -> Ints:
        """Paths of series of the same group, or of this one alone, that begin at a similar time of the season."""
        key = (number, slot, alone)
        if key not in self._near:
            kind = kinds[number]
            of = [
                other for other, its in enumerate(kinds) if its.group == kind.group and (not alone or other == number)
            ]
            rows = np.concatenate([self._rows[other] for other in of])
            slots = (self.times_s[rows] // kind.step_s) % kind.period
            apart = np.abs(slots - slot)
            close = rows[np.minimum(apart, kind.period - apart) <= kind.period // _NEAR]
            self._near[key] = close if len(close) >= _FEWEST else rows
        return self._near[key]

    def draw(
        self,
        kinds: Sequence[SeriesKind],
        tasks: Sequence[int],
        slots: Sequence[int],
        count: int,
        rng: np.random.Generator,
    ) -> Floats:
        """Errors that may come, count × tasks × horizon, as z.

        Series that were measured at the same times are drawn together, path by path, so that what went wrong with
        several at once does so in a scenario, too. Others are drawn one by one, each from its whole group.
        """
        drawn = np.zeros((count, len(tasks), self.paths.shape[1]))
        picks: dict[tuple[tuple[int, ...], int], Ints] = {}
        for at, (number, slot) in enumerate(zip(tasks, slots, strict=True)):
            together = self._together[number]
            alone = len(together) > 1
            near = self.near(kinds, number, slot, alone=alone)
            if not len(near):
                continue
            key = (together, slot) if alone else ((number, at), slot)
            if key not in picks:
                picks[key] = rng.integers(len(near), size=count)
            drawn[:, at] = self.paths[near[picks[key]]] * self._scale(kinds[number], number, slot)
        return drawn

    @cached_property
    def _quantiles(self) -> dict[tuple[int, int, tuple[float, ...]], Floats]:
        return {}

    def quantiles(self, kinds: Sequence[SeriesKind], number: int, slot: int, levels: Sequence[float]) -> Floats:
        """Of the errors of one series at this time, levels × horizon, as z."""
        key = (number, slot, tuple(levels))
        if key not in self._quantiles:
            near = self.near(kinds, number, slot, alone=len(self._together[number]) > 1)
            found = np.quantile(self.paths[near], levels, axis=0) if len(near) else np.zeros((len(levels), 1))
            self._quantiles[key] = found * self._scale(kinds[number], number, slot)
        return self._quantiles[key]


def _hours(kind: SeriesKind, slots: Ints, horizon: int) -> Ints:
    """The hour of the season that each value to come falls in, origins × horizon."""
    ahead = (slots[:, None] + np.arange(1, horizon + 1)) % kind.period
    hours: Ints = ahead * kind.step_s // max(_HOUR_S, kind.step_s)
    return hours


def _by_hour(errors: Sequence[Floats], hours: Sequence[Ints], most: int) -> Floats:
    """How much larger errors are in each hour than in all, of series of one group."""
    square = np.concatenate(errors) ** 2
    if not len(square):
        return np.ones(most)
    horizon = square.shape[1]
    square = square / np.maximum(square.mean(axis=0), 1e-18)
    where = np.concatenate(hours)
    sums, counts = np.zeros(most), np.zeros(most)
    # All rows ahead of one path count as one: they went wrong together.
    np.add.at(sums, where, square / horizon)
    np.add.at(counts, where, 1.0 / horizon)
    found: Floats = np.sqrt((sums + _OF_ALL_HOURS) / (counts + _OF_ALL_HOURS))
    return found
