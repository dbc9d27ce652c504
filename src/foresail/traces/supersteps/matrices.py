"""Workloads of a job as the published experiment has them: per task a matrix of what came, and one of forecasts.

Row i, column k of a matrix is the value k supersteps after superstep i. A folder has `actual/NAME_actual.csv` and,
where there are any, `forecasts/NAME_forecasts.csv`; the first line names the columns and begins with #.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError

Floats = npt.NDArray[np.float64]

TASKS = {
    "affinity": "nyc_taxi_1",
    "atomic": "nyc_taxi_2",
    "bsearch": "nyc_taxi_3",
    "cap": "nyc_taxi_4",
    "chmod": "art_daily_small_noise",
    "memcpy": "ambient_temperature_system_failure_1",
    "vecmath": "ambient_temperature_system_failure_2",
    "zero": "ambient_temperature_system_failure_3",
}
"""The tasks of the published job, each with the series that says what it has to do."""
LEAST_WORKLOAD, MOST_WORKLOAD = 10.0, 50.0
"""What values are scaled to."""
PROFILE = "workload_profiling.csv"
TASK_LIST = "tasks.csv"
"""Names the tasks of a job that is not the published one, each with its series."""


@dataclass(frozen=True, eq=False, slots=True)
class Scale:
    """Makes workloads of one series' values: a straight line, so that errors are the same on either side."""

    low: float
    high: float

    def workloads(self, values: Floats) -> Floats:
        return LEAST_WORKLOAD + (values - self.low) * ((MOST_WORKLOAD - LEAST_WORKLOAD) / (self.high - self.low))


@dataclass(frozen=True, eq=False, slots=True)
class JobData:
    """What the tasks of a job have to do, and what was published as forecasts of it."""

    tasks: tuple[str, ...]
    series: tuple[str, ...]
    """The name of each task's series."""
    actual: Floats
    """Values as they were measured: tasks × rows × horizon."""
    forecasts: Floats | None
    """The same as forecast; None where nobody published any."""

    @property
    def rows(self) -> int:
        return int(self.actual.shape[1])

    def scale(self, task: int) -> Scale:
        """Of one task's values: the least and the largest of the first column, which is what comes to pass."""
        first = self.actual[task, :, 0]
        return Scale(float(first.min()), float(first.max()))

    def of(self, count: int) -> JobData:
        """A job of so many tasks: the first of these, or all and then all again with the series of their neighbours."""
        tasks = [at % len(self.tasks) for at in range(count)]
        series = [(at + at // len(self.tasks)) % len(self.tasks) for at in range(count)]
        return JobData(
            tuple(self.tasks[at] for at in tasks),
            tuple(self.series[at] for at in series),
            self.actual[series],
            None if self.forecasts is None else self.forecasts[series],
        )


def scaled(matrices: Floats) -> Floats:
    """Workloads as published: every column of every matrix between its own least and largest value."""
    low, high = matrices.min(axis=1, keepdims=True), matrices.max(axis=1, keepdims=True)
    workloads: Floats = LEAST_WORKLOAD + (MOST_WORKLOAD - LEAST_WORKLOAD) * (matrices - low) / (high - low)
    return workloads


def read_job(folder: Path) -> JobData:
    """Read a job from a folder: the tasks of its tasks.csv, or the published ones where there is none."""
    tasks = _read_tasks(folder / TASK_LIST) if (folder / TASK_LIST).exists() else list(TASKS.items())
    names = [name for _, name in tasks]
    actual = [_read_matrix(folder / "actual" / f"{name}_actual.csv") for name in names]
    forecasts = None
    if (folder / "forecasts").is_dir():
        forecasts = [_read_matrix(folder / "forecasts" / f"{name}_forecasts.csv") for name in names]
    shape = actual[0].shape
    for kind, matrices in (("actual", actual), ("forecasts", forecasts or [])):
        for name, matrix in zip(names, matrices, strict=False):
            if matrix.shape != shape:
                said = (
                    f"has {matrix.shape[0]} rows and {matrix.shape[1]} columns, the first one {shape[0]} and {shape[1]}"
                )
                raise InputError(f"{said}; all are of one size", path=folder / kind / f"{name}_{kind}.csv")
    return JobData(
        tuple(task for task, _ in tasks),
        tuple(names),
        np.stack(actual),
        None if forecasts is None else np.stack(forecasts),
    )


def _read_tasks(path: Path) -> list[tuple[str, str]]:
    """Each task with the name of its series; one profile may serve several tasks, one series too."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read as CSV: {error}", path=path) from None
    tasks = []
    for line, row in enumerate(rows, 2):
        task, series = (str(row.get(column) or "").strip() for column in ("task", "series"))
        if not task or not series:
            raise InputError("a row names a task and its series, in the columns task and series", path=path, line=line)
        if "/" in series:
            raise InputError(f'"{series}" is no name of a series; it has no folder in it', path=path, line=line)
        tasks.append((task, series))
    if not tasks:
        raise InputError("has no rows; there is a row a task, with the columns task and series", path=path)
    return tasks


def _read_matrix(path: Path) -> Floats:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text ({error.reason}); save or convert the file as UTF-8", path=path) from None
    rows: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        row = []
        for cell in line.split(","):
            try:
                value = float(cell)
            except ValueError:
                value = np.nan
            if not np.isfinite(value):
                raise InputError(f'"{cell.strip()}" is no number', path=path, line=number)
            row.append(value)
        if rows and len(row) != len(rows[0]):
            raise InputError(f"the row has {len(row)} fields, those above have {len(rows[0])}", path=path, line=number)
        rows.append(row)
    if len(rows) < 2:
        raise InputError(f"{len(rows)} rows; a matrix has a row a superstep, 2 or more", path=path)
    matrix = np.array(rows)
    flat = np.flatnonzero(matrix.min(axis=0) == matrix.max(axis=0))
    if len(flat):
        raise InputError(f"column {flat[0] + 1} has one value only, which has no scale", path=path)
    return matrix
