"""One job from its first superstep to its last: ask the controller, let the slowest task end, tell what it had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.controller import Supersteps
from foresail.controllers.supersteps.planner import Units
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.core.control_loop import checked
from foresail.forecast.runtime.curves import RuntimeCurves
from foresail.sim.supersteps.gang import SimulatedGang

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
    splitter: JobSplitter,
    curves: RuntimeCurves,
    workloads: Floats,
    *,
    penalty_s: float,
    on_progress: OnProgress | None = None,
) -> JobRun:
    """Run the supersteps of `workloads` (supersteps × tasks), changing the split whenever the controller says so.

    A change takes `penalty_s`, in which nobody works. The first split is there when the job starts.
    """
    length, grid = len(workloads), splitter.grid
    table = curves.seconds(workloads)
    tasks = np.arange(grid.tasks)
    splits = np.empty((length, grid.tasks), np.int64)
    seconds = np.empty((length, grid.tasks))
    changed = np.zeros(length, np.bool_)
    gang = SimulatedGang(splitter.tasks, grid)
    controller = Supersteps.of({gang.job: splitter})
    for step in range(length):
        view = gang.between(step, length, workloads[step - 1] if step else None)
        gang.carry_out(checked("supersteps", controller.act(view), view))
        decision = controller.decided(gang.job)
        # A split that is planned anew is a change, also where it comes out as it was: so it was published.
        changed[step] = step > 0 and decision is not None and decision.split is not None
        splits[step] = splitter.units(gang.cpu_milli)
        seconds[step] = table[step, tasks, splits[step]]
        gang.now_s += float(seconds[step].max()) + penalty_s * changed[step]
        if on_progress is not None:
            on_progress(step + 1, length)
    return JobRun(splits, seconds, changed, penalty_s)
