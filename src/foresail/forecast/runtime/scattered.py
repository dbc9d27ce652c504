"""Seconds everywhere on a grid from a few points of it, and how sure they are: what a measurement is steered by.

The logarithm of a task's seconds is a plane over the logarithms of workload and CPU, a curve along each of them, a
little that depends on both, and the noise of a measurement: a Gaussian process. How much each of these weighs is chosen
by likelihood over all tasks together, so that a few points of each are enough; noise is each task's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError
from foresail.forecast.runtime.monotone import monotone_grid
from foresail.forecast.runtime.profile import (
    LEAST,
    RuntimeProfile,
    axes,
    check_values,
    read_tries,
    unmeasured,
    whole_profile,
)

Floats = npt.NDArray[np.float64]

_PLANE = 2.0
"""Standard deviation of the plane's level and slopes over the whole grid, in logarithms: next to nothing is assumed."""
_ROUNDS = 2
_ENOUGH = 14
"""Workloads and amounts of CPU of a profile that is told from points, as many as the published one has at least."""
LEAST_POINTS = 5
"""Of a task, for all others to be told by."""
MEAN_OF_ABSOLUTE = 0.8
"""What the mean distance from the mean is of a normal variable's standard deviation."""


@dataclass(frozen=True, eq=False, slots=True)
class TaskPoints:
    """What was measured of one task, a row a try; a point may stand there more than once."""

    workloads: Floats
    shares_milli: Floats
    seconds: Floats


@dataclass(frozen=True, slots=True)
class _Weights:
    """Standard deviations in logarithms of seconds, about parts of seconds; `reach` in parts of the grid's width."""

    along_workload: float = 0.05
    along_cpu: float = 0.2
    both: float = 0.06
    reach: float = 0.5


_TRIED: dict[str, tuple[float, ...]] = {
    "along_workload": (0.01, 0.03, 0.05, 0.1, 0.3),
    "along_cpu": (0.03, 0.1, 0.2, 0.3, 0.6),
    "both": (0.01, 0.03, 0.06, 0.12, 0.25),
    "reach": (0.15, 0.3, 0.5, 0.8, 1.2),
}
_NOISE = 0.03
_TRIED_NOISE = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.13, 0.2, 0.35)
_LOOSE = 1.0
"""How far weights may be from what they are at first, as a standard deviation of their logarithms."""
_LOOSE_NOISE = 0.5
"""The same of noise: a few points are not to be taken for nothing but noise."""


def read_measured(path: str | Path) -> RuntimeProfile:
    """A profile from a CSV file: as it was measured if it is whole, else all of it by what its points say."""
    found = read_tries(path)
    tasks, workloads, shares = axes(found)
    if not any(True for _ in unmeasured(found)) and min(len(workloads), len(shares)) >= LEAST:
        return whole_profile(found)
    check_values(found, path, 2)
    points = {}
    for task in tasks:
        rows = [(*place, one) for (name, *place), seconds in found.items() if name == task for one in seconds]
        if len({row[:2] for row in rows}) < LEAST_POINTS:
            raise InputError(
                f"task {task} has fewer than {LEAST_POINTS} points, too few to tell the others; measure more", path=path
            )
        points[task] = TaskPoints(*np.array(rows).T)
    return ScatteredFit(points, np.array(_with_middles(workloads)), np.array(_with_middles(shares))).profile()


def _with_middles(values: list[float]) -> list[float]:
    """Values with the middles of the widest steps between them, so that curves are not told by a few straight lines."""
    found = list(values)
    while len(found) < _ENOUGH:
        at = max(range(1, len(found)), key=lambda at: found[at] / found[at - 1])
        found.insert(at, (found[at] * found[at - 1]) ** 0.5)
    return found


class ScatteredFit:
    """What some points say about all of a grid."""

    def __init__(self, points: Mapping[str, TaskPoints], workloads: Floats, shares_milli: Floats) -> None:
        self.tasks = tuple(points)
        self.workloads, self.shares_milli = workloads, shares_milli
        grid = np.stack(np.meshgrid(workloads, shares_milli, indexing="ij"), axis=-1).reshape(-1, 2)
        self._low, self._width = np.log(grid.min(axis=0)), np.log(grid.max(axis=0) / grid.min(axis=0))
        self._grid = self._scaled(grid)
        self._at = [self._scaled(np.stack([one.workloads, one.shares_milli], axis=1)) for one in points.values()]
        logs = [np.log(one.seconds) for one in points.values()]
        self._levels = [float(values.mean()) for values in logs]
        self._rises = [values - level for values, level in zip(logs, self._levels, strict=True)]
        self._weights = _Weights()
        self._noises = [_NOISE for _ in self.tasks]
        self._choose()

    def _scaled(self, points: Floats) -> Floats:
        scaled: Floats = (np.log(points) - self._low) / self._width
        return scaled

    def noise(self, task: str) -> float:
        """Of one try, as a part of its seconds."""
        return self._noises[self.tasks.index(task)]

    def posterior(self, task: str) -> tuple[Floats, Floats]:
        """Mean (grid) and covariance (grid × grid) of the logarithm of seconds; the grid runs along CPU first."""
        at = self.tasks.index(task)
        between = _covariance(self._grid, self._at[at], self._weights)
        known = _covariance(self._at[at], self._at[at], self._weights) + self._noises[at] ** 2 * np.eye(
            len(self._rises[at])
        )
        solved = np.linalg.solve(known, between.T)
        mean = self._levels[at] + solved.T @ self._rises[at]
        return mean, _covariance(self._grid, self._grid, self._weights) - between @ solved

    def expected_error(self, task: str) -> float:
        """How far seconds are off on average over the grid, as a part of them, by what the model knows of itself."""
        return mean_error(self.posterior(task)[1])

    def profile(self) -> RuntimeProfile:
        """Seconds on all of the grid, which rise with work and fall with CPU."""
        shape = (len(self.workloads), len(self.shares_milli))
        seconds = [monotone_grid(np.exp(self.posterior(task)[0]).reshape(shape)) for task in self.tasks]
        return RuntimeProfile(self.tasks, self.workloads, self.shares_milli, np.stack(seconds))

    def _choose(self) -> None:
        """The most likely weights and noises among those tried, one after the other."""
        for _ in range(_ROUNDS):
            for name, values in _TRIED.items():
                tried = [replace(self._weights, **{name: value}) for value in values]
                self._weights = max(tried, key=self._likelihood)
            for at in range(len(self.tasks)):
                self._noises[at] = max(_TRIED_NOISE, key=lambda noise, at=at: self._task_likelihood(at, noise))  # type: ignore[misc]

    def _likelihood(self, weights: _Weights) -> float:
        usual = _Weights()
        far = sum((np.log(getattr(weights, name) / getattr(usual, name)) / _LOOSE) ** 2 for name in _TRIED)
        return -0.5 * float(far) + sum(
            _log_likelihood(at, rises, weights, noise)
            for at, rises, noise in zip(self._at, self._rises, self._noises, strict=True)
        )

    def _task_likelihood(self, at: int, noise: float) -> float:
        far = (np.log(noise / _NOISE) / _LOOSE_NOISE) ** 2
        return -0.5 * float(far) + _log_likelihood(self._at[at], self._rises[at], self._weights, noise)


def mean_error(covariance: Floats) -> float:
    """How far off on average, of the covariance of logarithms."""
    return float(MEAN_OF_ABSOLUTE * np.sqrt(np.clip(np.diag(covariance), 0.0, None)).mean())


def _covariance(one: Floats, other: Floats, weights: _Weights) -> Floats:
    near_workload = _near(one[:, None, 0] - other[None, :, 0], weights.reach)
    near_cpu = _near(one[:, None, 1] - other[None, :, 1], weights.reach)
    covariance: Floats = (
        _PLANE**2 * (1.0 + one @ other.T)
        + weights.along_workload**2 * near_workload
        + weights.along_cpu**2 * near_cpu
        + weights.both**2 * near_workload * near_cpu
    )
    return covariance


def _near(distance: Floats, reach: float) -> Floats:
    """How alike two places are: Matérn's function for curves that have a slope everywhere (3/2)."""
    far = np.sqrt(3.0) * np.abs(distance) / reach
    near: Floats = (1.0 + far) * np.exp(-far)
    return near


def _log_likelihood(at: Floats, rises: Floats, weights: _Weights, noise: float) -> float:
    root = np.linalg.cholesky(_covariance(at, at, weights) + noise**2 * np.eye(len(at)))
    white = np.linalg.solve(root, rises)
    return float(-0.5 * white @ white - np.log(np.diag(root)).sum())
