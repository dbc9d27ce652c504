"""A measured profile: how long each task took, for every amount of work and every amount of CPU that was tried."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError, did_you_mean

Floats = npt.NDArray[np.float64]

COLUMNS = {
    "task": "name of the task",
    "workload": "how much work a superstep had, above 0",
    "cpu_milli": "CPU that the task had, in milli",
    "seconds": "how long the superstep took; several rows of one task, workload and CPU are averaged",
}
"""The columns of a profile, each with what it says. Others are passed over."""
_ALSO = {"task name": "task", "workload size": "workload", "cpu shares": "cpu_milli", "duration": "seconds"}
"""How the published profile calls the same columns."""
LEAST = 4
"""A cubic needs so many points; a profile has as many workloads and as many amounts of CPU."""


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """Seconds of each task on a full grid of workloads and amounts of CPU."""

    tasks: tuple[str, ...]
    workloads: Floats
    """Ascending."""
    shares_milli: Floats
    """Ascending."""
    seconds: Floats
    """Tasks × workloads × shares."""

    def of(self, tasks: Sequence[str]) -> RuntimeProfile:
        """The same for these tasks, in this order; one may stand there more than once."""
        for task in tasks:
            if task not in self.tasks:
                hint = did_you_mean(task, self.tasks) or f"; there are {', '.join(self.tasks)}"
                raise InputError(f'the profile has no task "{task}"{hint}')
        rows = [self.tasks.index(task) for task in tasks]
        return RuntimeProfile(tuple(tasks), self.workloads, self.shares_milli, self.seconds[rows])

    def without(self, *, workload: int | None = None, share: int | None = None) -> RuntimeProfile:
        """The same without one workload or one amount of CPU, by index: what a model is held to."""
        workloads, shares, seconds = self.workloads, self.shares_milli, self.seconds
        if workload is not None:
            workloads, seconds = np.delete(workloads, workload), np.delete(seconds, workload, axis=1)
        if share is not None:
            shares, seconds = np.delete(shares, share), np.delete(seconds, share, axis=2)
        return RuntimeProfile(self.tasks, workloads, shares, seconds)


def read_profile(path: str | Path) -> RuntimeProfile:
    """Read a profile from a CSV file; tasks stand in the order in which the file names them first."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file, skipinitialspace=True))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not a CSV file in UTF-8 ({error}); save or convert it", path=path) from None
    if not rows:
        raise InputError(f"the file is empty; a profile has the columns {', '.join(COLUMNS)}", path=path)
    at = _columns(rows[0], path)
    found: dict[tuple[str, float, float], list[float]] = {}
    for line, row in enumerate(rows[1:], 2):
        if not row:
            continue
        if len(row) != len(rows[0]):
            raise InputError(f"the row has {len(row)} fields, the header has {len(rows[0])}", path=path, line=line)
        task = row[at["task"]].strip()
        if not task:
            raise InputError("task is empty; every row names a task", path=path, line=line)
        workload, share, seconds = (
            _number(row[at[name]], name, path, line) for name in ("workload", "cpu_milli", "seconds")
        )
        found.setdefault((task, workload, share), []).append(seconds)
    return _grid(found, path)


def write_profile(profile: RuntimeProfile) -> Iterable[tuple[str, float, float, float]]:
    """The rows of a profile, in the order of COLUMNS."""
    for task, table in zip(profile.tasks, profile.seconds, strict=True):
        for workload, row in zip(profile.workloads, table, strict=True):
            for share, seconds in zip(profile.shares_milli, row, strict=True):
                yield task, float(workload), float(share), float(seconds)


def _columns(header: Sequence[str], path: str | Path) -> dict[str, int]:
    names = [_ALSO.get(cell.strip().lower(), cell.strip().lower()) for cell in header]
    for name in COLUMNS:
        if name not in names:
            hint = did_you_mean(name, names) or f"; a profile has the columns {', '.join(COLUMNS)}"
            raise InputError(f'no column "{name}"{hint}', path=path, line=1)
    return {name: names.index(name) for name in COLUMNS}


def _number(cell: str, name: str, path: str | Path, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f'{name} is "{cell.strip()}"; it is a number above 0', path=path, line=line)
    return value


def _grid(found: Mapping[tuple[str, float, float], Sequence[float]], path: str | Path) -> RuntimeProfile:
    tasks = tuple(dict.fromkeys(task for task, _, _ in found))
    workloads = sorted({workload for _, workload, _ in found})
    shares = sorted({share for _, _, share in found})
    for name, values in (("workload", workloads), ("cpu_milli", shares)):
        if len(values) < LEAST:
            raise InputError(f"{len(values)} different values of {name}; {LEAST} or more are needed", path=path)
    seconds = np.empty((len(tasks), len(workloads), len(shares)))
    for j, task in enumerate(tasks):
        for i, workload in enumerate(workloads):
            for g, share in enumerate(shares):
                tries = found.get((task, workload, share))
                if tries is None:
                    raise InputError(
                        f"task {task} has no row for workload {workload:g} and {share:g} milli; "
                        "every task is measured at every workload and every amount of CPU",
                        path=path,
                    )
                seconds[j, i, g] = math.fsum(tries) / len(tries)
    return RuntimeProfile(tasks, np.array(workloads), np.array(shares), seconds)
