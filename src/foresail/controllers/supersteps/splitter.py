"""One job's splits: told what each superstep had to do, it says how the CPU is split for the next one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from foresail.controllers.supersteps.feeds import Feed
from foresail.controllers.supersteps.planner import Floats, ShareGrid, SplitOutlook, SplitPlanner, Units
from foresail.forecast.runtime.curves import RuntimeCurves


@runtime_checkable
class Penalised(Protocol):
    """A planner that weighs what a change of the split takes."""

    penalty_s: float


@dataclass(frozen=True, eq=False, slots=True)
class SplitDecision:
    """What was decided before a superstep."""

    step: int
    current: Units | None
    """The split as it was; None before the first superstep."""
    split: Units | None
    """The split from now on; None keeps the current one."""
    expected: Floats
    """The workloads that the superstep was expected to have, one a task."""


class JobSplitter:
    """A planner with its forecasts. It remembers how far these were told, and else nothing."""

    def __init__(
        self, tasks: Sequence[str], planner: SplitPlanner, feed: Feed, curves: RuntimeCurves, grid: ShareGrid
    ) -> None:
        """`curves` are those that the planner reckons with, in the order of `tasks`."""
        if len(tasks) != grid.tasks:
            raise ValueError(f"{len(tasks)} tasks are named, and the splits are of {grid.tasks}")
        self.tasks, self.grid = tuple(tasks), grid
        self.told = 0
        """Of how many supersteps the forecasts know what they had to do."""
        self._planner, self._feed, self._curves = planner, feed, curves

    @property
    def penalty_s(self) -> float | None:
        """What a change is reckoned to take; None for a strategy that does not weigh it."""
        return self._planner.penalty_s if isinstance(self._planner, Penalised) else None

    @penalty_s.setter
    def penalty_s(self, penalty_s: float) -> None:
        if isinstance(self._planner, Penalised):
            self._planner.penalty_s = penalty_s

    def observe(self, workloads: Floats) -> None:
        """What the next superstep that the forecasts do not know of had to do."""
        self._feed.observe(workloads)
        self.told += 1

    def decide(self, step: int, left: int, current: Units | None, last: Floats | None) -> SplitDecision:
        """The split for superstep `step`, of which and after which `left` are to come.

        `last` is what the superstep before it had to do. Those before that of which nobody has told count as they were
        expected: a controller that was away for a while goes on with what it knows.
        """
        while self.told < step - 1 or (self.told < step and last is None):
            self.observe(self._feed.look(self.told, 1, 0)[0][:, 0])
        if self.told < step and last is not None:
            self.observe(last)
        expected, scenarios = self._feed.look(step, self._planner.horizon, self._planner.scenarios)
        split = self._planner.plan(SplitOutlook(step, left, current, expected, scenarios))
        if split is not None:
            self._check(split)
        elif current is None:
            raise ValueError("the planner gave no split before the first superstep")
        return SplitDecision(step, current, split, expected[:, 0])

    def seconds(self, workloads: Floats, split: Units) -> float:
        """How long a superstep of these workloads takes with a split, by the curves."""
        units = np.minimum(split, self._curves.pieces.shape[1] - 1)
        return float(self._curves.seconds(workloads[None, :])[0, np.arange(len(self.tasks)), units].max())

    def units(self, cpu_milli: Sequence[int]) -> Units:
        """The split that is nearest to what tasks have."""
        above = np.asarray(cpu_milli, dtype=np.float64) - self.grid.least_milli
        return np.clip(np.rint(above / self.grid.step_milli), 0, self.grid.most).astype(np.int64)

    def _check(self, split: Units) -> None:
        grid = self.grid
        if len(split) != grid.tasks or split.min() < 0 or split.max() > grid.most or split.sum() > grid.units:
            raise ValueError(f"the planner gave {split.tolist()}: {grid.units} steps, {grid.most} at most to a task")
