"""The published strategies: one split for ever, one every n supersteps, and windows chosen by dynamic programming."""

from __future__ import annotations

import numba
import numpy as np

from foresail.controllers.supersteps.planner import Floats, ShareGrid, SplitOutlook, Units
from foresail.controllers.supersteps.splitting import cost_of, greedy
from foresail.forecast.runtime.curves import RuntimeCurves

DISCOUNT = 0.95
"""What a superstep counts in a split against the one before it."""
LONGEST = 15
"""The longest window that is considered."""
_FIXED_WORKLOAD = 30.0
_FIXED_CAP_MILLI = 8000


class Exppo:
    """One split for the whole job: steps go to the slowest task at workload 30, to none that has 8000 milli."""

    horizon = 1
    scenarios = 0

    def __init__(self, curves: RuntimeCurves, grid: ShareGrid) -> None:
        most = min(grid.most, (_FIXED_CAP_MILLI - grid.least_milli) // grid.step_milli)
        seconds = curves.seconds(np.full((1, grid.tasks), _FIXED_WORKLOAD))[:, :, : most + 1]
        self._split = _to_the_slowest(seconds[0], min(grid.units, grid.tasks * most))

    def plan(self, outlook: SplitOutlook) -> Units | None:
        return self._split if outlook.current is None else None


class Static:
    """A new split every `window` supersteps."""

    scenarios = 0

    def __init__(self, curves: RuntimeCurves, grid: ShareGrid, *, window: int) -> None:
        self.horizon = _checked(window)
        self._curves, self._grid = curves, grid
        self._weights = DISCOUNT ** np.arange(window)

    def plan(self, outlook: SplitOutlook) -> Units | None:
        if outlook.step % self.horizon:
            return None
        seconds = self._curves.seconds(_rows(outlook.workloads, self.horizon))
        split: Units = greedy(seconds, self._weights, self._grid.units)
        return split


class DynamicMpc:
    """Every superstep: the cheapest way through the next `window` supersteps, of keeping the split and of changing it.

    A window of n supersteps counts punishment^n times what it is expected to take, since far forecasts are worse.
    """

    scenarios = 0

    def __init__(
        self, curves: RuntimeCurves, grid: ShareGrid, *, window: int, penalty_s: float = 15.0, punishment: float = 1.02
    ) -> None:
        self.horizon = _checked(window)
        self._curves, self._grid = curves, grid
        self.penalty_s, self._punishment = penalty_s, punishment

    def plan(self, outlook: SplitOutlook) -> Units | None:
        keeps, split, _ = self._windows(outlook)
        return None if keeps else split

    def _windows(self, outlook: SplitOutlook) -> tuple[bool, Units, int]:
        seconds = self._curves.seconds(_rows(outlook.workloads, self.horizon))
        is_first = outlook.current is None
        current = np.zeros(self._grid.tasks, np.int64) if outlook.current is None else outlook.current
        found: tuple[bool, Units, int] = _cheapest_windows(
            seconds, self._grid.units, current, is_first, outlook.left, self.penalty_s, self._punishment
        )
        return found


class DynamicWindow(DynamicMpc):
    """The same program, without keeping: the window that comes out first is held to its end."""

    def __init__(
        self, curves: RuntimeCurves, grid: ShareGrid, *, window: int, penalty_s: float = 15.0, punishment: float = 1.02
    ) -> None:
        super().__init__(curves, grid, window=window, penalty_s=penalty_s, punishment=punishment)
        self._until = 0

    def plan(self, outlook: SplitOutlook) -> Units | None:
        if outlook.current is not None and outlook.step < self._until:
            return None
        _, split, length = self._windows(outlook)
        self._until = outlook.step + length
        return split


def _checked(window: int) -> int:
    if window < 1:
        raise ValueError(f"window is {window}; it is a number of supersteps, 1 or more")
    return window


def _rows(workloads: Floats, count: int) -> Floats:
    if workloads.shape[1] < count:
        raise ValueError(f"workloads of {workloads.shape[1]} supersteps are forecast, and {count} are looked at")
    return workloads[:, :count].T


@numba.njit(cache=True)
def _to_the_slowest(seconds, units):  # type: ignore[no-untyped-def]
    tasks, width = seconds.shape
    split = np.zeros(tasks, np.int64)
    for _ in range(units):
        best = -1
        for task in range(tasks):
            if split[task] < width - 1 and (best < 0 or seconds[task, split[task]] > seconds[best, split[best]]):
                best = task
        split[best] += 1
    return split


@numba.njit(cache=True)
def _cheapest_windows(seconds, units, current, is_first, left, penalty_s, punishment):  # type: ignore[no-untyped-def]
    """Whether to keep, and else the split and the length of the window that comes first."""
    horizon = seconds.shape[0]
    weights = DISCOUNT ** np.arange(horizon)
    ahead = min(horizon, left)
    cheapest = np.zeros(horizon + 1)
    first_split, first_length = current, 0
    for start in range(ahead - 1, -1, -1):
        cheapest[start] = np.inf
        for length in range(1, min(horizon - start, left, LONGEST) + 1):
            rows = seconds[start : start + length]
            split = greedy(rows, weights, units)
            cost = punishment**length * cost_of(rows, split)
            if start + length < horizon:
                cost += cheapest[start + length] + penalty_s
            if cost < cheapest[start]:
                cheapest[start] = cost
                if start == 0:
                    first_split, first_length = split, length
    if is_first:
        return False, first_split, first_length
    kept = np.inf
    for length in range(1, ahead + 1):
        cost = punishment**length * cost_of(seconds[:length], current)
        if length < horizon:
            cost += cheapest[length] + penalty_s
        kept = min(kept, cost)
    return kept < cheapest[0] + penalty_s, first_split, first_length
