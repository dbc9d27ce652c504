"""Room for successors: kept by the scheduler that places them, or only looked at where another places them."""

from __future__ import annotations

from typing import Protocol

from foresail.core.asking import Without, refusal
from foresail.core.clock import Clock
from foresail.core.model import Pod
from foresail.core.profile import Profile
from foresail.core.scheduler import Scheduler
from foresail.core.table import NodeTable


class Rooms(Protocol):
    """Where successors are to go. Room is held under the uid of the pod that leaves, until the successor is there."""

    keeps: bool
    """Whether room is kept, so that the successor that an owner makes gets it."""

    def hold(self, uid: str, node: str, for_s: float, why: str, *, successor: Pod | None, beside: bool) -> str:
        """Keep room for the successor of a running pod; says why that cannot be, empty if it is."""

    def node_of(self, uid: str) -> str:
        """Where room is held for a pod's successor; empty if it is nowhere."""

    def refusal(self, uid: str, node: str, successor: Pod, *, beside: bool = False) -> str:
        """Why the successor would not get the node now, held or not: more priority goes before. Empty if it would."""

    def hold_again(self, pod: Pod, node: str, for_s: float, why: str) -> None:
        """Keep room that was kept before, by whoever led then, if the node is still there."""

    def extend(self, uid: str, for_s: float) -> None:
        """Keep the room for so long from now on."""

    def pass_on(self, uid: str, expected: Pod, pod: Pod, node: str, for_s: float, why: str) -> None:
        """The successor has come: the room is kept for it from now on, if it requests no more than was expected."""

    def release(self, uid: str) -> None:
        """The room is anybody's again; one that is not held is none."""


class HeldRooms:
    """Our own scheduler keeps the room, and sends the successor there."""

    keeps = True

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock

    def hold(self, uid: str, node: str, for_s: float, why: str, *, successor: Pod | None, beside: bool) -> str:
        return self._scheduler.hold_to_move(uid, node, for_s, why, successor=successor, beside=beside)

    def node_of(self, uid: str) -> str:
        held = self._scheduler.holds.get(uid)
        return "" if held is None else held.node

    def refusal(self, uid: str, node: str, successor: Pod, *, beside: bool = False) -> str:
        return self._scheduler.move_refusal(uid, node, successor, beside=beside)

    def hold_again(self, pod: Pod, node: str, for_s: float, why: str) -> None:
        self._scheduler.hold(pod, node, for_s, why)

    def extend(self, uid: str, for_s: float) -> None:
        if self._scheduler.holds.get(uid) is not None:
            self._scheduler.holds.extend(uid, self._clock.now() + for_s)

    def pass_on(self, uid: str, expected: Pod, pod: Pod, node: str, for_s: float, why: str) -> None:
        # Whoever may write pods in its namespace may write one that looks like a successor. It gets what was held for
        # its like, and does not close a node to others with more.
        if (pod.request <= expected.request).all() and pod.priority <= expected.priority:
            self._scheduler.holds.release(uid)
            self._scheduler.hold(pod, node, for_s, why)
        else:
            self._scheduler.release_room(uid)

    def release(self, uid: str) -> None:
        self._scheduler.release_room(uid)


class LookedAtRooms:
    """Another scheduler places pods, and knows nothing of room that is kept: only what fits now can be said."""

    keeps = False

    def __init__(self, table: NodeTable, profile: Profile) -> None:
        self._table = table
        self._profile = profile
        self._nodes: dict[str, str] = {}

    def hold(self, uid: str, node: str, for_s: float, why: str, *, successor: Pod | None, beside: bool) -> str:  # noqa: ARG002 - see Rooms
        placed = self._table.placed.get(uid)
        row = self._table.row_of.get(node)
        if placed is None:
            return "it has no node"
        if row is None:
            return f"there is no node {node}" if node else "beside another scheduler a move names its node"
        if row == placed.row:
            return f"it stands on {node} already"
        if node in [other for moving, other in self._nodes.items() if moving != uid]:
            return f"another move to {node} is under way, and no room can be kept there"
        against = self.refusal(uid, node, successor or placed.pod)
        if not against:
            self._nodes[uid] = node
        return against

    def refusal(self, uid: str, node: str, successor: Pod, *, beside: bool = False) -> str:
        placed, row = self._table.placed.get(uid), self._table.row_of.get(node)
        if placed is None or row is None:
            return "it has no node" if placed is None else f"there is no node {node}"
        with Without(self._table, [] if beside else [placed]):
            against = ", ".join(refusal(successor, self._table, self._profile, row))
        return against and f"{node} does not take it: {against}"

    def node_of(self, uid: str) -> str:
        return self._nodes.get(uid, "")

    def hold_again(self, pod: Pod, node: str, for_s: float, why: str) -> None:  # noqa: ARG002 - see Rooms
        self._nodes[str(pod.uid)] = node

    def extend(self, uid: str, for_s: float) -> None:
        pass

    def pass_on(self, uid: str, expected: Pod, pod: Pod, node: str, for_s: float, why: str) -> None:
        pass

    def release(self, uid: str) -> None:
        self._nodes.pop(uid, None)
