"""NodeUnschedulable: keep away from cordoned nodes."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Codes, Nodes, Pod
from foresail.core.spec import Taint

_CORDON = Taint("node.kubernetes.io/unschedulable")


class KubeNodeUnschedulable:
    """Keep away from cordoned nodes, unless the pod tolerates a cordon; as kube-scheduler's NodeUnschedulable.

    Nodes that are down are refused too: Kubernetes would taint them.
    """

    row_wise = True
    resolvable = False

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        tolerated = any(toleration.tolerates(_CORDON) for toleration in pod.spec.tolerations)
        cordoned = np.zeros(len(nodes), dtype=np.bool_) if tolerated else nodes.unschedulable
        return np.where(nodes.down, 2, cordoned).astype(np.uint8)

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return ("node(s) were not ready",) if code == 2 else ("node(s) were unschedulable",)

    def skips(self, _pod: Pod, nodes: Nodes) -> bool:
        return not nodes.table.down.any() and not nodes.table.unschedulable.any()
