"""One process of `foresail run`: connect, watch, lead, decide, answer probes, and stop in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from foresail.core.profile import Profile
from foresail.core.queue import Backoff
from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.kube.api.lease import Leader, LeaderSettings
from foresail.live.cache.cache import Cache
from foresail.live.cache.watches import Watches
from foresail.live.scheduler.learning import Lessons, warm_up
from foresail.live.scheduler.reload import Reloader
from foresail.live.scheduler.scheduler import LiveScheduler
from foresail.live.scheduler.shadow import Agreement, Shadow
from foresail.live.serving.health import Health
from foresail.live.serving.server import (
    ServerSettings,
    check_metrics,
    check_tls_files,
    end,
    first_of,
    listen,
    on_stop_signals,
    serve,
    until_stopped,
)
from foresail.policies.kubernetes import FILTERS
from foresail.policies.profiles.load import is_profile_file, load_profile, split_name
from foresail.traces.trace import load_workload

_FINISH_BINDS_S = 20.0
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


def profile_for(policy: str, seed: int = 42) -> Profile:
    """The profile as a cluster needs it: whatever scores, Kubernetes' filters hold."""
    profile = load_profile(policy, filters=FILTERS)
    profile.seed(seed)
    return profile


def lessons_for(cache: Cache, settings: RunSettings) -> Lessons:
    return Lessons(cache, None if settings.expect is None else load_workload(settings.expect)[0])


class Process:
    """Everything that `foresail run` consists of, started and stopped together."""

    def __init__(self, settings: RunSettings, api: Client, *, announce: Callable[[str], None]) -> None:
        self.settings = settings
        self.live = LiveScheduler(
            api,
            profile_for(settings.policy, settings.seed),
            scheduler_name=settings.scheduler_name,
            backoff=settings.backoff,
        )
        self.watches = Watches(api, self.live.cache)
        self.lessons = lessons_for(self.live.cache, settings)
        self.reloader = self._reloader()
        self.leader = Leader(api, settings.lease) if settings.leader_elect else None
        if self.leader is not None:
            self.live.cluster.may_bind = lambda: self.leader is None or self.leader.is_sure
        self._api = api
        self._announce = announce
        self._stop = asyncio.Event()
        self._catching_up: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """End in order: no new decisions, binds under way finished, the lease given back."""
        self._stop.set()

    async def run(self) -> None:
        server = self.settings.server
        at = listen(server)
        self._announce(f"health and metrics on {server.url_of(at)}")
        tasks = [asyncio.create_task(serve(self._health(), at, server), name="server")]
        try:
            tasks += self.watches.start()
            ready = asyncio.create_task(self.watches.ready(), name="first lists")
            try:
                await first_of([ready, *tasks], self._stop)
            finally:
                await end([ready])
            if self._stop.is_set():
                return
            self._announce(self._found())
            self.lessons.teach(self.live.core.profile)
            warm_up(self.live.cache.table, self.live.core.profile)
            tasks += [
                asyncio.create_task(self.live.run(), name="decide"),
                asyncio.create_task(self.live.events.run(), name="events"),
                asyncio.create_task(self.live.cluster.conditions.run(), name="conditions"),
                asyncio.create_task(self.lessons.repeat(lambda: self.live.core.profile), name="teach"),
            ]
            if self.reloader is not None:
                tasks.append(asyncio.create_task(self.reloader.run(), name="reload"))
            await self._lead(tasks)
        finally:
            await end(tasks)
            at.close()

    # --- leading ---------------------------------------------------------------------------------------------------

    async def _lead(self, tasks: list[asyncio.Task[None]]) -> None:
        """Place pods until told to stop, whenever the lease is ours."""
        lead = asyncio.create_task(self._campaign(), name="leader")
        try:
            await first_of([lead, *tasks], self._stop)
            self._take_lead(leads=False)
            # What was decided is carried out, so that the next leader finds it done.
            if self.live.cluster.binding:
                await asyncio.wait(self.live.cluster.binding.values(), timeout=_FINISH_BINDS_S)
        finally:
            await end([lead])
        await self.live.events.drain(_FINISH_EVENTS_S)

    async def _campaign(self) -> None:
        if self.leader is None:
            self._take_lead(leads=True)
            await asyncio.Event().wait()
        while self.leader is not None:
            await self.leader.run(self._start_leading, self._stop_leading)

    def _start_leading(self) -> None:
        self._catching_up = asyncio.create_task(self._catch_up(), name="catch up")

    async def _catch_up(self) -> None:
        # What the last leader bound a moment ago may not have come over our watches yet.
        await self.watches.renew("Node", "Pod")
        self._take_lead(leads=True)

    def _stop_leading(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
        self._take_lead(leads=False)

    def _take_lead(self, *, leads: bool) -> None:
        if leads != self.live.leads:
            self._announce("places pods now" if leads else "places no pods any more")
        self.live.leads = leads
        self.live.cluster.lead(leads=leads)
        self.live.metrics.leader.set(leads)
        self.live.anything_changed()

    # --- profiles --------------------------------------------------------------------------------------------------

    def _reloader(self) -> Reloader | None:
        policy = self.settings.policy
        if not is_profile_file(policy):
            return None
        path, _ = split_name(policy)
        return Reloader(path, lambda: profile_for(policy, self.settings.seed), self._use, self.live.metrics)

    def _use(self, profile: Profile) -> None:
        self.lessons.teach(profile)
        self.live.core.profile = profile
        self.live.cluster.policy_error = ""
        self.live.cache.guess_by(profile.devices)

    # --- what is told ----------------------------------------------------------------------------------------------

    def _found(self) -> str:
        cache = self.live.cache
        return f"{cache.table.count} nodes, {len(cache.pods)} pods, {len(cache.who_waits)} of them wait for us"

    def _health(self) -> Health:
        live, cluster = self.live, self.live.cluster
        token_file = self.settings.token_file
        return Health(
            alive={"decisions": lambda: live.broke},
            ready={
                "watches": self.watches.problem,
                "policy": lambda: cluster.policy_error,
                "profile": lambda: "" if self.reloader is None else self.reloader.problem,
                "leader": lambda: "" if self.leader is None or not self.leader.failed else str(self.leader.failed),
                "binds": lambda: cluster.bind_error,
                "conditions": lambda: cluster.conditions.failure,
                "events": lambda: live.events.failure,
            },
            metrics=self._metrics,
            token=None if token_file is None else lambda: token_file.read_text(encoding="utf-8").strip(),
        )

    def _metrics(self) -> bytes:
        live, metrics = self.live, self.live.metrics
        asleep = live.queue.asleep_count
        metrics.pending.labels("active").set(len(live.queue) - asleep)
        metrics.pending.labels("unschedulable").set(asleep)
        metrics.pending.labels("backoff").set(len(live.cluster.paused))
        metrics.pending.labels("gated").set(sum(pod.gated for pod in live.cache.pods.values()))
        metrics.cache.labels("nodes").set(live.cache.table.count)
        metrics.cache.labels("pods").set(len(live.cache.pods))
        metrics.cache.labels("assumed_pods").set(len(live.cluster.binding))
        metrics.events.labels("written").set(live.events.sent)
        metrics.events.labels("dropped").set(live.events.dropped)
        return metrics.text()


async def run_scheduler(settings: RunSettings, *, announce: Callable[[str], None]) -> None:
    """Place pods until SIGINT or SIGTERM; SIGHUP looks at the profile file at once."""
    check_metrics(settings.server, settings.token_file)
    check_tls_files(settings.server)
    async with await _connected(settings, announce) as api:
        process = Process(settings, api, announce=announce)
        on_stop_signals(process.stop)
        if process.reloader is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, process.reloader.now.set)
        await process.run()
        announce("stopped")


async def run_shadow(
    settings: RunSettings, *, out: Path | None, stop_after: int | None, announce: Callable[[str], None]
) -> Agreement:
    """Compare our decisions with another scheduler's until SIGINT, SIGTERM or enough pods."""
    async with await _connected(settings, announce) as api:
        stop = asyncio.Event()
        on_stop_signals(stop.set)
        profile = profile_for(settings.policy, settings.seed)
        shadow = Shadow(
            profile, scheduler_name=settings.scheduler_name, out=out, stop_after=stop_after, on_end=stop.set
        )
        lessons = lessons_for(shadow.cache, settings)
        watches = Watches(api, shadow.cache)
        tasks = watches.start()

        async def get_ready() -> None:
            await watches.ready()
            lessons.teach(profile)
            shadow.is_watching = True
            announce(f"watching the pods of {settings.scheduler_name}; nothing is bound by us")
            await stop.wait()

        tasks.append(asyncio.create_task(get_ready(), name="first lists"))
        try:
            await until_stopped(tasks, stop)
        finally:
            shadow.close()
        return shadow.agreement


async def _connected(settings: RunSettings, announce: Callable[[str], None]) -> Client:
    """A client that has found its server: one that is not there is told at once, with what to check."""
    connection = find_connection(settings.kubeconfig, settings.context)
    async with Client(connection) as api:
        version = await api.get("/version")
    announce(f"connected to {connection.url} (Kubernetes {version.get('gitVersion', 'of unknown version')})")
    return Client(connection)
