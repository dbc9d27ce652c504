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

_NEAR = 12
"""Times of the season are similar within one in this many parts of it."""
_FEWEST = 24
"""With fewer paths at similar times, those of all times are drawn from."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Paths of errors in rolling validation, on the scale of z, with series and time of each origin."""

    paths: Floats
    """Paths × horizon; centred, so that scenarios lie around the forecast, and divided by their series' spread."""
    series: Ints
    times_s: Ints
    spreads: Floats
    """Of each series."""

    @classmethod
    def of(cls, errors: Sequence[Floats], times_s: Sequence[Ints], groups: Sequence[int]) -> Residuals:
        """From the errors of each series, origins × horizon, and the times of their origins."""
        centred = []
        for number, group in enumerate(groups):
            alike = np.concatenate([errors[other] for other, its in enumerate(groups) if its == group])
            centred.append(errors[number] - (alike.mean(axis=0) if len(alike) else 0.0))
        spreads = np.array([np.sqrt((one**2).mean()) if one.size else 0.0 for one in centred])
        spreads[spreads == 0] = 1.0
        return cls(
            np.concatenate([one / spread for one, spread in zip(centred, spreads, strict=True)]),
            np.concatenate([np.full(len(one), number) for number, one in enumerate(errors)]).astype(np.int64),
            np.concatenate(list(times_s)).astype(np.int64),
            spreads,
        )

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
            drawn[:, at] = self.paths[near[picks[key]]] * self.spreads[number]
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
            self._quantiles[key] = found * self.spreads[number]
        return self._quantiles[key]
