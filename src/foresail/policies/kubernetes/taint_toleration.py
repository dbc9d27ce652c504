"""TaintToleration: keep away from tainted nodes, and rather not go where a taint asks to stay away."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Ints, Nodes, Pod, Scores, Shape
from foresail.core.table import NodeTable
from foresail.policies.kubernetes.scaling import BEST, by_largest
from foresail.policies.kubernetes.selecting import remembered
from foresail.policies.plain.fit import Taints


class KubeTaintTolerationFilter(Taints):
    """Keep away from nodes with a taint that the pod does not tolerate; as kube-scheduler's TaintToleration."""

    reason = "node(s) had untolerated taint(s)"


class KubeTaintTolerationScore:
    """Prefer nodes with few PreferNoSchedule taints that the pod does not tolerate; as TaintToleration.

    score = 100 - 100·n div max n, where n counts such taints and max n is over the feasible nodes.
    """

    row_wise = True
    keeps_best = False

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        return _untolerated(nodes.table, pod.shape)[nodes.taint_set]

    def same_for_all(self, pod: Pod, nodes: Nodes) -> float | None:
        return None if _untolerated(nodes.table, pod.shape).any() else float(BEST)

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        return by_largest(raw, reverse=True)


@remembered
def _untolerated(table: NodeTable, shape: Shape) -> Ints:
    """PreferNoSchedule taints that the pod does not tolerate, in each set of taints."""
    tolerations = shape.spec.tolerations
    counts = [
        sum(
            taint.effect == "PreferNoSchedule" and not any(toleration.tolerates(taint) for toleration in tolerations)
            for taint in taints
        )
        for taints in table.taint_sets
    ]
    return np.array(counts, dtype=np.int64)
