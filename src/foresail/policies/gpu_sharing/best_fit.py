"""Best fit: prefer the node with the least room left over."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.table import CPU, GPU
from foresail.policies.plain.scaling import LARGEST_CPU_MILLI, LARGEST_GPU_MILLI, min_max


class BestFit:
    """Place the pod where the least CPU and GPU is left over.

    s = trunc(100·(1 - ½·(c - c_p)/128000 - ½·(R - R_p)/8000)), with c and R the node's free milli-CPU and milli-GPU and
    c_p and R_p what the pod asks. Then over the feasible nodes (s - min)·100 div (max - min); all 0 if all are equal.
    """

    row_wise = True
    keeps_best = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        scores: Scores = _scores(nodes.index, nodes.table.free, pod.request)
        return scores

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        return min_max(raw)


@njit(cache=True)
def _scores(rows: Any, free: Any, request: Any) -> Any:
    scores = np.empty(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        row = rows[at]
        # CPU first, then GPU: the result is truncated, so the order of the additions can show.
        unused = (free[row, CPU] - request[CPU]) / LARGEST_CPU_MILLI * 0.5
        unused += (free[row, GPU] - request[GPU]) / LARGEST_GPU_MILLI * 0.5
        scores[at] = int((1.0 - unused) * 100.0)
    return scores
