"""Dot product: prefer the node whose free resources are least aligned with what the pod asks (after Tetris)."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numba import njit

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.spec import WHOLE_GPU_MILLI
from foresail.core.table import CPU, GPU
from foresail.policies.plain.scaling import LARGEST_CPU_MILLI, LARGEST_GPU_MILLI

Dimension = Literal["merge", "share", "divide", "extend"]
Norm = Literal["max", "node", "pod"]

_MERGE, _SHARE, _DIVIDE, _EXTEND = 0, 1, 2, 3
_DIMENSIONS = {"merge": _MERGE, "share": _SHARE, "divide": _DIVIDE, "extend": _EXTEND}
_MAX, _NODE, _POD = 0, 1, 2
_NORMS = {"max": _MAX, "node": _NODE, "pod": _POD}
_NO_GROUP, _NO_DEVICE = -2, -1


class DotProduct:
    """Place the pod where free resources are least aligned with its request, after Grandl et al., Tetris (SIGCOMM '14).

    x = mean over the dimensions of (free/norm)·(asked/norm), for norm "pod" then tanh(x/10).
    Score = trunc(100·(1 - x)).

    `dimension` says what the dimensions are. "merge": CPU, and all GPUs of a node together. "share": the node is split
    into one virtual node for each partly used device with room for a GPU share, and one for all idle devices; each
    sees the whole CPU, and the best one counts. "divide": the same, with the CPU split in proportion to free GPU.
    "extend": CPU, each partly used device, and all idle devices together; the pod's GPU request stands in one of them.
    With any but "merge" the best virtual node also names the device a GPU share gets.

    `norm` says what amounts are divided by. "max": the largest node, 128 CPUs and 8 GPUs. "node": the node's own
    capacity. "pod": the pod's request.
    """

    row_wise = True

    def __init__(self, *, dimension: Dimension = "merge", norm: Norm = "max") -> None:
        self._dimension = _DIMENSIONS[dimension]
        self._norm = _NORMS[norm]
        if self._dimension != _MERGE:
            # Merged devices cannot be told apart, so only the other forms have a device rule of their own.
            self.devices = self._best_devices

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table, shape = nodes.table, pod.shape
        scores: Scores = _scores(
            nodes.index,
            table.free,
            table.allocatable,
            table.gpu_free,
            shape.request[CPU],
            shape.request[GPU],
            self._dimension,
            self._norm,
        )
        return scores

    def _best_devices(self, pod: Pod, nodes: Nodes, row: int) -> tuple[int, ...]:
        table, shape = nodes.table, pod.shape
        free = table.gpu_free[row]
        if shape.is_share:
            _, device = _best_group(
                table.free[row, CPU],
                table.allocatable[row, CPU],
                table.allocatable[row, GPU],
                free,
                shape.request[CPU],
                shape.request[GPU],
                self._dimension,
                self._norm,
            )
            if device >= 0:
                return (device,)
        roomy = free == WHOLE_GPU_MILLI if shape.is_share else free >= shape.gpu_milli
        return tuple(np.flatnonzero(roomy)[: shape.gpu_count].tolist())


@njit(cache=True, inline="always")
def _term(free: float, asked: float, norm: float) -> float:
    return (free / norm) * (asked / norm) if norm > 0 else 0.0


@njit(cache=True, inline="always")
def _goodness(product: float, dimensions: int, norm_by: int) -> float:
    product /= dimensions
    if norm_by == _POD:
        product = math.tanh(product / 10.0)
    return 1.0 - product


@njit(cache=True, inline="always")
def _is_group(free: int, is_device: bool, gpu_asked: int, dimension: int) -> bool:  # noqa: FBT001 - numba calls by position
    """Whether a device, or the idle devices together, make a virtual node that could take the pod."""
    if free < gpu_asked:
        return False
    if dimension == _EXTEND:
        return free > 0 and not (is_device and free >= WHOLE_GPU_MILLI)
    # A pod of whole GPUs is matched with the idle devices alone.
    return not is_device or (free < WHOLE_GPU_MILLI and gpu_asked < WHOLE_GPU_MILLI)


@njit(cache=True)
def _best_group(
    cpu_free: int,
    cpu_capacity: int,
    gpu_capacity: int,
    gpu_free: Any,
    cpu_asked: int,
    gpu_asked: int,
    dimension: int,
    norm_by: int,
) -> tuple[float, int]:
    """The best virtual node of one node: how good it is from 0 to 1, and its device (-1: none, -2: no virtual node)."""
    cpu_norm, gpu_norm = float(LARGEST_CPU_MILLI), float(LARGEST_GPU_MILLI)
    if norm_by == _NODE:
        cpu_norm, gpu_norm = float(cpu_capacity), float(gpu_capacity)
    elif norm_by == _POD:
        cpu_norm, gpu_norm = float(cpu_asked), float(gpu_asked)
    if dimension == _MERGE:
        product = _term(cpu_free, cpu_asked, cpu_norm) + _term(gpu_free.sum(), gpu_asked, gpu_norm)
        return _goodness(product, 2, norm_by), _NO_DEVICE
    devices = gpu_capacity // WHOLE_GPU_MILLI
    idle, partial = 0, 0
    for device in range(devices):
        if gpu_free[device] == WHOLE_GPU_MILLI:
            idle += 1
        elif gpu_free[device] > 0:
            partial += 1
    dimensions = 1 + partial + min(idle, 1) if dimension == _EXTEND else 2
    best, chosen = -1.0, _NO_GROUP
    # The last round stands for all idle devices together.
    for at in range(devices + 1):
        free = gpu_free[at] if at < devices else idle * WHOLE_GPU_MILLI
        if not _is_group(free, at < devices, gpu_asked, dimension):
            continue
        cpu = float(cpu_free)
        if dimension == _DIVIDE:
            total = gpu_free.sum()
            if total == 0:
                continue  # there is no free GPU to split the CPU by
            cpu = float(cpu_free * free) / float(total)
        good = _goodness(_term(cpu, cpu_asked, cpu_norm) + _term(free, gpu_asked, gpu_norm), dimensions, norm_by)
        if good > best:
            best, chosen = good, at if at < devices else _NO_DEVICE
    return best, chosen


@njit(cache=True)
def _scores(
    rows: Any,
    free: Any,
    allocatable: Any,
    gpu_free: Any,
    cpu_asked: int,
    gpu_asked: int,
    dimension: int,
    norm_by: int,
) -> Any:
    scores = np.zeros(len(rows), dtype=np.int64)
    for at in range(len(rows)):
        row = rows[at]
        good, chosen = _best_group(
            free[row, CPU],
            allocatable[row, CPU],
            allocatable[row, GPU],
            gpu_free[row],
            cpu_asked,
            gpu_asked,
            dimension,
            norm_by,
        )
        if chosen != _NO_GROUP:
            scores[at] = int(100.0 * good)
    return scores
