"""Virtual time: the pods of a workload come, wait, run and leave; nodes fail; the scheduler has its turns.

At one instant first the pods leave whose work is done, then nodes fail or come back, then pods arrive in the order of
the trace; then the scheduler decides until nothing that waits fits any more; then controllers have their turns. Then
time goes on to whatever is next: an event, the end of a backoff, of a gang's patience or of a hold, or a controller's
turn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from foresail.core.backoff import Backoff
from foresail.core.clock import SimClock
from foresail.core.control import Controller, View
from foresail.core.control_loop import ControlLoop
from foresail.core.gang import Decide, Questions
from foresail.core.journal import Journal, Listener, What
from foresail.core.lifecycle import State
from foresail.core.model import Pod
from foresail.core.preempting import Preempting
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.reservations import ReservationSettings
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, Workload
from foresail.core.table import NodeTable
from foresail.core.volumes import TakenVolumes
from foresail.sim.agenda import ARRIVAL, DEPARTURE, FAULT, RESUME, Agenda, Event
from foresail.sim.cluster import SimCluster, index_of
from foresail.sim.faults import CORDON, FAIL, UNCORDON, Faults
from foresail.sim.images import PulledImages
from foresail.sim.impossible import Impossible
from foresail.sim.ledger import Ledger
from foresail.sim.steering import SimSteering
from foresail.sim.work.reports import Reports
from foresail.sim.work.work import WorkOf


class Engine:
    """One world in virtual time, which goes on instant by instant."""

    def __init__(
        self,
        workload: Workload,
        table: NodeTable,
        profile: Profile,
        *,
        decide: Decide,
        faults: Faults,
        impossible: Impossible | None,
        work: WorkOf,
        gangs_restart_whole: bool,
        backoff: Backoff,
        preemption: bool,
        volumes: TakenVolumes | None = None,
        listeners: Sequence[Listener] = (),
        controllers: Mapping[str, Controller] | None = None,
        until_s: float = math.inf,
        pulled_image_bytes: int = 0,
        report_error: Sequence[float] = (),
        reservations: ReservationSettings | None = None,
    ) -> None:
        """`impossible` tells of pods that are to fail when they arrive; without it they wait for ever. Controllers
        have turns from the first instant on; without an end, `until_s`, only as long as something else can happen.
        `pulled_image_bytes` is the size of images on nodes where pods with them have started, 0 if nodes pull none;
        `report_error` misleads those who read reports, see `Reports`. With `reservations` room is kept for gangs.
        """
        self.workload, self.table = workload, table
        self._faults, self._impossible, self._gangs_restart_whole = faults, impossible, gangs_restart_whole
        self._shapes = [table.shape(spec) for spec in workload.specs]
        self._spec_of = workload.spec_of.tolist()
        self._members = _members(workload)
        self._pods: dict[int, Pod] = {}

        self.clock = SimClock()
        self.journal = Journal(self.clock, *listeners)
        self.ledger = Ledger(workload.names, workload.cpu_limit_milli.tolist())
        self._agenda = Agenda(self.clock, len(workload))
        self.work = work(workload, table, self.clock, self._agenda)
        self.cluster = SimCluster(
            table,
            self.clock,
            self.ledger,
            self.work,
            self.journal,
            evict=self._evict_all,
            volumes=volumes,
            images=PulledImages(table, pulled_image_bytes) if pulled_image_bytes else None,
        )
        self.scheduler = Scheduler(
            self.cluster,
            profile,
            Queue(self.clock, backoff=backoff),
            decide=decide,
            preemption=Preempting() if preemption else None,
            journal=self.journal,
            reservations=reservations,
            ends=lambda pod: self.work.end_s(index_of(pod)),
        )
        reports = Reports(workload, self.work, report_error)
        self._steering = SimSteering(self.cluster, self.scheduler, self.clock, reports)
        self._controllers, self._until_s = controllers or {}, until_s
        self._control: ControlLoop | None = None
        self._agenda.expect((time_s, ARRIVAL, index, index) for index, time_s in enumerate(workload.arrival_s.tolist()))
        self._agenda.expect((fault.time_s, FAULT, number, number) for number, fault in enumerate(faults.faults))

    def next_time_s(self) -> float:
        """When something happens next; infinity if nothing can happen any more that matters to a pod."""
        count = self.ledger.count
        if not (count[State.EXPECTED] or count[State.WAITING] or count[State.RUNNING]):
            return math.inf
        time_s = min(self._agenda.next_time_s(), self.scheduler.next_time_s())
        if self._control is None or (time_s == math.inf and self._until_s == math.inf):
            return time_s
        return min(time_s, self._control.next_time_s())

    def step(self, time_s: float) -> Questions[None]:
        """Let time go on to the next instant, and let happen what happens then; asks where waiting pods go."""
        self.clock.advance_to(time_s)
        pop = self._agenda.pop
        while (event := pop()) is not None:
            self._happen(event)
        yield from self.scheduler.turns()
        self.work.settle()
        if self._controllers:
            yield from self._steer()

    def _steer(self) -> Questions[None]:
        """Give controllers whose time has come their turns, and let the scheduler use what they made room for."""
        if self._control is None:
            self._control = ControlLoop(self._controllers, self.clock, self.journal)
        if self._control.run_due(self._steering.view, self._steering):
            yield from self.scheduler.turns()
            self.work.settle()

    def view(self) -> View:
        """The world as controllers see it."""
        return self._steering.view()

    @property
    def progress(self) -> int:
        """Arrivals and ends so far; there are two a pod."""
        count = self.ledger.count
        return 2 * len(self.workload) - 2 * count[State.EXPECTED] - count[State.WAITING] - count[State.RUNNING]

    def why_waiting(self) -> dict[int, str]:
        """Why each pod that waits does so, as far as is known."""
        of = self.ledger.lives.of
        return {index: self._why(pod) for index, pod in self._pods.items() if of(index) is State.WAITING}

    def _why(self, pod: Pod) -> str:
        why = self.cluster.why_waiting(pod)
        if why or pod.gang is None:
            return f"no node fits: most {why}" if why else ""
        return "waits for the rest of its gang"

    # --- events ----------------------------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        _, kind, _, what = event
        if kind == DEPARTURE:
            self.cluster.end(what)
            self.scheduler.release(what)
            del self._pods[what]
        elif kind == ARRIVAL:
            self._arrive(what)
        elif kind == RESUME:
            self.work.resume(what)
        else:
            self._apply_fault(what)

    def _arrive(self, index: int) -> None:
        workload, spec = self.workload, self._spec_of[index]
        gang = int(workload.gang_of[index])
        pod = Pod(
            workload.names[index],
            self._shapes[spec],
            uid=index,
            priority=int(workload.priority[index]),
            gang=workload.gangs[gang] if gang >= 0 else None,
            arrival_s=self.clock.now(),
        )
        self.cluster.arrive(pod)
        why = "" if self._impossible is None else self._impossible.why(pod.spec)
        if why:
            self.cluster.fail(pod, why)
        else:
            self._pods[index] = pod
            self.scheduler.submit(pod)

    def _apply_fault(self, number: int) -> None:
        fault = self._faults.faults[number]
        row = self.table.row_of[fault.node]
        self.cluster.change_node(row, What(fault.event))
        if fault.event in (CORDON, UNCORDON):
            self.table.set_unschedulable(row, unschedulable=fault.event == CORDON)
        else:
            self.table.set_down(row, down=fault.event == FAIL)
        if fault.event == FAIL:
            self._evict_all(self.cluster.running_on(row))
        elif fault.event != CORDON:
            self.scheduler.node_changed(row)

    def _evict_all(self, indices: list[int]) -> None:
        broken: dict[str, Gang] = {}
        for index in indices:
            gang = self._pods[index].gang
            if gang is not None:
                broken[gang.name] = gang
            self._evict(index)
        if self._gangs_restart_whole:
            for gang in broken.values():
                for index in self._members[gang.name]:
                    if self.ledger.lives.of(index) is State.RUNNING:
                        self._evict(index)
                self.scheduler.queue.restart(gang)

    def _evict(self, index: int) -> None:
        self.cluster.lose(index)
        spec = self._pods[index].spec
        if self.table.placed[index].pod.spec is not spec:
            self.table.resize(index, spec)  # whoever makes it anew makes it as it was asked for at first
        self.ledger.cpu_limit_milli[index] = int(self.workload.cpu_limit_milli[index])
        self.scheduler.evict(index)


def _members(workload: Workload) -> dict[str, list[int]]:
    """The pods of each gang."""
    members: dict[str, list[int]] = {gang.name: [] for gang in workload.gangs}
    for index in np.flatnonzero(workload.gang_of >= 0).tolist():
        members[workload.gangs[workload.gang_of[index]].name].append(index)
    return members
