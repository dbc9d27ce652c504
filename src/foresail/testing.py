"""Builders for tests of policies, and `check_policy`, which tries a policy on many small clusters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from foresail.core.model import Nodes, Placement, Pod, Shape
from foresail.core.policy import Filter, Indifferent, Learning, Normalizing, ReasonedFilter, Seeded, is_row_wise
from foresail.core.spec import WHOLE_GPU_MILLI, Gang, NodeSpec, PodSpec, Taint, Toleration, Workload
from foresail.core.table import GPU, NodeTable

Amounts = Sequence[int]
"""Cpu, memory and gpu milli of one node, then extended resources in the order of their names."""

_MODELS = ("", "A10", "T4", "V100M32")
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


# --- does a policy keep the contract? --------------------------------------------------------------------------------


def check_policy(policy: Any, *, clusters: int = 20, seed: int = 0) -> None:
    """Try a score or a filter on random small clusters; AssertionError where it breaks the contract.

    It must answer with one number a node and never NaN, leave the nodes as they are, give every node its own answer
    however the nodes are ordered, and the same answer to the same question. If it declares `row_wise = True`, no answer
    may depend on other nodes. A policy that draws random numbers (it has `seed`) may depend on the order of the nodes.
    """
    random = np.random.default_rng(seed)
    for _ in range(clusters):
        cluster = _Cluster(random)
        for pod_spec, gang in cluster.pods:
            _check_one(policy, cluster, pod_spec, gang, random)


def _check_one(policy: Any, cluster: _Cluster, spec: PodSpec, gang: Gang | None, random: np.random.Generator) -> None:
    name = type(policy).__name__
    table = cluster.table(np.arange(cluster.count))
    pod = Pod("checked", table.shape(spec), gang=gang)
    rows = _feasible(pod, table)
    if not len(rows):
        return
    before = _columns(table)
    answers = _ask(policy, pod, Nodes(table, rows), cluster)
    changed = [column for column, values in _columns(table).items() if not np.array_equal(values, before[column])]
    _expect(not changed, f"{name} changed the nodes it was asked about: {', '.join(changed)}")
    again = _ask(policy, pod, Nodes(table, rows), cluster)
    _expect(np.array_equal(answers, again), f"{name} answered the same question with {answers} and then {again}")
    _check_normalize(policy, pod, Nodes(table, rows), answers)
    _check_same_for_all(policy, pod, Nodes(table, rows), answers)
    if isinstance(policy, Seeded):
        return

    order = random.permutation(cluster.count)
    shuffled = cluster.table(order)
    asked = np.flatnonzero(np.isin(order, rows))
    moved = _ask(policy, Pod("checked", shuffled.shape(spec), gang=gang), Nodes(shuffled, asked), cluster)
    expected = answers[np.searchsorted(rows, order[asked])]
    _expect(
        np.allclose(moved, expected, rtol=1e-12, atol=1e-12),
        f"{name} does not follow its nodes: shuffled, they get {moved} instead of {expected}",
    )
    if is_row_wise(policy):
        part = np.sort(random.choice(len(rows), size=(len(rows) + 1) // 2, replace=False))
        fewer = _ask(policy, pod, Nodes(table, rows[part]), cluster)
        _expect(
            np.array_equal(fewer, answers[part]),
            f"{name} declares row_wise = True, but gives a node another answer when fewer nodes are asked about",
        )
        emptied = cluster.table(np.arange(cluster.count), only_pods_on=set(rows[part].tolist()))
        alone = _ask(policy, Pod("checked", emptied.shape(spec), gang=gang), Nodes(emptied, rows[part]), cluster)
        _expect(
            np.array_equal(alone, answers[part]),
            f"{name} declares row_wise = True, but gives a node another answer when pods leave other nodes",
        )


def _ask(policy: Any, pod: Pod, nodes: Nodes, cluster: _Cluster) -> npt.NDArray[Any]:
    if isinstance(policy, Learning):
        policy.learn(cluster.workload, nodes.table.all)
    if isinstance(policy, Seeded):
        policy.seed(1)
    answer: Any
    if isinstance(policy, ReasonedFilter):
        answer = policy.refuses(pod, nodes)
    elif isinstance(policy, Filter):
        answer = policy.passes(pod, nodes)
    else:
        answer = policy.score(pod, nodes)
    return _checked(type(policy).__name__, answer, len(nodes))


def _expect(kept: object, message: str) -> None:
    if not kept:
        raise AssertionError(message)


def _checked(name: str, answer: Any, count: int) -> npt.NDArray[Any]:
    answers = np.asarray(answer)
    _expect(answers.shape == (count,), f"{name} answered with shape {answers.shape} for {count} nodes")
    _expect(answers.dtype.kind in "biuf", f"{name} answered with {answers.dtype}, not with numbers")
    _expect(not np.isnan(answers.astype(np.float64)).any(), f"{name} answered with NaN: {answers}")
    return answers


def _check_normalize(policy: Any, pod: Pod, nodes: Nodes, raw: npt.NDArray[Any]) -> None:
    if not isinstance(policy, Normalizing):
        return
    name = type(policy).__name__
    scaled = _checked(f"{name}.normalize", policy.normalize(pod, nodes, raw.copy()), len(nodes))
    if policy.keeps_best:
        _expect(
            np.array_equal(raw == raw.max(), scaled == scaled.max()),
            f"{name} declares keeps_best = True, but normalize made {scaled} of {raw}",
        )


def _check_same_for_all(policy: Any, pod: Pod, nodes: Nodes, raw: npt.NDArray[Any]) -> None:
    same = policy.same_for_all(pod, nodes.table.all) if isinstance(policy, Indifferent) else None
    if same is None:
        return
    scaled = policy.normalize(pod, nodes, raw.copy()) if isinstance(policy, Normalizing) else raw
    _expect(
        (np.asarray(scaled) == same).all(),
        f"{type(policy).__name__} says that all nodes get {same}, but scores them {scaled}",
    )


def _columns(table: NodeTable) -> dict[str, npt.NDArray[Any]]:
    names = ("allocatable", "free", "gpu_free", "gpu_count", "gpu_model", "gpu_pods", "pod_count", "max_pods")
    return {name: getattr(table, name).copy() for name in (*names, "down", "unschedulable", "rank", "taint_set")}


def _feasible(pod: Pod, table: NodeTable) -> npt.NDArray[np.int64]:
    """Nodes with room: a policy is never asked about others."""
    room = (table.free >= pod.request).all(axis=1)
    if pod.gpu_count:
        room &= (table.gpu_free >= pod.gpu_milli).sum(axis=1) >= pod.gpu_count
        room &= pod.shape.model_allowed[table.gpu_model]
    return np.flatnonzero(room)


class _Cluster:
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
            rows = _feasible(pod, table)
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
