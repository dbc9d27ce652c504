"""Builders of pods, nodes and views for tests."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from foresail.core.control import RunningPod, View
from foresail.core.model import Nodes, Placement, Pod, Shape
from foresail.core.spec import WHOLE_GPU_MILLI, Gang, NodeSpec, PodSpec, Taint, Toleration, Training, Workload
from foresail.core.table import GPU, NodeTable

Amounts = Sequence[int]
"""Cpu, memory and gpu milli of one node, then extended resources in the order of their names."""

_COLUMN_DEFAULTS = {
    "arrival_s": 0.0,
    "duration_s": np.inf,
    "priority": 0,
    "cpu_limit_milli": 0,
    "cpu_weight": 0.0,
    "work_cpu_s": np.nan,
}
_UNCOMPILED = itertools.count(-1, -1)


def make_table(
    free: Sequence[Amounts] | None = None,
    allocatable: Amounts | Sequence[Amounts] | None = None,
    *,
    gpu_devices: Sequence[Sequence[int]] | None = None,
    gpu_model: str | Sequence[str] = "",
    labels: Mapping[str, str] | Sequence[Mapping[str, str]] = {},
    taints: Sequence[Sequence[Taint]] = (),
    rank: Sequence[int] | None = None,
    extended: Sequence[str] = (),
    max_pods: int = 0,
) -> NodeTable:
    """A node table of nodes `node-0`, `node-1`, ….

    Numbers stand in the resource columns as they are given. `allocatable` may be one node's for all; without it every
    node is empty. `gpu_devices` gives the free milli of every device, and then the gpu amounts in `free` and
    `allocatable` are not looked at; without it what is not free is taken from the first devices.
    """
    free_rows = _rows_of(free, allocatable, gpu_devices)
    count = len(free_rows)
    has_rows = _per_node(allocatable, count) if allocatable is not None else free_rows
    devices = [list(row) for row in gpu_devices] if gpu_devices is not None else None
    specs = []
    for at in range(count):
        has = list(has_rows[at])
        gpus = len(devices[at]) if devices is not None else _whole_gpus(has[GPU])
        specs.append(
            NodeSpec(
                f"node-{at}",
                has[0],
                has[1],
                gpus,
                gpu_model if isinstance(gpu_model, str) else gpu_model[at],
                max_pods,
                tuple((labels if isinstance(labels, Mapping) else labels[at]).items()),
                tuple(taints[at]) if taints else (),
                tuple(zip(extended, has[GPU + 1 :], strict=True)),
            )
        )
    table = NodeTable(specs, rank=rank, extended=extended)
    for at in range(count):
        row = dict(zip(("cpu", "memory", "gpu", *extended), free_rows[at], strict=True))
        gpus = specs[at].gpu_count
        device_free = devices[at] if devices is not None else _spread(row["gpu"], gpus)
        table.gpu_free[at, :gpus] = device_free
        row["gpu"] = sum(device_free)
        table.free[at] = [row[name] for name in table.resources]
    return table


def make_nodes(
    free: Sequence[Amounts] | None = None, allocatable: Amounts | Sequence[Amounts] | None = None, **more: Any
) -> Nodes:
    """All nodes of a new table; takes what `make_table` takes."""
    return make_table(free, allocatable, **more).all


def make_pod(
    name: str = "pod",
    *,
    cpu: int = 0,
    memory: int = 0,
    gpu: int = 0,
    gpu_models: Sequence[str] = (),
    extended: Mapping[str, int] | None = None,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Toleration] = (),
    owner: str = "",
    gang: Gang | None = None,
    priority: int = 0,
    nodes: Nodes | NodeTable | None = None,
) -> Pod:
    """A pod that asks for `gpu` milli: a share of one device up to 1000, whole devices above.

    Give `nodes` where the pod meets `decide`, GPU models or extended resources: it is then compiled for that table.
    """
    count = 1 if 0 < gpu <= WHOLE_GPU_MILLI else _whole_gpus(gpu)
    spec = PodSpec(
        cpu_milli=cpu,
        memory_bytes=memory,
        gpu_count=count,
        gpu_milli=min(gpu, WHOLE_GPU_MILLI),
        gpu_models=tuple(gpu_models),
        extended=tuple((extended or {}).items()),
        node_selector=tuple((node_selector or {}).items()),
        tolerations=tuple(tolerations),
        owner=owner,
    )
    if nodes is not None:
        table = nodes if isinstance(nodes, NodeTable) else nodes.table
        return Pod(name, table.shape(spec), gang=gang, priority=priority)
    if gpu_models or extended:
        raise ValueError("a pod with GPU models or extended resources is compiled for a table; give nodes=")
    request = np.array([cpu, memory, gpu], dtype=np.int64)
    # Keys below 0 never meet those a table gives out, so nothing remembered for another pod is taken for this one.
    shape = Shape(next(_UNCOMPILED), spec, request, np.ones(256, dtype=np.bool_), 0)
    return Pod(name, shape, gang=gang, priority=priority)


def make_workload(pods: Mapping[str, Mapping[str, Any]]) -> Workload:
    """Pods by name, each with fields of `PodSpec` and columns of `Workload`, such as cpu_milli=1000, arrival_s=5.0.

    `gang` is a `Gang`, `training` a `Training`.
    """
    specs: dict[PodSpec, int] = {}
    gangs: dict[Gang, int] = {}
    trainings: dict[Training, int] = {}
    columns: dict[str, list[Any]] = {name: [] for name in ("spec_of", "gang_of", "training_of", *_COLUMN_DEFAULTS)}
    for given in pods.values():
        fields = dict(given)
        gang, training = fields.pop("gang", None), fields.pop("training", None)
        columns["gang_of"].append(-1 if gang is None else gangs.setdefault(gang, len(gangs)))
        columns["training_of"].append(-1 if training is None else trainings.setdefault(training, len(trainings)))
        for name, default in _COLUMN_DEFAULTS.items():
            columns[name].append(fields.pop(name, default))
        columns["spec_of"].append(specs.setdefault(PodSpec(**fields), len(specs)))
    whole = ("spec_of", "gang_of", "training_of", "priority", "cpu_limit_milli")
    arrays: dict[str, Any] = {
        name: np.array(values, dtype=np.int64 if name in whole else np.float64) for name, values in columns.items()
    }
    return Workload(names=list(pods), specs=list(specs), gangs=list(gangs), trainings=list(trainings), **arrays)


def make_view(
    table: NodeTable,
    running: Mapping[str, Sequence[Pod]],
    *,
    now_s: float = 0.0,
    since_s: float = 0.0,
    limits_milli: Mapping[str, int] = {},
    readings: Mapping[tuple[Hashable, str], float] = {},
) -> View:
    """What a controller sees: pods that run since `since_s` on the nodes that name them, and are booked there.

    `limits_milli` gives pods, by name, a most of CPU; `readings` what is measured, by uid and name of the reading.
    """
    seen = {}
    for node, pods in running.items():
        for pod in pods:
            table.assume(pod, Placement(table.row_of[node], node))
            limit_milli = limits_milli.get(pod.name, 0)
            seen[pod.uid] = RunningPod(pod, node, since_s, pod.spec.cpu_milli, limit_milli)
    return View(now_s, table, seen, Readings(readings))


class Readings:
    """Telemetry that says what it was told."""

    def __init__(self, readings: Mapping[tuple[Hashable, str], float]) -> None:
        self._readings = readings

    def reading(self, uid: Hashable, name: str) -> float | None:
        return self._readings.get((uid, name))


def _rows_of(
    free: Sequence[Amounts] | None,
    allocatable: Amounts | Sequence[Amounts] | None,
    gpu_devices: Sequence[Sequence[int]] | None,
) -> list[Amounts]:
    if free is not None:
        return list(free)
    if allocatable is None:
        raise ValueError("give free=[(cpu, memory, gpu), …] or allocatable=")
    one_for_all = isinstance(allocatable[0], int)
    return _per_node(allocatable, len(gpu_devices) if gpu_devices is not None and one_for_all else None)


def _per_node(amounts: Amounts | Sequence[Amounts], count: int | None) -> list[Amounts]:
    if isinstance(amounts[0], int):
        return [cast("Amounts", amounts)] * (1 if count is None else count)
    return list(cast("Sequence[Amounts]", amounts))


def _whole_gpus(milli: int) -> int:
    if milli % WHOLE_GPU_MILLI:
        raise ValueError(f"{milli} milli-GPU are no whole devices; one device is {WHOLE_GPU_MILLI}")
    return milli // WHOLE_GPU_MILLI


def _spread(free_milli: int, devices: int) -> list[int]:
    """Free milli over devices, the last ones full first."""
    spread = []
    for _ in range(devices):
        spread.append(min(free_milli, WHOLE_GPU_MILLI))
        free_milli -= spread[-1]
    return spread[::-1]
