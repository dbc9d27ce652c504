"""Makes a simulated job of a request, runs it, and says where its time went."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.planner import ShareGrid, SplitPlanner
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.controllers.supersteps.strategies import planner_of
from foresail.errors import OptionError
from foresail.experiments.supersteps.forecasting import make_feed
from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.source import JobSource
from foresail.forecast.runtime.curves import RuntimeCurves, RuntimeModel
from foresail.forecast.runtime.monotone import MonotoneRuntime
from foresail.forecast.runtime.profile import RuntimeProfile
from foresail.forecast.runtime.spline import SplineRuntime
from foresail.sim.supersteps.job import JobRun, run_job
from foresail.traces.supersteps.matrices import JobData, scaled

Floats = npt.NDArray[np.float64]

TASK_BRINGS = 3
"""What every task brings, as a multiple of what it has at least: as published, 24000 milli for eight with 1000 each."""
STEPS_OF_LEAST = 10
"""CPU is given out in so many parts of what a task has at least, unless told: as published, 100 milli of 1000."""
RUNTIMES: dict[str, Callable[[RuntimeProfile], RuntimeModel]] = {
    "spline": SplineRuntime,
    "monotone": MonotoneRuntime,
}


@dataclass(frozen=True, eq=False, slots=True)
class JobResult:
    """A request and what came of it."""

    request: JobRequest
    source: JobSource
    grid: ShareGrid
    run: JobRun
    workloads: Floats
    """Supersteps × tasks: how much each task had to do."""

    @classmethod
    def of(cls, request: JobRequest, source: JobSource, run: JobRun, workloads: Floats) -> JobResult:
        """The result of a run that may be of an earlier day."""
        if run.splits.shape != run.seconds.shape or workloads.shape != run.seconds.shape:
            raise ValueError("splits, seconds and workloads are of different sizes")
        return cls(request, source, grid_of(request, source, run.seconds.shape[1]), run, workloads)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks by name, each once: a second one of a kind has a number."""
        names, seen = [], dict[str, int]()
        for task in _data(self.source, self.request).tasks:
            seen[task] = seen.get(task, 0) + 1
            names.append(task if seen[task] == 1 else f"{task}-{seen[task]}")
        return tuple(names)

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of the run, and what decided them."""
        run = self.run
        asked = asdict(self.request) | {"window": self.request.looks_ahead, "tasks": self.grid.tasks}
        asked["grid_milli"] = self.grid.step_milli
        return {
            "total_s": run.total_s,
            "reconfigurations": run.reconfigurations,
            "work_s": run.work_s,
            "waiting_s": run.waiting_s,
            "reconfiguration_s": run.reconfiguration_s,
            **asked,
            "data": self.source.name,
        }


def simulate_job(
    source: JobSource, request: JobRequest, *, on_fitting: Callable[[int, int], None] | None = None
) -> JobResult:
    """Run one job; `on_fitting` is told how far a forecaster is that has to be fitted first."""
    data = _data(source, request)
    profile = source.profile.of(data.tasks)
    last = request.start + request.length
    if last > data.rows:
        raise OptionError(
            f"--start {request.start} and --length {request.length} need {last} rows, and the data has {data.rows}"
        )
    grid = grid_of(request, source, len(data.tasks))
    curves = RUNTIMES[request.runtime](profile).curves(grid.shares_milli)
    planner = make_planner(request, curves, grid)
    if planner.horizon > data.actual.shape[2]:
        raise OptionError(f"--window is {planner.horizon}; the data looks {data.actual.shape[2]} supersteps ahead")
    workloads = np.ascontiguousarray(scaled(data.actual)[:, request.start : last, 0].T)
    feed = make_feed(request, source, data, on_fitting)
    splitter = JobSplitter(numbered(data.tasks), planner, feed, curves, grid)
    run = run_job(splitter, curves, workloads, penalty_s=request.penalty_s)
    return JobResult(request, source, grid, run, workloads)


def make_planner(request: JobRequest, curves: RuntimeCurves, grid: ShareGrid) -> SplitPlanner:
    """The planner of a strategy."""
    return planner_of(
        request.strategy,
        curves,
        grid,
        window=request.looks_ahead,
        penalty_s=request.penalty_s,
        punishment=request.punishment,
        scenarios=request.scenarios,
        model=None if request.model is None else Path(request.model),
    )


def numbered(tasks: Sequence[str]) -> list[str]:
    """Tasks of a job, each by a name of its own: one that stands there again gets a number."""
    seen: Counter[str] = Counter()
    names = []
    for task in tasks:
        seen[task] += 1
        names.append(task if seen[task] == 1 else f"{task}-{seen[task]}")
    return names


def _data(source: JobSource, request: JobRequest) -> JobData:
    return source.data if request.tasks is None else source.data.of(request.tasks)


def grid_of(request: JobRequest, source: JobSource, tasks: int) -> ShareGrid:
    """Every task has at least the least CPU that the profile was measured with: nothing is known of less."""
    least = math.ceil(source.profile.shares_milli[0])
    step = request.grid_milli or max(1, least // STEPS_OF_LEAST)
    try:
        return ShareGrid(tasks, least, step, tasks * TASK_BRINGS * least, request.cap_milli)
    except ValueError as error:
        raise OptionError(f"--grid or --cap: {error}") from None
