"""Simon: prefer the node of which the pod takes the largest part."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.table import GPU
from foresail.policies.plain.scaling import min_max


class Simon:
    """Place the pod on the smallest node for it, full or empty, after Alibaba's open-simulator.

    share = max over the resources of asked / (allocatable - asked), 1 where the pod takes all there is. Score =
    round(100·share), then over the feasible nodes (s - min)·100 div (max - min); all 0 if all are equal.

    `count_gpu`: whether GPUs are among the resources. The original sees CPU, memory and extended resources only, since
    its pods ask for GPUs in annotations.
    """

    row_wise = True
    keeps_best = True

    def __init__(self, *, count_gpu: bool = False) -> None:
        self._count_gpu = count_gpu

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        asked = pod.request
        if not self._count_gpu:
            asked = asked.copy()
            asked[GPU] = 0
        rest = (nodes.allocatable - asked).astype(np.float64)
        share = np.broadcast_to(np.where(asked > 0, 1.0, 0.0), rest.shape).copy()
        np.divide(asked, rest, out=share, where=rest != 0)
        percent = 100.0 * np.maximum(share.max(axis=1), 0.0)
        whole = np.floor(percent)
        rounded: Scores = whole + (percent - whole >= 0.5)
        return rounded

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        return min_max(raw)
