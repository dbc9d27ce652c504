"""NodeResourcesFit: nodes with enough of everything, and rather those that keep most of their CPU and memory free."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Codes, Mask, Nodes, Pod, Scores
from foresail.core.table import CPU, MEMORY
from foresail.policies.kubernetes.scaling import BEST

_PODS = "Too many pods"
_GPU = "nvidia.com/gpu"
_LAST_CODE = 255


class KubeResourcesFitFilter:
    """Keep to nodes with enough left of every resource that the pod asks for; as kube-scheduler's NodeResourcesFit.

    All that a node has too little of is told, not only the first. GPUs are looked for device by device, which
    Kubernetes leaves to the node.
    """

    row_wise = True

    def __init__(self) -> None:
        self._codes: dict[tuple[str, ...], dict[int, int]] = {}

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table = nodes.table
        asked = _asked(pod)
        bits = ((nodes.max_pods > 0) & (nodes.pod_count >= nodes.max_pods)).astype(np.int64)
        for bit, name in enumerate(asked, start=1):
            if name == _GPU:
                short = _too_few_devices(pod, nodes)
            else:
                column = table.resources.index(name)
                short = table.free[nodes.index, column] < pod.request[column]
            bits |= short.astype(np.int64) << bit
        code_of = self._codes.setdefault(asked, {0: 0})
        codes = np.zeros(len(nodes), dtype=np.uint8)
        for combination in np.unique(bits).tolist():
            # A pod that asks for eight or more kinds of things may be short of them in more ways than there are codes.
            codes[bits == combination] = code_of.setdefault(combination, min(len(code_of), _LAST_CODE))
        return codes

    def why(self, pod: Pod, code: int) -> tuple[str, ...]:
        asked = _asked(pod)
        combination = next(bits for bits, known in self._codes[asked].items() if known == code)
        reasons = (_PODS, *(f"Insufficient {name}" for name in asked))
        return tuple(reason for bit, reason in enumerate(reasons) if combination >> bit & 1)


def _asked(pod: Pod) -> tuple[str, ...]:
    """Names of the resources that the pod asks for."""
    spec = pod.spec
    named = (("cpu", spec.cpu_milli), ("memory", spec.memory_bytes), (_GPU, spec.gpu_count), *spec.extended)
    return tuple(name for name, amount in named if amount)


def _too_few_devices(pod: Pod, nodes: Nodes) -> Mask:
    fitting = (nodes.gpu_free >= pod.gpu_milli).sum(axis=1) >= pod.gpu_count
    short: Mask = ~(fitting & pod.shape.model_allowed[nodes.gpu_model])
    return short


class KubeResourcesFitScore:
    """Prefer the node that keeps the largest part of its CPU and memory free; as NodeResourcesFit (LeastAllocated).

    score = (100·(cpu - asked cpu) div cpu + 100·(memory - asked memory) div memory) div 2, where what is asked is that
    of all pods with this one. A container that asks nothing counts as 100m and 200Mi.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table = nodes.table
        asked = table.tenants.held[nodes.index] + np.array(pod.spec.scored_request, dtype=np.int64)
        capacity = table.allocatable[nodes.index][:, [CPU, MEMORY]]
        has = capacity > 0
        fits = has & (asked <= capacity)
        left = np.where(fits, BEST * (capacity - asked), 0) // np.where(has, capacity, 1)
        score: Scores = left.sum(axis=1) // np.maximum(has.sum(axis=1), 1)
        return score
