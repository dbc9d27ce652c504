"""Which points to measure next: those that make the runtime model surest of the whole grid, until it is sure enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foresail.forecast.runtime.scattered import ScatteredFit, TaskPoints, mean_error
from foresail.measure.stress.grid import StressGrid, StressPoint

Floats = npt.NDArray[np.float64]

AT_ONCE = 3
"""Points of a task that are chosen together: fewer would cost a pod each, more would be chosen knowing less."""


@dataclass(frozen=True, slots=True)
class NextPoints:
    """What is to be measured next, and what is known so far."""

    points: tuple[StressPoint, ...]
    """None if the model is sure enough, or has all points that it may."""
    expected_error: float | None
    """Mean over tasks, as a part of seconds; None before the first points."""


@dataclass(frozen=True, slots=True)
class AdaptiveSampling:
    """First the corners and the middle of the grid; then, for each task, the points that most reduce its variance."""

    grid: StressGrid
    target: float
    """How far seconds may be off on average over the grid, as a part of them, by what the model knows of itself."""
    most: int
    """Points of a task."""

    def choose(self, measured: Mapping[StressPoint, list[float]]) -> NextPoints:
        """The next points, given the seconds of every try so far."""
        first = [
            point
            for task in self.grid.tasks
            for point in _first_points(self.grid, task)[: self.most]
            if point not in measured
        ]
        if first:
            return NextPoints(tuple(first), None)
        fit = fit_points(self.grid, measured)
        chosen: list[StressPoint] = []
        errors = []
        for task in self.grid.tasks:
            points = self.grid.of(task)
            _, covariance = fit.posterior(task)
            errors.append(mean_error(covariance))
            there = np.array([point in measured for point in points])
            for _ in range(min(AT_ONCE, self.most - int(there.sum()))):
                if mean_error(covariance) <= self.target or there.all():
                    break
                # What is left of the variance does not depend on what will be measured, so several can be chosen.
                column = covariance / np.sqrt(np.diag(covariance) + fit.noise(task) ** 2)
                at = int(np.argmax(np.where(there, -np.inf, (column**2).sum(axis=0))))
                covariance = covariance - np.outer(column[:, at], column[:, at])
                there[at] = True
                chosen.append(points[at])
        return NextPoints(tuple(chosen), float(np.mean(errors)))


def fit_points(grid: StressGrid, measured: Mapping[StressPoint, list[float]]) -> ScatteredFit:
    """The model of all points of a grid, by those that are measured."""
    tasks = {}
    for task in grid.tasks:
        rows = [
            (point.workload, point.cpu_milli, seconds) for point in grid.of(task) for seconds in measured.get(point, ())
        ]
        tasks[task] = TaskPoints(*np.array(rows, dtype=np.float64).T)
    return ScatteredFit(tasks, np.array(grid.workloads), np.array(grid.cpus_milli, dtype=np.float64))


def _first_points(grid: StressGrid, task: str) -> list[StressPoint]:
    workloads, cpus = grid.workloads, grid.cpus_milli
    middle = (workloads[len(workloads) // 2], cpus[len(cpus) // 2])
    corners = [(workload, cpu) for workload in (workloads[0], workloads[-1]) for cpu in (cpus[0], cpus[-1])]
    return [StressPoint(task, *place) for place in dict.fromkeys([*corners, middle])]
