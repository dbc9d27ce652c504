"""The state of every node as a table, for results and plots."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from foresail.core.table import CPU, GPU, MEMORY, NodeTable
from foresail.results.tables import Column


def node_columns(
    table: NodeTable, extended: Iterable[str] = (), *, busy_milli: npt.NDArray[np.float64] | None = None
) -> dict[str, Column]:
    """One row a node, in name order. `extended` are the resources that have columns of their own; `busy_milli` is the
    CPU that pods of each row use, where that is known.
    """
    resources = [table.all.resource(name) for name in extended]
    order = sorted(range(table.count), key=table.names.__getitem__)
    rows = np.array(order, dtype=np.int64)
    devices = [table.gpu_free[row, : table.gpu_count[row]].tolist() for row in order]
    return {
        "node": [table.names[row] for row in order],
        "model": [table.models[table.gpu_model[row]] for row in order],
        "cpu_milli": table.allocatable[rows, CPU],
        "memory_bytes": table.allocatable[rows, MEMORY],
        "gpu_count": table.gpu_count[rows],
        "cpu_free_milli": table.free[rows, CPU],
        "memory_free_bytes": table.free[rows, MEMORY],
        "gpu_free_milli": table.free[rows, GPU],
        "gpu_free_milli_by_device": ["-".join(map(str, free)) for free in devices],
        "pods": table.pod_count[rows],
        **({} if busy_milli is None else {"cpu_busy_milli": busy_milli[rows]}),
        **{f"has:{resource.name}": resource.allocatable[rows] for resource in resources},
        **{f"free:{resource.name}": resource.free[rows] for resource in resources},
    }
