"""Prefer the node that has the largest share of its resources taken."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Nodes, Pod, Scores


class MostAllocated:
    """Place the pod where the largest part of the resources is then taken, so that other nodes stay empty.

    Score = mean over the resources the node has of (taken + asked)/allocatable, from 0 to 1.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        allocatable = nodes.allocatable
        has = allocatable > 0
        taken = np.zeros(has.shape)
        np.divide(allocatable - nodes.free + pod.request, allocatable, out=taken, where=has)
        mean: Scores = taken.sum(axis=1) / np.maximum(has.sum(axis=1), 1)
        return mean
