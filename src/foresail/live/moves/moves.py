"""All moves that are under way: begun for controllers, taken over from leaders that are gone, driven to their end."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from foresail.core.clock import Clock
from foresail.core.journal import Journal, What
from foresail.core.model import Pod
from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError, Conflict, NotFound
from foresail.live.actions.moving import PodMover
from foresail.live.actions.scaling import Scaler
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.moves.beginning import NOT_RUNNING, id_of, moving_pods
from foresail.live.moves.gangs import hold_together
from foresail.live.moves.leaving import checkpoint, evict
from foresail.live.moves.owners import early_obstacle
from foresail.live.moves.record import MovePhase, MoveRecord, MovingPod
from foresail.live.moves.records import MOST_BYTES, KeptMove, MoveRecords, ReplacedError, size_bytes
from foresail.live.moves.replacing import give_room, replace
from foresail.live.moves.resuming import resume
from foresail.live.moves.rooms import Rooms
from foresail.live.moves.surging import shrink, surge
from foresail.live.moves.tools import MoveEnd, MoveSettings, MoveTools, NotLeadingError
from foresail.live.moves.undoing import undo
from foresail.live.telemetry.checkpoints import Checkpoints
from foresail.live.telemetry.jobs import job_of
from foresail.logs import get_logger

_STEPS = {
    MovePhase.CHECKPOINT: checkpoint,
    MovePhase.EVICT: evict,
    MovePhase.SURGE: surge,
    MovePhase.SHRINK: shrink,
    MovePhase.REPLACE: replace,
    MovePhase.RESUME: resume,
    MovePhase.UNDO: undo,
}
_AFTER_FAILURE_S = 5.0
_HEARD_OF_JOBS_S = 15.0
"""After so long it is known which jobs report, and how they can be asked."""
_MOST_FINISHED = 10_000


class Moves(Listener):
    """Moves of one scheduler's pods.

    One task drives a move: it does what the phase says, writes the next one down, and so on. Whatever it is stopped by,
    the record says where to go on.
    """

    def __init__(
        self,
        api: Client,
        cache: Cache,
        clock: Clock,
        journal: Journal,
        records: MoveRecords,
        rooms: Rooms,
        checkpoints: Checkpoints,
        *,
        now_s: Callable[[], float],
        settings: MoveSettings | None = None,
        ended: Callable[[MoveEnd], None] = lambda _: None,
        stays: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`now_s` tells seconds since 1970. `ended` is told how each pod's move ended, `stays` who does not go after
        all, by uid.
        """
        self.problem = ""
        """Why no move can be begun; empty if one can."""
        self.may_act: Callable[[], bool] = lambda: True
        """Whether acts are ours to make, asked right before each."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """Those that drive moves, by the move's id."""
        self._api = api
        self._cache = cache
        self._clock = clock
        self._journal = journal
        self._records = records
        self._rooms = rooms
        self._settings = settings or MoveSettings()
        self._stays = stays
        self._hand = uuid.uuid4().hex
        self._kept: dict[str, KeptMove] = {}
        self._pods: dict[str, str] = {}
        """Uids of pods that are moved, to the id of their move."""
        self._to_begin: set[str] = set()
        """Ids of moves that nothing was done for yet."""
        self._rests: dict[str, tuple[float, str]] = {}
        """Jobs whose move came to nothing: until when they are left alone, on the clock, and what it was."""
        self._finished: dict[str, None] = {}
        """Uids of pods that were seen to end well."""
        self._news = asyncio.Event()
        knows_from_s = clock.now() + _HEARD_OF_JOBS_S
        self._tools = MoveTools(
            cache=cache,
            mover=PodMover(api),
            scaler=Scaler(api),
            rooms=rooms,
            checkpoints=checkpoints,
            journal=journal,
            settings=self._settings,
            now_s=now_s,
            wait=self._wait,
            may_act=lambda: self.may_act(),  # noqa: PLW0108 - it is set later
            knows_jobs=lambda: clock.now() >= knows_from_s or not checkpoints.can_ask,
            has_finished=lambda uid: uid in self._finished,
            expected=self._expected,
            ended=ended,
        )
        cache.tell(self)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    # --- what the cache tells --------------------------------------------------------------------------------------

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:  # noqa: ARG002 - see Listener
        """A successor gets the room that is held for it before anybody decides about it."""
        for record, _ in self._kept.values():
            for moving in record.pods:
                if moving.is_succeeded_by(cached):
                    give_room(cached, moving, record, self._tools)
        self._news.set()

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        if before is not None and now is None:
            left = self._cache.pods.get(before.uid)
            if left is not None and left.phase == "Succeeded":
                self._finished[before.uid] = None
                if len(self._finished) > _MOST_FINISHED:
                    del self._finished[next(iter(self._finished))]
        self._news.set()

    def anything_changed(self) -> None:
        self._news.set()

    async def _wait(self, most_s: float) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._news.wait()

    # --- beginnings ------------------------------------------------------------------------------------------------

    def begin(self, pods: Sequence[CachedPod], node: str, why: str, by: str = "") -> str:
        """Begin to move pods together for a controller, the first to a node and the others near it; says why that
        cannot be, empty if it is under way.

        What has to be asked of the API server first is found out afterwards, and told as declined.
        """
        against = self.problem or self._against(pods)
        if against:
            return against
        against = hold_together(self._rooms, pods, node, self._cache, self._to_hold_s, why)
        if against:
            return against
        move_id = id_of(pods)
        self._pods.update(dict.fromkeys([pod.uid for pod in pods], move_id))
        self._to_begin.add(move_id)
        self._run(move_id, self._start(move_id, list(pods), why, by))
        return ""

    def is_to_begin(self, uid: str) -> bool:
        """Whether a pod's move was asked for just now, in this turn of a controller."""
        return self._pods.get(uid) in self._to_begin

    def redirect(self, uid: str, node: str, why: str) -> str:
        """Send one of a gang that is to begin its move to another node; says why that cannot be."""
        if self._rooms.node_of(uid) == node:
            return ""
        return self._rooms.hold(uid, node, self._to_hold_s, why, successor=None, beside=False)

    def _against(self, pods: Sequence[CachedPod]) -> str:
        now_s = self._clock.now()
        self._rests = {job: rest for job, rest in self._rests.items() if rest[0] > now_s}
        if len(self.tasks) >= self._settings.most_at_once:
            return f"{len(self.tasks)} moves are under way, and no more at once"
        if len(pods) > 1 and not self._rooms.keeps:
            return "it is one of a gang, for which no room can be held from here; give the controller to foresail run"
        for pod in pods:
            against = early_obstacle(pod)
            if not against and pod.owner is not None and not self._rooms.keeps:
                against = (
                    f"its successor is made by its {pod.owner.kind} and placed by {pod.scheduler_name}, for which no "
                    "node can be held from here; give the controller to foresail run"
                )
            rest = self._rests.get(job_of(pod))
            if not against and rest is not None:
                against = f"it is left alone for {rest[0] - now_s:.0f} s, as its last move came to nothing: {rest[1]}"
            if against:
                return against
        return ""

    @property
    def _to_hold_s(self) -> float:
        return self._settings.checkpoint_s + self._settings.budget_s + self._settings.successor_s

    async def _start(self, move_id: str, pods: list[CachedPod], why: str, by: str) -> None:
        """Look at what the cache does not know of, write the move down, and drive it."""
        self._to_begin.discard(move_id)
        record: MoveRecord | str = NOT_RUNNING
        try:
            record = await self._first_record(move_id, pods, why, by)
            kept = record if isinstance(record, str) else await self._records.create(record)
        except NotFound:
            kept = NOT_RUNNING
        except Conflict as error:
            if not isinstance(record, str):
                # Whoever led before may have written it down only now: its request was long on its way.
                await self._drive_written(record, pods)
                return
            kept = str(error)
        except ClusterError as error:
            kept = str(error)
        if not isinstance(kept, str):
            await self._drive(kept)
            return
        for pod in pods:
            self._forget(pod.uid)
            self._leave_alone(pod.uid, job_of(pod), kept)
            self._journal.note(What.DECLINE, pod=pod.full_name, node=pod.node, detail=f"move declined: {kept}", by=by)

    async def _first_record(self, move_id: str, pods: list[CachedPod], why: str, by: str) -> MoveRecord | str:
        """The move as it is to be written down, or why there is to be none."""
        moving = await moving_pods(self._api, pods, self._cache, self._rooms)
        held = moving if isinstance(moving, str) else self._hold_as_expected(moving, why)
        if isinstance(held, str):
            return held
        now_s = self._tools.now_s()
        record = MoveRecord(
            id=move_id,
            why=why,
            by=by,
            pods=tuple(held),
            phase=MovePhase.CHECKPOINT,
            begun_s=now_s,
            phase_s=now_s,
            hand=self._hand,
        )
        if size_bytes(record) > MOST_BYTES:
            return f"what would be written down of it is too large ({size_bytes(record)} bytes)"
        return record if self.may_act() else "another replica may lead by now"

    def _hold_as_expected(self, pods: Sequence[MovingPod], why: str) -> list[MovingPod] | str:
        """Hold what the successors will request, which may be more than the pods do after they were resized. A
        successor that does not fit beside its pod comes when that has gone.
        """
        held = []
        for pod in pods:
            expected = self._expected(pod)
            if expected is None:
                return "its successor could not be placed anywhere"
            way, against = pod, self._hold(pod, expected, why)
            if against and pod.deployment is not None:
                way = msgspec.structs.replace(pod, deployment=None)
                against = self._hold(way, expected, why)
            if against:
                return against
            held.append(way)
        return held

    def _hold(self, pod: MovingPod, expected: Pod, why: str) -> str:
        beside = pod.deployment is not None
        return self._rooms.hold(pod.uid, pod.target, self._to_hold_s, why, successor=expected, beside=beside)

    def _expected(self, pod: MovingPod) -> Pod | None:
        metadata = {**pod.expected["metadata"], "name": pod.name, "uid": pod.uid}
        found = self._cache.expect({**pod.expected, "metadata": metadata})
        return None if isinstance(found, str) else found

    # --- the way ---------------------------------------------------------------------------------------------------

    async def _drive(self, kept: KeptMove) -> None:
        """Go on with a move until it is over, or another does."""
        move_id = kept.record.id
        while True:
            self._kept[move_id] = kept
            try:
                self._tools.check_lead()
                following = await _STEPS[kept.record.phase](kept.record, self._tools)
                self._tools.check_lead()
                if following is None:
                    await self._records.delete(kept)
                    self._close(kept.record)
                    return
                kept = await self._records.replace(kept, following)
                self._keep_rooms(kept.record)
            except ReplacedError as error:
                get_logger().info("move_left_to_another", move=move_id, why=str(error))
                self._drop(kept.record)
                return
            except NotLeadingError:
                await asyncio.sleep(_AFTER_FAILURE_S)  # until the lead is ours for certain, or lost, and this cancelled
            except Exception as error:  # noqa: BLE001 - a move that is begun is brought to an end, whatever goes wrong
                # Nothing is lost: what the phase has done is found when it is begun anew.
                log, phase = get_logger(), kept.record.phase.value
                tell = log.warning if isinstance(error, ClusterError) else log.exception
                tell("move_held_up", move=move_id, phase=phase, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(_AFTER_FAILURE_S)

    def _keep_rooms(self, record: MoveRecord) -> None:
        for pod in record.pods:
            if record.phase in {MovePhase.SURGE, MovePhase.REPLACE}:
                self._rooms.extend(pod.uid, pod.grace_s + self._settings.successor_s)

    def _close(self, record: MoveRecord) -> None:
        if record.phase is MovePhase.UNDO:
            for pod in record.pods:
                self._leave_alone(pod.uid, pod.job, record.reason)
        self._drop(record)

    def _leave_alone(self, uid: str, job: str, why: str) -> None:
        """A pod stays where it is; its job is not tried again at once."""
        self._stays(uid)
        self._rests[job] = (self._clock.now() + self._settings.rest_s, why)

    def _drop(self, record: MoveRecord) -> None:
        self._kept.pop(record.id, None)
        for uid in [uid for uid, move_id in self._pods.items() if move_id == record.id]:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._rooms.release(uid)
        self._cache.expect_no_more(uid)

    def _run(self, move_id: str, work: Coroutine[Any, Any, None]) -> None:
        task = self.tasks[move_id] = asyncio.create_task(work, name=f"move {move_id}")
        task.add_done_callback(lambda _: self.tasks.pop(move_id, None))

    # --- leaders come and go ---------------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Go on with what was begun by whoever led before: rooms are held again before anybody is placed."""
        try:
            found = await self._records.all()
        except ClusterError as error:
            self.problem = f"records of moves cannot be read: {error}"
            get_logger().warning("moves_unknown", error=str(error))
            return
        self.problem = ""
        for kept in found:
            if kept.record.id not in self.tasks:
                get_logger().info("move_taken_over", move=kept.record.id, phase=kept.record.phase.value)
                self._take(kept)

    def _take(self, kept: KeptMove) -> None:
        self._hold_written(kept)
        self._run(kept.record.id, self._drive_anew(kept))

    def _hold_written(self, kept: KeptMove) -> None:
        record = kept.record
        self._kept[record.id] = kept
        for pod in record.pods:
            self._pods[pod.uid] = record.id
            expected = self._expected(pod)
            if record.is_to_hold and not pod.successor and expected is not None:
                self._rooms.hold_again(expected, pod.target, self._settings.successor_s + pod.grace_s, record.why)
            for cached in self._cache.pods.values():
                if pod.is_succeeded_by(cached):
                    give_room(cached, pod, record, self._tools)

    async def _drive_anew(self, kept: KeptMove) -> None:
        """Say in the record that it is ours from now on, so that whoever drove it before is refused."""
        found: KeptMove | None = kept
        while found is not None:
            try:
                self._tools.check_lead()
                ours = await self._records.replace(found, msgspec.structs.replace(found.record, hand=self._hand))
            except ReplacedError:
                # A last write of whoever led before has arrived; it is refused from our next on.
                found = await self._found(found)
            except (ClusterError, NotLeadingError) as error:
                get_logger().warning("move_held_up", move=kept.record.id, error=str(error))
                await asyncio.sleep(_AFTER_FAILURE_S)
            else:
                await self._drive(ours)
                return
        self._drop(kept.record)

    async def _found(self, last: KeptMove) -> KeptMove | None:
        """The move as it is written down now; as it was last known, if that cannot be found out."""
        try:
            return await self._records.find(last.record)
        except ClusterError as error:
            get_logger().warning("move_held_up", move=last.record.id, error=str(error))
            await asyncio.sleep(_AFTER_FAILURE_S)
            return last

    async def _drive_written(self, record: MoveRecord, pods: Sequence[CachedPod]) -> None:
        """Go on with a move that is written down already, and that nobody here drives."""
        for pod in pods:
            self._forget(pod.uid)
        try:
            found = await self._records.find(record)
        except ClusterError as error:
            get_logger().warning("move_held_up", move=record.id, error=str(error))
            found = None  # it is looked for again soon
        if found is not None:
            self._hold_written(found)
            await self._drive_anew(found)
            return
        for pod in pods:
            self._stays(pod.uid)

    def let_go(self) -> list[asyncio.Task[None]]:
        """Another leads, or nobody: nothing more is done here, and the records say how far it has come. Returns the
        tasks that are being cancelled.
        """
        tasks = list(self.tasks.values())
        for task in tasks:
            task.cancel()
        for uid in list(self._pods):
            self._forget(uid)
        self._kept.clear()
        return tasks

    @property
    def pressing(self) -> list[asyncio.Task[None]]:
        """Moves that are better finished than left to another, who may be long in coming."""
        return [
            task
            for move_id, task in self.tasks.items()
            if (kept := self._kept.get(move_id)) is not None and kept.record.is_pressing
        ]
