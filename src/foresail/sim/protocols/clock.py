"""Protocol `clock`: pods come when the trace says, wait for room, run for their time and leave.

What is measured; how time goes by is the engine's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np

from foresail.controllers import load_companions
from foresail.core.control import Controller
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide, Questions
from foresail.core.journal import Considered, Listener, Record
from foresail.core.profile import Profile
from foresail.core.reservations import ReservationSettings
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Workload, parse_topology
from foresail.core.table import NodeTable
from foresail.errors import InputError
from foresail.results.candidates import candidate_tables
from foresail.results.job_samples import JobSamples
from foresail.results.result import RunResult
from foresail.results.tables import journal_columns
from foresail.sim.checkpoint import Checkpoint, identity_of
from foresail.sim.engine import Engine
from foresail.sim.episode import Episode
from foresail.sim.faults import Faults
from foresail.sim.gang_distance import gang_distance
from foresail.sim.impossible import Impossible
from foresail.sim.node_table import node_columns
from foresail.sim.pins import Pins
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.protocols.clock_tables import Timeline, placement_columns, pod_columns, summarize
from foresail.sim.volumes import look_after_volumes
from foresail.sim.work.fixed import FixedTime
from foresail.sim.work.shared_cpu import SharedCpu
from foresail.sim.work.work import Floats, Interruptions, WorkOf
from foresail.traces.trace import Trace

_SNAPSHOTS = 1000
_PROGRESS_EVERY = 256
_LOOKS_EVERY = 5
"""Training jobs are looked at every so many snapshots."""
_MIB_BYTES = 2**20
_REPORT_STREAM = 0x4E904
"""Keeps the draws of misleading reports apart from other draws under the same seed."""


def run_clock(
    trace: Trace,
    profile: Profile,
    *,
    seed: int = 42,
    settings: ClockSettings | None = None,
    faults: Faults | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
    listeners: Sequence[Listener] = (),
    decide: Decide = decide_alone,
    controllers: Mapping[str, Controller] | None = None,
    first_node: Mapping[str, str] | None = None,
) -> RunResult:
    """One policy, one trace, one seed, and controllers by the names that the journal calls them.

    Pods that `first_node` names start there at first if they can; the policy decides about all others. `on_progress` is
    told (arrivals and ends so far, as many as there can be) now and then. `listeners` are told of everything that
    happens, record by record. `decide` may be one that listens in.
    """
    settings = settings or ClockSettings()
    pins = Pins(first_node) if first_node else None
    if pins is not None:
        decide = pins.deciding(decide)
    if checkpoint is None:
        run = _ClockRun(trace, profile, seed, settings, faults or Faults(), decide, listeners, controllers, pins)
        return run.decided(on_progress)
    conditions = {
        **asdict(settings),
        **({"controllers": list(controllers)} if controllers else {}),
        **({"first_node": dict(first_node)} if first_node else {}),
    }
    companions = load_companions(profile.companions, beside=controllers or ())
    steering = [*companions.values(), *(controllers or {}).values()]
    identity = identity_of(trace, profile, seed=seed, settings=conditions, faults=faults, controllers=steering)
    decide = checkpoint.begin(identity, profile, decide)
    run = _ClockRun(trace, profile, seed, settings, faults or Faults(), decide, listeners, controllers, pins)
    try:
        return run.decided(on_progress)
    finally:
        checkpoint.save()


def clock_episode(
    trace: Trace,
    profile: Profile,
    *,
    seed: int = 42,
    settings: ClockSettings | None = None,
    faults: Faults | None = None,
    listeners: Sequence[Listener] = (),
    controllers: Mapping[str, Controller] | None = None,
) -> Episode:
    """The same run, but it is asked from outside where each pod goes."""
    settings, faults = settings or ClockSettings(), faults or Faults()
    return Episode(_ClockRun(trace, profile, seed, settings, faults, decide_alone, listeners, controllers, None))


class _ClockRun:
    """One run: an engine, and what is measured while it goes."""

    def __init__(
        self,
        trace: Trace,
        profile: Profile,
        seed: int,
        settings: ClockSettings,
        faults: Faults,
        decide: Decide,
        listeners: Sequence[Listener],
        controllers: Mapping[str, Controller] | None,
        pins: Pins | None,
    ) -> None:
        self._trace, self._profile, self._seed, self._settings = trace, profile, seed, settings
        workload = _closer(_checked(trace.workload, settings.arrival_scale), settings.gang_topology)
        # In name order, so that ties, which go to the lowest row, do not depend on how the node list is sorted.
        nodes = sorted(trace.nodes, key=lambda node: node.name)
        table = NodeTable(nodes, extended=workload.extended)
        volumes = look_after_volumes(table, trace.objects)
        profile.seed(seed)
        profile.learn(workload, table.all)
        self._until_s = math.inf if settings.until_s is None else settings.until_s
        self._pins = pins
        self._records: list[Record] = []
        self._controllers = dict(controllers or {})
        self._considered: list[Considered] = []
        possible_on = faults.uncordoned(nodes)
        self._engine = Engine(
            workload,
            table,
            profile,
            decide=decide,
            faults=faults,
            impossible=Impossible(possible_on, trace.objects, profile) if settings.fail_impossible else None,
            work=_work_of(settings),
            gangs_restart_whole=settings.gang_restart == "all",
            backoff=settings.backoff,
            preemption=settings.preemption,
            volumes=volumes,
            listeners=[
                *listeners,
                *([self._records.append] if controllers else []),
                *([pins.listen] if pins is not None else []),
            ],
            controllers=load_companions(profile.companions, beside=self._controllers) | self._controllers,
            until_s=self._until_s,
            pulled_image_bytes=settings.pulled_image_mib * _MIB_BYTES,
            report_error=_report_errors(settings, seed, len(workload)),
            reservations=_reservations(settings),
        )
        if controllers:
            self._engine.journal.listen_to_candidates(self._considered.append)
        first_s = float(workload.arrival_s.min()) if len(workload) else 0.0
        start_s = min(first_s, self._until_s)
        work = self._engine.work
        self._every_s = _snapshot_every_s(workload, work.alone_s(), settings, start_s)
        # Coarser than the timeline: a look asks every running job.
        has_jobs = bool((workload.training_of >= 0).any())
        self._jobs = JobSamples(_LOOKS_EVERY * self._every_s, start_s) if has_jobs else None
        self._timeline = Timeline(table, workload, self._engine.ledger, work, start_s=start_s, every_s=self._every_s)

    @property
    def scheduler(self) -> Scheduler:
        return self._engine.scheduler

    def decided(self, on_progress: Callable[[int, int], None] | None) -> RunResult:
        """The whole run, with the profile deciding."""
        self.scheduler.answer(self.go(on_progress))
        return self.result()

    def go(self, on_progress: Callable[[int, int], None] | None = None) -> Questions[None]:
        engine, timeline = self._engine, self._timeline
        whole, instants = 2 * len(engine.workload), 0
        while (time_s := engine.next_time_s()) <= self._until_s and time_s < math.inf:
            timeline.pass_to(time_s)
            self._look_at_jobs(time_s)
            yield from engine.step(time_s)
            timeline.take_in()
            if on_progress is not None and instants % _PROGRESS_EVERY == 0:
                on_progress(engine.progress, whole)
            instants += 1
        if time_s < math.inf:
            engine.clock.advance_to(self._until_s)  # there was more to come
        timeline.close(engine.clock.now())
        if on_progress is not None:
            on_progress(whole, whole)

    def _look_at_jobs(self, until_s: float) -> None:
        """Nothing happens until then, but jobs get on: look at them as often as they are looked at."""
        while self._jobs is not None and self._jobs.next_s < until_s:
            self._engine.clock.advance_to(self._jobs.next_s)
            self._jobs.take(self._engine.view())

    def result(self) -> RunResult:
        engine, now_s = self._engine, self._engine.clock.now()
        workload, ledger, table = engine.workload, engine.ledger, engine.table
        pods = pod_columns(
            workload,
            ledger,
            engine.why_waiting(),
            engine.work.alone_s(),
            engine.work.target_s(),
            now_s=now_s,
            least_run_s=self._settings.slowdown_threshold_s,
        )
        summary = summarize(pods, ledger, self._timeline.means(), end_s=now_s)
        summary["snapshot_every_s"] = self._every_s
        distance = gang_distance(workload, ledger, table)
        if distance is not None:
            summary["gangs_to_be_close"] = distance
        if self._pins is not None:
            summary["pins_not_kept"] = [pin._asdict() for pin in self._pins.broken]
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
                "nodes": node_columns(table, workload.extended, busy_milli=engine.work.busy_milli()),
                "pods": pods,
                **({"journal": journal_columns(self._records)} if self._controllers else {}),
                **candidate_tables(self._considered, list(self._controllers.values())),
                **({"jobs": self._jobs.columns()} if self._jobs is not None else {}),
            },
            summary=summary,
            profile=self._profile.description,
            controllers=tuple(self._controllers),
        )


def _work_of(settings: ClockSettings) -> WorkOf:
    interruptions = Interruptions(
        keeps_progress=settings.after_failure == "resume",
        checkpoint_every_s=settings.checkpoint_every_s,
        restart_s=settings.restart_time_s,
        start_s=settings.start_time_s,
        job_backoff=settings.job_backoff,
    )
    if settings.work == "shared-cpu":
        return partial(SharedCpu, interruptions=interruptions, oversubscription_loss=settings.oversubscription_loss)
    return partial(FixedTime, interruptions=interruptions)


def _reservations(settings: ClockSettings) -> ReservationSettings | None:
    if settings.gang_reserve_after_s is None:
        return None
    return ReservationSettings(settings.gang_reserve_after_s, settings.gang_reservations)


def _report_errors(settings: ClockSettings, seed: int, count: int) -> list[float]:
    """One number a pod, as `Reports` takes them."""
    if not settings.report_error:
        return []
    drawn: list[float] = (
        np.random.default_rng([seed, _REPORT_STREAM]).normal(0.0, settings.report_error, count).tolist()
    )
    return drawn


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


def _closer(workload: Workload, topology: str) -> Workload:
    """The workload with this topology for gangs that have none."""
    if not topology:
        return workload
    labels, required = parse_topology(topology)
    gangs = [
        gang if gang.topology else replace(gang, topology=labels, topology_required=required) for gang in workload.gangs
    ]
    return replace(workload, gangs=gangs)


def _snapshot_every_s(workload: Workload, alone_s: Floats, settings: ClockSettings, start_s: float) -> float:
    if settings.snapshot_every_s:
        return settings.snapshot_every_s
    ends_s = workload.arrival_s + np.where(np.isfinite(alone_s), alone_s, 0.0)
    end_s = float(ends_s.max()) if len(workload) else start_s
    if settings.until_s is not None:
        end_s = min(end_s, settings.until_s)
    every_s = (end_s - start_s) / _SNAPSHOTS
    # Whole seconds where they are fine enough: times that a person can read.
    return float(math.ceil(every_s)) if every_s > 1 else every_s or 1.0
