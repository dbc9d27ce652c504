"""`foresail control`: the program that gives controllers their turns beside any scheduler."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foresail.controllers import in_words, load_controllers
from foresail.core.clock import Clock, WallClock
from foresail.core.control import Controller
from foresail.core.journal import Journal
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.lease import LeaderSettings
from foresail.live.cache.cache import Cache
from foresail.live.control.steering import LiveSteering
from foresail.live.events import Events
from foresail.live.moves.rooms import LookedAtRooms
from foresail.live.moves.tools import MoveSettings
from foresail.live.program import Announce, Part, Program, connected, run_until_signal
from foresail.live.reports import EventReport, JournalFile, candidate_reports, counted, logged
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.scheduler.metrics import Metrics
from foresail.live.serving.health import Health, token_in
from foresail.live.serving.server import ServerSettings, check_metrics, check_tls_files
from foresail.live.telemetry.checks import check_telemetry
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.live.telemetry.sources import Sources
from foresail.policies.kubernetes import FILTERS
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.profiles.load import load_profile

_FINISH_S = 20.0
_FINISH_EVENTS_S = 3.0


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """How controllers run beside a scheduler."""

    controllers: tuple[str, ...]
    """`NAME` or `NAME:key=value,…`, in the order of their turns."""
    scheduler_name: str = "foresail"
    """Pods with this `spec.schedulerName` are seen and changed, no others."""
    kubeconfig: Path | None = None
    context: str | None = None
    leader_elect: bool = True
    lease: LeaderSettings = field(default_factory=lambda: LeaderSettings(name="foresail-control"))
    dry_run: bool = False
    """Whether actions are noted and not carried out."""
    telemetry: TelemetrySettings = field(default_factory=TelemetrySettings)
    """What controllers are told of pods, beyond their specification."""
    moves: MoveSettings = field(default_factory=MoveSettings)
    """How pods are moved. Moves are written down in the namespace of the Lease."""
    resizes: ResizeSettings = field(default_factory=ResizeSettings)
    """How pods are resized. Resizes under way are written down there, too."""
    server: ServerSettings = field(default_factory=ServerSettings)
    token_file: Path | None = None
    """Who asks for metrics must show this token."""
    journal: Path | None = None
    """All that happens is written here, one JSON object a line."""


class ControlProgram(Program):
    """Watches, looks and acts; places nobody, so no room can be held from here."""

    def __init__(
        self,
        settings: ControlSettings,
        api: Client,
        *,
        announce: Announce,
        clock: Clock | None = None,
        controllers: Mapping[str, Controller] | None = None,
    ) -> None:
        """`controllers` are objects of the caller's, beside those that the settings name."""
        self.settings = settings
        self.metrics = Metrics(settings.scheduler_name)
        self.events = Events(api)
        self._clock = clock or WallClock()
        self._file = None if settings.journal is None else JournalFile(settings.journal)
        cache = Cache(scheduler_name=None, devices=LeastSufficient())
        self.journal = Journal(
            self._clock,
            *([] if settings.dry_run else [EventReport(cache, self.events)]),
            counted(self.metrics),
            logged(),
            *([] if self._file is None else [self._file]),
        )
        for hear in candidate_reports(self._file, dry_run=settings.dry_run):
            self.journal.listen_to_candidates(hear)
        self._controllers = load_controllers(settings.controllers) | dict(controllers or {})
        self.telemetry = Sources(
            settings.telemetry,
            api,
            cache,
            self._clock,
            scheduler_name=settings.scheduler_name,
            registry=self.metrics.registry,
            server=settings.server,
            leads=lambda: self.leads,
        )
        self.steering = LiveSteering(
            self._controllers,
            api,
            cache,
            self._clock,
            self.journal,
            scheduler_name=settings.scheduler_name,
            rooms=LookedAtRooms(cache.table, load_profile("kubernetes", filters=FILTERS)),
            records_namespace=settings.lease.namespace,
            telemetry=self.telemetry,
            checkpoints=self.telemetry.checkpoints,
            moves=settings.moves,
            resizes=settings.resizes,
            dry_run=settings.dry_run,
            failed=self.metrics.controller_failures.inc,
            move_ended=self.metrics.move_ended,
            resize_ended=self.metrics.resize_ended,
        )
        self.steering.act_if(self.may_act)
        self.leads = False
        self._lead_changed = asyncio.Event()
        lease = settings.lease if settings.leader_elect and not settings.dry_run else None
        super().__init__(api, cache, announce=announce, server=settings.server, lease=lease)

    def parts(self) -> Sequence[Part]:
        events = self.events
        return [
            Part("controllers", self._give_turns, ready=lambda: self.steering.problem),
            Part("moves", self.steering.look_again, ready=lambda: self.steering.moves.problem),
            Part("resizes", ready=lambda: self.steering.resizes.problem),
            *([] if self.settings.dry_run else [Part("events", events.run, ready=lambda: events.failure)]),
            *self.telemetry.parts(),
        ]

    def app(self) -> Any:
        health = Health(
            alive=self.alive(),
            ready=self.ready(),
            metrics=self.metrics.text,
            token=token_in(self.settings.token_file),
        )
        return self.telemetry.app(health)

    def known(self) -> None:
        ours = self.settings.scheduler_name
        count = sum(pod.stands and pod.scheduler_name == ours for pod in self.cache.pods.values())
        self.announce(f"{self.cache.table.count} nodes, {len(self.cache.pods)} pods, {count} of {ours} on nodes")
        self.announce(f"controllers of the pods of {ours}: {in_words(self._controllers)}")

    async def take_over(self) -> None:
        await self.steering.take_over()

    def lead(self, *, leads: bool) -> None:
        if leads != self.leads:
            acts = "decides now, and does nothing of it (dry run)" if self.settings.dry_run else "acts now"
            self.announce(acts if leads else "acts no more")
        self.leads = leads
        self.metrics.leader.set(leads)
        self.steering.lead(leads=leads)
        self._lead_changed.set()

    async def _give_turns(self) -> None:
        while True:
            if self.leads:
                self.steering.run_due()
            self._lead_changed.clear()
            wait_s = self.steering.next_time_s() - self._clock.now() if self.leads else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_s is None or wait_s == float("inf") else max(0.0, wait_s)):
                    await self._lead_changed.wait()

    async def finish(self) -> None:
        await self.steering.finish(_FINISH_S)

    async def flush(self) -> None:
        if not self.settings.dry_run:
            await self.events.drain(_FINISH_EVENTS_S)
        if self._file is not None:
            self._file.close()


async def run_control(settings: ControlSettings, *, announce: Announce) -> None:
    """Give controllers their turns until SIGINT or SIGTERM."""
    check_metrics(settings.server, settings.token_file)
    check_tls_files(settings.server)
    check_telemetry(settings.telemetry, settings.server)
    load_controllers(settings.controllers)  # a name that is not there is told before a cluster is asked for anything
    async with await connected(find_connection(settings.kubeconfig, settings.context), announce) as api:
        await run_until_signal(ControlProgram(settings, api, announce=announce))
        announce("stopped")
