"""Seconds as a planner over scenarios looks them up: of each task with each amount of CPU, all rows side by side."""

from __future__ import annotations

import numba
import numpy as np

from foresail.controllers.supersteps.planner import Floats
from foresail.forecast.runtime.curves import RuntimeCurves


class Tables:
    """Makes tables of some curves. Each takes the place of the one before: fresh memory costs more than its filling."""

    def __init__(self, curves: RuntimeCurves) -> None:
        self._curves = curves
        self._room: Floats = np.empty(0)

    def table(self, workloads: Floats) -> Floats:
        """For workloads (rows × tasks), seconds: tasks × shares × rows. They are those of `RuntimeCurves.seconds`."""
        tasks, shares = self._curves.pieces.shape[:2]
        size = tasks * shares * len(workloads)
        if len(self._room) < size:
            self._room = np.empty(size)
        table = self._room[:size].reshape(tasks, shares, len(workloads))
        _fill(self._curves.breaks, self._curves.pieces, np.ascontiguousarray(workloads.T), table)
        return table


@numba.njit(cache=True)
def _fill(breaks, pieces, workloads, table):  # type: ignore[no-untyped-def]
    tasks, shares, count = pieces.shape[:3]
    rows = workloads.shape[1]
    piece, x = np.empty(rows, np.uint32), np.empty(rows)
    for task in range(tasks):
        for row in range(rows):
            workload = min(max(workloads[task, row], breaks[0]), breaks[-1])
            piece[row] = min(max(np.searchsorted(breaks, workload, side="right") - 1, 0), count - 1)
            x[row] = workload - breaks[piece[row]]
        for share in range(shares):
            a, seconds = pieces[task, share], table[task, share]
            for row in range(rows):
                p = np.uint64(piece[row])
                seconds[row] = a[p, 0] + x[row] * (a[p, 1] + x[row] * (a[p, 2] + x[row] * a[p, 3]))
