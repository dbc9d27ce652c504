"""Fragmentation gradient descent: prefer the node whose idle GPUs the pod makes least useless to typical pods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from foresail.core.model import Nodes, Pod, Scores
from foresail.core.spec import Workload
from foresail.core.table import CPU, NodeTable
from foresail.errors import OptionError, PolicyError
from foresail.forecast.fragmentation import (
    TypicalPods,
    TypicalRequests,
    has_twin_before,
    node_fragments,
    same_state,
    scratch_for,
)


class Fgd:
    r"""Place the pod where fragmentation grows least, after Weng et al., "Beware of Fragmentation" (ATC '23).

    Δ = F(before) − F(after) in milli-GPU, F the idle milli that a typical pod could not use.
    score = trunc(levels · σ(Δ/1000)) with the logistic σ. A GPU share tries every device that has room and gets the
    one with the best score, the first on ties.
    """

    row_wise = True

    def __init__(self, *, levels: int = 100, cover: float = 0.95) -> None:
        """`levels`: how finely scores are told apart. `cover`: part of the workload that counts as typical."""
        if levels < 1:
            raise OptionError(f"fgd: levels is {levels}; at least 1 is needed (the published policy has 100)")
        if not 0 < cover <= 1:
            raise OptionError(f"fgd: cover is {cover}; it is a part of the workload, above 0 and at most 1")
        self._levels = levels
        self._cover = cover
        self._typical: TypicalPods | None = None
        self._requests: tuple[Any, ...] = ()

    def learn(self, workload: Workload, nodes: Nodes) -> None:
        self._typical = TypicalPods.of(workload, nodes.table.models, cover=self._cover)
        self._requests = self._typical.requests(self._typical.share)

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        table, shape = nodes.table, pod.shape
        rows = nodes.index
        scores: Scores = np.empty(len(rows), dtype=np.int64)
        _scores(
            rows,
            table.free,
            table.gpu_free,
            table.gpu_model,
            shape.spec.cpu_milli,
            shape.gpu_count,
            shape.gpu_milli,
            shape.is_share,
            self._levels,
            scores,
            *self._known_requests(table),
        )
        return scores

    def devices(self, pod: Pod, nodes: Nodes, row: int) -> tuple[int, ...]:
        table, shape = nodes.table, pod.shape
        free = table.gpu_free[row]
        if not shape.is_share:
            fitting = [device for device, milli in enumerate(free.tolist()) if milli >= shape.gpu_milli]
            return tuple(fitting[: shape.gpu_count])
        device = _device_of(
            table.free.item(row, CPU),
            free,
            table.gpu_model.item(row),
            shape.spec.cpu_milli,
            shape.gpu_milli,
            self._levels,
            *self._known_requests(table),
        )
        return (device,)

    def _known_requests(self, table: NodeTable) -> tuple[Any, ...]:
        """The typical pods as the kernels take them, for the models that the table has now."""
        if self._typical is None:
            raise PolicyError("fgd has not seen a workload yet, so it knows no typical pods; call profile.learn first")
        if self._typical.allowed.shape[1] < len(table.models):
            # A node of a new model has come; the kernels look models up without a check.
            self._typical.allow(table.models)
            self._requests = self._typical.requests(self._typical.share)
        return self._requests


@njit(cache=True)
def _levels_of(delta_milli: float, levels: int) -> int:
    return int(levels * (1.0 / (1.0 + math.exp(-delta_milli / 1000.0))))


@njit(cache=True, inline="always")
def _best_device(
    cpu_free: int,
    free: Any,
    model: int,
    cpu_request: int,
    gpu_milli: int,
    levels: int,
    requests: TypicalRequests,
    after: Any,
    scratch: Any,
) -> tuple[int, int]:
    """The best score of a GPU share on one node, and the first device that gives it."""
    before = node_fragments(cpu_free, free, model, requests, scratch)
    after[:] = free
    best, chosen = -1, -1
    for device in range(len(free)):
        if free[device] < gpu_milli or has_twin_before(free, device):
            continue
        after[device] -= gpu_milli
        score = _levels_of(before - node_fragments(cpu_free - cpu_request, after, model, requests, scratch), levels)
        after[device] += gpu_milli
        if score > best:
            best, chosen = score, device
    return best, chosen


@njit(cache=True)
def _device_of(
    cpu_free: int, free: Any, model: int, cpu_request: int, gpu_milli: int, levels: int, *columns: Any
) -> int:
    # The columns of the requests come one by one: numba takes long to recognise a tuple of arrays from Python.
    requests, after = TypicalRequests(*columns), np.empty(len(free), dtype=np.int64)
    scratch = scratch_for(requests)
    _, device = _best_device(cpu_free, free, model, cpu_request, gpu_milli, levels, requests, after, scratch)
    return int(device)


@njit(cache=True)
def _scores(
    rows: Any,
    free: Any,
    gpu_free: Any,
    gpu_model: Any,
    cpu_request: int,
    pod_gpu_count: int,
    pod_gpu_milli: int,
    is_share: bool,  # noqa: FBT001 - a kernel takes its arguments by position
    levels: int,
    scores: Any,
    *columns: Any,
) -> None:
    """Write the score of each row; to hand a new array back would take long."""
    requests = TypicalRequests(*columns)
    scratch = scratch_for(requests)
    after = np.empty(gpu_free.shape[1], dtype=np.int64)
    # Many nodes of a model are in the same state, most of all the idle ones; the last one scored stands for its like.
    scored = np.full(requests.allowed.shape[1], -1, dtype=np.int64)
    for at in range(len(rows)):
        row, model = rows[at], gpu_model[rows[at]]
        like = scored[model]
        if like >= 0 and same_state(free, gpu_free, rows[like], row):
            scores[at] = scores[like]
            continue
        scored[model] = at
        cpu_free = free[row, CPU]
        if is_share:
            scores[at], _ = _best_device(
                cpu_free, gpu_free[row], model, cpu_request, pod_gpu_milli, levels, requests, after, scratch
            )
            continue
        wanted = pod_gpu_count
        for device in range(len(after)):
            after[device] = gpu_free[row, device]
            if wanted > 0 and after[device] >= pod_gpu_milli:
                after[device] -= pod_gpu_milli
                wanted -= 1
        before = node_fragments(cpu_free, gpu_free[row], model, requests, scratch)
        scores[at] = _levels_of(
            before - node_fragments(cpu_free - cpu_request, after, model, requests, scratch), levels
        )
