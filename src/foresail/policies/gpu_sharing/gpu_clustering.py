"""GPU clustering: keep pods that ask for the same number of GPUs together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.table import GPU
from foresail.policies.plain.scaling import LARGEST_GPU_MILLI


class GpuClustering:
    """Place the pod beside pods of its own kind: GPU shares with GPU shares, k-GPU pods with k-GPU pods.

    b = 25·(8000 - R) div 8000 with R the node's free milli-GPU. Score: b + 75 where all GPU pods are of this kind,
    b + 50 where some are, b + 25 where there is no GPU pod, b where all are of other kinds. Pods without GPUs: 0
    everywhere.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        if not pod.gpu_count:
            return np.zeros(len(nodes), dtype=np.int64)
        table = nodes.table
        scores: Scores = _scores(nodes.index, table.free, table.gpu_pods, pod.shape.gpu_kind)
        return scores


@njit(cache=True)
def _scores(rows: Any, free: Any, gpu_pods: Any, kind: int) -> Any:
    scores = np.empty(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        row = rows[at]
        own, others = 0, 0
        for column in range(gpu_pods.shape[1]):
            if column == kind:
                own = gpu_pods[row, column]
            else:
                others += gpu_pods[row, column]
        bonus = 0 if others else 25
        if own:
            bonus += 50
        # int() truncates towards zero, as the published scores do on nodes with more than 8 free GPUs.
        scores[at] = int(25 * (LARGEST_GPU_MILLI - free[row, GPU]) / LARGEST_GPU_MILLI) + bonus
    return scores
