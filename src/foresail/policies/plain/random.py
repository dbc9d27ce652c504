"""Random: any feasible node, each as likely as the others."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Nodes, Pod, Scores
from foresail.policies.plain.devices import RandomDevice

_STREAM = 0x5C0FE
"""Keeps the draws of nodes apart from other draws under the same seed."""


class Random(RandomDevice):
    """Place the pod on a feasible node drawn uniformly with the run's seed: it scores 100, all others 0.

    A GPU share gets any device with room, drawn likewise.
    """

    row_wise = False

    def __init__(self) -> None:
        super().__init__()
        self._random = np.random.default_rng([0, _STREAM])

    def seed(self, seed: int) -> None:
        super().seed(seed)
        self._random = np.random.default_rng([seed, _STREAM])

    def score(self, _pod: Pod, nodes: Nodes) -> Scores:
        scores = np.zeros(len(nodes), dtype=np.int64)
        if len(nodes):
            scores[self._random.integers(len(nodes))] = 100
        return scores
