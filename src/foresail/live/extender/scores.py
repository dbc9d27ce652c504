"""Totals of any size as the few whole numbers that an extender may answer with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.core.model import Ints
from foresail.live.extender.protocol import BEST


def to_scores(totals: npt.NDArray[np.float64], best: int | None) -> Ints:
    """Scores from 0 to 10 by rank, since rounding would make nodes equal that are not.

    Distinct totals are numbered from the best, k = 0, 1, …, d - 1; equal totals get equal scores. With d ≤ 11 the score
    is round(10·(d - 1 - k)/(d - 1)), and 10 for all if d = 1. With more it is max(0, 10 - k): what the best nodes are
    is told apart, the rest share 0, as only the best can be chosen.

    `best` is the place of a node that shall stand alone at the top: the others that share its total count as the next
    distinct one.
    """
    distinct, place = np.unique(totals, return_inverse=True)
    steps = len(distinct) - 1 - place
    if best is not None:
        steps += int((totals == totals[best]).sum() > 1)
        steps[best] = 0
    last = int(steps.max(initial=0))
    if last == 0:
        return np.full(len(totals), BEST, dtype=np.int64)
    if last > BEST:
        return np.maximum(0, BEST - steps)
    scores: Ints = np.rint(BEST * (last - steps) / last).astype(np.int64)
    return scores
