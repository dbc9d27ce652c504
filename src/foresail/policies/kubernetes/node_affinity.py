"""NodeAffinity: nodes that a pod requires, and nodes that it prefers."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Mask, Nodes, Pod, Scores
from foresail.policies.kubernetes.scaling import by_largest
from foresail.policies.kubernetes.selecting import nodes_of_term, nodes_wanted, special


class KubeNodeAffinityFilter:
    """Keep to nodes that meet the pod's selector and one term of its required node affinity; as NodeAffinity."""

    row_wise = True
    reason = "node(s) didn't match Pod's node affinity/selector"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        return nodes_wanted(pod, nodes.table)[nodes.index]

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not pod.spec.node_selector and special(pod).required_nodes is None


class KubeNodeAffinityScore:
    """Prefer nodes that meet the pod's preferred terms; as kube-scheduler's NodeAffinity.

    score = 100·w div max w, where w adds the weights of the terms a node meets and max w is over the feasible nodes.
    """

    row_wise = True
    keeps_best = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        total = np.zeros(len(nodes), dtype=np.int64)
        for preferred in special(pod).preferred_nodes:
            total += preferred.weight * nodes_of_term(nodes.table, preferred.term)[nodes.index]
        return total

    def normalize(self, _pod: Pod, _nodes: Nodes, raw: Scores) -> Scores:
        return by_largest(raw)
