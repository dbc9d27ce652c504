"""NodeAffinity: nodes that a pod requires, and nodes that it prefers."""

from __future__ import annotations

from typing import Any

import numpy as np

from foresail.core.model import Codes, Nodes, Pod, Scores
from foresail.policies.kubernetes.scaling import by_largest
from foresail.policies.kubernetes.selecting import (
    nodes_of_term,
    nodes_of_terms,
    nodes_wanted,
    special,
    wants_any_node,
)
from foresail.policies.kubernetes.stated_terms import read_affinity

_NOT_WANTED, _NOT_ALLOWED = 1, 2
_REASONS = {
    _NOT_WANTED: "node(s) didn't match Pod's node affinity/selector",
    _NOT_ALLOWED: "node(s) didn't match scheduler-enforced node affinity",
}


class KubeNodeAffinityFilter:
    """Keep to nodes that meet the pod's selector and one term of its required node affinity; as NodeAffinity.

    `added_affinity` is a NodeAffinity whose required terms every pod's node must meet too.
    """

    row_wise = True
    resolvable = False

    def __init__(self, *, added_affinity: dict[str, Any] | None = None) -> None:
        self._added = read_affinity(added_affinity).required

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        codes = np.where(nodes_wanted(nodes.table, pod.shape)[nodes.index], 0, _NOT_WANTED)
        if self._added is not None:
            codes[~nodes_of_terms(nodes.table, self._added)[nodes.index]] = _NOT_ALLOWED
        return codes.astype(np.uint8)

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return self._added is None and wants_any_node(pod.shape)


class KubeNodeAffinityScore:
    """Prefer nodes that meet the pod's preferred terms; as kube-scheduler's NodeAffinity.

    score = 100·w div max w, where w adds the weights of the terms a node meets and max w is over the feasible nodes.
    Preferred terms of `added_affinity`, a NodeAffinity, count for every pod.
    """

    row_wise = True
    keeps_best = True

    def __init__(self, *, added_affinity: dict[str, Any] | None = None) -> None:
        self._added = read_affinity(added_affinity).preferred

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        total = np.zeros(len(nodes), dtype=np.int64)
        for preferred in (*special(pod).preferred_nodes, *self._added):
            total += preferred.weight * nodes_of_term(nodes.table, preferred.term)[nodes.index]
        return total

    def same_for_all(self, pod: Pod, _nodes: Nodes) -> float | None:
        return None if special(pod).preferred_nodes or self._added else 0.0

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        return by_largest(raw)
