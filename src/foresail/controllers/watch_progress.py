"""Watch how far training jobs are, and note for each node what it still has before it."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np

from foresail.controllers.moving import SYSTEM_NAMESPACE
from foresail.core.columns import CPU
from foresail.core.control import (
    CPU_USED_MILLI,
    CPU_USED_S,
    STEPS_DONE,
    STEPS_TOTAL,
    Action,
    RunningPod,
    Telemetry,
    View,
)
from foresail.forecast.node_progress import (
    COST,
    COST_IF_ALL_OVER,
    EMPTY_COST,
    JOBS,
    PODS,
    USED,
    NodeCost,
    WatchedJob,
    node_cost,
)


class WatchProgress:
    """Watch how far training jobs are, and note for each node what it still has before it.

    Changes nothing: what it finds is written to side columns of the node table, from which the policy `progress`, which
    brings it along, takes its scores. Two reports of a job are an epoch apart; jobs are all pods but those of
    kube-system.
    """

    def __init__(self, *, every_s: float = 5.0, epochs: float = 100.0) -> None:
        """`every_s`: time between two looks. `epochs`: how many a job has that has not said so yet."""
        if not 0 < every_s < math.inf:
            raise ValueError(f"every_s is {every_s}; looks lie a number of seconds above 0 apart")
        if not 0 < epochs < math.inf:
            raise ValueError(f"epochs is {epochs}; it is a number above 0")
        self.every_s = every_s
        self._epochs = epochs
        self._rows: dict[Hashable, _Rows] = {}
        self._used: dict[Hashable, tuple[float, float]] = {}
        """When pods were last looked at, and the CPU-seconds that they had used then."""

    def act(self, view: View) -> list[Action]:
        table = view.table
        running = view.running
        self._rows = {one.job: self._rows.get(one.job) or _Rows() for one in running.values()}
        costs = [NodeCost(EMPTY_COST, EMPTY_COST, 0.0)] * table.count
        counts = np.zeros(table.count)
        for node, pods in view.by_node():
            jobs = [one for one in pods if one.pod.spec.namespace != SYSTEM_NAMESPACE]
            known = [self._progress(one, view) for one in jobs]
            costs[node.row] = node_cost(known, float(table.allocatable[node.row, CPU]))
            counts[node.row] = len(jobs)
        self._used = {uid: known for uid, known in self._used.items() if uid in running}
        every_row = table.every_row
        table.side_column(COST, EMPTY_COST).write(every_row, [one.cost for one in costs])
        table.side_column(COST_IF_ALL_OVER, EMPTY_COST).write(every_row, [one.cost_if_all_over for one in costs])
        table.side_column(USED).write(every_row, [one.used for one in costs])
        table.side_column(JOBS).write(every_row, counts)
        table.side_column(PODS).write(every_row, table.pod_count)
        return []

    def _progress(self, one: RunningPod, view: View) -> WatchedJob:
        reading, uid, now_s = view.telemetry.reading, one.pod.uid, view.now_s
        rows = self._rows[one.job]
        rows.see(now_s, reading(uid, STEPS_DONE), reading(uid, STEPS_TOTAL))
        return WatchedJob(
            cpu_milli=self._cpu_milli(uid, now_s, view.telemetry),
            ran_s=max(0.0, now_s - one.since_s),
            # On a cluster pods are submitted at a time of day, which is not on the clock of the view.
            known_s=max(0.0, now_s - min(one.since_s, one.pod.arrival_s)),
            epochs=rows.epochs or self._epochs,
            epoch=rows.epoch,
            epoch_s=rows.epoch_s,
        )

    def _cpu_milli(self, uid: Hashable, now_s: float, telemetry: Telemetry) -> float:
        """What a pod uses; from what it had used at the last look where nobody measures that itself."""
        used_s = telemetry.reading(uid, CPU_USED_S)
        before = self._used.get(uid)
        if used_s is not None:
            self._used[uid] = (now_s, used_s)
        cpu_milli = telemetry.reading(uid, CPU_USED_MILLI)
        if cpu_milli is None and used_s is not None and before is not None and now_s > before[0]:
            cpu_milli = 1000.0 * (used_s - before[1]) / (now_s - before[0])
        return max(0.0, cpu_milli or 0.0)


class _Rows:
    """The last two rows that were seen of a job."""

    __slots__ = ("_at_s", "_step", "_steps", "_total", "epoch_s")

    def __init__(self) -> None:
        self._at_s = math.nan
        self._step = math.nan
        """Of the last row; not a number before the first."""
        self._steps = math.nan
        """Between the last two rows, or from the beginning to the first."""
        self._total = math.nan
        self.epoch_s: float | None = None

    def see(self, now_s: float, step: float | None, total: float | None) -> None:
        """Take in the last row as it is now. What cannot be is no row; a step back is a job that began anew."""
        if step is None or total is None or not (0 < step <= total < math.inf):
            return
        self._total = total
        if step == self._step:
            return
        if step > self._step:
            if now_s > self._at_s:
                self._steps, self.epoch_s = step - self._step, now_s - self._at_s
        else:
            self._steps, self.epoch_s = step, None
        self._at_s, self._step = now_s, step

    @property
    def epochs(self) -> float | None:
        """How many the job has; None before its first row."""
        return None if math.isnan(self._steps) else self._total / self._steps

    @property
    def epoch(self) -> float:
        return 0.0 if math.isnan(self._steps) else self._step / self._steps
