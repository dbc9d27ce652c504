"""NodeDeclaredFeatures: some pods need what only newer kubelets can do."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Mask, Nodes, Pod
from foresail.policies.kubernetes.selecting import special


class KubeDeclaredFeatures:
    """Keep to nodes whose kubelet has declared every feature that the pod needs; as NodeDeclaredFeatures."""

    row_wise = True
    resolvable = False
    reason = "node(s) didn't match Pod's required features"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        needed = set(special(pod).features)
        declared = (nodes.table.specs[row].kubernetes for row in nodes.index)
        return np.array([needed <= set(node.features if node else ()) for node in declared], dtype=np.bool_)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not special(pod).features
