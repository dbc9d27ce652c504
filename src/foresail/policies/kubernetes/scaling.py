"""How kube-scheduler brings counts to 0…100: in whole numbers, by the largest."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Scores

BEST = 100


def by_largest(raw: Scores, *, reverse: bool = False) -> Scores:
    """`100 · raw div largest`, or what that leaves to 100 if `reverse`; counts that are all 0 are all alike."""
    counts = raw.astype(np.int64)
    largest = int(counts.max(initial=0))
    scaled = BEST * counts // largest if largest else np.zeros(len(counts), dtype=np.int64)
    return BEST - scaled if reverse else scaled
