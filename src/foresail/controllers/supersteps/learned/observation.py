"""What a network sees: how long supersteps take with the split there is, and with those that could take its place.

Training and planning share this file, so that a network is asked what it was trained on.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.planner import Floats, Units
from foresail.controllers.supersteps.published import DISCOUNT
from foresail.controllers.supersteps.splitting import greedy
from foresail.forecast.runtime.curves import RuntimeCurves

OBSERVATION = 1
"""Goes up whenever the same job looks otherwise to a network, so that older ones are refused."""
CENTRE_S = 75.0
"""Seconds s are seen as (s − 75) / 75."""
FIGURES = (
    "what a change gains on the cheapest ways",
    "what it gains in the next superstep",
    "what it gains in all supersteps ahead if nothing else is changed",
    "how far scenarios differ in that",
    "supersteps since the last change",
    "how long the cheapest way that keeps does so",
)
"""What a network of timing sees; seconds in penalties, supersteps as ln(1 + n), the last a part of the window."""

Observation = npt.NDArray[np.float32]


def window_splits(curves: RuntimeCurves, units: int, workloads: Floats, count: int) -> Units:
    """The published splits for the next 1, 2, … `count` supersteps; `workloads` is tasks × horizon."""
    seconds = curves.seconds(np.ascontiguousarray(workloads[:, :count].T))
    weights = DISCOUNT ** np.arange(count)
    return np.stack([greedy(seconds[:length], weights, units) for length in range(1, count + 1)])


def expected_s(curves: RuntimeCurves, workloads: Floats, splits: Units) -> Floats:
    """How long each superstep is expected to take with each split: splits × horizon; `workloads` is tasks × horizon."""
    found = np.empty((len(splits), workloads.shape[1]))
    for row, split in zip(found, splits, strict=True):
        slowest_s(curves.breaks, curves.pieces, workloads, split, row)
    return found


def seen(seconds: Floats) -> Observation:
    """Seconds as a network sees them."""
    return ((seconds - CENTRE_S) / CENTRE_S).astype(np.float32)


@numba.njit(cache=True)
def slowest_s(breaks, pieces, workloads, split, found):  # type: ignore[no-untyped-def]
    """Seconds of the slowest task in each superstep, written to `found`; `workloads` is tasks × supersteps.

    The cubics are those of `RuntimeCurves`, for one split alone and not for every share.
    """
    count = pieces.shape[2]
    for step in range(workloads.shape[1]):
        most = -np.inf
        for task in range(workloads.shape[0]):
            workload = min(max(workloads[task, step], breaks[0]), breaks[-1])
            piece = min(max(np.searchsorted(breaks, workload, side="right") - 1, 0), count - 1)
            x = workload - breaks[piece]
            a = pieces[task, split[task], piece]
            most = max(most, a[0] + x * (a[1] + x * (a[2] + x * a[3])))
        found[step] = most
