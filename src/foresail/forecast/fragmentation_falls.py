"""By how much GPU fragmentation falls when a pod comes to a node, or leaves one; below 0 where it grows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from foresail.core.columns import CPU
from foresail.forecast.fragmentation import (
    TypicalRequests,
    has_twin_before,
    node_fragments,
    same_state,
    scratch_for,
)


@njit(cache=True)
def falls_on_arrival(
    rows: Any,
    free: Any,
    gpu_free: Any,
    gpu_model: Any,
    cpu_request: int,
    gpu_count: int,
    gpu_milli: int,
    is_share: bool,  # noqa: FBT001 - a kernel takes its arguments by position
    falls: Any,
    device: Any,
    *columns: Any,
) -> None:
    """Write for each row by how many milli F falls if the pod comes there; −∞ where its devices have too little.

    A share goes to the device on which F falls most, the first of equals, which is written to `device`; whole devices
    are taken from the first on, as fgd takes them, and `device` is −1 then. `columns`: of the typical requests.
    """
    requests = TypicalRequests(*columns)
    scratch = scratch_for(requests)
    after = np.empty(gpu_free.shape[1], dtype=np.int64)
    # Many nodes of a model are in the same state; the last one looked at stands for its like.
    seen = np.full(requests.allowed.shape[1], -1, dtype=np.int64)
    for at in range(len(rows)):
        row, model = rows[at], gpu_model[rows[at]]
        like = seen[model]
        if like >= 0 and same_state(free, gpu_free, rows[like], row):
            falls[at], device[at] = falls[like], device[like]
            continue
        seen[model] = at
        falls[at], device[at] = -np.inf, -1
        after[:] = gpu_free[row]
        cpu_free = free[row, CPU]
        before = node_fragments(cpu_free, gpu_free[row], model, requests, scratch)
        if is_share:
            for one in range(len(after)):
                if after[one] < gpu_milli or has_twin_before(gpu_free[row], one):
                    continue
                after[one] -= gpu_milli
                fall = before - node_fragments(cpu_free - cpu_request, after, model, requests, scratch)
                after[one] += gpu_milli
                if fall > falls[at]:
                    falls[at], device[at] = fall, one
            continue
        wanted = gpu_count
        for one in range(len(after)):
            if wanted > 0 and after[one] >= gpu_milli:
                after[one] -= gpu_milli
                wanted -= 1
        if wanted == 0:
            falls[at] = before - node_fragments(cpu_free - cpu_request, after, model, requests, scratch)


@njit(cache=True)
def falls_on_departure(
    rows: Any,
    free: Any,
    gpu_free: Any,
    gpu_model: Any,
    cpu_request: Any,
    gpu_milli: Any,
    falls: Any,
    *columns: Any,
) -> None:
    """Write for each pod by how many milli F of its node falls if it leaves.

    A pod is on row `rows[i]`, requests `cpu_request[i]` and holds `gpu_milli[i, d]` of device d.
    """
    requests = TypicalRequests(*columns)
    scratch = scratch_for(requests)
    for at in range(len(rows)):
        row = rows[at]
        model, cpu_free = gpu_model[row], free[row, CPU]
        before = node_fragments(cpu_free, gpu_free[row], model, requests, scratch)
        after = gpu_free[row] + gpu_milli[at]
        falls[at] = before - node_fragments(cpu_free + cpu_request[at], after, model, requests, scratch)
