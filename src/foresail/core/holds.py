"""Room kept for somebody on a node: against pods of no more priority, for a reason, and never for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from foresail.core.asking import Filters, Without
from foresail.core.columns import CPU
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.journal import Journal, What
from foresail.core.lane import NEVER_S
from foresail.core.model import Codes, Nodes, NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.table import NodeTable, Placed

Ends = Callable[[Pod], float]
"""When a pod leaves its node, on the queue's clock; for one that waits, if it got one now. Infinity if nobody knows."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Why the members of a gang hold room before it is free: the gang is the first in line."""

    gang: str
    place: tuple[int, float]
    """Its place in line, by priority and arrival; who stands before it is not kept out."""
    place_of: Callable[[Pod], tuple[int, float]]
    """That of any pod."""
    needed_s: float
    """When the gang can start; infinity if nobody knows."""
    ends: Ends

    def keeps_out(self, pod: Pod) -> bool:
        """Whether a pod must leave the room to the gang: not if it is one of it, nor if it comes before the gang, nor
        if it is known to have ended by the time the gang can start.
        """
        if pod.gang is not None and pod.gang.name == self.gang:
            return False
        return self.place <= self.place_of(pod) and not self.ends(pod) <= self.needed_s < NEVER_S

    def leaves_in_time(self, placed: Placed) -> bool:
        """Whether a pod on a node is known to be gone by the time the gang can start."""
        return self.ends(placed.pod) <= self.needed_s < NEVER_S


class HeldRoom(NamedTuple):
    """A pod and the node on which its room is kept."""

    pod: Pod
    node: str
    devices: tuple[int, ...]
    """GPUs that it is to get there."""
    until_s: float
    """When the room is anybody's again, whatever has happened."""
    why: str
    """What it is held for, in words."""
    refusal: str
    """What those are told whom it keeps out; completes "3 nodes …"."""
    reservation: Reservation | None = None
    """The gang for which it is held as a whole; None for a pod by itself."""


class Holds:
    """Who holds room where, one node a pod.

    Nodes are kept by name, since rows change when nodes come and go. A hold ends when its pod stands on the node, when
    it is released, or when its time is over: `expired` then names it, and whoever runs the loop wakes those it kept
    out. It counts also while its pod still stands elsewhere, as one does that is about to move.
    """

    def __init__(self) -> None:
        self.journal: Journal | None = None
        """Is told of holds that end before their pod stands there, and why."""
        self._of: dict[Hashable, HeldRoom] = {}
        self._next_s = NEVER_S

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[HeldRoom]:
        return iter(list(self._of.values()))

    def get(self, uid: Hashable) -> HeldRoom | None:
        return self._of.get(uid)

    def hold(
        self,
        pod: Pod,
        node: str,
        devices: tuple[int, ...] = (),
        *,
        until_s: float,
        why: str,
        refusal: str = "are held for another pod",
        reservation: Reservation | None = None,
    ) -> list[Pod]:
        """Hold the node for the pod, and none that it held before.

        Pods of less priority lose theirs if it is the same: they may not fit any more. Returns those.
        """
        if not until_s < NEVER_S:
            raise ValueError(f"room on {node} would be held for {pod.name} until {until_s}; a hold ends")
        displaced = [
            other.pod for other in self._of.values() if other.node == node and other.pod.priority < pod.priority
        ]
        for other in displaced:
            self.release(other.uid, f"{pod.name}, of more priority, holds it now")
        before = self.get(pod.uid)
        self.release(pod.uid, "" if before is None or before.node == node else f"the pod holds {node} now")
        self._of[pod.uid] = HeldRoom(pod, node, devices, until_s, why, refusal, reservation)
        self._next_s = min(self._next_s, until_s)
        return displaced

    def extend(self, uid: Hashable, until_s: float) -> None:
        """Keep the pod's room until later."""
        held = self._of[uid]
        self.hold(
            held.pod,
            held.node,
            held.devices,
            until_s=until_s,
            why=held.why,
            refusal=held.refusal,
            reservation=held.reservation,
        )

    def release(self, uid: Hashable, why: str = "") -> HeldRoom | None:
        """The pod no longer holds a node; one that holds none is none to release. Returns what it held.

        `why` is for the journal; empty if the pod has got what was held for it.
        """
        held = self._of.pop(uid, None)
        if held is not None and why and self.journal is not None:
            self.journal.note(What.RELEASE, pod=held.pod.name, node=held.node, detail=why)
        if held is not None and held.until_s <= self._next_s:
            self._next_s = min((other.until_s for other in self._of.values()), default=NEVER_S)
        return held

    def next_time_s(self) -> float:
        """When the next hold ends, if nothing happens before; infinity if there is none."""
        return self._next_s

    def expired(self, now_s: float) -> list[HeldRoom]:
        """The holds whose time is over; they still count until they are released or extended."""
        return [held for held in self._of.values() if held.until_s <= now_s] if self._next_s <= now_s else []

    # --- decisions that respect them -------------------------------------------------------------------------------

    def holders(self, pod: Pod, table: NodeTable) -> dict[int, list[Placed]]:
        """Row to the pods that hold it against this one: those of at least its priority, itself aside."""
        found: dict[int, list[Placed]] = {}
        let_in = self._lets_in(pod)
        for other in self._of.values():
            row = table.row_of.get(other.node)
            if row is None or other.pod.priority < pod.priority or other.pod.uid == pod.uid:
                continue
            if other.reservation is not None and other.reservation in let_in:
                continue
            stands = table.placed.get(other.pod.uid)
            if stands is None or stands.row != row:
                found.setdefault(row, []).append(Placed(other.pod, row, other.devices))
        return found

    def _lets_in(self, pod: Pod) -> frozenset[Reservation]:
        """The gangs whose reservations do not count for a pod."""
        reservations = {held.reservation for held in self._of.values() if held.reservation is not None}
        return frozenset(one for one in reservations if not one.keeps_out(pod))

    def kind_of(self, pod: Pod) -> Hashable:
        """The same for pods against which the same holds count, what each of them holds itself aside."""
        return pod.priority, self._lets_in(pod) if self._of else frozenset()

    def lets(self, filters: Filters, pod: Pod, table: NodeTable, row: int, holders: Sequence[Placed]) -> bool:
        """Whether a pod gets the node at a row now, and leaves those enough there who hold it against the pod.

        Room that a gang holds before it is free is there once others have left: of those that are known to be gone in
        time, none counts.
        """
        leaving = self._leaving(table, row, holders)
        if not leaving:
            return filters.passes(pod, table, row, holders)
        if not filters.passes(pod, table, row):
            return False
        with Without(table, leaving):
            return filters.passes(pod, table, row, holders)

    def _leaving(self, table: NodeTable, row: int, holders: Sequence[Placed]) -> list[Placed]:
        held = [self._of[one.pod.uid].reservation for one in holders]
        reservations = [one for one in held if one is not None]
        if not reservations or len(reservations) < len(held):
            return []
        first = min(reservations, key=lambda one: one.needed_s)
        return [placed for placed in table.standing.on(row) if first.leaves_in_time(placed)]

    def against_resize(self, placed: Placed, cpu_milli: int, table: NodeTable, *, promised_milli: int = 0) -> str:
        """Why a pod cannot request so much CPU where it stands; empty if it can. Whatever gives CPU back can be done.

        What is held for others is not there for it, nor what is promised to resizes that are still under way.
        """
        row = placed.row
        more_milli = cpu_milli - placed.pod.spec.cpu_milli
        held_milli = sum(int(one.pod.request[CPU]) for one in self.holders(placed.pod, table).get(row, ()))
        left_milli = max(0, int(table.free[row, CPU]) - held_milli - promised_milli)
        if more_milli <= left_milli:
            return ""
        return f"{table.names[row]} has {left_milli} milli-CPU left, and it would take {more_milli} more"

    def deciding(self, decide: Decide = decide_alone) -> Decide:
        """`decide`, but a pod takes the node that is held for it as soon as it fits there, and others leave it to it.

        A node that is held must pass the filters both with and without the pods that hold it, as they may yet end up
        elsewhere. What other nodes see is the cluster without them.
        """
        return partial(self._decide, decide)

    def _decide(self, decide: Decide, pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
        held = self.holders(pod, table)
        filters = Filters.of(profile).for_pod(pod, table)
        own = self._of.get(pod.uid)
        row = None if own is None else table.row_of.get(own.node)
        if own is not None and row is not None and self.lets(filters, pod, table, row, held.get(row, ())):
            codes = np.ones(table.count, dtype=np.uint8)
            codes[row] = 0
            reasons = [own.refusal]
        else:
            if not held:
                return decide(pod, table, profile)
            if profile.remembers_totals:
                # A node's total is then the same whoever else is feasible, so only a choice that is held is wrong.
                outcome = decide(pod, table, profile)
                if isinstance(outcome, NoFit) or self.lets(filters, pod, table, outcome.row, held.get(outcome.row, ())):
                    return outcome
            closed = {
                row: self._of[holders[0].pod.uid].refusal
                for row, holders in held.items()
                if not self.lets(filters, pod, table, row, holders)
            }
            if not closed:
                return decide(pod, table, profile)
            reasons = list(dict.fromkeys(closed.values()))
            codes = np.zeros(table.count, dtype=np.uint8)
            codes[list(closed)] = [1 + reasons.index(reason) for reason in closed.values()]
        narrowed = profile.behind("held", _Closed(codes, reasons))
        try:
            return decide(pod, table, narrowed)
        finally:
            table.memories.pop(narrowed, None)


class _Closed:
    """Leave nodes to those for whom they are held."""

    row_wise = True

    def __init__(self, codes: Codes, reasons: list[str]) -> None:
        """`codes` are 0 for open nodes, else the place of the reason, counted from 1; shape (all nodes,)."""
        self._codes = codes
        self._reasons = reasons

    def refuses(self, _pod: Pod, nodes: Nodes) -> Codes:
        codes: Codes = self._codes[nodes.index]
        return codes

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (self._reasons[code - 1],)
