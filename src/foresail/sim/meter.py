"""What is measured while a run goes on: use of resources, and fragmentation class by class, after every event."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from foresail.core.spec import Workload
from foresail.core.table import CPU, GPU, MEMORY, NodeTable
from foresail.policies.gpu_sharing.fragmentation import CLASSES, Q3_SATISFIED, TypicalPods, TypicalRequests, add_classes
from foresail.results.tables import FRAGMENT_CLASSES, Column

_USED = 3
_TOTALS = 6
"""Where the totals stand among the columns of the kernels."""


class Meter:
    """Cluster totals kept up to date row by row, and written down once an event.

    Fragmentation is summed in whole numbers (milli × how often a request occurs), so the totals do not depend on the
    order of the events and never drift.
    """

    def __init__(self, table: NodeTable, workload: Workload, events: int) -> None:
        """`events`: how many will be written down, as far as known; room is added when it runs out."""
        self._table = table
        typical = TypicalPods.of(workload, table.models)
        self._weight_sum = max(1, int(typical.weight.sum()))
        self._by_row = np.zeros((table.count, CLASSES), dtype=np.int64)
        self._totals = np.zeros(_USED + CLASSES, dtype=np.int64)
        self._used_by_row = np.zeros((table.count, _USED), dtype=np.int64)
        self._log = np.zeros((max(events, 16), _USED + CLASSES), dtype=np.int64)
        self._columns = (
            table.allocatable,
            table.free,
            table.gpu_free,
            table.gpu_model,
            self._used_by_row,
            self._by_row,
            self._totals,
            *typical.requests(typical.weight),
        )
        self.events = 0
        _update(table.every_row, *self._columns)

    def observe(self, rows: npt.NDArray[np.int64]) -> None:
        """Take in that these rows have changed, and write one event down."""
        if self.events == len(self._log):
            self._log = np.concatenate([self._log, np.zeros_like(self._log)])
        _observe(rows, self._log, self.events, *self._columns)
        self.events += 1

    def update(self, rows: npt.NDArray[np.int64]) -> None:
        """Take in that these rows have changed."""
        if len(rows):
            _update(rows, *self._columns)

    def record(self) -> None:
        """Write one event down: the totals as they are now."""
        if self.events == len(self._log):
            self._log = np.concatenate([self._log, np.zeros_like(self._log)])
        self._log[self.events] = self._totals
        self.events += 1

    @property
    def used(self) -> tuple[int, int, int]:
        """CPU milli, memory bytes and GPU milli in use now."""
        cpu_milli, memory_bytes, gpu_milli = self._totals[:_USED].tolist()
        return cpu_milli, memory_bytes, gpu_milli

    @property
    def fragment_milli(self) -> float:
        """Idle GPU milli that the typical pods could not use now."""
        classes = self._totals[_USED:]
        return float(classes.sum() - classes[Q3_SATISFIED]) / self._weight_sum

    def columns(self) -> dict[str, Column]:
        """One row an event: what is used, idle, and fragmented by class; milli and bytes."""
        log = self._log[: self.events]
        classes = log[:, _USED:]
        fragments = classes.sum(axis=1) - classes[:, Q3_SATISFIED]
        total_gpu_milli = int(self._table.allocatable[:, GPU].sum())
        columns: dict[str, Column] = {
            "used_gpu_milli": log[:, 2].copy(),
            "used_cpu_milli": log[:, 0].copy(),
            "used_memory_bytes": log[:, 1].copy(),
            "idle_gpu_milli": total_gpu_milli - log[:, 2],
            "fragment_milli": fragments / self._weight_sum,
        }
        for at, name in enumerate(FRAGMENT_CLASSES):
            columns[name] = classes[:, at] / self._weight_sum
        return columns


@njit(cache=True)
def _update(
    rows: Any,
    allocatable: Any,
    free: Any,
    gpu_free: Any,
    gpu_model: Any,
    used_by_row: Any,
    by_row: Any,
    totals: Any,
    *columns: Any,
) -> None:
    """Replace what these rows add to the totals: used cpu, memory and gpu, then the weighted classes.

    `columns` are those of the typical pods.
    """
    requests = TypicalRequests(*columns)
    fitting = np.empty(len(requests.gammas), dtype=np.int64)
    below = np.empty(len(requests.gammas), dtype=np.int64)
    used = np.empty(_USED, dtype=np.int64)
    classes = np.empty(CLASSES, dtype=np.int64)
    for row in rows:
        used[0] = allocatable[row, CPU] - free[row, CPU]
        used[1] = allocatable[row, MEMORY] - free[row, MEMORY]
        used[2] = allocatable[row, GPU] - free[row, GPU]
        for at in range(_USED):
            totals[at] += used[at] - used_by_row[row, at]
            used_by_row[row, at] = used[at]
        add_classes(free[row, CPU], gpu_free[row], gpu_model[row], requests, fitting, below, classes)
        for at in range(CLASSES):
            totals[_USED + at] += classes[at] - by_row[row, at]
            by_row[row, at] = classes[at]


@njit(cache=True)
def _observe(rows: Any, log: Any, event: int, *columns: Any) -> None:
    """Update and record in one call: two would cost more than what they do."""
    _update(rows, *columns)
    log[event] = columns[_TOTALS]
