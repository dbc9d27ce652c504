"""What controllers see of a simulated cluster, and how what they ask for is carried out."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from foresail.core.clock import Clock
from foresail.core.control import CPU_USED_MILLI, CPU_USED_S, WORK_DONE_CPU_S, WORK_LEFT_CPU_S, RunningPod, View
from foresail.core.lifecycle import State
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.scheduler import Scheduler
from foresail.sim.cluster import SimCluster, index_of
from foresail.sim.work.reports import Reports

_TO_MOVE_S = 1.0
"""How long room is held for a pod that moves; in virtual time it gets there in the same instant."""


class SimTelemetry:
    """Readings of running pods, taken from their work and from what training jobs report."""

    def __init__(self, cluster: SimCluster, reports: Reports) -> None:
        self._running = cluster.running
        self._reports = reports
        work = cluster.work
        self._of_work = {
            CPU_USED_MILLI: work.used_milli,
            CPU_USED_S: work.used_cpu_s,
            WORK_DONE_CPU_S: work.done_cpu_s,
            WORK_LEFT_CPU_S: work.left_cpu_s,
        }

    def reading(self, uid: Hashable, name: str) -> float | None:
        if not isinstance(uid, int) or uid not in self._running:
            return None
        measure = self._of_work.get(name)
        return self._reports.reading(uid, name) if measure is None else measure(uid)


class SimSteering:
    """Moves, resizes and holds in virtual time: what can be done is done at once."""

    def __init__(self, cluster: SimCluster, scheduler: Scheduler, clock: Clock, reports: Reports) -> None:
        self._cluster = cluster
        self._scheduler = scheduler
        self._clock = clock
        self._telemetry = SimTelemetry(cluster, reports)

    def view(self) -> View:
        cluster, table = self._cluster, self._cluster.table
        ledger = cluster.ledger
        running: dict[Hashable, RunningPod] = {}
        for index in cluster.running:
            pod = table.placed[index].pod
            running[index] = RunningPod(
                pod=pod,
                node=table.names[ledger.row[index]],
                since_s=ledger.start_s[index],
                cpu_milli=pod.spec.cpu_milli,
                cpu_limit_milli=ledger.cpu_limit_milli[index],
            )
        return View(self._clock.now(), table, running, self._telemetry)

    def move(self, pod: Pod, node: str, why: str) -> str:
        if pod.gang is not None:
            return "it is one of a gang, which is moved whole or not at all"
        declined = self._scheduler.hold_to_move(pod.uid, node, _TO_MOVE_S, why)
        if declined:
            return declined
        ledger, table = self._cluster.ledger, self._cluster.table
        ledger.lives.turn(pod.uid, State.MOVING)
        left = self._scheduler.release(pod.uid)
        outcome = self._scheduler.place(left.pod)
        if isinstance(outcome, NoFit):
            # It stays where it was: nobody has been decided about since it left.
            self._scheduler.holds.release(pod.uid)
            table.assume(left.pod, Placement(left.row, table.names[left.row], left.devices))
            ledger.lives.turn(pod.uid, State.RUNNING)
            return str(outcome)
        return ""

    def resize(self, pod: Pod, cpu_milli: int, cpu_limit_milli: int | None, why: str) -> str:  # noqa: ARG002 - the journal says why
        table, ledger, index = self._cluster.table, self._cluster.ledger, index_of(pod)
        held = table.placed[pod.uid]
        row, spec = held.row, held.pod.spec
        against = self._scheduler.holds.against_resize(held, cpu_milli, table)
        if against:
            return against
        table.resize(pod.uid, replace(spec, cpu_milli=cpu_milli))
        if cpu_limit_milli is not None:
            ledger.cpu_limit_milli[index] = cpu_limit_milli
        self._cluster.work.resize(index, cpu_milli, ledger.cpu_limit_milli[index])
        if cpu_milli < spec.cpu_milli:
            self._scheduler.node_changed(row)
        return ""

    def hold(self, pod: Pod, node: str, for_s: float, why: str) -> str:
        return self._scheduler.hold(pod, node, for_s, why)
