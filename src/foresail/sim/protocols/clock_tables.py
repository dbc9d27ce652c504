"""What protocol `clock` measures: snapshots over time, exact means over time, and the story of every pod."""

from __future__ import annotations

from typing import Any

import numpy as np

from foresail.core.lifecycle import State
from foresail.core.spec import Workload
from foresail.core.table import CPU, GPU, MEMORY, NodeTable
from foresail.results import metrics
from foresail.results.tables import Column
from foresail.sim.ledger import Ledger
from foresail.sim.meter import Meter
from foresail.sim.work.work import Floats, Work


class Timeline:
    """Follows the cluster through time: writes snapshots down, and sums up what is used for how long.

    A snapshot shows what is so after everything that happens at its time or before; of several between which nothing
    happens, only the first and the last are kept, so a long quiet time costs two rows. The sums are taken whenever
    something happens, not at snapshots, so means over time do not depend on how often one is taken.
    """

    def __init__(
        self, table: NodeTable, workload: Workload, ledger: Ledger, work: Work, *, start_s: float, every_s: float
    ) -> None:
        self._table = table
        self._work = work
        self._ledger = ledger
        self._start_s = start_s
        self._every_s = every_s
        self._meter = Meter(table, workload, 1024)
        requested = np.array([spec.gpu_count * spec.gpu_milli for spec in workload.specs], dtype=np.int64)
        by_arrival = workload.spec_of[np.argsort(workload.arrival_s, kind="stable")]
        self._requested_milli = [0, *np.cumsum(requested[by_arrival]).tolist()]
        """GPU milli of the first so many pods to arrive, together."""
        self._seen = (table.structure, table.touches)
        self._now_s = start_s
        self._due = 0
        self._log: list[tuple[float, int, int, int, int, int]] = []
        self._busy_milli: list[float] = []

    def pass_to(self, time_s: float) -> None:
        """Nothing changes until `time_s`: write down the snapshots before it and add up what has been used."""
        self._snapshots_before(time_s)
        lasted_s = time_s - self._now_s
        if lasted_s > 0:
            self._meter.pass_time(lasted_s)
            self._now_s = time_s

    def take_in(self) -> None:
        """Measure the nodes that were touched since the last time."""
        table = self._table
        structure, touches = self._seen
        if (table.structure, table.touches) == self._seen:
            return
        # The table may count touches anew when its structure changes.
        if table.structure == structure:
            for row in table.touched_since(touches).tolist():
                self._meter.change(row)
        else:
            self._meter.change_all()
        self._seen = (table.structure, table.touches)

    def close(self, end_s: float) -> None:
        """Write down the snapshots that are left, and the end itself."""
        self.pass_to(end_s)
        self._snapshot(end_s)

    def _snapshots_before(self, time_s: float) -> None:
        if self._start_s + self._due * self._every_s >= time_s:
            return
        last = int((time_s - self._start_s) / self._every_s)
        while self._start_s + last * self._every_s >= time_s:
            last -= 1
        for number in dict.fromkeys((self._due, last)):
            self._snapshot(self._start_s + number * self._every_s)
        self._due = last + 1

    def _snapshot(self, time_s: float) -> None:
        count = self._ledger.count
        arrived_milli = self._requested_milli[len(self._requested_milli) - 1 - count[State.EXPECTED]]
        states = (count[State.RUNNING], count[State.WAITING], count[State.FAILED], count[State.FINISHED])
        self._log.append((time_s, arrived_milli, *states))
        self._meter.record()
        busy_milli = self._work.busy_milli()
        if busy_milli is not None:
            self._busy_milli.append(float(busy_milli.sum()))

    def columns(self) -> dict[str, Column]:
        """One row a snapshot, with the columns that `RunResult.timeline` documents."""
        time_s, arrived, running, waiting, failed, finished = zip(*self._log, strict=True)
        return {
            "time_s": np.array(time_s, dtype=np.float64),
            "arrived_gpu_milli": np.array(arrived, dtype=np.int64),
            **self._meter.columns(),
            "running": np.array(running, dtype=np.int64),
            "waiting": np.array(waiting, dtype=np.int64),
            "failed": np.array(failed, dtype=np.int64),
            "finished": np.array(finished, dtype=np.int64),
            **({"busy_cpu_milli": np.array(self._busy_milli)} if self._busy_milli else {}),
        }

    def means(self) -> dict[str, Any]:
        """Means over the time from the first arrival to the end of the run, in percent of what all nodes have."""
        whole_s = self._now_s - self._start_s
        cpu, memory, gpu = (int(self._table.allocatable[:, at].sum()) for at in (CPU, MEMORY, GPU))
        used, fragments = self._meter.used_for()
        idle = gpu * whole_s - used["gpu"]
        return {
            "allocation": {
                "gpu_pct": _percent(used["gpu"], gpu * whole_s),
                "cpu_pct": _percent(used["cpu"], cpu * whole_s),
                "memory_pct": _percent(used["memory"], memory * whole_s),
            },
            "fragmentation": {
                "pct": _percent(fragments, gpu * whole_s),
                "ratio_pct": _percent(fragments, idle),
            },
        }


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole > 0 else None


def pod_columns(
    workload: Workload,
    ledger: Ledger,
    why_waiting: dict[int, str],
    alone_s: Floats,
    target_s: Floats | None,
    *,
    now_s: float,
    least_run_s: float,
) -> dict[str, Column]:
    """The story of every pod that has arrived, in the order of submission.

    What still waits or runs is counted up to `now_s`. Slowdown is measured by `alone_s`, how long each pod would run if
    nothing disturbed it; `least_run_s` bounds that of very short pods. `target_s`: when training jobs had their target.
    """
    came = _came(workload, ledger)
    states = [ledger.lives.of(index) for index in came]
    waits = np.array([state is State.WAITING for state in states], dtype=np.bool_)
    runs = np.array([state is State.RUNNING for state in states], dtype=np.bool_)
    submit_s = workload.arrival_s[came]
    start_s, end_s = _at(ledger.start_s, came), _at(ledger.end_s, came)
    wait_s = _at(ledger.waited_s, came)
    wait_s[waits] += now_s - _at(ledger.waits_since_s, came)[waits]
    run_s = _at(ledger.ran_s, came)
    run_s[runs] += now_s - start_s[runs]
    return {
        "pod": [workload.names[index] for index in came],
        "submit_s": submit_s,
        "start_s": start_s,
        "end_s": end_s,
        "wait_s": wait_s,
        "run_s": run_s,
        "slowdown": np.maximum(1.0, (end_s - submit_s) / np.maximum(alone_s[came], least_run_s)),
        "outcome": [state.value for state in states],
        "restarts": np.array([ledger.restarts[index] for index in came], dtype=np.int64),
        "reason": [ledger.reason[index] or why_waiting.get(index, "") for index in came],
        **({} if target_s is None or not workload.trainings else {"target_s": target_s[came]}),
    }


def placement_columns(workload: Workload, ledger: Ledger, node_names: list[str]) -> dict[str, Column]:
    """One row a pod that has arrived: those that started by their last start, then the others as submitted."""
    came = _came(workload, ledger)
    started = sorted((index for index in came if ledger.row[index] >= 0), key=ledger.start_number.__getitem__)
    order = started + [index for index in came if ledger.row[index] < 0]
    return {
        "order": np.arange(len(order), dtype=np.int64),
        "pod": [workload.names[index] for index in order],
        "node": [node_names[ledger.row[index]] if ledger.row[index] >= 0 else "" for index in order],
        "devices": ["-".join(map(str, ledger.devices[index])) for index in order],
        "time_s": _at(ledger.start_s, order),
    }


def summarize(pods: dict[str, Column], ledger: Ledger, means: dict[str, Any], *, end_s: float) -> dict[str, Any]:
    """The figures of the run, by the formulas of `foresail.results.metrics`."""
    still_s = np.asarray(pods["wait_s"])[np.array(pods["outcome"], dtype=np.str_) == State.WAITING.value]
    failed_by: dict[str, int] = {}
    for reason, name in zip(pods["reason"], pods["outcome"], strict=True):
        if name == State.FAILED:
            failed_by[reason] = failed_by.get(reason, 0) + 1
    return {
        "pods": len(pods["outcome"]),
        "not_arrived": ledger.count[State.EXPECTED],
        **{state.value: ledger.count[state] for state in (State.FINISHED, State.RUNNING, State.WAITING, State.FAILED)},
        "failed_by_reason": dict(sorted(failed_by.items(), key=lambda item: (-item[1], item[0]))),
        "evicted": ledger.evictions,
        "restarted_pods": int((np.asarray(pods["restarts"]) > 0).sum()),
        "wait_s": {**metrics.spread(metrics.waits_s(pods)), "max": metrics.most(metrics.waits_s(pods))},
        "still_waiting_s": {"mean": metrics.mean(still_s), "max": metrics.most(still_s)},
        "bounded_slowdown": metrics.spread(metrics.slowdowns(pods)),
        "completion_s": metrics.spread(metrics.completions_s(pods)),
        "makespan_s": metrics.makespan_s(pods),
        "end_s": end_s,
        **means,
    }


def _came(workload: Workload, ledger: Ledger) -> list[int]:
    """The pods that have arrived, by time and then as the trace lists them."""
    order = np.argsort(workload.arrival_s, kind="stable").tolist()
    return [index for index in order if ledger.lives.of(index) is not State.EXPECTED]


def _at(column: list[float], indices: list[int]) -> Floats:
    return np.array([column[index] for index in indices], dtype=np.float64)
