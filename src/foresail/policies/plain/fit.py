"""The filters every profile starts from: marks on the node, the pod's selector, and room."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from foresail.core.model import Codes, Mask, Nodes, Pod
from foresail.core.table import CPU, GPU, MEMORY

_CPU, _MEMORY, _MODEL, _GPU, _PODS, _EXTENDED = 1, 2, 3, 4, 5, 6
_REASONS = {
    _CPU: "have too little cpu",
    _MEMORY: "have too little memory",
    _MODEL: "have no allowed gpu model",
    _GPU: "have too little gpu",
    _PODS: "take no more pods",
}


class Schedulable:
    """Keep away from nodes that are cordoned or down."""

    row_wise = True
    resolvable = False

    def refuses(self, _pod: Pod, nodes: Nodes) -> Codes:
        return np.where(nodes.down, 2, nodes.unschedulable).astype(np.uint8)

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return ("are down",) if code == 2 else ("are cordoned",)

    def skips(self, _pod: Pod, nodes: Nodes) -> bool:
        return not nodes.table.down.any() and not nodes.table.unschedulable.any()


class Taints:
    """Keep away from nodes with a taint that the pod does not tolerate."""

    row_wise = True
    resolvable = False
    reason = "have a taint the pod does not tolerate"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        tolerations = pod.spec.tolerations
        tolerated = [
            all(
                taint.effect == "PreferNoSchedule" or any(toleration.tolerates(taint) for toleration in tolerations)
                for taint in taints
            )
            for taints in nodes.table.taint_sets
        ]
        return np.array(tolerated, dtype=np.bool_)[nodes.taint_set]

    def skips(self, _pod: Pod, nodes: Nodes) -> bool:
        return not any(nodes.table.taint_sets)


class NodeSelector:
    """Keep to nodes that carry every label the pod selects by."""

    row_wise = True
    resolvable = False
    reason = "lack a label the pod selects by"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        passing = np.ones(len(nodes), dtype=np.bool_)
        for key, value in pod.spec.node_selector:
            values = nodes.table.label_values(key)
            passing &= nodes.label(key) == (values.index(value) if value in values else -2)
        return passing

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not pod.spec.node_selector


class Fit:
    """Keep to nodes with enough left of every resource, and enough devices of an allowed GPU model."""

    row_wise = True
    unresolvable = (_MODEL,)
    counts_room = True
    only_worsens = True

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table, shape = nodes.table, pod.shape
        rows = nodes.index
        codes: Codes = np.empty(len(rows), dtype=np.uint8)
        _fit_codes(
            rows,
            table.free,
            table.gpu_free,
            table.gpu_model,
            table.pod_count,
            table.max_pods,
            shape.request,
            shape.gpu_count,
            shape.gpu_milli,
            shape.model_allowed,
            codes,
        )
        return codes

    def why(self, pod: Pod, code: int) -> tuple[str, ...]:
        if code in _REASONS:
            return (_REASONS[code],)
        extended = [name for name, amount in pod.spec.extended if amount > 0]
        return (f"have too little {sorted(extended)[code - _EXTENDED]}",)


@njit(cache=True)
def has_devices(free: Any, gpu_count: int, gpu_milli: int) -> bool:
    fitting = 0
    for device in range(len(free)):
        if free[device] >= gpu_milli:
            fitting += 1
    return fitting >= gpu_count


@njit(cache=True)
def _short_of_extended(free: Any, request: Any) -> int:
    """0, or the code of the first asked extended resource that the node has too little of."""
    asked = 0
    for resource in range(GPU + 1, len(request)):
        if request[resource] > 0:
            if free[resource] < request[resource]:
                return _EXTENDED + asked
            asked += 1
    return 0


@njit(cache=True)
def _fit_codes(
    rows: Any,
    free: Any,
    gpu_free: Any,
    gpu_model: Any,
    pod_count: Any,
    max_pods: Any,
    request: Any,
    gpu_count: int,
    gpu_milli: int,
    model_allowed: Any,
    codes: Any,
) -> None:
    # The answer is written into an array that is given: numba takes long to hand a new one back.
    for at in range(len(rows)):
        row = rows[at]
        if request[CPU] > 0 and free[row, CPU] < request[CPU]:
            codes[at] = _CPU
        elif request[MEMORY] > 0 and free[row, MEMORY] < request[MEMORY]:
            codes[at] = _MEMORY
        elif gpu_count > 0 and not model_allowed[gpu_model[row]]:
            codes[at] = _MODEL
        elif max_pods[row] > 0 and pod_count[row] >= max_pods[row]:
            codes[at] = _PODS
        elif gpu_count > 0 and not has_devices(gpu_free[row], gpu_count, gpu_milli):
            codes[at] = _GPU
        else:
            codes[at] = _short_of_extended(free[row], request)
