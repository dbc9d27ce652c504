"""Prefer the node that keeps the largest share of its resources free."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Nodes, Pod, Scores


class LeastAllocated:
    """Place the pod where the largest part of the resources stays free.

    Score = mean over the resources the node has of (free - asked)/allocatable, from 0 to 1.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        has = nodes.allocatable > 0  # a node without GPUs is not a node full of GPUs
        left = np.zeros(has.shape)
        np.divide(nodes.free - pod.request, nodes.allocatable, out=left, where=has)
        mean: Scores = left.sum(axis=1) / np.maximum(has.sum(axis=1), 1)
        return mean
