"""Small random clusters on which plug-ins are tried."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.model import Placement, Pod
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.core.table import NodeTable

_MODELS = ("", "A10", "T4", "V100M32")


def columns_of(table: NodeTable) -> dict[str, npt.NDArray[Any]]:
    names = ("allocatable", "free", "gpu_free", "gpu_count", "gpu_model", "gpu_pods", "pod_count", "max_pods")
    return {name: getattr(table, name).copy() for name in (*names, "down", "unschedulable", "rank", "taint_set")}


def feasible(pod: Pod, table: NodeTable) -> npt.NDArray[np.int64]:
    """Nodes with room: a policy is never asked about others."""
    room = (table.free >= pod.request).all(axis=1)
    if pod.gpu_count:
        room &= (table.gpu_free >= pod.gpu_milli).sum(axis=1) >= pod.gpu_count
        room &= pod.shape.model_allowed[table.gpu_model]
    return np.flatnonzero(room)


class RandomCluster:
    """Random nodes with pods on them, that can be set up again in another order."""

    def __init__(self, random: np.random.Generator) -> None:
        self.count = int(random.integers(2, 9))
        self._nodes = [_random_node(f"node-{at}", random) for at in range(self.count)]
        self.pods = [_random_pod(random) for _ in range(6)]
        self._placed: list[tuple[int, PodSpec, Gang | None, tuple[int, ...]]] = []
        table = NodeTable(self._nodes)
        for number in range(int(random.integers(0, 4 * self.count))):
            spec, gang = self.pods[int(random.integers(len(self.pods)))]
            pod = Pod(f"placed-{number}", table.shape(spec), gang=gang)
            rows = feasible(pod, table)
            if len(rows):
                row = int(random.choice(rows))
                devices = np.flatnonzero(table.gpu_free[row] >= pod.gpu_milli)[: pod.gpu_count]
                table.assume(pod, Placement(row, table.names[row], tuple(devices.tolist())))
                self._placed.append((row, spec, gang, tuple(devices.tolist())))
        specs = [spec for spec, _ in self.pods]
        self.workload = Workload([f"pod-{at}" for at in range(len(specs))], specs, np.arange(len(specs)))

    def table(self, order: npt.NDArray[np.int64], *, only_pods_on: set[int] | None = None) -> NodeTable:
        """The nodes in this order with their pods, or with the pods of some nodes only."""
        place = {int(row): at for at, row in enumerate(order)}
        table = NodeTable([self._nodes[row] for row in order])
        for number, (row, spec, gang, devices) in enumerate(self._placed):
            if only_pods_on is None or row in only_pods_on:
                at = place[row]
                pod = Pod(f"placed-{number}", table.shape(spec), gang=gang)
                table.assume(pod, Placement(at, table.names[at], devices))
        return table


def _random_node(name: str, random: np.random.Generator) -> NodeSpec:
    model = str(random.choice(_MODELS))
    labels: tuple[tuple[str, str], ...] = ()
    if random.random() < 0.8:
        labels = (("rack", f"rack-{random.integers(3)}"), ("server", f"srv-{random.integers(2)}"))
    return NodeSpec(
        name,
        int(random.choice([8_000, 32_000, 96_000])),
        int(random.choice([16, 128, 512])) << 30,
        int(random.choice([1, 2, 8])) if model else 0,
        model,
        labels=labels,
    )


def _random_pod(random: np.random.Generator) -> tuple[PodSpec, Gang | None]:
    gpu_count = int(random.choice([0, 1, 1, 2, 4]))
    gpu_milli = int(random.choice([200, 500, 750, 1000])) if gpu_count == 1 else 1000 * min(gpu_count, 1)
    spec = PodSpec(
        cpu_milli=int(random.choice([0, 500, 4_000, 12_000])),
        memory_bytes=int(random.choice([0, 1, 8])) << 30,
        gpu_count=gpu_count,
        gpu_milli=gpu_milli,
        gpu_models=("A10", "T4") if gpu_count and random.random() < 0.2 else (),
        owner="web" if random.random() < 0.3 else "",
    )
    return spec, Gang("ring", 2) if random.random() < 0.3 else None


def expect(kept: object, message: str) -> None:
    if not kept:
        raise AssertionError(message)
