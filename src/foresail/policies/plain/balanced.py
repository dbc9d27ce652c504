"""Balanced allocation: prefer the node where CPU and memory are taken in equal parts, as Kubernetes scores it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numba import njit

from foresail.core.model import Ints, Nodes, Pod, Scores
from foresail.core.table import CPU, MEMORY

Version = Literal["1.21", "1.21-difference", "1.22", "1.36"]


class Balanced:
    """Place the pod where CPU and memory are then taken in equal parts: Kubernetes' NodeResourcesBalancedAllocation.

    f = (taken + asked)/allocatable, at most 1. Scores are whole numbers from 0 to 100, as Kubernetes computes them.

    `version` names the formula. "1.21" (and before): int((1 - v)·100) with the variance v = ((f_cpu - f_mem)/2)², 0
    where CPU or memory would be full. "1.21-difference": int((1 - |f_cpu - f_mem|)·100), which those versions used as
    long as volumes did not count. "1.22" (to 1.35): int((1 - d)·100) with the standard deviation
    d = |f_cpu - f_mem|/2. "1.36" (and later): 50 + (50 + with - without) div 2, where with and without are the 1.22
    scores with and without the pod; 0 everywhere for a pod that asks for neither.
    """

    row_wise = True

    def __init__(self, *, version: Version = "1.36") -> None:
        self._version = version

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        if self._version == "1.36":
            table = nodes.table
            gain: Scores = _gains(nodes.index, table.free, table.allocatable, pod.request)
            return gain
        allocatable = nodes.allocatable[:, [CPU, MEMORY]]
        taken = allocatable - nodes.free[:, [CPU, MEMORY]]
        asked = pod.request[[CPU, MEMORY]]
        if self._version.startswith("1.21"):
            parts = np.divide(taken + asked, allocatable, out=np.ones(taken.shape), where=allocatable > 0)
            apart = parts.var(axis=1) if self._version == "1.21" else np.abs(parts[:, 0] - parts[:, 1])
            return np.where((parts >= 1.0).any(axis=1), 0, ((1.0 - apart) * 100.0).astype(np.int64))
        return _by_deviation(taken + asked, allocatable)


def _by_deviation(taken: Ints, allocatable: Ints) -> Ints:
    """Scores by standard deviation; a node that has only one of the two resources is balanced."""
    has = allocatable > 0
    parts = np.minimum(np.divide(taken, allocatable, out=np.zeros(taken.shape), where=has), 1.0)
    deviation = np.where(has.all(axis=1), np.abs((parts[:, 0] - parts[:, 1]) / 2.0), 0.0)
    return ((1.0 - deviation) * 100.0).astype(np.int64)


@njit(cache=True)
def _gains(rows: Any, free: Any, allocatable: Any, request: Any) -> Any:
    """Scores by what the pod changes about the balance of a node."""
    scores = np.zeros(len(rows), dtype=np.int64)
    asked_cpu, asked_memory = request[CPU], request[MEMORY]
    if asked_cpu == 0 and asked_memory == 0:
        return scores
    for at in range(len(rows)):
        row = rows[at]
        cpu, memory = allocatable[row, CPU], allocatable[row, MEMORY]
        taken_cpu, taken_memory = cpu - free[row, CPU], memory - free[row, MEMORY]
        before = _balance(taken_cpu, cpu, taken_memory, memory)
        after = _balance(taken_cpu + asked_cpu, cpu, taken_memory + asked_memory, memory)
        scores[at] = 50 + (50 + after - before) // 2
    return scores


@njit(cache=True)
def _balance(taken_cpu: int, cpu: int, taken_memory: int, memory: int) -> int:
    """`_by_deviation` of one node."""
    deviation = 0.0
    if cpu > 0 and memory > 0:
        deviation = abs((min(taken_cpu / cpu, 1.0) - min(taken_memory / memory, 1.0)) / 2.0)
    return int((1.0 - deviation) * 100.0)
