"""Prefer the node on which the least memory stays free."""

import numpy as np

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.table import MEMORY


class TightMemory:
    """Place the pod where the smallest part of the memory is left over.

    Score = 100 · (1 - (free - asked)/allocatable), with the memory of the node.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        left = nodes.free[:, MEMORY] - pod.request[MEMORY]
        return 100.0 * (1.0 - left / np.maximum(nodes.allocatable[:, MEMORY], 1))
