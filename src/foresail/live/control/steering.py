"""Controllers get their turns on a real cluster: a view from the cache, and actions that become requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping

from foresail.core.clock import Clock
from foresail.core.control import Controller, NoTelemetry, RunningPod, Telemetry, View
from foresail.core.control_loop import ControlLoop
from foresail.core.journal import Journal
from foresail.core.lifecycle import Lives, State
from foresail.core.model import Pod
from foresail.core.scheduler import Scheduler
from foresail.errors import ControllerError
from foresail.kube.api.client import Client
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.moves.gangs import whole_gang
from foresail.live.moves.moves import Moves
from foresail.live.moves.records import MoveRecords
from foresail.live.moves.rooms import Rooms
from foresail.live.moves.tools import MoveEnd, MoveSettings
from foresail.live.resizes.record import ResizeRecords
from foresail.live.resizes.resizes import Resizes
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.resizes.tools import ResizeEnd
from foresail.live.telemetry.checkpoints import Checkpoints, NoCheckpoints
from foresail.live.telemetry.jobs import job_of
from foresail.logs import get_logger

_UNDER_WAY = "another action on it is under way"
_LOOK_AGAIN_S = 60.0


class LiveSteering(Listener):
    """What controllers see and may change: the pods of one scheduler name, by whoever placed them.

    An action is handed over at once and carried out in the background; what comes to nothing is noted as declined. A
    pod that is moved is not resized, and one that is resized is not moved.
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
        rooms: Rooms,
        records_namespace: str,
        records_of: str = "",
        scheduler: Scheduler | None = None,
        lives: Lives | None = None,
        telemetry: Telemetry | None = None,
        checkpoints: Checkpoints | None = None,
        moves: MoveSettings | None = None,
        resizes: ResizeSettings | None = None,
        dry_run: bool = False,
        failed: Callable[[], object] = lambda: None,
        move_ended: Callable[[MoveEnd], None] = lambda _: None,
        resize_ended: Callable[[ResizeEnd], None] = lambda _: None,
    ) -> None:
        """`scheduler` places the pods and can hold room for them; without one, beside another scheduler, nothing is
        held. `rooms` are where moved pods go, and moves and resizes are written down in `records_namespace`, as those
        of `records_of`, by default of the scheduler: whoever steers beside others of its name says its own. `failed`
        is told of each turn of a controller that came to nothing, `move_ended` and `resize_ended` of each of those.
        """
        self._may_act: Callable[[], bool] = lambda: True
        self.problem = ""
        """What a controller failed on, until a round of turns goes well."""
        self._loop = ControlLoop(controllers, clock, journal, dry_run=dry_run, failed=self._note_failure)
        self._cache = cache
        self._clock = clock
        self._journal = journal
        self._scheduler_name = scheduler_name
        self._scheduler = scheduler
        self._lives = lives
        self._telemetry = telemetry or NoTelemetry()
        self._failed = failed
        self._dry_run = dry_run
        self._has_controllers = bool(controllers)
        self._leads = False
        self.resizes = Resizes(
            api,
            cache,
            clock,
            journal,
            ResizeRecords(api, records_namespace, records_of or scheduler_name),
            scheduler=scheduler,
            settings=resizes,
            ended=resize_ended,
        )
        self.moves = Moves(
            api,
            cache,
            clock,
            journal,
            MoveRecords(api, records_namespace, records_of or scheduler_name),
            rooms,
            checkpoints or NoCheckpoints(),
            now_s=lambda: clock.now() + self._epoch_s,
            settings=moves,
            ended=move_ended,
            stays=lambda uid: self._turn(uid, State.RUNNING),
        )
        self._epoch_s = time.time() - clock.now()
        self._ours: dict[str, tuple[CachedPod, float]] = {}
        """Running pods of ours, and since when they have their node, on the clock."""
        cache.tell(self)

    # --- leaders ---------------------------------------------------------------------------------------------------

    def act_if(self, may_act: Callable[[], bool]) -> None:
        """Whether acts are ours to make is asked of this, right before each."""
        self._may_act = self.moves.may_act = self.resizes.may_act = may_act

    async def take_over(self) -> None:
        """It is to lead: go on with the moves and resizes of whoever did before."""
        # Nobody changes pods without controllers, and the right to read records comes with them.
        if self._has_controllers and not self._dry_run:
            await self.moves.take_over()
            await self.resizes.take_over()

    async def look_again(self) -> None:
        """Look for moves that nobody drives, for ever: a request of the last leader's may have been long on its way."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN_S)
            if self._leads and self._may_act() and self._has_controllers and not self._dry_run:
                await self.moves.take_over()

    def lead(self, *, leads: bool) -> None:
        self._leads = leads
        if not leads and not self._may_act():
            self.moves.let_go()
            self.resizes.let_go()

    async def finish(self, within_s: float) -> None:
        """It is to end: carry out what is soon done; longer moves are left to the next leader."""
        begun = [*self.resizes.tasks.values(), *self.moves.pressing]
        if begun:
            await asyncio.wait(begun, timeout=within_s)
        await asyncio.gather(*self.moves.let_go(), *self.resizes.let_go(), return_exceptions=True)

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
        finally:
            self.resizes.start()

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

    # --- actions, see Steered --------------------------------------------------------------------------------------

    def move(self, pod: Pod, node: str, why: str) -> str:
        uid = str(pod.uid)
        cached = self._cache.pods.get(uid)
        if cached is None or uid not in self._ours:
            return "it is not running any more"
        if self.moves.is_to_begin(uid):
            return self.moves.redirect(uid, node, why)  # its gang goes already, for another of this turn's moves
        pods = whole_gang(cached, self._cache, self._ours.__contains__)
        if isinstance(pods, str):
            return pods
        if any(one.uid in self.moves or one.uid in self.resizes for one in pods):
            return _UNDER_WAY
        against = self._lacks_lead() or self.moves.begin(pods, node, why, self._loop.acting)
        if not against:
            for one in pods:
                self._turn(one.uid, State.MOVING)
        return against

    def resize(self, pod: Pod, cpu_milli: int, cpu_limit_milli: int | None, why: str) -> str:  # noqa: ARG002 - Steered
        uid = str(pod.uid)
        cached = self._cache.pods.get(uid)
        if cached is None or uid not in self._ours:
            return "it is not running any more"
        if uid in self.moves:
            return _UNDER_WAY
        return self._lacks_lead() or self.resizes.ask(cached, cpu_milli, cpu_limit_milli, self._loop.acting)

    def hold(self, pod: Pod, node: str, for_s: float, why: str) -> str:
        if self._scheduler is None:
            return "only the scheduler that places pods can hold room; give the controller to foresail run"
        return self._scheduler.hold(pod, node, for_s, why)

    def _lacks_lead(self) -> str:
        return "" if self._may_act() else "another replica may lead by now"

    def _turn(self, uid: str, state: State) -> None:
        if self._lives is not None and uid in self._lives:
            self._lives.turn(uid, state)
