"""Place training jobs where least work is still to be done, by what the jobs there report."""

from __future__ import annotations

import math

import numpy as np

from foresail.core.model import Nodes, Pod, Scores
from foresail.errors import OptionError
from foresail.forecast.node_progress import COST, COST_IF_ALL_OVER, EMPTY_COST, JOBS, PODS, USED

_FAR = 2.0**52
"""Costs end below this: whole numbers up to twice as much are exact."""


class ProgressPlacement:
    r"""Place the job on the node whose jobs have least before them, by what they report.

    With n jobs on a node, R those that have reported twice or more, used = n/|R| · Σ_R cpu_j (at most the node's CPU):
    a job of R has U_j = cpu_j/used and P_j = epoch time_j/U_j · (epochs_j − epoch_j), any other U_j = 1/n and
    P_j = running time_j/U_j · epochs. C = 1 + Σ ⌈P_j⌉. The lowest C·n wins among nodes with used ≤ limit · CPU. If all
    are over, P_j = epoch time_j · n · (epochs_j − epoch_j), or time since submission_j · n · epochs, and the lowest
    C·n wins. An epoch is what lies between two reports of a job.

    score = −C·n, those of nodes over the limit below all others. In a mix it is brought to 0 … 100.

    The controller watch-progress, which comes with the policy, looks at the jobs every so often; pods that came or left
    since count in n. Where nobody looks, C is 1 and the node with fewest pods wins.
    """

    row_wise = True
    keeps_best = True

    def __init__(self, *, limit: float = 1.0, every_s: float = 5.0, epochs: float = 100.0) -> None:
        """`limit`: part of a node's CPU above which it is over its limit; use is counted up to 1. `every_s`: time
        between two looks at the jobs. `epochs`: how many a job has that has not said so yet.
        """
        if not 0 < limit < math.inf:
            raise OptionError(f"progress: limit is {limit}; it is a part of a node's CPU, above 0")
        self._limit = limit
        self.companions = (f"watch-progress:every_s={every_s!r},epochs={epochs!r}",)

    def score(self, pod: Pod, nodes: Nodes) -> Scores:  # noqa: ARG002 - what counts is who is there
        jobs = np.maximum(0.0, nodes.side(JOBS) + nodes.pod_count - nodes.side(PODS))
        is_over = nodes.side(USED) > self._limit
        cost = np.where(is_over, nodes.side(COST_IF_ALL_OVER, EMPTY_COST), nodes.side(COST, EMPTY_COST))
        scores: Scores = -(np.minimum(cost * jobs, _FAR - 1) + _FAR * is_over)
        return scores

    def normalize(self, pod: Pod, nodes: Nodes, raw: Scores) -> Scores:  # noqa: ARG002 - the contract's arguments
        if not len(raw):
            return raw
        within = raw > -_FAR
        if not within.any():
            within = np.ones(len(raw), dtype=np.bool_)
        worst, best = raw[within].min(), raw[within].max()
        scaled = np.zeros(len(raw))
        scaled[within] = 100.0 if best == worst else 100.0 * (raw[within] - worst) / (best - worst)
        return scaled
