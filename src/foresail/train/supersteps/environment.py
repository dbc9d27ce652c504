"""A bulk-synchronous job as a gymnasium environment: before each superstep keep the split, or change it for a window.

As published: row 0 of an observation is how long the next supersteps are expected to take with the split there is, row
a with the published split for the next a of them. Action 0 keeps, a changes to that split. The reward of a superstep
of d seconds is (150 − d − penalty · [a ≠ 0]) / 75.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numba
import numpy as np

from foresail.controllers.supersteps.learned.observation import (
    CENTRE_S,
    Observation,
    expected_s,
    seen,
    slowest_s,
    window_splits,
)
from foresail.controllers.supersteps.planner import Floats, ShareGrid, Units
from foresail.forecast.runtime.curves import RuntimeCurves

_WIDE = 1e6
"""Observations are not clipped; this is beyond any second there is, as a space needs bounds."""


@dataclass(frozen=True, eq=False, slots=True)
class RowsOfJob:
    """What a job had to do, row by row, and what was forecast of it before each row."""

    curves: RuntimeCurves
    grid: ShareGrid
    workloads: Floats
    """Rows × tasks."""
    forecasts: Floats
    """Rows × tasks × horizon, the row itself first."""

    def part(self, first: int, last: int) -> RowsOfJob:
        """Some of the rows."""
        return RowsOfJob(self.curves, self.grid, self.workloads[first:last], self.forecasts[first:last])


class _PreparedJob:
    """A job with all that does not depend on what was done before: splits, and how long supersteps take with them."""

    def __init__(self, job: RowsOfJob, actions: int, window: int) -> None:
        self.breaks, self.pieces = job.curves.breaks, job.curves.pieces
        self.workloads = np.ascontiguousarray(job.workloads[:, :, None])
        self.forecasts = np.ascontiguousarray(job.forecasts[:, :, :window])
        count = actions - 1
        self.splits: Units = np.stack(
            [window_splits(job.curves, job.grid.units, ahead, count) for ahead in job.forecasts[:, :, :count]]
        )
        # The first row of each is filled in when the split is known.
        self.observations: Observation = np.zeros((len(self.splits), actions, window), np.float32)
        for row, (ahead, splits) in enumerate(zip(self.forecasts, self.splits, strict=True)):
            self.observations[row, 1:] = seen(expected_s(job.curves, ahead, splits))


class SuperstepEnvironment(gymnasium.Env[Observation, np.int64]):
    """Episodes are `length` supersteps of one of the jobs, from a row on that is drawn by seed.

    An episode begins with the split for the longest window, which costs nothing.
    """

    def __init__(
        self,
        jobs: Sequence[RowsOfJob],
        *,
        actions: int = 4,
        window: int = 6,
        length: int = 200,
        penalty_s: float = 15.0,
    ) -> None:
        if not jobs:
            raise ValueError("there are no jobs to learn from")
        if actions < 2 or window < 1 or length < 1:
            raise ValueError(f"{actions} actions, window {window}, length {length}: at least 2, 1 and 1 are needed")
        for job in jobs:
            rows, horizon = job.forecasts.shape[0], job.forecasts.shape[2]
            if horizon < max(window, actions - 1):
                raise ValueError(f"forecasts look {horizon} supersteps ahead; {max(window, actions - 1)} are looked at")
            if rows < length:
                raise ValueError(f"a job has {rows} rows; an episode has {length}")
        self._jobs = [_PreparedJob(job, actions, window) for job in jobs]
        self._length, self._penalty_s = length, penalty_s
        self.observation_space = gymnasium.spaces.Box(-_WIDE, _WIDE, (actions, window), np.float32)
        self.action_space = gymnasium.spaces.Discrete(actions)
        self._job, self._row, self._last = self._jobs[0], 0, 0
        self._split: Units = self._job.splits[0, -1]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; `options` may name its "job" and its first "row"."""
        super().reset(seed=seed)
        asked = options or {}
        at = asked["job"] if "job" in asked else int(self.np_random.integers(len(self._jobs)))
        self._job = self._jobs[at]
        free = len(self._job.splits) - self._length + 1
        self._row = asked["row"] if "row" in asked else int(self.np_random.integers(free))
        if not 0 <= self._row < free:
            raise ValueError(f"row {self._row}: the first row of an episode is 0 to {free - 1}")
        self._last = self._row + self._length
        self._split = self._job.splits[self._row, -1]
        return self._look(self._row), {}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One superstep; after the last one there is nothing to come, so the rows before it are looked at again."""
        job = self._job
        if action:
            self._split = job.splits[self._row, action - 1]
        next_row = min(self._row + 1, len(job.splits) - 1)
        observation = job.observations[next_row].copy()
        seconds = _advance(
            *(job.breaks, job.pieces, job.workloads[self._row], job.forecasts[next_row], self._split),
            observation[0],
        )
        self._row += 1
        penalty_s = self._penalty_s if action else 0.0
        reward = (2 * CENTRE_S - seconds - penalty_s) / CENTRE_S
        return observation, reward, self._row >= self._last, False, {"seconds": seconds}

    def _look(self, row: int) -> Observation:
        observation: Observation = self._job.observations[row].copy()
        _advance(
            *(self._job.breaks, self._job.pieces, self._job.workloads[row], self._job.forecasts[row], self._split),
            observation[0],
        )
        return observation


@numba.njit(cache=True)
def _advance(breaks, pieces, workloads, ahead, split, row):  # type: ignore[no-untyped-def]
    """Seconds of this superstep; how long the next ones are expected to take is written to `row`."""
    found = np.empty(ahead.shape[1])
    slowest_s(breaks, pieces, ahead, split, found)
    for step in range(len(found)):
        row[step] = (found[step] - CENTRE_S) / CENTRE_S
    now = np.empty(1)
    slowest_s(breaks, pieces, workloads, split, now)
    return now[0]
