"""Protocol `openb`: the published GPU-sharing experiment, step by step.

The pods of a trace arrive in a shuffled order, topped up or thinned out until they ask for `load` times the GPUs of
the cluster. Each is placed or dropped before the next arrives; none leaves. Everything is measured after every arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.clock import SimClock
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide, Questions
from foresail.core.lane import NEVER_S
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preemption import Preemption
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import WHOLE_GPU_MILLI, Gang, NodeSpec, Workload
from foresail.core.table import NodeTable
from foresail.errors import InputError, PolicyError
from foresail.results.result import RunResult
from foresail.results.tables import FRAGMENT_CLASSES, Column
from foresail.sim.collector import collector_paused
from foresail.sim.episode import Episode
from foresail.sim.meter import Meter
from foresail.sim.node_table import node_columns
from foresail.sim.volumes import look_after_volumes
from foresail.traces.openb.go_random import draw_openb_run
from foresail.traces.trace import Trace

_PROGRESS_EVERY = 512


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What one seed makes of a trace: the pods by name, the order they arrive in, and the ranks of the nodes."""

    workload: Workload
    order: npt.NDArray[np.int64]
    nodes: list[NodeSpec]
    rank: npt.NDArray[np.int64]


def arrivals(trace: Trace, *, load: float, seed: int) -> Arrivals:
    """Sort by name, shuffle, tune to the load and rank the nodes, all from one seed."""
    nodes = sorted(trace.nodes, key=lambda node: node.name)
    total_gpus = sum(node.gpu_count for node in nodes)
    if not total_gpus:
        raise InputError("no node has a GPU, and protocol openb measures load in GPUs; use --protocol clock instead")
    workload = _sorted_by_name(trace.workload)
    gpu_milli = np.array([spec.gpu_milli for spec in workload.specs], dtype=np.int64)[workload.spec_of]
    gpu_count = np.array([spec.gpu_count for spec in workload.specs], dtype=np.int64)[workload.spec_of]
    if not (gpu_milli * gpu_count).any():
        raise InputError("no pod asks for a GPU, so no load can be reached; use --protocol clock instead")
    draw = draw_openb_run(gpu_milli, gpu_count, load * total_gpus * WHOLE_GPU_MILLI, seed, len(nodes))
    return Arrivals(workload, draw.order, nodes, draw.rank)


def _sorted_by_name(workload: Workload) -> Workload:
    by_name = np.array(sorted(range(len(workload)), key=workload.names.__getitem__), dtype=np.int64)
    return Workload(
        names=[workload.names[index] for index in by_name.tolist()],
        specs=workload.specs,
        spec_of=workload.spec_of[by_name],
    )


class _OpenbCluster:
    """A cluster on which nothing has to be started: to book a pod is to bind it."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table

    def bind(self, pod: Pod, placement: Placement) -> None:
        pass

    def refuse(self, pod: Pod, why: NoFit) -> None:
        pass

    def give_up(self, _gang: Gang, _members: list[Pod], _why: str) -> float:
        return NEVER_S

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        """Nobody has more priority than others in this experiment."""

    def policy_failed(self, _pods: list[Pod], error: PolicyError) -> None:
        raise error


def run_openb(
    trace: Trace,
    profile: Profile,
    *,
    load: float = 1.3,
    seed: int = 42,
    on_progress: Callable[[int, int], None] | None = None,
    decide: Decide = decide_alone,
) -> RunResult:
    """One policy, one trace, one seed. `on_progress` is told (arrivals done, arrivals in all) now and then.

    `decide` may be one that listens in, or that knows the answers already.
    """
    run = _OpenbRun(trace, profile, load, seed, decide)
    with collector_paused():
        run.scheduler.answer(run.go(on_progress))
    return run.result()


def openb_episode(trace: Trace, profile: Profile, *, load: float = 1.3, seed: int = 42) -> Episode:
    """The same run, but it is asked from outside where each pod goes."""
    return Episode(_OpenbRun(trace, profile, load, seed, decide_alone))


class _OpenbRun:
    """One run: pods that arrive one after the other, and what is measured after each."""

    def __init__(self, trace: Trace, profile: Profile, load: float, seed: int, decide: Decide) -> None:
        self._trace, self._profile, self._load, self._seed = trace, profile, load, seed
        arriving = arrivals(trace, load=load, seed=seed)
        self._workload = workload = arriving.workload
        self._table = table = NodeTable(arriving.nodes, rank=arriving.rank, extended=workload.extended)
        look_after_volumes(table, trace.objects)
        profile.seed(seed)
        profile.learn(workload, table.all)
        self.scheduler = Scheduler(_OpenbCluster(table), profile, Queue(SimClock()), decide=decide)
        self._meter = Meter(table, workload, len(arriving.order))
        self._spec_of: list[int] = workload.spec_of[arriving.order].tolist()
        self._names = [workload.names[index] for index in arriving.order.tolist()]
        count = len(self._names)
        self._node, self._devices = [""] * count, [""] * count
        self._failed = np.zeros(count, dtype=np.int64)
        self._reasons: dict[str, int] = {}

    def go(self, on_progress: Callable[[int, int], None] | None = None) -> Questions[None]:
        names, spec_of, meter, start = self._names, self._spec_of, self._meter, self.scheduler.start
        shapes = [self._table.shape(spec) for spec in self._workload.specs]
        nodes, devices, reasons = self._node, self._devices, self._reasons
        for at in range(len(names)):
            pod = Pod(names[at], shapes[spec_of[at]], uid=at)
            outcome = yield pod
            if isinstance(outcome, Placement):
                start(pod, outcome)
                meter.change(outcome.row)
                nodes[at] = outcome.node
                devices[at] = "-".join(map(str, outcome.devices))
            else:
                self._failed[at] = 1
                reasons[outcome.main_reason] = reasons.get(outcome.main_reason, 0) + 1
            meter.record()
            if on_progress is not None and at % _PROGRESS_EVERY == 0:
                on_progress(at, len(names))
        if on_progress is not None:
            on_progress(len(names), len(names))

    def result(self) -> RunResult:
        table, count = self._table, len(self._names)
        requested = np.array([spec.gpu_count * spec.gpu_milli for spec in self._workload.specs], dtype=np.int64)
        failed_so_far = np.cumsum(self._failed)
        order = np.arange(count, dtype=np.int64)
        timeline: dict[str, Column] = {
            "time_s": order.astype(np.float64),
            "arrived_gpu_milli": np.cumsum(requested[self._spec_of]),
            **self._meter.columns(),
            "running": order + 1 - failed_so_far,
            "waiting": np.zeros(count, dtype=np.int64),
            "failed": failed_so_far,
            "finished": np.zeros(count, dtype=np.int64),
        }
        total_gpus = int(table.gpu_count.sum())
        by_load = measure_by_load(timeline, total_gpus, most_pct=round(self._load * 100))
        return RunResult(
            protocol="openb",
            policy=self._profile.name,
            trace=self._trace.name,
            seed=self._seed,
            load=self._load,
            total_gpus=total_gpus,
            tables={
                "placements": {
                    "order": order,
                    "pod": self._names,
                    "node": self._node,
                    "devices": self._devices,
                    "time_s": timeline["time_s"],
                },
                "timeline": timeline,
                "nodes": node_columns(table, self._workload.extended),
                "by_load": by_load,
            },
            summary=_summary(timeline, by_load, total_gpus, self._reasons),
            profile=self._profile.description,
        )


def measure_by_load(timeline: dict[str, Column], total_gpus: int, *, most_pct: int) -> dict[str, Column]:
    """Means over the arrivals at each whole percent of arrived load, rounded as the published tables are."""
    arrived = np.asarray(timeline["arrived_gpu_milli"])
    load = np.rint(arrived / total_gpus / 10).astype(np.int64)
    used = np.asarray(timeline["used_gpu_milli"])
    idle = np.asarray(timeline["idle_gpu_milli"])
    fragments = np.asarray(timeline["fragment_milli"])
    allocation = _rounded(used / total_gpus / 10)
    fragment_milli = _rounded(fragments)
    ratio = _rounded(100 * np.divide(fragments, idle, out=np.zeros(len(idle)), where=idle > 0))
    rows: list[tuple[int, float, float, float]] = []
    for pct in range(most_pct + 1):
        at = _between(load, pct, pct) or _between(load, pct - 1, pct + 1)
        if at is not None:
            rows.append(
                (
                    pct,
                    float(np.round(allocation[at].mean(), 2)),
                    float(np.round(100 * fragment_milli[at].mean() / 1000 / total_gpus, 2)),
                    float(ratio[at].mean()),
                )
            )
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    return {
        "load": np.array(columns[0], dtype=np.int64),
        "allocation_pct": np.array(columns[1], dtype=np.float64),
        "fragmentation_pct": np.array(columns[2], dtype=np.float64),
        "fragmentation_ratio_pct": np.array(columns[3], dtype=np.float64),
    }


def _between(load: npt.NDArray[np.int64], low: int, high: int) -> slice | None:
    """The events with a load from low to high; arrived load only grows, so they stand together."""
    first, end = int(np.searchsorted(load, low, "left")), int(np.searchsorted(load, high, "right"))
    return slice(first, end) if end > first else None


def _rounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Two decimals as Python rounds them; numpy scales first, and so may differ where a value is close to a half."""
    rounded = np.round(values, 2)
    scaled = values * 100
    for at in np.flatnonzero(np.abs(scaled - np.floor(scaled) - 0.5) < 1e-3).tolist():
        rounded[at] = round(float(values[at]), 2)
    return rounded


def _summary(
    timeline: dict[str, Column], by_load: dict[str, Column], total_gpus: int, reasons: dict[str, int]
) -> dict[str, Any]:
    last = {name: np.asarray(column)[-1] for name, column in timeline.items()}
    used = int(last["used_gpu_milli"])
    summary: dict[str, Any] = {
        "pods": len(timeline["time_s"]),
        "failed_pods": int(last["failed"]),
        "failed_by_reason": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        "total_gpus": total_gpus,
        "arrived_gpu_milli": int(last["arrived_gpu_milli"]),
        "used_gpu_milli": used,
        "used_gpu_pct": round(used / total_gpus / 10, 4),
        "used_cpu_milli": int(last["used_cpu_milli"]),
        "used_memory_bytes": int(last["used_memory_bytes"]),
        "idle_gpu_milli": int(last["idle_gpu_milli"]),
        "fragment_milli": round(float(last["fragment_milli"]), 2),
        "fragment_classes_milli": {name: round(float(last[name]), 2) for name in FRAGMENT_CLASSES},
    }
    loads = np.asarray(by_load["load"]).tolist()
    at_load = {}
    for pct in (100, 130):
        if pct in loads:
            row = loads.index(pct)
            at_load[str(pct)] = {name: float(by_load[name][row]) for name in by_load if name != "load"}
    summary["at_load"] = at_load
    return summary
