"""Controllers get their turns on a real cluster: a view from the cache, and actions that become requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import Any, NamedTuple

from foresail.core.clock import Clock
from foresail.core.control import Controller, NoTelemetry, RunningPod, Telemetry, View
from foresail.core.control_loop import ControlLoop
from foresail.core.holds import Holds
from foresail.core.journal import Journal, What
from foresail.core.lifecycle import Lives, State
from foresail.core.model import Pod
from foresail.core.scheduler import Scheduler
from foresail.errors import ControllerError
from foresail.kube.api.client import Client
from foresail.live.actions.moving import Mover, is_successor, why_not
from foresail.live.actions.resizing import Resizer
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.telemetry.jobs import job_of
from foresail.logs import get_logger

_SUCCESSOR_WITHIN_S = 120.0
"""How long the target of a move is kept for the successor: its owner makes it within seconds."""


class _MoveUnderWay(NamedTuple):
    """A pod that was evicted and whose successor has not come yet."""

    pod: CachedPod
    why: str
    until_s: float


class LiveSteering(Listener):
    """What controllers see and may change: the pods of one scheduler name, by whoever placed them.

    An action is handed over at once and carried out in the background; what comes to nothing is noted as declined. Of
    one pod one action is under way at a time.
    """

    def __init__(
        self,
        controllers: Mapping[str, Controller],
        api: Client,
        cache: Cache,
        clock: Clock,
        journal: Journal,
        *,
        scheduler_name: str,
        scheduler: Scheduler | None = None,
        lives: Lives | None = None,
        telemetry: Telemetry | None = None,
        dry_run: bool = False,
        failed: Callable[[], object] = lambda: None,
    ) -> None:
        """`scheduler` places the pods and can hold room for them; without one, beside another scheduler, nothing is
        held. `failed` is told of each turn of a controller that came to nothing.
        """
        self.may_act: Callable[[], bool] = lambda: True
        """Whether acts are ours to make, asked right before each."""
        self.problem = ""
        """What a controller failed on, until a round of turns goes well."""
        self.under_way: dict[str, asyncio.Task[None]] = {}
        """Pods on which an action is being carried out."""
        self._loop = ControlLoop(controllers, clock, journal, dry_run=dry_run, failed=self._note_failure)
        self._cache = cache
        self._clock = clock
        self._journal = journal
        self._scheduler_name = scheduler_name
        self._scheduler = scheduler
        self._lives = lives
        self._telemetry = telemetry or NoTelemetry()
        self._failed = failed
        self._resizer = Resizer(api)
        self._mover = Mover(api)
        self._ours: dict[str, tuple[CachedPod, float]] = {}
        """Running pods of ours, and since when they have their node, on the clock."""
        self._more_milli: dict[str, tuple[str, int]] = {}
        """Node and CPU that resizes under way ask for beyond what the cache knows of."""
        self._moved: dict[str, _MoveUnderWay] = {}
        cache.tell(self)

    # --- turns -----------------------------------------------------------------------------------------------------

    def next_time_s(self) -> float:
        return self._loop.next_time_s()

    def run_due(self) -> None:
        """Give every controller whose time has come its turn. Whatever a controller does, this goes on."""
        if self._clock.now() < self._loop.next_time_s():
            return
        self.problem = ""
        try:
            self._loop.run_due(self.view, self)
        except Exception as error:  # noqa: BLE001 - a controller may be anybody's, and pods are placed all the same
            get_logger().exception("controllers_broke")
            self._note_failure(ControllerError(f"{type(error).__name__}: {error}"))

    def _note_failure(self, error: ControllerError) -> None:
        self.problem = str(error)
        self._failed()
        get_logger().error("controller_failed", error=str(error))

    def view(self) -> View:
        """The cluster now; pods that are being deleted are no longer there."""
        placed = self._cache.table.placed
        running: dict[Hashable, RunningPod] = {
            uid: RunningPod(
                placed[uid].pod,
                cached.node,
                since_s,
                placed[uid].pod.spec.cpu_milli,
                cached.cpu_limit_milli,
                cached.annotations,
                job_of(cached),
            )
            for uid, (cached, since_s) in sorted(self._ours.items(), key=lambda item: item[1][1])
            if uid in placed and not cached.terminating
        }
        return View(self._clock.now(), self._cache.table, running, self._telemetry)

    # --- what the cache tells --------------------------------------------------------------------------------------

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        cached = now or before
        if cached is None or cached.scheduler_name != self._scheduler_name:
            return
        if now is None:
            self._ours.pop(cached.uid, None)
        else:
            known = self._ours.get(now.uid)
            self._ours[now.uid] = (now, self._since_s(now) if known is None else known[1])

    def _since_s(self, cached: CachedPod) -> float:
        ran_s = 0.0 if cached.started_s is None else max(0.0, time.time() - cached.started_s)
        return self._clock.now() - ran_s

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:
        """A successor gets the room that is held for the pod it replaces."""
        now_s = self._clock.now()
        self._moved = {uid: move for uid, move in self._moved.items() if move.until_s > now_s}
        found = next((uid for uid, move in self._moved.items() if is_successor(move.pod, cached)), None)
        if found is None or self._scheduler is None:
            return
        move = self._moved.pop(found)
        held = self._scheduler.holds.release(found)
        if held is not None:
            self._scheduler.hold(pod, held.node, move.until_s - now_s, move.why)

    # --- actions, see Steered --------------------------------------------------------------------------------------

    def move(self, pod: Pod, node: str, why: str) -> str:
        uid = str(pod.uid)
        cached = self._cache.pods.get(uid)
        if cached is None or uid not in self._ours:
            return "it is not running any more"
        against = self._against(uid) or why_not(cached)
        if against:
            return against
        if self._scheduler is not None:
            against = self._scheduler.hold_to_move(uid, node, _SUCCESSOR_WITHIN_S, why)
        elif node:
            against = f"its successor is placed by {cached.scheduler_name}, for which no node can be held from here"
        if not against:
            self._moved[uid] = _MoveUnderWay(cached, why, self._clock.now() + _SUCCESSOR_WITHIN_S)
            self._turn(uid, State.MOVING)
            self._begin(uid, self._evict(cached, self._loop.acting), f"move {cached.full_name}")
        return against

    def resize(self, pod: Pod, cpu_milli: int, cpu_limit_milli: int | None, why: str) -> str:  # noqa: ARG002 - Steered
        uid = str(pod.uid)
        cached = self._cache.pods.get(uid)
        placed = self._cache.table.placed.get(uid)
        if cached is None or placed is None or uid not in self._ours:
            return "it is not running any more"
        more_milli = cpu_milli - placed.pod.spec.cpu_milli
        promised_milli = sum(milli for node, milli in self._more_milli.values() if node == cached.node)
        holds = Holds() if self._scheduler is None else self._scheduler.holds
        against = self._against(uid) or holds.against_resize(
            placed, cpu_milli, self._cache.table, promised_milli=promised_milli
        )
        if against:
            return against
        self._more_milli[uid] = (cached.node, more_milli)
        work = self._resize(cached, cpu_milli, cpu_limit_milli, self._loop.acting)
        self._begin(uid, work, f"resize {cached.full_name}")
        return ""

    def hold(self, pod: Pod, node: str, for_s: float, why: str) -> str:
        if self._scheduler is None:
            return "only the scheduler that places pods can hold room; give the controller to foresail run"
        return self._scheduler.hold(pod, node, for_s, why)

    def _against(self, uid: str) -> str:
        if uid in self.under_way or uid in self._moved:
            return "another action on it is under way"
        return "" if self.may_act() else "another replica may lead by now"

    def _begin(self, uid: str, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.under_way[uid] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self.under_way.pop(uid, None))

    async def _evict(self, pod: CachedPod, by: str) -> None:
        why = await _outcome(self._mover.evict(pod))
        if why:
            self._moved.pop(pod.uid, None)
            if self._scheduler is not None:
                self._scheduler.withdraw(pod.uid)
            self._turn(pod.uid, State.RUNNING)
            self._decline(pod, "move", why, by)

    async def _resize(self, pod: CachedPod, cpu_milli: int, cpu_limit_milli: int | None, by: str) -> None:
        try:
            why = await _outcome(self._resizer.resize(pod, cpu_milli, cpu_limit_milli))
        finally:
            del self._more_milli[pod.uid]
        if why:
            self._decline(pod, "resize", why, by)

    def _decline(self, pod: CachedPod, what: str, why: str, by: str) -> None:
        self._journal.note(What.DECLINE, pod=pod.full_name, node=pod.node, detail=f"{what} declined: {why}", by=by)

    def _turn(self, uid: str, state: State) -> None:
        if self._lives is not None and uid in self._lives:
            self._lives.turn(uid, state)


async def _outcome(work: Coroutine[Any, Any, str]) -> str:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - an action that breaks is one that was not done
        get_logger().exception("action_broke")
        return f"{type(error).__name__}: {error}"
