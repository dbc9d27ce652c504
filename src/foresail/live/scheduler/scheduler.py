"""The loop on a real cluster: what the cache learns fills the queue, and each turn of the queue becomes a decision."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Container, Hashable, Iterable, Mapping

from foresail.controllers import load_companions
from foresail.core.backoff import Backoff
from foresail.core.clock import Clock, WallClock
from foresail.core.control import Controller
from foresail.core.decide import decide
from foresail.core.gang_search import SearchLimits
from foresail.core.incomplete_gangs import IncompleteGangs
from foresail.core.journal import Journal, What
from foresail.core.journal import Listener as JournalListener
from foresail.core.lifecycle import Lives, State
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.reservations import ReservationSettings
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang
from foresail.core.table import NodeTable
from foresail.kube.api.client import Client
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.control.steering import LiveSteering
from foresail.live.events import Events
from foresail.live.moves.rooms import HeldRooms
from foresail.live.moves.tools import MoveSettings
from foresail.live.reports import EventReport, counted
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.scheduler.cluster import LiveCluster
from foresail.live.scheduler.dry_run import DryCluster
from foresail.live.scheduler.ends import PodEnds
from foresail.live.scheduler.gang_settings import GangWaitSettings
from foresail.live.scheduler.metrics import SCHEDULED, UNSCHEDULABLE, Metrics
from foresail.live.serving.server import ServerSettings
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.live.telemetry.sources import Sources
from foresail.logs import get_logger

_SLICE_S = 0.004
"""Decisions are made for so long at a stretch; then watches and binds have their turn."""
_FLUSH_EVERY_S = 300.0
"""After so long pods that fitted nowhere are tried again although nothing seems to have happened."""
_MEND_EVERY_S = 30.0
_SEARCH_LIMITS = SearchLimits(seconds=0.2)
"""Nothing else is done meanwhile, so no gang is searched for longer than this at a stretch."""


class LiveScheduler(Listener):
    """Places the pods that name this scheduler. `leads` says whether it may: one of several replicas does."""

    def __init__(
        self,
        api: Client,
        profile: Profile,
        *,
        scheduler_name: str = "foresail",
        backoff: Backoff | None = None,
        clock: Clock | None = None,
        reports: Iterable[JournalListener] = (),
        controllers: Mapping[str, Controller] | None = None,
        dry_run: bool = False,
        telemetry: TelemetrySettings | None = None,
        server: ServerSettings | None = None,
        moves: MoveSettings | None = None,
        resizes: ResizeSettings | None = None,
        gangs: GangWaitSettings | None = None,
        records_namespace: str = "kube-system",
    ) -> None:
        """`reports` listen to the journal, beside those that write Events and count. In a `dry_run` nothing is written
        to the cluster. `telemetry`: what controllers are told of pods beyond their specification; `server` is
        the one that reports may be sent to. Moves and resizes are written down in `records_namespace`.
        """
        backoff, gangs = backoff or Backoff(), gangs or GangWaitSettings()
        self._scheduler_name = scheduler_name
        self.metrics = Metrics(scheduler_name)
        self.cache = Cache(self, scheduler_name=scheduler_name, devices=profile.devices)
        self._clock = clock or WallClock()
        self.events = Events(api)
        events = [] if dry_run else [EventReport(self.cache, self.events)]
        self.journal = Journal(self._clock, *events, counted(self.metrics), *reports)
        """What happens here, for whoever wants to know."""
        self.queue = Queue(self._clock, backoff=backoff, incomplete_gangs=IncompleteGangs(self._clock))
        self.lives = Lives()
        """Where each pod of ours is, from when it can be placed until it has left its node."""
        self.cluster = (DryCluster if dry_run else LiveCluster)(
            api, self.cache, self.lives, self.journal, self.metrics, changed=self._changed, backoff=backoff
        )
        preemption = self.cluster.preemption
        self.core = Scheduler(
            self.cluster,
            profile,
            self.queue,
            decide=self._decide,
            preemption=preemption,
            journal=self.journal,
            search_limits=_SEARCH_LIMITS,
            reservations=ReservationSettings(gangs.reserve_after_s, gangs.reservations),
            ends=PodEnds(self.cache, self._clock),
        )
        self.cluster.scheduler = self.core
        self.telemetry = Sources(
            telemetry or TelemetrySettings(),
            api,
            self.cache,
            self._clock,
            scheduler_name=scheduler_name,
            registry=self.metrics.registry,
            server=server,
            leads=lambda: self.leads,
        )
        self.companions = load_companions(profile.companions, beside=controllers or ())
        """Controllers that the policy relies on."""
        self.steering = LiveSteering(
            {**self.companions, **(controllers or {})},
            api,
            self.cache,
            self._clock,
            self.journal,
            scheduler_name=scheduler_name,
            rooms=HeldRooms(self.core, self._clock),
            records_namespace=records_namespace,
            scheduler=self.core,
            lives=self.lives,
            telemetry=self.telemetry,
            checkpoints=self.telemetry.checkpoints,
            moves=moves,
            resizes=resizes,
            dry_run=dry_run,
            failed=self.metrics.controller_failures.inc,
            move_ended=self.metrics.move_ended,
            resize_ended=self.metrics.resize_ended,
        )
        self.leads = False
        self.broke = ""
        """What the last turn broke on, if it was no policy's fault; empty once a turn went well."""
        self._gangs: dict[str, Gang] = {}
        """Those of which somebody has waited, as long as there is any member."""
        self._missed: set[str] = set()
        """Waiting pods that were nowhere when this was last looked at."""
        self._news = asyncio.Event()
        self._flush_s = _FLUSH_EVERY_S
        self._mend_s = _MEND_EVERY_S

    def lead(self, *, leads: bool) -> None:
        """From now on decisions are made here, or not any more."""
        self.leads = leads
        self.cluster.lead(leads=leads)
        self.steering.lead(leads=leads)
        self.metrics.leader.set(leads)
        self.anything_changed()

    # --- what the cache tells --------------------------------------------------------------------------------------

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:
        if self.lives.of(cached.uid) is not State.GONE:
            return  # it changed while it is being bound; what becomes of it then is looked at then
        self.lives.begin(cached.uid, State.WAITING)
        self.metrics.incoming.labels("PodAdd").inc()
        self.journal.note(What.ARRIVE, pod=pod.name)
        if pod.gang is not None:
            self._gangs[pod.gang.name] = pod.gang
            self.queue.members_placed(pod.gang, self.cache.placed_members(pod.gang.name))
        if cached.nominated_node:
            # Others left, or are leaving, for it since before this process started.
            self.core.nominate(pod, cached.nominated_node)
        self.core.submit(pod)
        # What a gang was refused for may be mended by the very pod that has come; its turn will tell.
        if pod.gang is None and self.queue.sleeps(cached.uid):
            self.cluster.same_refusal(pod)
        self._changed()

    def pod_gone(self, uid: str) -> None:
        self.core.withdraw(uid)
        if self.lives.of(uid) is not State.BINDING:
            self.cluster.forget(uid)
        elif uid not in self.cache.pods:
            self.lives.forget(uid)
        self._changed()

    def pod_confirmed(self, cached: CachedPod) -> None:
        if cached.ended:
            self.lives.forget(cached.uid)  # before anybody had told that it ran

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        cached = now or before
        if cached is None or cached.scheduler_name != self._scheduler_name:
            return
        if now is None:
            self.lives.forget(cached.uid)
            self.journal.note(What.END, pod=cached.full_name, node=cached.node)
        elif self.lives.of(cached.uid) is not State.MOVING:
            self.lives.meet(cached.uid, State.RUNNING)

    def pod_waits_for(self, cached: CachedPod, why: str) -> None:
        self.cluster.explain_wait(cached, why)

    def pod_unreadable(self, cached: CachedPod, why: str) -> None:
        self.cluster.explain_wait(cached, why)

    def pod_came(self, _row: int) -> None:
        self.core.pod_came()
        self._changed()

    def room_freed(self, row: int) -> None:
        self.core.node_changed(row)
        self._changed()

    def gang_changed(self, gang: str) -> None:
        # A list may name those that wait before those that have their node.
        waited = self._gangs.get(gang)
        if waited is not None:
            self.queue.members_placed(waited, self.cache.placed_members(gang))
            self._changed()
            if not self.cache.has_members(gang):
                del self._gangs[gang]

    def anything_changed(self) -> None:
        self.cluster.nodes_changed()
        self.queue.wake_all()
        self._changed()

    def _changed(self) -> None:
        self._news.set()

    # --- turns -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Decide for ever; cancel it to stop. Call once the cache knows the cluster."""
        while True:
            if self.leads:
                self.steering.run_due()
            if self.leads and self._work():
                await asyncio.sleep(0)
                continue
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                # Before Python 3.12 wait_for loses a cancel that comes together with news, and this would never end.
                async with asyncio.timeout(self._idle_s()):
                    await self._news.wait()
            self._look_after()

    def _work(self) -> bool:
        """Give turns for a while; whether there may be more to do at once."""
        until_s = time.perf_counter() + _SLICE_S
        while not self.cluster.is_busy:
            try:
                if not self.core.answer(self.core.turn()):
                    return False
                self.broke = ""
            except Exception as error:  # noqa: BLE001 - a scheduler that stops helps nobody; health tells of it
                self.broke = f"{type(error).__name__}: {error}"
                get_logger().exception("turn_broke")
                return False
            if time.perf_counter() > until_s:
                return True
        return False

    def _decide(self, pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
        started_s = time.perf_counter()
        outcome = decide(pod, table, profile)
        result = SCHEDULED if isinstance(outcome, Placement) else UNSCHEDULABLE
        self.metrics.latency[result].observe(time.perf_counter() - started_s)
        return outcome

    def _idle_s(self) -> float:
        now_s = self._clock.now()
        due_s = min(self.core.next_time_s(), self.steering.next_time_s()) if self.leads else self._mend_s
        return max(0.0, min(due_s, self._flush_s, self._mend_s) - now_s)

    def _look_after(self) -> None:
        if self.leads:
            for gang, members, more in self.queue.incomplete():
                self.cluster.gang_is_incomplete(gang, members, more)
        now_s = self._clock.now()
        if now_s >= self._flush_s:
            self._flush_s = now_s + _FLUSH_EVERY_S
            self.queue.wake_all()
        if now_s >= self._mend_s:
            self._mend_s = now_s + _MEND_EVERY_S
            self.mend()

    def mend(self) -> int:
        """Put back pods that are lost; returns how many. There should never be one; if there is, it is told.

        An answer of the API server may be ahead of its watch, so a pod must be missed in two looks in a row.
        """
        missed = self.misplaced()
        lost = [pod for uid in missed & self._missed if (pod := self.cache.waiting(uid)) is not None]
        self._missed = missed
        for pod in lost:
            get_logger().error("pod_was_lost", pod=pod.name, state=self.lives.of(pod.uid).value)
            self.lives.forget(pod.uid)
            self.lives.begin(pod.uid, State.WAITING)
            self.core.submit(pod)
        self.metrics.mended.inc(len(lost))
        return len(lost)

    def misplaced(self) -> set[str]:
        """Pods that wait, by the cache's word, and are not where their state says."""
        place_of: dict[State, Container[Hashable]] = {
            State.WAITING: self.queue,
            State.RESTING: self.cluster.paused,
            State.BINDING: self.cluster.binding,
            State.RUNNING: self.cluster.table.placed,
        }
        return {uid for uid in self.cache.who_waits if uid not in place_of.get(self.lives.of(uid), ())}
