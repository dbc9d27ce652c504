"""One job from its first superstep to its last: ask the planner, let the slowest task end, tell the forecaster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook, SplitPlanner, Units
from foresail.forecast.runtime.curves import RuntimeCurves
from foresail.sim.supersteps.feeds import Feed

Floats = npt.NDArray[np.float64]
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False, slots=True)
class JobRun:
    """What came of a job."""

    splits: Units
    """Supersteps × tasks: steps of CPU above the least."""
    seconds: Floats
    """Supersteps × tasks: how long each task worked; the superstep took as long as the longest."""
    changed: npt.NDArray[np.bool_]
    """Whether the split was changed before this superstep; the first one is no change."""
    penalty_s: float

    @property
    def reconfigurations(self) -> int:
        return int(self.changed.sum())

    @property
    def reconfiguration_s(self) -> float:
        return self.penalty_s * self.reconfigurations

    @property
    def work_s(self) -> float:
        """How long a task worked, the mean of all."""
        return float(self.seconds.mean(axis=1).sum())

    @property
    def waiting_s(self) -> float:
        """How long a task waited at the barrier for the slowest, the mean of all."""
        return float((self.seconds.max(axis=1) - self.seconds.mean(axis=1)).sum())

    @property
    def total_s(self) -> float:
        return float(self.seconds.max(axis=1).sum()) + self.reconfiguration_s


def run_job(
    planner: SplitPlanner,
    feed: Feed,
    curves: RuntimeCurves,
    grid: ShareGrid,
    workloads: Floats,
    *,
    penalty_s: float,
    on_progress: OnProgress | None = None,
) -> JobRun:
    """Run the supersteps of `workloads` (supersteps × tasks), changing the split whenever the planner says so.

    A change takes `penalty_s`, in which nobody works. The first split is there when the job starts.
    """
    length = len(workloads)
    table = curves.seconds(workloads)
    tasks = np.arange(grid.tasks)
    splits = np.empty((length, grid.tasks), np.int64)
    seconds = np.empty((length, grid.tasks))
    changed = np.zeros(length, np.bool_)
    current: Units | None = None
    for step in range(length):
        expected, scenarios = feed.look(step, planner.horizon, planner.scenarios)
        split = planner.plan(SplitOutlook(step, length - step, current, expected, scenarios))
        if split is not None:
            _check(split, grid)
            changed[step] = current is not None
            current = split
        if current is None:
            raise ValueError("the planner gave no split before the first superstep")
        splits[step], seconds[step] = current, table[step, tasks, current]
        feed.observe(workloads[step])
        if on_progress is not None:
            on_progress(step + 1, length)
    return JobRun(splits, seconds, changed, penalty_s)


def _check(split: Units, grid: ShareGrid) -> None:
    if len(split) != grid.tasks or split.min() < 0 or split.max() > grid.most or split.sum() > grid.units:
        raise ValueError(f"the planner gave {split.tolist()}: {grid.units} steps, {grid.most} at most to a task")
