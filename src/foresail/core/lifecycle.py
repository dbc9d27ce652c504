"""The states a pod can be in, and who may change them: drawn once, for every world.

    EXPECTED ──comes──► WAITING ──is decided──► BINDING ──is bound──► RUNNING ──is done──► FINISHED
                        ▲  ▲  │                    │                  │  ▲  │
                        │  │  │                    │            is moved │  └──fails──► FAILED
                        │  │  ├──gives up──► RESTING ◄─bind failed    ▼  │
                        │  └──┼───rested──────┘                     MOVING──stays, or stands elsewhere
                        │     └──gives up for good──► FAILED             │
                        └───────────────loses its node───────────────────┘  (from RUNNING too)

A pod that another scheduler binds goes from WAITING or RESTING to RUNNING; one that is met on its node begins there.
From every state a pod may be GONE: whoever wrote it may delete it.

In simulated worlds a pod is in one of these states from the trace's first line to the end of the run. On a real cluster
the API server remembers what has ended: there a pod begins WAITING or RUNNING and is GONE as soon as it has ended, and
so is one that is no longer to be placed (gated, or being deleted). A pod that is moved there is GONE as well: its
successor is another pod, which begins WAITING.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import StrEnum


class State(StrEnum):
    """Where a pod is on its way; the value is the word that tables use."""

    __hash__ = str.__hash__  # Enum's own is a Python function, and states are counted at every change

    EXPECTED = "not_arrived"
    """A trace names it, but its time has not come."""
    WAITING = "waiting"
    """It stands in the queue."""
    RESTING = "resting"
    """It is left alone for a while: its bind failed, or its gang gave up."""
    BINDING = "binding"
    """It is assumed on a node, and the cluster is being told."""
    RUNNING = "running"
    MOVING = "moving"
    """It leaves its node for one that is held for it."""
    FINISHED = "finished"
    FAILED = "failed"
    """It will not be placed any more."""
    GONE = "gone"
    """Its object is deleted; nothing of it is remembered."""


class By(StrEnum):
    """Who changes a state."""

    CLUSTER = "cluster"
    """The trace, or the API server: what nobody here decides."""
    SCHEDULER = "scheduler"
    CONTROLLER = "controller"


CHANGES: dict[tuple[State, State], By] = {
    (State.EXPECTED, State.WAITING): By.CLUSTER,
    (State.EXPECTED, State.RUNNING): By.CLUSTER,  # a cluster that is met with pods on it
    (State.WAITING, State.BINDING): By.SCHEDULER,
    (State.WAITING, State.RESTING): By.SCHEDULER,
    (State.WAITING, State.FAILED): By.SCHEDULER,
    (State.WAITING, State.RUNNING): By.CLUSTER,  # somebody else has bound it
    (State.RESTING, State.WAITING): By.SCHEDULER,
    (State.RESTING, State.RUNNING): By.CLUSTER,
    (State.BINDING, State.RUNNING): By.CLUSTER,
    (State.BINDING, State.WAITING): By.SCHEDULER,  # the bind came to nothing
    (State.BINDING, State.RESTING): By.SCHEDULER,
    (State.RUNNING, State.WAITING): By.CLUSTER,  # its node failed, or it made room for another
    (State.RUNNING, State.MOVING): By.CONTROLLER,
    (State.RUNNING, State.FINISHED): By.CLUSTER,
    (State.RUNNING, State.FAILED): By.CLUSTER,
    (State.MOVING, State.RUNNING): By.CLUSTER,
    (State.MOVING, State.WAITING): By.CLUSTER,
    (State.MOVING, State.FINISHED): By.CLUSTER,
    **{(state, State.GONE): By.CLUSTER for state in State if state is not State.GONE},
}
"""Every change there is, and who makes it."""


class Lives:
    """The state of every pod, in one place; whoever asks where a pod is asks here.

    A change that is not in `CHANGES` is a bug of ours and raises.
    """

    def __init__(self) -> None:
        self._state: dict[Hashable, State] = {}
        self.count = dict.fromkeys(State, 0)

    def __contains__(self, uid: Hashable) -> bool:
        return uid in self._state

    def __len__(self) -> int:
        return len(self._state)

    def of(self, uid: Hashable) -> State:
        """The pod's state; GONE for one that nobody knows."""
        return self._state.get(uid, State.GONE)

    def begin(self, uid: Hashable, state: State) -> None:
        """A pod is met for the first time, in whatever state it is."""
        if uid in self._state:
            raise ValueError(f"{uid} is {self._state[uid]} already")
        self._state[uid] = state
        self.count[state] += 1

    def meet(self, uid: Hashable, state: State) -> None:
        """The pod is in this state now, whether it was met before or not."""
        if uid in self._state:
            self.turn(uid, state)
        else:
            self.begin(uid, state)

    def forget(self, uid: Hashable) -> None:
        """The pod is gone; one that nobody knows stays unknown."""
        if uid in self._state:
            self.turn(uid, State.GONE)

    def turn(self, uid: Hashable, state: State) -> None:
        """The pod's state changes; GONE forgets it. One that is in the state already stays as it is."""
        before = self._state[uid]
        if before is state:
            return
        if (before, state) not in CHANGES:
            raise ValueError(f"{uid} is {before} and cannot become {state}")
        self.count[before] -= 1
        if state is State.GONE:
            del self._state[uid]
            return
        self._state[uid] = state
        self.count[state] += 1
