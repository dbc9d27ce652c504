"""The pods of a simulated job, as a controller sees them: all on one node, each with what it has now."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.planner import ShareGrid
from foresail.core.control import (
    SUPERSTEPS_DONE,
    SUPERSTEPS_JOB,
    SUPERSTEPS_TASK,
    SUPERSTEPS_TOTAL,
    WORKLOAD,
    Action,
    Resize,
    RunningPod,
    View,
)
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable

_NODE = "node"


class SimulatedGang:
    """A pod a task, and what is known of it; it begins with equal parts."""

    def __init__(self, tasks: Sequence[str], grid: ShareGrid, job: str = "job") -> None:
        self.job, self.now_s = job, 0.0
        self._table = NodeTable([NodeSpec(_NODE, grid.total_milli, 0)])
        self._running: dict[Hashable, RunningPod] = {}
        for task, milli in zip(tasks, grid.milli(grid.even()), strict=True):
            pod = self._table.pod(task, PodSpec(cpu_milli=milli, memory_bytes=0))
            self._table.assume(pod, Placement(0, _NODE))
            about = {SUPERSTEPS_JOB: job, SUPERSTEPS_TASK: task}
            self._running[pod.uid] = RunningPod(pod, _NODE, 0.0, milli, 0, about)

    @property
    def cpu_milli(self) -> list[int]:
        """What each task has."""
        return [one.cpu_milli for one in self._running.values()]

    def between(self, done: int, total: int, workloads: npt.NDArray[np.float64] | None) -> View:
        """After so many supersteps of all, of which the last one had these workloads."""
        last = dict(zip(self._running, () if workloads is None else workloads.tolist(), strict=False))
        return View(self.now_s, self._table, self._running, SuperstepReadings(done, total, last))

    def carry_out(self, actions: Sequence[Action]) -> None:
        """What gives back goes first, so that the node is at no moment promised twice."""
        resizes = [action for action in actions if isinstance(action, Resize)]
        for action in sorted(resizes, key=lambda one: one.cpu_milli - self._running[one.pod.uid].cpu_milli):
            uid = action.pod.uid
            held = self._table.resize(uid, PodSpec(cpu_milli=action.cpu_milli, memory_bytes=0))
            self._running[uid] = self._running[uid]._replace(pod=held.pod, cpu_milli=action.cpu_milli)


class SuperstepReadings:
    """Telemetry of a job between two supersteps."""

    def __init__(self, done: int, total: int, workloads: dict[Hashable, float]) -> None:
        self._all = {SUPERSTEPS_DONE: float(done), SUPERSTEPS_TOTAL: float(total)}
        self._workloads = workloads

    def reading(self, uid: Hashable, name: str) -> float | None:
        return self._workloads.get(uid) if name == WORKLOAD else self._all.get(name)
