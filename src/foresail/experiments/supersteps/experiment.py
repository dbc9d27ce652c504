"""An experiment with a bulk-synchronous job, as a TOML file: the same one runs in simulation and on a cluster."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from foresail.controllers.supersteps.planner import Floats, ShareGrid
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.controllers.supersteps.strategies import planner_of
from foresail.errors import InputError, OptionError
from foresail.experiments.supersteps.forecasting import make_feed
from foresail.experiments.supersteps.request import MODELS, STRATEGIES, JobRequest
from foresail.experiments.supersteps.run import RUNTIMES
from foresail.experiments.supersteps.source import JobSource
from foresail.forecast.runtime.curves import RuntimeCurves
from foresail.forecast.runtime.scattered import read_measured
from foresail.live.supersteps.job import GangTask
from foresail.live.supersteps.settings import GangSettings
from foresail.settings import SettingsFile, make, setting
from foresail.toml import read_toml
from foresail.traces.generated_series import generate_series
from foresail.traces.series import Series
from foresail.traces.supersteps.matrices import JobData, scaled

MEASURED = "measured"
LEASE, ZOOKEEPER = "lease", "zookeeper"
HORIZON = 20
"""How many supersteps forecasts look ahead."""
_BEFORE = 400
"""Values before the first superstep of a job that is made up."""
_STEP_S = 1800
"""Time between two values of a file."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """One task of the job."""

    name: str
    """Of the pod, and in the profile unless `profile_task` says another."""
    method: str = ""
    """Stressor of stress-ng, or spin; by default the name."""
    modifier: float = 1.0
    """Operations for a workload of 1."""
    workers: int = 1
    """Processes that share the work; 0 for one a core."""
    profile_task: str = ""
    """The task of the profile that it is; by default the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperstepsExperiment:
    """A job, how its CPU is split, and where it runs."""

    name: str
    """Of the job; pods and Leases are called after it."""
    profile: str = setting("", is_file=True)
    """File with seconds by task, work and CPU, as `foresail measure stress` writes it."""
    runtime: str = "monotone"
    """How seconds are told between measured points: monotone or spline."""
    cpu_milli: int
    """CPU of all tasks together."""
    least_milli: int = 100
    """What every task has at least."""
    most_milli: int | None = None
    """The most that a task may have; by default there is no such limit."""
    step_milli: int = 50
    """CPU is given out in steps of so much."""
    length: int = 20
    """How many supersteps."""
    series: str = setting("", is_file=True)
    """CSV file with a column a task and a row a superstep; by default series are made up by `seed`."""
    start: int = 0
    """With `series`: how many rows come before the first superstep, for forecasters to learn from."""
    seed: int = 1
    """Of series that are made up, and of scenarios."""
    strategy: str = "scenario"
    """As in `foresail bsp simulate`."""
    window: int | None = None
    """How many supersteps are looked ahead, or held; by default the strategy's own."""
    forecast: str = "seasonal-naive"
    """perfect, or a forecaster."""
    model: str = setting("", is_file=True)
    """dqn: the file of a trained model."""
    scenarios: int = 64
    """scenario: how many ways in which the work may go on are looked at."""
    punishment: float = 1.02
    """dynamic-mpc and dynamic-window: a window of n supersteps counts this to the power of n."""
    penalty_s: float = 2.0
    """What a change is reckoned to take before one was measured, and in simulation."""
    measures_penalty: bool = True
    """Whether the planner is told what changes really take."""
    barrier: str = LEASE
    """Where tasks meet: lease, or zookeeper://HOST:PORT; with a lab zookeeper is that of the lab."""
    tasks: tuple[TaskSettings, ...] = setting(default_factory=tuple, without_option=True)
    """Tables [[tasks]], one a task."""
    cluster: GangSettings = field(default_factory=GangSettings)
    """How it runs on a cluster."""

    @property
    def run(self) -> str:
        """Tells experiments of one name apart."""
        said = {key: value for key, value in asdict(self).items() if key not in {"cluster", "barrier"}}
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:12]

    @property
    def board(self) -> str:
        """The address that tasks are told."""
        if self.barrier == LEASE:
            return f"lease://{self.cluster.namespace}/{self.name}"
        return f"{self.barrier.rstrip('/')}/foresail/{self.cluster.namespace}/{self.name}"

    @property
    def gang_tasks(self) -> tuple[GangTask, ...]:
        return tuple(GangTask(one.name, one.method or one.name, one.modifier, one.workers) for one in self.tasks)


@dataclass(frozen=True, eq=False, slots=True)
class ExperimentJob:
    """What a job has to do, and what decides about its splits; made anew for each run, since planners remember."""

    works: Floats
    """Supersteps × tasks."""
    curves: RuntimeCurves
    splitter: JobSplitter


def load_supersteps_experiment(path: Path, **options: Any) -> SuperstepsExperiment:
    """Read an experiment; `options` that are not None win over the file's keys."""
    file = SettingsFile(path)
    data = read_toml(path, "an experiment", "there is no such experiment file; name a TOML file")
    penalty = data.pop("penalty", None)
    tables = data.pop("tasks", None)
    values = file.table(SuperstepsExperiment, data)
    if isinstance(values.get("cluster"), Mapping):
        values["cluster"] = _blamed(file, lambda: make(GangSettings, values["cluster"]))
    if penalty == MEASURED:
        values["measures_penalty"] = True
    elif isinstance(penalty, int | float) and not isinstance(penalty, bool):
        values |= {"penalty_s": float(penalty), "measures_penalty": False}
    elif penalty is not None:
        file.refuse(f'penalty is {penalty!r}; write a number of seconds, or "{MEASURED}"')
    values["tasks"] = _tasks(file, tables)
    values |= {key: value for key, value in options.items() if value is not None}
    for key in ("name", "cpu_milli"):
        if key not in values:
            file.refuse(f"{key} is missing; an experiment has a name and cpu_milli, what all tasks have together")
    made = _blamed(file, lambda: make(SuperstepsExperiment, values))
    _blamed(file, lambda: _check(made))
    return made


def _tasks(file: SettingsFile, tables: object) -> tuple[TaskSettings, ...]:
    if not isinstance(tables, list) or not tables:
        file.refuse("there are no tasks; write a [[tasks]] table for each, with a name")
    found = []
    for number, table in enumerate(tables, 1):
        where = f"[[tasks]] {number}: "
        if not isinstance(table, Mapping):
            file.refuse(f"{where}write a table")
        read = file.table(TaskSettings, table, where)
        if "name" not in read:
            file.refuse(f"{where}name is missing")
        found.append(make(TaskSettings, read))
    return tuple(found)


def _blamed(file: SettingsFile, call: Callable[[], T]) -> T:
    try:
        return call()
    except (OptionError, ValueError) as error:
        raise InputError(str(error).removeprefix("--"), path=file.path) from error


def _check(experiment: SuperstepsExperiment) -> None:
    names = [task.name for task in experiment.tasks]
    if len(set(names)) != len(names):
        raise OptionError(f"tasks are called {', '.join(names)}; each has a name of its own")
    for words, known, kind in (
        (experiment.strategy, STRATEGIES, "strategy"),
        (experiment.runtime, MODELS, "runtime"),
    ):
        if words not in known:
            raise OptionError(f'no {kind} "{words}"; there are {", ".join(known)}')
    if experiment.length < 1:
        raise OptionError(f"length is {experiment.length}; it is 1 or more")
    if not experiment.profile:
        raise OptionError("profile is missing; measure one with: foresail measure stress")
    if experiment.barrier not in {LEASE, ZOOKEEPER} and not experiment.barrier.startswith(f"{ZOOKEEPER}://"):
        raise OptionError(f'barrier is "{experiment.barrier}"; write {LEASE} or {ZOOKEEPER}://HOST:PORT')
    if not 0 <= experiment.penalty_s < math.inf:
        raise OptionError(f"penalty is {experiment.penalty_s:g}; it is a number of seconds, 0 or more")
    grid_of(experiment)


def grid_of(experiment: SuperstepsExperiment) -> ShareGrid:
    """The splits that an experiment allows."""
    return ShareGrid(
        len(experiment.tasks),
        experiment.least_milli,
        experiment.step_milli,
        experiment.cpu_milli,
        experiment.most_milli,
    )


def prepare(experiment: SuperstepsExperiment, *, penalty_s: float | None = None) -> ExperimentJob:
    """What a run of the experiment begins with; with another penalty than the file's if one was measured."""
    grid = grid_of(experiment)
    profile = read_measured(Path(experiment.profile)).of([task.profile_task or task.name for task in experiment.tasks])
    curves = RUNTIMES[experiment.runtime](profile).curves(grid.shares_milli)
    data, series, start = _data(experiment)
    request = JobRequest(
        strategy=experiment.strategy,
        window=experiment.window,
        forecast=experiment.forecast,
        start=start,
        length=experiment.length,
        scenarios=experiment.scenarios,
        seed=experiment.seed,
        model=experiment.model or None,
    )
    last = start + experiment.length
    if last > data.rows:
        raise OptionError(f"{experiment.length} supersteps need {last} rows, and the series has {data.rows}")
    if (experiment.window or 0) > HORIZON:
        raise OptionError(f"window is {experiment.window}; forecasts look {HORIZON} supersteps ahead")
    source = JobSource(experiment.name, data, profile, {one.name: one for one in series})
    planner = planner_of(
        experiment.strategy,
        curves,
        grid,
        window=request.looks_ahead,
        penalty_s=experiment.penalty_s if penalty_s is None else penalty_s,
        punishment=experiment.punishment,
        scenarios=experiment.scenarios,
        model=Path(experiment.model) if experiment.model else None,
    )
    names = [task.name for task in experiment.tasks]
    splitter = JobSplitter(names, planner, make_feed(request, source, data), curves, grid)
    works = np.ascontiguousarray(scaled(data.actual)[:, start:last, 0].T)
    return ExperimentJob(works, curves, splitter)


def _data(experiment: SuperstepsExperiment) -> tuple[JobData, list[Series], int]:
    """Matrices of what comes to pass, the series that they are taken from, and the row of the first superstep."""
    names = [task.name for task in experiment.tasks]
    if not experiment.series:
        rows = experiment.length
        series = generate_series(len(names), _BEFORE + rows + HORIZON - 1, seed=experiment.seed)
        before = _BEFORE
    else:
        series, before = _read_series(Path(experiment.series), names), experiment.start
        rows = len(series[0]) - before - HORIZON + 1
    if rows < 2:
        raise OptionError(
            f"series has {len(series[0])} rows; it has {before} before the job (start), one a superstep, "
            f"and {HORIZON - 1} after the last, which perfect forecasts look at"
        )
    at = before + np.arange(rows)[:, None] + np.arange(HORIZON)
    actual = np.stack([one.values[at] for one in series])
    return JobData(tuple(names), tuple(one.name for one in series), actual, None), series, 0


def _read_series(path: Path, names: list[str]) -> list[Series]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
    header = [cell.strip() for cell in rows[0]] if rows else []
    for name in names:
        if name not in header:
            raise InputError(f'no column "{name}"; every task has one', path=path, line=1)
    values = np.empty((len(rows) - 1, len(names)))
    for line, row in enumerate(rows[1:], 2):
        for at, name in enumerate(names):
            try:
                values[line - 2, at] = float(row[header.index(name)])
            except (ValueError, IndexError):
                raise InputError(f"{name} has no number", path=path, line=line) from None
            if not math.isfinite(values[line - 2, at]):
                raise InputError(f"{name} is no finite number", path=path, line=line)
    times_s = _STEP_S * np.arange(len(values), dtype=np.int64)
    return [Series(name, times_s, values[:, at].copy()) for at, name in enumerate(names)]
