"""What is written down of a move, and the phases it goes through.

    room is held ──► CHECKPOINT ──confirmed, or only SIGTERM is to be had──► EVICT ──► REPLACE ──► RESUME ──► done
                         │                                                     │          ▲           │
                         │ time-out, room lost, pod gone                       │ budget   └───────────┘
                         ▼                                                     │          successor gone again
                        UNDO ◄─────────────────────────────────────────────────┘

The pod of a one-replica Deployment whose volumes and strategy allow two at once goes another way:

    … CHECKPOINT ──► SURGE ──successor is ready beside the pod──► SHRINK ──the pod goes──► REPLACE ──► RESUME ──► done

A phase is entered by writing it down, before anything of it is done; each can be begun anew without harm. So whoever
finds a record goes on with its phase, whether it wrote that itself or another did who is dead by now. Where there is no
record there is no move.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from foresail.live.cache.pods import CachedPod, Owner


class MovePhase(StrEnum):
    """What is being done; the value is what records say."""

    CHECKPOINT = "checkpoint"
    """The job is asked for a checkpoint, and its word that there is one is waited for."""
    EVICT = "evict"
    """The pod is to be evicted; until it is, all can be undone."""
    SURGE = "surge"
    """The successor is to be ready beside the pod: its Deployment gets a second replica."""
    SHRINK = "shrink"
    """It is; the replica is taken back, and the pod goes."""
    REPLACE = "replace"
    """The pod goes or has gone; its successor is waited for, or made, until it has a node."""
    RESUME = "resume"
    """The successor has its node; it is to go on at the checkpointed step or beyond."""
    UNDO = "undo"
    """Nothing has happened to the pod, and nothing is to: what was asked for is withdrawn."""


class MovingPod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod of a move."""

    namespace: str
    name: str
    uid: str
    job: str
    """Who it is across moves; see `job_of`."""
    source: str
    target: str
    """The node that is held for its successor."""
    expected: dict[str, Any]
    """The successor: of an owned pod, as far as its placement looks at it; of any other, as it is to be made."""
    owner: tuple[str, str, str] | None = None
    """Kind, name and uid of its controller; None for a pod that nobody else makes again."""
    index: str | None = None
    """Which of an Indexed Job's pods it is."""
    siblings: tuple[str, ...] = ()
    """Uids of the owner's other pods when the move began: none of them is the successor."""
    deployment: tuple[str, str] | None = None
    """Name and uid of the Deployment that gets a second replica for the move; None if it is to get none."""
    grace_s: float = 30.0
    """What it is given to end after SIGTERM."""
    is_asked: bool = False
    """Whether it can be asked for a checkpoint; one that cannot gets SIGTERM alone."""
    checkpoint_step: int | None = None
    """Step of the checkpoint that it has confirmed, or of its last one known to be on disk."""
    last_step: int | None = None
    """The last step that was reported before the successor began."""
    left_s: float = 0.0
    """When it was seen to be gone, in seconds since 1970: what is reported after that is its successor's."""
    successor: str = ""
    """Uid of the successor, once there is one."""
    successor_node: str = ""
    """Where it stands."""
    made: int = 0
    """How many successors were made under a name of ours."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_made_here(self) -> bool:
        """Whether it has no owner, so that its successor is for us to make."""
        return self.owner is None

    def is_succeeded_by(self, pod: CachedPod) -> bool:
        """Whether a pod takes the place of this one. By uids: a StatefulSet gives names again."""
        if pod.uid == self.uid or pod.uid in self.siblings or pod.namespace != self.namespace:
            return False
        if self.owner is None:
            return pod.owner is None and pod.name == self.successor_name
        if pod.owner != Owner(*self.owner):
            return False
        return pod.name == self.name if pod.owner.kind == "StatefulSet" else pod.completion_index == self.index

    @property
    def successor_name(self) -> str:
        """What the successor of a pod without an owner is called: the same for whoever makes it, so it is made once."""
        return successor_name(self.name, self.uid, self.made)


class MoveRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One move: of a pod, or of all pods of a gang."""

    id: str
    """Also that of the request for a checkpoint."""
    why: str
    by: str
    """The controller that asked for it."""
    pods: tuple[MovingPod, ...]
    phase: MovePhase
    begun_s: float
    """Seconds since 1970."""
    phase_s: float
    """When the phase was entered, in seconds since 1970."""
    hand: str = ""
    """The process that goes on with it; one that finds another's here has been replaced."""
    reason: str = ""
    """Why it is undone."""
    has_surged: bool = False
    """Whether a second replica may have been asked for."""

    def to(self, phase: MovePhase, now_s: float, **changes: Any) -> MoveRecord:
        """The move in its next phase."""
        return msgspec.structs.replace(self, phase=phase, phase_s=now_s, **changes)

    def with_pods(self, pods: tuple[MovingPod, ...]) -> MoveRecord:
        return msgspec.structs.replace(self, pods=pods)

    def to_leave(self, now_s: float) -> MoveRecord:
        """The move in the phase in which its pods are made to go, or first their successors to come."""
        if any(pod.deployment is not None for pod in self.pods):
            return self.to(MovePhase.SURGE, now_s, has_surged=True)
        return self.to(MovePhase.EVICT, now_s)

    @property
    def is_to_hold(self) -> bool:
        """Whether room is kept for successors in this phase."""
        return self.phase is not MovePhase.UNDO

    @property
    def is_pressing(self) -> bool:
        """Whether a pod goes whose successor is made here, or a Deployment has a replica too many."""
        if self.phase in {MovePhase.SURGE, MovePhase.SHRINK}:
            return True
        return self.phase in {MovePhase.EVICT, MovePhase.REPLACE} and any(pod.owner is None for pod in self.pods)


_MOST_NAME = 63
"""A pod's name is also its host name."""
_TAIL = 5


def successor_name(name: str, uid: str, made: int) -> str:
    """The name of a successor: the pod's, and an ending that differs with each move and each attempt."""
    stem = name.rpartition("-m")
    base = stem[0] if stem[1] and len(stem[2]) == _TAIL + 1 and stem[2].isalnum() else name
    letters = uid.replace("-", "")[:_TAIL].ljust(_TAIL, "0").lower()
    ending = f"-m{letters}{_digit(made)}"
    return base[: _MOST_NAME - len(ending)].rstrip("-.") + ending


def _digit(number: int) -> str:
    return "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36]


def describe(record: MoveRecord) -> str:
    """A move in one line, for people."""
    first = record.pods[0]
    more = f" and {len(record.pods) - 1} more" if len(record.pods) > 1 else ""
    return f"{first.full_name}{more}: {first.source} → {first.target}"
