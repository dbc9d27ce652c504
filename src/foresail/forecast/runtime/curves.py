"""Seconds by workload for fixed amounts of CPU: what a runtime model is asked for, and what planners look up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RuntimeCurves:
    """For each task and each of some amounts of CPU, seconds as a piecewise cubic of the workload."""

    breaks: Floats
    """Where pieces begin, and where the last one ends; a workload outside counts as the nearest within."""
    pieces: Floats
    """Tasks × shares × pieces × 4: from the constant up, of the workload less the break where the piece begins."""

    def seconds(self, workloads: Floats) -> Floats:
        """For workloads (… × tasks), every task's seconds with every share: … × tasks × shares."""
        rows = np.ascontiguousarray(workloads, dtype=np.float64).reshape(-1, self.pieces.shape[0])
        found: Floats = _evaluate(self.breaks, self.pieces, rows)
        return found.reshape(*workloads.shape, self.pieces.shape[1])


class RuntimeModel(Protocol):
    """How long tasks take."""

    tasks: tuple[str, ...]

    def curves(self, shares_milli: Floats) -> RuntimeCurves:
        """Seconds by workload for each task with each of these amounts of CPU."""


def seconds_with(model: RuntimeModel, workloads: Floats, shares_milli: Floats) -> Floats:
    """Each task's seconds with its own workload and its own CPU (both: tasks)."""
    tasks = np.arange(len(model.tasks))
    found: Floats = model.curves(shares_milli).seconds(workloads)[tasks, tasks]
    return found


@numba.njit(cache=True)
def _evaluate(breaks, pieces, rows):  # type: ignore[no-untyped-def]
    tasks, shares, count = pieces.shape[0], pieces.shape[1], pieces.shape[2]
    seconds = np.empty((rows.shape[0], tasks, shares))
    for row in range(rows.shape[0]):
        for task in range(tasks):
            workload = min(max(rows[row, task], breaks[0]), breaks[-1])
            piece = min(max(np.searchsorted(breaks, workload, side="right") - 1, 0), count - 1)
            x = workload - breaks[piece]
            for share in range(shares):
                a = pieces[task, share, piece]
                seconds[row, task, share] = a[0] + x * (a[1] + x * (a[2] + x * a[3]))
    return seconds
