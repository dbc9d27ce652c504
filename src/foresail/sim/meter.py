"""What is measured while a run goes on: use of resources, and fragmentation class by class, after every event."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from foresail.core.spec import Workload
from foresail.core.table import CPU, GPU, MEMORY, NodeTable
from foresail.forecast.fragmentation import CLASSES, Q3_SATISFIED, TypicalPods, TypicalRequests, add_classes
from foresail.results.tables import FRAGMENT_CLASSES, Column

_AT_ONCE = 4096
"""Lines of the tape that are measured together."""
_NO_ROW = -1


class Meter:
    """Cluster totals after every event, and how much of everything was in use for how long.

    What happens is put on a tape: a row has changed, and what it has then; so long nothing changed; the totals are to
    be written down. The tape is measured many lines at a time, since to call a compiled function costs more than what
    it does for one row.

    Fragmentation is summed in whole numbers (milli × how often a request occurs), so the totals do not depend on the
    order of the events and never drift.
    """

    def __init__(self, table: NodeTable, workload: Workload, events: int) -> None:
        """`events`: how many will be written down, as far as known; room is added when it runs out."""
        self._table = table
        typical = TypicalPods.of(workload, table.models)
        self._requests = typical.requests(typical.weight)
        self._weight_sum = max(1, int(typical.weight.sum()))
        resources, devices = table.free.shape[1], table.gpu_free.shape[1]
        self._resources = table.resources
        self._extended = workload.extended
        self._by_row = np.zeros((table.count, resources + CLASSES), dtype=np.int64)
        self._totals = np.zeros(resources + CLASSES, dtype=np.int64)
        """In use of each resource, then idle GPU milli by class × how often a request occurs."""
        self._sums = np.zeros(resources + 1)
        """Totals × the time that they lasted; fragments stand last."""
        self._log = np.zeros((max(events, 16), resources + CLASSES), dtype=np.int64)
        self._events = 0
        self._lines = 0
        self._row = np.full(_AT_ONCE, _NO_ROW, dtype=np.int64)
        self._free = np.zeros((_AT_ONCE, resources), dtype=np.int64)
        self._gpu_free = np.zeros((_AT_ONCE, devices), dtype=np.int64)
        self._lasted_s = np.zeros(_AT_ONCE)
        self.change_all()

    def change(self, row: int) -> None:
        """A row has changed: from now on it counts as it is now."""
        at, table = self._next_line(), self._table
        self._row[at] = row
        self._free[at] = table.free[row]
        self._gpu_free[at] = table.gpu_free[row]

    def change_all(self) -> None:
        """Any row may have changed."""
        table = self._table
        for begin in range(0, table.count, _AT_ONCE):
            self._measure()
            rows = table.every_row[begin : begin + _AT_ONCE]
            self._lines = lines = len(rows)
            self._row[:lines] = rows
            self._free[:lines] = table.free[rows]
            self._gpu_free[:lines] = table.gpu_free[rows]

    def pass_time(self, lasted_s: float) -> None:
        """Nothing has changed for so long, which is more than 0."""
        self._lasted_s[self._next_line()] = lasted_s

    def record(self) -> None:
        """Write one event down: the totals as they are now."""
        self._next_line()

    def _next_line(self) -> int:
        if self._lines == _AT_ONCE:
            self._measure()
        self._lines = at = self._lines + 1
        return at - 1

    def _measure(self) -> None:
        """Take in what is on the tape, and begin a new one."""
        lines, table = self._lines, self._table
        if self._events + lines > len(self._log):
            self._log = np.concatenate([self._log, np.zeros((max(lines, self._events), self._log.shape[1]), np.int64)])
        self._events = _measure(
            self._row[:lines],
            self._free,
            self._gpu_free,
            self._lasted_s,
            self._log,
            self._events,
            self._by_row,
            self._totals,
            self._sums,
            self._weight_sum,
            table.allocatable,
            table.gpu_model,
            *self._requests,
        )
        self._lines = 0
        self._row.fill(_NO_ROW)
        self._lasted_s.fill(0.0)

    def used_for(self) -> tuple[dict[str, float], float]:
        """What was in use of each resource × seconds, and what was fragmented × seconds, over the time that passed."""
        self._measure()
        *used, fragments = self._sums.tolist()
        return dict(zip(self._resources, used, strict=True)), fragments

    def columns(self) -> dict[str, Column]:
        """One row an event: what is used, idle, and fragmented by class; milli and bytes."""
        self._measure()
        log = self._log[: self._events]
        classes = log[:, len(self._resources) :]
        fragments = classes.sum(axis=1) - classes[:, Q3_SATISFIED]
        total_gpu_milli = int(self._table.allocatable[:, GPU].sum())
        columns: dict[str, Column] = {
            "used_gpu_milli": log[:, GPU].copy(),
            "used_cpu_milli": log[:, CPU].copy(),
            "used_memory_bytes": log[:, MEMORY].copy(),
            "idle_gpu_milli": total_gpu_milli - log[:, GPU],
            "fragment_milli": fragments / self._weight_sum,
        }
        for at, name in enumerate(FRAGMENT_CLASSES):
            columns[name] = classes[:, at] / self._weight_sum
        for name in self._extended:
            known = name in self._resources  # not so where a pod that requests it was never looked at
            column = log[:, self._resources.index(name)].copy() if known else np.zeros(len(log), dtype=np.int64)
            columns[f"used:{name}"] = column
        return columns


@njit(cache=True)
def _measure(
    rows: Any,
    free: Any,
    gpu_free: Any,
    lasted_s: Any,
    log: Any,
    events: int,
    by_row: Any,
    totals: Any,
    sums: Any,
    weight_sum: int,
    allocatable: Any,
    gpu_model: Any,
    *columns: Any,
) -> int:
    """Go through the lines of a tape; returns how many events are written down then.

    A line with a row says what the row has now, one with a time how long nothing changed, any other that the totals are
    to be written down. `columns` are those of the typical requests.
    """
    requests = TypicalRequests(*columns)
    fitting = np.empty(len(requests.gammas), dtype=np.int64)
    below = np.empty(len(requests.gammas), dtype=np.int64)
    classes = np.empty(CLASSES, dtype=np.int64)
    resources = free.shape[1]
    for at in range(len(rows)):
        row = rows[at]
        if row != _NO_ROW:
            add_classes(free[at, CPU], gpu_free[at], gpu_model[row], requests, fitting, below, classes)
            for column in range(len(totals)):
                is_use = column < resources
                now = allocatable[row, column] - free[at, column] if is_use else classes[column - resources]
                totals[column] += now - by_row[row, column]
                by_row[row, column] = now
        elif lasted_s[at] > 0:
            for column in range(resources):
                sums[column] += totals[column] * lasted_s[at]
            fragments = totals[resources:].sum() - totals[resources + Q3_SATISFIED]
            sums[resources] += fragments / weight_sum * lasted_s[at]
        else:
            log[events] = totals
            events += 1
    return events
