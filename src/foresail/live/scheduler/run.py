"""`foresail run`: the program that places pods."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foresail.controllers import in_words, load_companions, load_controllers
from foresail.core.backoff import Backoff
from foresail.core.clock import Clock
from foresail.core.control import Controller
from foresail.core.profile import Profile
from foresail.errors import OptionError
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.lease import LeaderSettings
from foresail.live.actions.gang_status import GangStatuses
from foresail.live.cache.cache import Cache
from foresail.live.moves.tools import MoveSettings
from foresail.live.program import Announce, Part, Program, connected, run_until_signal
from foresail.live.reports import JournalFile, candidate_reports, logged
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.scheduler.gang_settings import GangWaitSettings
from foresail.live.scheduler.learning import Lessons, warm_up
from foresail.live.scheduler.reload import Reloader
from foresail.live.scheduler.scheduler import LiveScheduler
from foresail.live.serving.health import Health, token_in
from foresail.live.serving.server import ServerSettings, check_metrics, check_tls_files
from foresail.live.telemetry.checks import check_telemetry
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.policies.kubernetes import FILTERS
from foresail.policies.profiles.load import is_profile_file, load_profile, split_name
from foresail.traces.trace import load_workload

_FINISH_S = 20.0
_FINISH_EVENTS_S = 3.0


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the scheduler runs."""

    policy: str = "kubernetes"
    """A policy, a mix, a profile by name or file. One that names no filters gets all of Kubernetes'."""
    scheduler_name: str = "foresail"
    """Pods with this `spec.schedulerName` are ours."""
    kubeconfig: Path | None = None
    context: str | None = None
    leader_elect: bool = True
    """Whether to take a Lease first, so that one of several replicas places pods."""
    lease: LeaderSettings = field(default_factory=LeaderSettings)
    backoff: Backoff = field(default_factory=Backoff)
    """How long pods rest that fitted nowhere or could not be bound, in seconds."""
    expect: Path | None = None
    """Pod list that policies which learn are to expect; without it, the pods of the cluster."""
    seed: int = 42
    """Of policies that draw random numbers."""
    server: ServerSettings = field(default_factory=ServerSettings)
    token_file: Path | None = None
    """Who asks for metrics must show this token."""
    journal: Path | None = None
    """All that happens is written here, one JSON object a line."""
    controllers: tuple[str, ...] = ()
    """What changes while pods run: `NAME` or `NAME:key=value,…`, in the order of their turns."""
    dry_run: bool = False
    """Whether decisions and actions are noted and not carried out; no Lease is taken then."""
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    """What controllers are told of pods, beyond their specification."""
    moves: MoveSettings = field(default_factory=MoveSettings)
    """How pods are moved. Moves are written down in the namespace of the Lease."""
    resizes: ResizeSettings = field(default_factory=ResizeSettings)
    """How pods are resized. Resizes under way are written down there, too."""
    gangs: GangWaitSettings = field(default_factory=GangWaitSettings)
    """When room is kept for gangs."""
    log_in_full: bool = False
    """Whether what happens to every pod is logged, not only what is out of the ordinary."""


def profile_for(policy: str, seed: int = 42) -> Profile:
    """The profile as a cluster needs it: whatever scores, Kubernetes' filters hold."""
    profile = load_profile(policy, filters=FILTERS)
    profile.seed(seed)
    return profile


def check_names(settings: RunSettings) -> None:
    """Policies and controllers that are not there are told before a cluster is asked for anything."""
    profile = profile_for(settings.policy, settings.seed)
    load_companions(profile.companions, beside=load_controllers(settings.controllers))


def lessons_for(cache: Cache, settings: RunSettings) -> Lessons:
    return Lessons(cache, None if settings.expect is None else load_workload(settings.expect)[0])


class SchedulerProgram(Program):
    """Decides about the pods that name our scheduler, and binds them while it leads."""

    def __init__(
        self,
        settings: RunSettings,
        api: Client,
        *,
        announce: Announce,
        clock: Clock | None = None,
        controllers: Mapping[str, Controller] | None = None,
    ) -> None:
        """`controllers` are objects of the caller's, beside those that the settings name."""
        self.settings = settings
        self.controllers = load_controllers(settings.controllers) | dict(controllers or {})
        self._file = None if settings.journal is None else JournalFile(settings.journal)
        self.live = LiveScheduler(
            api,
            profile_for(settings.policy, settings.seed),
            scheduler_name=settings.scheduler_name,
            backoff=settings.backoff,
            clock=clock,
            reports=[
                logged(in_full=settings.log_in_full or settings.dry_run),
                *([] if self._file is None else [self._file]),
            ],
            controllers=self.controllers,
            dry_run=settings.dry_run,
            telemetry=settings.telemetry,
            server=settings.server,
            moves=settings.moves,
            resizes=settings.resizes,
            gangs=settings.gangs,
            records_namespace=settings.lease.namespace,
        )
        super().__init__(
            api,
            self.live.cache,
            announce=announce,
            server=settings.server,
            lease=settings.lease if settings.leader_elect and not settings.dry_run else None,
        )
        for hear in candidate_reports(self._file, dry_run=settings.dry_run):
            self.live.journal.listen_to_candidates(hear)
        self.live.cluster.may_bind = self.may_act
        self.live.steering.act_if(self.may_act)
        self.gang_statuses = GangStatuses(
            api,
            self.live.cache,
            scheduler_name=settings.scheduler_name,
            told=self.live.cluster.conditions.told,
            may_write=lambda: self.live.leads and self.may_act(),
        )
        if not settings.dry_run:
            self.live.cache.tell(self.gang_statuses)
        self.lessons = lessons_for(self.live.cache, settings)
        self.reloader = self._reloader()

    def parts(self) -> Sequence[Part]:
        live, cluster, reloader = self.live, self.live.cluster, self.reloader
        return [
            Part("decisions", live.run, alive=lambda: live.broke),
            Part("policy", ready=lambda: cluster.policy_error),
            Part("teach", lambda: self.lessons.repeat(lambda: live.core.profile)),
            *([] if reloader is None else [Part("profile", reloader.run, ready=lambda: reloader.problem)]),
            Part("controllers", ready=lambda: live.steering.problem),
            *(
                [Part("moves", live.steering.look_again, ready=lambda: live.steering.moves.problem)]
                if self.controllers
                else []
            ),
            *([Part("resizes", ready=lambda: live.steering.resizes.problem)] if self.controllers else []),
            *live.telemetry.parts(),
            *([] if self.settings.dry_run else self._writers()),
        ]

    def _writers(self) -> Sequence[Part]:
        """What writes to the cluster."""
        live, cluster = self.live, self.live.cluster
        return [
            Part("binds", ready=lambda: cluster.bind_error),
            Part("conditions", cluster.conditions.run, ready=lambda: cluster.conditions.failure),
            Part("gang statuses", self.gang_statuses.run),
            Part("events", live.events.run, ready=lambda: live.events.failure),
        ]

    def app(self) -> Any:
        health = Health(
            alive=self.alive(),
            ready=self.ready(),
            metrics=self._metrics,
            token=token_in(self.settings.token_file),
        )
        return self.live.telemetry.app(health)

    def known(self) -> None:
        cache = self.cache
        self.announce(f"{cache.table.count} nodes, {len(cache.pods)} pods, {len(cache.who_waits)} of them wait for us")
        controllers = self.live.companions | self.controllers
        if controllers:
            ours = self.settings.scheduler_name
            self.announce(f"controllers of the pods of {ours}: {in_words(controllers)}")
        self.lessons.teach(self.live.core.profile)
        warm_up(cache.table, self.live.core.profile)

    async def take_over(self) -> None:
        await self.live.steering.take_over()

    def lead(self, *, leads: bool) -> None:
        if leads != self.live.leads:
            places = "decides now, and does nothing of it (dry run)" if self.settings.dry_run else "places pods now"
            self.announce(places if leads else "places no pods any more")
        self.live.lead(leads=leads)

    async def finish(self) -> None:
        steering = asyncio.create_task(self.live.steering.finish(_FINISH_S))
        await asyncio.wait([steering, *self.live.cluster.binding.values()], timeout=_FINISH_S)
        await steering

    async def flush(self) -> None:
        if not self.settings.dry_run:
            await self.live.events.drain(_FINISH_EVENTS_S)
        if self._file is not None:
            self._file.close()

    def _metrics(self) -> bytes:
        self.live.metrics.look_at(self.live)
        return self.live.metrics.text()

    # --- profiles --------------------------------------------------------------------------------------------------

    def _reloader(self) -> Reloader | None:
        policy = self.settings.policy
        if not is_profile_file(policy):
            return None
        path, _ = split_name(policy)
        return Reloader(path, lambda: profile_for(policy, self.settings.seed), self._use, self.live.metrics)

    def _use(self, profile: Profile) -> None:
        there = self.live.companions | self.controllers
        lacking = load_companions(profile.companions, beside=there)
        if lacking:
            raise OptionError(f"it relies on the controller {next(iter(lacking))}, which a restart gives its turns")
        self.lessons.teach(profile)
        self.live.core.profile = profile
        self.live.cluster.policy_error = ""
        self.live.cache.guess_by(profile.devices)


async def run_scheduler(settings: RunSettings, *, announce: Announce) -> None:
    """Place pods until SIGINT or SIGTERM; SIGHUP looks at the profile file at once."""
    check_metrics(settings.server, settings.token_file)
    check_tls_files(settings.server)
    check_telemetry(settings.telemetry, settings.server)
    check_names(settings)
    async with await connected(find_connection(settings.kubeconfig, settings.context), announce) as api:
        program = SchedulerProgram(settings, api, announce=announce)
        if program.reloader is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, program.reloader.now.set)
        await run_until_signal(program)
        announce("stopped")
