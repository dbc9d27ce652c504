"""What published scores are scaled by: the largest node, and whole numbers from 0 to 100 over the feasible nodes."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Scores

LARGEST_CPU_MILLI = 128_000
"""CPU of the largest node of the openb cluster; published scores are fractions of it."""
LARGEST_GPU_MILLI = 8_000
"""GPUs of the largest node of the openb cluster."""


def min_max(raw: Scores, *, all_equal: int = 0) -> Scores:
    """Stretch whole scores to 0…100, cutting off fractions; `all_equal` is what everyone gets if nobody differs.

    Only the highest score reaches 100, so the winners are the same before and after.
    """
    if not len(raw):
        return raw
    scores = raw.astype(np.int64)
    lowest = scores.min()
    spread = scores.max() - lowest
    if spread == 0:
        return np.full(len(raw), all_equal, dtype=np.int64)
    stretched: Scores = (scores - lowest) * 100 // spread
    return stretched
