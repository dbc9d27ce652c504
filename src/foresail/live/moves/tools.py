"""What the phases of a move work with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from foresail.core.journal import Journal, What
from foresail.core.model import Pod
from foresail.live.actions.moving import PodMover
from foresail.live.actions.scaling import Scaler
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import CachedPod
from foresail.live.moves.record import MovePhase, MoveRecord, MovingPod
from foresail.live.moves.rooms import Rooms
from foresail.live.telemetry.checkpoints import Checkpoints


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """How long each part of a move may take, in seconds, and how many there are at once."""

    checkpoint_s: float = 120.0
    """A job that was asked for a checkpoint confirms it within this time, or the move is undone."""
    budget_s: float = 120.0
    """A disruption budget that allows no eviction is waited for so long, then the move is undone."""
    successor_s: float = 120.0
    """Room is held for the successor for so long after the time that the pod has to end."""
    resume_s: float = 300.0
    """A successor that has its node and was not seen to go on after this time is told."""
    rest_s: float = 300.0
    """A job whose move was undone is left alone for so long."""
    look_every_s: float = 1.0
    """Jobs' reports are looked at so often; what happens to pods is noticed at once."""
    most_at_once: int = 8
    """Moves under way at a time; a gang's is one."""


class NotLeadingError(Exception):
    """Another may lead by now: the move is left to it as it is written down."""


@dataclass(frozen=True, slots=True)
class MoveEnd:
    """How a move of a pod ended."""

    how: str
    """moved, unconfirmed, undone, unfinished or finished."""
    took_s: float
    steps_lost: int | None = None
    """Steps that were reported before the move and had to be done again; None where nobody reports."""


@dataclass(frozen=True, slots=True)
class MoveTools:
    """What phases work with."""

    cache: Cache
    mover: PodMover
    scaler: Scaler
    rooms: Rooms
    checkpoints: Checkpoints
    journal: Journal
    settings: MoveSettings
    now_s: Callable[[], float]
    """Seconds since 1970."""
    wait: Callable[[float], Awaitable[None]]
    """Until a pod has changed, or for so long."""
    may_act: Callable[[], bool]
    """Whether acts are ours to make, by the clock of this moment."""
    knows_jobs: Callable[[], bool]
    """Whether jobs have been heard of by now that can be: not in the first moments of a process."""
    has_finished: Callable[[str], bool]
    """Whether a pod was seen to end well, by its uid."""
    expected: Callable[[MovingPod], Pod | None]
    """A successor as one to be placed; None if nobody could place it."""
    ended: Callable[[MoveEnd], None]
    """Is told how each pod's move ended."""

    def check_lead(self) -> None:
        """Right before each act."""
        if not self.may_act():
            raise NotLeadingError

    async def look(self) -> None:
        """Let some time pass, or something happen."""
        await self.wait(self.settings.look_every_s)

    def running(self, uid: str) -> CachedPod | None:
        """A pod that is there and is to stay so."""
        found = self.cache.pods.get(uid)
        return None if found is None or found.ended or found.terminating else found

    # --- notes -----------------------------------------------------------------------------------------------------

    def note_end(
        self, pod: MovingPod, record: MoveRecord, how: str, detail: str, steps_lost: int | None = None
    ) -> None:
        """A pod's move is over."""
        now = self.cache.pods.get(pod.successor)
        name, node = (pod.full_name, pod.source) if now is None else (now.full_name, now.node)
        what = What.MOVED if how == "moved" else What.DECLINE
        self.journal.note(what, pod=name, node=node, detail=detail, by=record.by)
        self.ended(MoveEnd(how, self.now_s() - record.begun_s, steps_lost))

    def tell(self, pod: MovingPod, record: MoveRecord, detail: str) -> None:
        self.journal.note(What.DECLINE, pod=pod.full_name, node=pod.target, detail=detail, by=record.by)

    def undone(self, record: MoveRecord, why: str) -> MoveRecord:
        """The move, to be undone."""
        return record.to(MovePhase.UNDO, self.now_s(), reason=why)
