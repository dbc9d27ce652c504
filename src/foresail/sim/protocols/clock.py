"""Protocol `clock`: pods come when the trace says, wait for room, run for their time and leave.

At one instant first the pods leave whose time is over, then nodes fail or come back, then pods arrive in the order of
the trace; then the scheduler decides until nothing that waits fits any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np

from foresail.core.asking import reasons_if_all_refuse
from foresail.core.clock import SimClock
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.model import Pod
from foresail.core.objects import ClusterObjects
from foresail.core.preemption import Preempting
from foresail.core.profile import Profile
from foresail.core.queue import NO_BACKOFF, Backoff, Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.core.table import NodeTable
from foresail.errors import InputError, OptionError
from foresail.results.result import RunResult
from foresail.sim.checkpoint import Checkpoint, identity_of
from foresail.sim.cluster import (
    ARRIVAL,
    DEPARTURE,
    FAULT,
    NOT_ARRIVED,
    RUNNING,
    WAITING,
    Event,
    Ledger,
    OnEvent,
    SimCluster,
)
from foresail.sim.faults import CORDON, FAIL, UNCORDON, Faults
from foresail.sim.node_table import node_columns
from foresail.sim.protocols.clock_tables import Timeline, placement_columns, pod_columns, summarize
from foresail.sim.volumes import look_after_volumes
from foresail.traces.trace import Trace

_SNAPSHOTS = 1000
_PROGRESS_EVERY = 256


@dataclass(frozen=True, slots=True)
class ClockSettings:
    """How time goes by in a run."""

    snapshot_every_s: float | None = None
    """Time between two rows of the timeline, in seconds; None or 0 takes about 1000 over the trace."""
    until_s: float | None = None
    """When to stop, in seconds of the trace's time; None goes on until nothing can happen any more."""
    arrival_scale: float = 1.0
    """Arrival times are multiplied by this: 0.5 makes pods come twice as fast. Durations and faults stay."""
    after_failure: Literal["restart", "resume"] = "restart"
    """Whether a pod that lost its node starts from its beginning, or goes on where it was."""
    gang_restart: Literal["member", "all"] = "member"
    """When a gang loses a member: whether only that one waits again, or the whole gang starts anew together."""
    fail_impossible: bool = True
    """Fail pods at once that would not fit even if every node were empty, instead of letting them wait for ever."""
    backoff: Backoff = NO_BACKOFF
    """How long a pod that fitted nowhere is left alone even when room becomes free."""
    preemption: bool = False
    """Whether a pod that fits nowhere may make running pods of less priority wait again."""
    slowdown_threshold_s: float = 10.0
    """Pods that run shorter than this count as this long when their slowdown is worked out."""

    def __post_init__(self) -> None:
        for name, least in (("snapshot_every_s", 0.0), ("until_s", 0.0)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise OptionError(f"{name} is {value:g}; it is a time in seconds, 0 or more")
        if not 0 < self.arrival_scale < math.inf:
            raise OptionError(
                f"arrival_scale is {self.arrival_scale:g}; it is a factor above 0 (1 leaves times as they are)"
            )
        if not 0 < self.slowdown_threshold_s < math.inf:
            raise OptionError(
                f"slowdown_threshold_s is {self.slowdown_threshold_s:g}; it is a time in seconds, above 0"
            )
        for name, known in (("after_failure", ("restart", "resume")), ("gang_restart", ("member", "all"))):
            if getattr(self, name) not in known:
                raise OptionError(f'{name} is "{getattr(self, name)}"; it is "{known[0]}" or "{known[1]}"')


def run_clock(
    trace: Trace,
    profile: Profile,
    *,
    seed: int = 42,
    settings: ClockSettings | None = None,
    faults: Faults | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    on_event: OnEvent | None = None,
    decide: Decide = decide_alone,
) -> RunResult:
    """One policy, one trace, one seed.

    `on_progress` is told (arrivals and ends so far, as many as there can be) now and then. `on_event` is told (time_s,
    what, pod or node) of everything that happens: start, end, evict, preempt and give_up of pods; fail, repair, cordon
    and uncordon of nodes. `decide` may be one that listens in; a checkpoint brings its own.
    """
    settings = settings or ClockSettings()
    if checkpoint is None:
        return _Run(trace, profile, seed, settings, faults or Faults(), decide, on_event).go(on_progress)
    identity = identity_of(trace, profile, seed=seed, settings=asdict(settings), faults=faults)
    decide = checkpoint.begin(identity, profile)
    run = _Run(trace, profile, seed, settings, faults or Faults(), decide, on_event)
    try:
        return run.go(on_progress)
    finally:
        checkpoint.save()


class _Run:
    """One run: the world that the scheduler's decisions are carried out in, and what happens in it."""

    def __init__(
        self,
        trace: Trace,
        profile: Profile,
        seed: int,
        settings: ClockSettings,
        faults: Faults,
        decide: Decide,
        on_event: OnEvent | None,
    ) -> None:
        self._trace, self._profile, self._seed, self._settings, self._faults = trace, profile, seed, settings, faults
        self._workload = workload = _checked(trace.workload, settings.arrival_scale)
        # In name order, so that ties, which go to the lowest row, do not depend on how the node list is sorted.
        nodes = sorted(trace.nodes, key=lambda node: node.name)
        self._table = table = NodeTable(nodes, extended=[name for spec in workload.specs for name, _ in spec.extended])
        volumes = look_after_volumes(table, trace.objects)
        profile.seed(seed)
        profile.learn(workload, table.all)
        self._shapes = [table.shape(spec) for spec in workload.specs]
        self._spec_of = workload.spec_of.tolist()
        self._pods: dict[int, Pod] = {}
        self._members = _members(workload)
        self._impossible = _Impossible(faults.uncordoned(nodes), trace.objects, profile)

        self._clock = SimClock()
        self._ledger = ledger = Ledger(workload.names, workload.duration_s.tolist())
        self._cluster = SimCluster(
            table,
            self._clock,
            ledger,
            keeps_progress=settings.after_failure == "resume",
            on_event=on_event,
            evict=self._evict_all,
            volumes=volumes,
        )
        self._scheduler = Scheduler(
            self._cluster,
            profile,
            Queue(self._clock, backoff=settings.backoff),
            decide=decide,
            preemption=Preempting() if settings.preemption else None,
        )
        arrivals = [(time_s, ARRIVAL, index, index) for index, time_s in enumerate(workload.arrival_s.tolist())]
        happenings = [(fault.time_s, FAULT, number, number) for number, fault in enumerate(faults.faults)]
        self._cluster.events = sorted(arrivals + happenings)  # what is sorted is a heap
        self._until_s = math.inf if settings.until_s is None else settings.until_s
        first_s = float(workload.arrival_s.min()) if len(workload) else 0.0
        start_s = min(first_s, self._until_s)
        self._every_s = _snapshot_every_s(workload, settings, start_s)
        self._timeline = Timeline(table, workload, ledger, start_s=start_s, every_s=self._every_s)

    def go(self, on_progress: Callable[[int, int], None] | None) -> RunResult:
        clock, cluster, scheduler, timeline = self._clock, self._cluster, self._scheduler, self._timeline
        whole, instants = 2 * len(self._workload), 0
        while (time_s := self._next_time_s()) <= self._until_s and time_s < math.inf:
            timeline.pass_to(time_s)
            clock.advance_to(time_s)
            while (event := cluster.pop()) is not None:
                self._happen(event)
            scheduler.run_until_idle()
            timeline.take_in()
            if on_progress is not None and instants % _PROGRESS_EVERY == 0:
                on_progress(self._progress(), whole)
            instants += 1
        if time_s < math.inf:
            clock.advance_to(self._until_s)  # there was more to come
        timeline.close(clock.now())
        if on_progress is not None:
            on_progress(whole, whole)
        return self._result()

    def _next_time_s(self) -> float:
        count = self._ledger.count
        if not (count[NOT_ARRIVED] or count[WAITING] or count[RUNNING]):
            return math.inf  # what may still happen to nodes no longer matters to anyone
        return min(self._cluster.next_time_s(), self._scheduler.queue.next_time_s())

    def _progress(self) -> int:
        count = self._ledger.count
        return 2 * len(self._workload) - 2 * count[NOT_ARRIVED] - count[WAITING] - count[RUNNING]

    # --- events ----------------------------------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        _, kind, _, what = event
        if kind == DEPARTURE:
            self._cluster.end(what)
            self._scheduler.release(what)
            del self._pods[what]
        elif kind == ARRIVAL:
            self._arrive(what)
        else:
            self._suffer(what)

    def _arrive(self, index: int) -> None:
        workload, spec = self._workload, self._spec_of[index]
        gang = int(workload.gang_of[index])
        pod = Pod(
            workload.names[index],
            self._shapes[spec],
            uid=index,
            priority=int(workload.priority[index]),
            gang=workload.gangs[gang] if gang >= 0 else None,
            arrival_s=self._clock.now(),
        )
        self._timeline.arrive(index)
        self._cluster.arrive(pod)
        why = self._impossible.why(pod.spec) if self._settings.fail_impossible else ""
        if why:
            self._cluster.fail(pod, why)
        else:
            self._pods[index] = pod
            self._scheduler.submit(pod)

    def _suffer(self, number: int) -> None:
        fault = self._faults.faults[number]
        row = self._table.row_of[fault.node]
        self._cluster.change_node(row, fault.event)
        if fault.event in (CORDON, UNCORDON):
            self._table.set_unschedulable(row, unschedulable=fault.event == CORDON)
        else:
            self._table.set_down(row, down=fault.event == FAIL)
        if fault.event == FAIL:
            self._evict_all(self._cluster.running_on(row))
        elif fault.event != CORDON:
            self._scheduler.node_changed(row)

    def _evict_all(self, indices: list[int]) -> None:
        broken: dict[str, Gang] = {}
        for index in indices:
            gang = self._pods[index].gang
            if gang is not None:
                broken[gang.name] = gang
            self._evict(index)
        if self._settings.gang_restart == "all":
            for gang in broken.values():
                for index in self._members[gang.name]:
                    if self._ledger.outcome[index] == RUNNING:
                        self._evict(index)
                self._scheduler.queue.restart(gang)

    def _evict(self, index: int) -> None:
        self._cluster.lose(index)
        self._scheduler.evict(index)

    # --- the end ---------------------------------------------------------------------------------------------------

    def _result(self) -> RunResult:
        workload, ledger, table, now_s = self._workload, self._ledger, self._table, self._clock.now()
        why_waiting = {
            index: self._why_waiting(pod) for index, pod in self._pods.items() if ledger.outcome[index] == WAITING
        }
        pods = pod_columns(workload, ledger, why_waiting, now_s=now_s, least_run_s=self._settings.slowdown_threshold_s)
        summary = summarize(pods, ledger, self._timeline.means(), end_s=now_s)
        summary["snapshot_every_s"] = self._every_s
        return RunResult(
            protocol="clock",
            policy=self._profile.name,
            trace=self._trace.name,
            seed=self._seed,
            load=None,
            total_gpus=int(table.gpu_count.sum()),
            tables={
                "placements": placement_columns(workload, ledger, table.names),
                "timeline": self._timeline.columns(),
                "nodes": node_columns(table),
                "pods": pods,
            },
            summary=summary,
            profile=self._profile.description,
        )

    def _why_waiting(self, pod: Pod) -> str:
        why = self._cluster.why_waiting(pod)
        if why or pod.gang is None:
            return f"no node fits: most {why}" if why else ""
        return "waits for the rest of its gang"


class _Impossible:
    """Tells which asks no node could meet even if all of them were empty and up.

    Filters that look at more than one node are left out: what they refuse now they may pass once other pods run.
    """

    def __init__(self, nodes: list[NodeSpec], objects: ClusterObjects, profile: Profile) -> None:
        self._table = NodeTable(nodes)
        self._table.objects = objects
        self._profile = profile
        self._known: dict[PodSpec, str] = {}

    def why(self, spec: PodSpec) -> str:
        """The reason of most nodes, empty if there is a node that would do."""
        known = self._known.get(spec)
        if known is None:
            known = self._known[spec] = self._work_out(spec)
        return known

    def _work_out(self, spec: PodSpec) -> str:
        table, profile = self._table, self._profile
        pod = table.pod("", spec)
        if not table.count:
            return "there are no nodes"
        reasons = reasons_if_all_refuse(pod, table, profile)
        return f"no node fits, even if empty: most {next(iter(reasons))}" if reasons else ""


def _checked(workload: Workload, arrival_scale: float) -> Workload:
    """The workload with its arrivals scaled, after a look at the times that everything here relies on."""
    bad = ~(np.isfinite(workload.arrival_s) & (workload.arrival_s >= 0)) | ~(workload.duration_s >= 0)
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"pod {workload.names[index]} arrives at {workload.arrival_s[index]:g} s and runs for "
            f"{workload.duration_s[index]:g} s; both must be 0 or more, and the arrival finite"
        )
    return workload if arrival_scale == 1 else replace(workload, arrival_s=workload.arrival_s * arrival_scale)


def _members(workload: Workload) -> dict[str, list[int]]:
    """The pods of each gang."""
    members: dict[str, list[int]] = {gang.name: [] for gang in workload.gangs}
    for index in np.flatnonzero(workload.gang_of >= 0).tolist():
        members[workload.gangs[workload.gang_of[index]].name].append(index)
    return members


def _snapshot_every_s(workload: Workload, settings: ClockSettings, start_s: float) -> float:
    if settings.snapshot_every_s:
        return settings.snapshot_every_s
    ends_s = workload.arrival_s + np.where(np.isfinite(workload.duration_s), workload.duration_s, 0.0)
    end_s = float(ends_s.max()) if len(workload) else start_s
    if settings.until_s is not None:
        end_s = min(end_s, settings.until_s)
    every_s = (end_s - start_s) / _SNAPSHOTS
    # Whole seconds where they are fine enough: times that a person can read.
    return float(math.ceil(every_s)) if every_s > 1 else every_s or 1.0
