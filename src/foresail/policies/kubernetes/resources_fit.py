"""NodeResourcesFit: nodes with enough of everything, and rather those that keep most of their CPU and memory free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit

from foresail.core.model import Codes, Ints, Nodes, Pod, Scores, Shape
from foresail.core.spec import PodSpec
from foresail.core.table import CPU, GPU, MEMORY, NodeTable
from foresail.errors import OptionError
from foresail.policies.kubernetes.scaling import BEST
from foresail.policies.kubernetes.selecting import remembered
from foresail.policies.plain.fit import has_devices

_PODS = "Too many pods"
_GPU = "nvidia.com/gpu"
_LAST_CODE = 255
_BITS_OF_A_CODE = 8
"""One for pods and one for each resource: a pod that asks for fewer kinds than these has a code for every mixture."""


class KubeResourcesFitFilter:
    """Keep to nodes with enough left of every resource that the pod asks for; as kube-scheduler's NodeResourcesFit.

    All that a node has too little of is told, not only the first. GPUs are looked for device by device, which
    Kubernetes leaves to the node.
    """

    row_wise = True
    counts_room = True
    only_worsens = True

    def __init__(self) -> None:
        self._codes: dict[tuple[str, ...], dict[int, int]] = {}

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table, shape = nodes.table, pod.shape
        asked = _requested(table, shape)
        bits = _short_of(
            nodes.index,
            table.free,
            table.gpu_free,
            table.gpu_model,
            table.pod_count,
            table.max_pods,
            shape.request,
            asked.columns,
            shape.gpu_count,
            shape.gpu_milli,
            shape.model_allowed,
        )
        if len(asked.names) < _BITS_OF_A_CODE:
            codes: Codes = bits.astype(np.uint8)
            return codes
        code_of = self._codes.setdefault(asked.names, {0: 0})
        codes = np.zeros(len(nodes), dtype=np.uint8)
        for combination in np.unique(bits).tolist():
            # A pod that asks for so many kinds of things may be short of them in more ways than there are codes.
            codes[bits == combination] = code_of.setdefault(combination, min(len(code_of), _LAST_CODE))
        return codes

    def why(self, pod: Pod, code: int) -> tuple[str, ...]:
        names = _names(pod.spec)
        if len(names) < _BITS_OF_A_CODE:
            combination = code
        else:
            combination = next(bits for bits, known in self._codes[names].items() if known == code)
        reasons = (_PODS, *(f"Insufficient {name}" for name in names))
        return tuple(reason for bit, reason in enumerate(reasons) if combination >> bit & 1)


class _Requested(NamedTuple):
    """The resources that a pod asks for: names, and where they stand in the table."""

    names: tuple[str, ...]
    columns: Ints


def _names(spec: PodSpec) -> tuple[str, ...]:
    named = (("cpu", spec.cpu_milli), ("memory", spec.memory_bytes), (_GPU, spec.gpu_count), *spec.extended)
    return tuple(name for name, amount in named if amount)


@remembered
def _requested(table: NodeTable, shape: Shape) -> _Requested:
    names = _names(shape.spec)
    columns = [GPU if name == _GPU else table.resources.index(name) for name in names]
    return _Requested(names, np.array(columns, dtype=np.int64))


@njit(cache=True)
def _short_of(
    rows: Any,
    free: Any,
    gpu_free: Any,
    gpu_model: Any,
    pod_count: Any,
    max_pods: Any,
    request: Any,
    columns: Any,
    gpu_count: int,
    gpu_milli: int,
    model_allowed: Any,
) -> Any:
    """A bit for every resource that a node has too little of, in the order of `columns`; the lowest bit is pods."""
    bits = np.zeros(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        row = rows[at]
        short = 1 if max_pods[row] != 0 and max_pods[row] <= pod_count[row] else 0
        for number in range(len(columns)):
            column = columns[number]
            if column == GPU:
                lacks = not model_allowed[gpu_model[row]] or not has_devices(gpu_free[row], gpu_count, gpu_milli)
            else:
                lacks = free[row, column] < request[column]
            if lacks:
                short |= 1 << (number + 1)
        bits[at] = short
    return bits


class KubeResourcesFitScore:
    """Prefer the node that keeps the largest part of its CPU and memory free; as NodeResourcesFit (LeastAllocated).

    score = (100·(cpu - asked cpu) div cpu + 100·(memory - asked memory) div memory) div 2, where what is asked is that
    of all pods with this one. A container that asks nothing counts as 100m and 200Mi.

    With `strategy` MostAllocated a resource counts 100·asked div what there is. `resources` weighs resources, such as
    cpu = 1 and nvidia.com/gpu = 5, and the score is Σ weight·part div Σ weight over those that the node has; one that
    is neither cpu nor memory counts for pods that ask for it.
    """

    row_wise = True

    def __init__(
        self,
        *,
        strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated",
        resources: dict[str, int] | None = None,
    ) -> None:
        self._packs = strategy == "MostAllocated"
        self._weights = _checked({"cpu": 1, "memory": 1} if resources is None else resources)
        self._is_plain = not self._packs and self._weights == {"cpu": 1, "memory": 1}

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table = nodes.table
        cpu_milli, memory_bytes = pod.spec.scored_request
        if not self._is_plain:
            return self._weighted(pod, nodes)
        score: Scores = _least_allocated(nodes.index, table.tenants.held, table.allocatable, cpu_milli, memory_bytes)
        return score

    def _weighted(self, pod: Pod, nodes: Nodes) -> Scores:
        table = nodes.table
        columns = [_column(table, name) for name in self._weights]
        counted = [at in {CPU, MEMORY} or (at is not None and pod.request[at] > 0) for at in columns]
        capacity = np.zeros((len(nodes), len(columns)), dtype=np.int64)
        asked = np.zeros_like(capacity)
        for place, at in enumerate(columns):
            if at is None or not counted[place]:
                continue
            capacity[:, place] = table.allocatable[nodes.index, at]
            if at in {CPU, MEMORY}:
                asked[:, place] = table.tenants.held[nodes.index, at] + pod.spec.scored_request[at]
            else:
                asked[:, place] = capacity[:, place] - table.free[nodes.index, at] + pod.request[at]
        has = capacity > 0
        if self._packs:
            part = np.where(has, BEST * np.minimum(asked, capacity), 0) // np.where(has, capacity, 1)
        else:
            fits = has & (asked <= capacity)
            part = np.where(fits, BEST * (capacity - asked), 0) // np.where(has, capacity, 1)
        weight = np.array(list(self._weights.values()), dtype=np.int64)
        score: Scores = (part * weight).sum(axis=1) // np.maximum((has * weight).sum(axis=1), 1)
        return score


def _checked(weights: Any) -> dict[str, int]:
    if not isinstance(weights, Mapping) or not weights:
        raise OptionError(f"kube-resources-fit: resources is {weights!r}; weigh some, such as cpu = 1 and memory = 1")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 100:
            raise OptionError(f"kube-resources-fit: resources.{name} is {weight!r}; a weight is from 1 to 100")
    return dict(weights)


def _column(table: NodeTable, name: str) -> int | None:
    """Where a resource stands in the columns of a table; None if no node or pod names it."""
    if name == _GPU:
        return GPU
    return table.resources.index(name) if name in table.resources else None


@njit(cache=True)
def _least_allocated(rows: Any, held: Any, allocatable: Any, cpu_milli: int, memory_bytes: int) -> Any:
    scores = np.zeros(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        row = rows[at]
        left, kinds = 0, 0
        for column, request in ((CPU, cpu_milli), (MEMORY, memory_bytes)):
            has = allocatable[row, column]
            if has > 0:
                kinds += 1
                asked = held[row, column] + request
                if asked <= has:
                    left += BEST * (has - asked) // has
        scores[at] = left // max(kinds, 1)
    return scores
