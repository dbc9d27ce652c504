"""A measured profile: how long each task took, for every amount of work and every amount of CPU that was tried."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


Tries = Mapping[tuple[str, float, float], Sequence[float]]
"""Seconds of every try, by task, workload and amount of CPU, in the order of a file."""


def read_profile(path: str | Path) -> RuntimeProfile:
    """Read a whole profile from a CSV file; tasks stand in the order in which the file names them first."""
    found = read_tries(path)
    check_values(found, path, LEAST)
    for task, workload, share in unmeasured(found):
        raise InputError(
            f"task {task} has no row for workload {workload:g} and {share:g} milli; "
            "every task is measured at every workload and every amount of CPU",
            path=path,
        )
    return whole_profile(found)


def read_tries(path: str | Path) -> Tries:
    """What was measured, by a CSV file; lines that begin with # are passed over."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(("\n" if line.startswith("#") else line for line in file), skipinitialspace=True))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not a CSV file in UTF-8 ({error}); save or convert it", path=path) from None
    first = next((number for number, row in enumerate(rows) if row), None)
    if first is None:
        raise InputError(f"the file is empty; a profile has the columns {', '.join(COLUMNS)}", path=path)
    header = rows[first]
    at = _columns(header, path, first + 1)
    found: dict[tuple[str, float, float], list[float]] = {}
    for line, row in enumerate(rows[first + 1 :], first + 2):
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"the row has {len(row)} fields, the header has {len(header)}", path=path, line=line)
        task = row[at["task"]].strip()
        if not task:
            raise InputError("task is empty; every row names a task", path=path, line=line)
        workload, share, seconds = (
            _number(row[at[name]], name, path, line) for name in ("workload", "cpu_milli", "seconds")
        )
        found.setdefault((task, workload, share), []).append(seconds)
    return found


def write_profile(profile: RuntimeProfile) -> Iterable[tuple[str, float, float, float]]:
    """The rows of a profile, in the order of COLUMNS."""
    for task, table in zip(profile.tasks, profile.seconds, strict=True):
        for workload, row in zip(profile.workloads, table, strict=True):
            for share, seconds in zip(profile.shares_milli, row, strict=True):
                yield task, float(workload), float(share), float(seconds)


def _columns(header: Sequence[str], path: str | Path, line: int) -> dict[str, int]:
    names = [_ALSO.get(cell.strip().lower(), cell.strip().lower()) for cell in header]
    for name in COLUMNS:
        if name not in names:
            hint = did_you_mean(name, names) or f"; a profile has the columns {', '.join(COLUMNS)}"
            raise InputError(f'no column "{name}"{hint}', path=path, line=line)
    return {name: names.index(name) for name in COLUMNS}


def _number(cell: str, name: str, path: str | Path, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f'{name} is "{cell.strip()}"; it is a number above 0', path=path, line=line)
    return value


def axes(found: Tries) -> tuple[tuple[str, ...], list[float], list[float]]:
    """The tasks, and all workloads and amounts of CPU that any of them was measured with, ascending."""
    tasks = tuple(dict.fromkeys(task for task, _, _ in found))
    return tasks, sorted({workload for _, workload, _ in found}), sorted({share for _, _, share in found})


def check_values(found: Tries, path: str | Path, least: int) -> None:
    """Refuse a file with too few different workloads or amounts of CPU."""
    _, workloads, shares = axes(found)
    for name, values in (("workload", workloads), ("cpu_milli", shares)):
        if len(values) < least:
            raise InputError(f"{len(values)} different values of {name}; {least} or more are needed", path=path)


def unmeasured(found: Tries) -> Iterator[tuple[str, float, float]]:
    """Points of the grid that some task was not measured at."""
    return (point for point in itertools.product(*axes(found)) if point not in found)


def whole_profile(found: Tries) -> RuntimeProfile:
    """The means of all tries, of a grid without gaps."""
    tasks, workloads, shares = axes(found)
    means = [math.fsum(found[point]) / len(found[point]) for point in itertools.product(tasks, workloads, shares)]
    seconds = np.array(means).reshape(len(tasks), len(workloads), len(shares))
    return RuntimeProfile(tasks, np.array(workloads), np.array(shares), seconds)
