"""Device rules: which GPUs of the chosen node a pod gets."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Ints, Nodes, Pod


class LeastSufficient:
    """The fullest device that still has room, so that whole devices stay whole; ties go to the lowest index."""

    def devices(self, pod: Pod, nodes: Nodes, row: int) -> tuple[int, ...]:
        free = nodes.table.gpu_free[row]
        order = np.argsort(free, kind="stable")
        return _first_fitting(pod, free, order)


class MostFree:
    """The emptiest device, so that shares disturb each other least."""

    def devices(self, pod: Pod, nodes: Nodes, row: int) -> tuple[int, ...]:
        free = nodes.table.gpu_free[row]
        order = np.argsort(-free, kind="stable")
        return _first_fitting(pod, free, order)


class RandomDevice:
    """Any device with room, drawn with the run's seed."""

    def __init__(self) -> None:
        self._device_random = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        self._device_random = np.random.default_rng([seed, 0xDE71CE])

    def devices(self, pod: Pod, nodes: Nodes, row: int) -> tuple[int, ...]:
        free = nodes.table.gpu_free[row]
        return _first_fitting(pod, free, self._device_random.permutation(len(free)))


def _first_fitting(pod: Pod, free: Ints, order: Ints) -> tuple[int, ...]:
    """The first devices in this order that have room; a pod of whole GPUs takes the lowest indices instead."""
    if not pod.shape.is_share:
        order = np.arange(len(free))
    fitting = order[free[order] >= pod.gpu_milli][: pod.gpu_count]
    return tuple(sorted(fitting.tolist()))
