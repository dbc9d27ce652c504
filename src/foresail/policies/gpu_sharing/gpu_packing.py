"""GPU packing: first the devices already shared, then idle devices of nodes in use, then idle nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.spec import WHOLE_GPU_MILLI


class GpuPacking:
    """Place the pod on devices that are in use already, or else where it opens up the fewest new ones.

    With f idle devices on a node of idle devices only: max(33 - f, f). Otherwise the pod would take the k fullest
    devices with room. If u > 0 of them are idle: max(50 - u, 33). If none is: max(100 - (Σ g·100 div 1000) div 10, 50)
    with g the free milli of each. Pods without GPUs: 0 everywhere.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        if not pod.gpu_count:
            return np.zeros(len(nodes), dtype=np.int64)
        table = nodes.table
        scores: Scores = _packing_scores(nodes.index, table.gpu_free, table.gpu_count, pod.gpu_count, pod.gpu_milli)
        return scores


@njit(cache=True)
def _packing_scores(rows: Any, gpu_free: Any, gpu_count: Any, wanted: int, gpu_milli: int) -> Any:
    scores = np.zeros(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        row = rows[at]
        devices = gpu_count[row]
        idle = 0
        for device in range(devices):
            if gpu_free[row, device] == WHOLE_GPU_MILLI:
                idle += 1
        if idle == devices:
            scores[at] = max(33 - idle, idle)
            continue
        left = wanted
        idle_taken = 0
        free_percent = 0
        for free in np.sort(gpu_free[row, :devices]):
            if left > 0 and free >= gpu_milli:
                left -= 1
                free_percent += free * 100 // WHOLE_GPU_MILLI
                if free == WHOLE_GPU_MILLI:
                    idle_taken += 1
        if left > 0:
            continue
        scores[at] = max(50 - idle_taken, 33) if idle_taken else max(100 - free_percent // 10, 50)
    return scores
