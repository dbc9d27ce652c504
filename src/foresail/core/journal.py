"""What happened: one typed record an event, in every world. Results, logs, events and pages are fed from it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from foresail.core.clock import Clock


class What(StrEnum):
    """What can happen; the value is the word that tables, logs and events use."""

    ARRIVE = "arrive"
    """A pod has come and waits."""
    REFUSE = "refuse"
    """No node takes a pod for now; the detail counts the reasons."""
    START = "start"
    """A pod has its node."""
    END = "end"
    """A pod has done its work, or is gone for good."""
    EVICT = "evict"
    """A pod has lost its node before its end and waits again."""
    PREEMPT = "preempt"
    """Others are made to go for a pod."""
    GIVE_UP = "give_up"
    """A pod will not be placed any more."""
    MOVE = "move"
    """A running pod goes to another node."""
    MOVED = "moved"
    """A pod that was moved goes on where it is now; the detail says since where."""
    RESIZE = "resize"
    """A running pod gets another amount of CPU where it stands."""
    RESIZED = "resized"
    """A pod that was resized runs with its new amount of CPU; the detail says after how long."""
    HOLD = "hold"
    """Room is kept for somebody."""
    RELEASE = "release"
    """Room is kept no longer."""
    DECLINE = "decline"
    """What a controller asked for cannot be done; the detail says why."""
    FAIL = "fail"
    """A node is down, with all on it."""
    REPAIR = "repair"
    CORDON = "cordon"
    UNCORDON = "uncordon"


class Record(NamedTuple):
    """One event."""

    time_s: float
    """On the clock of the world it happened in."""
    what: What
    pod: str = ""
    node: str = ""
    detail: str = ""
    """Why, or how much, in words."""
    by: str = ""
    """The controller that asked for it; empty for what schedulers and clusters do of themselves."""


class Weighed(StrEnum):
    """What became of a move that a controller weighed."""

    CHOSEN = "chosen"
    """The controller asked for it, and it is made; in a dry run it would be."""
    KEPT = "kept"
    """The controller left the pod where it is, or sent it elsewhere."""
    DECLINED = "declined"
    """The controller asked for it, and it could not be done."""


class Considered(NamedTuple):
    """A move that a controller weighed, with what it reckoned."""

    time_s: float
    """On the clock of the world it was weighed in."""
    by: str
    """The controller."""
    pod: str
    job: str
    """What the pod goes by across moves: its stable name, else its own."""
    node: str
    """Where it is."""
    to_node: str
    """Where it might go; empty for nowhere."""
    gain: float
    """In `unit`; not a number where nobody reckoned."""
    cost: float
    unit: str
    outcome: Weighed
    why: str


Listener = Callable[[Record], None]
CandidateListener = Callable[[Considered], None]


class Journal:
    """Hands every event to whoever listens, in the order in which it happened. Keeps nothing itself."""

    __slots__ = ("_candidate_listeners", "_clock", "_listeners")

    def __init__(self, clock: Clock, *listeners: Listener) -> None:
        self._clock = clock
        self._listeners = list(listeners)
        self._candidate_listeners: list[CandidateListener] = []

    @property
    def is_read(self) -> bool:
        """Whether anybody listens; details that cost something to word need not be worded otherwise."""
        return bool(self._listeners)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def note(self, what: What, *, pod: str = "", node: str = "", detail: str = "", by: str = "") -> None:
        if self._listeners:
            record = Record(self._clock.now(), what, pod, node, detail, by)
            for listener in self._listeners:
                listener(record)

    # --- what controllers only weighed: far more than what they do, so it is told apart ------------------------------

    @property
    def hears_candidates(self) -> bool:
        """Whether anybody wants to know what controllers weigh."""
        return bool(self._candidate_listeners)

    def listen_to_candidates(self, listener: CandidateListener) -> None:
        self._candidate_listeners.append(listener)

    def weigh(self, considered: Considered) -> None:
        for listener in self._candidate_listeners:
            listener(considered)
