"""What becomes of a pod that fits nowhere: it gets the node that is held for it, or others go for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Protocol

from foresail.core.asking import Filters, refusal
from foresail.core.holds import Holds
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preempting import Preempting
from foresail.core.preemption import Preemption
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.table import NodeTable

Place = Callable[[Pod], Placement | NoFit]
"""Decide about one pod here and now; a placement is assumed and being bound."""


class Preemptible(Protocol):
    """The part of a cluster in which pods can be made to go."""

    table: NodeTable

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        """Make the victims go. Call `Scheduler.evict` or `Scheduler.release` for each, now or when it has left."""


class MakingRoom:
    """Holds and preemption as the scheduler's turns meet them; each turn says by which profile it decides."""

    def __init__(self, cluster: Preemptible, queue: Queue, preemption: Preempting, place: Place) -> None:
        self._cluster = cluster
        self._queue = queue
        self._preemption = preemption
        self._place = place
        self.holds: Holds = preemption.holds

    # --- holds that begin and end ----------------------------------------------------------------------------------

    def nominate(self, pod: Pod, node: str) -> None:
        """Others left, or are leaving, for this pod since before anybody here knew."""
        if self.holds.get(pod.uid) is None:
            self._preemption.nominate(pod, node, now_s=self._queue.clock.now())

    def hold(self, pod: Pod, row: int, for_s: float, why: str, profile: Profile) -> str:
        """Keep room on a node for a pod; says why that cannot be, empty if it is."""
        table, node = self._cluster.table, self._cluster.table.names[row]
        nominated = self._preemption.nominated(pod.uid)
        if nominated is not None and nominated.node != node:
            return f"others are leaving {nominated.node} for it"
        # Devices that are not free yet are not to be chosen now; the pod's amounts are held all the same.
        devices = () if refusal(pod, table, profile, row) else profile.devices_on(row, pod, table.all)
        until_s = self._queue.clock.now() + for_s
        if self.holds.hold(pod, node, devices, until_s=until_s, why=why):
            self._queue.wake_all()
        if pod.uid in self._queue:
            self._queue.retry(pod.uid)
        return ""

    def refusal(self, pod: Pod, row: int, profile: Profile) -> str:
        """Why a pod would not get the node at a row now; empty if it would."""
        table = self._cluster.table
        reasons = refusal(pod, table, profile, row)
        if reasons:
            return ", ".join(reasons)
        held = self.holds.holders(pod, table).get(row, ())
        if self.holds.lets(Filters.of(profile).for_pod(pod, table), pod, table, row, held):
            return ""
        return f"its room is held for {', '.join(one.pod.name for one in held)}"

    def let_go(self, uid: Hashable, placed_on: str = "") -> None:
        """The pod no longer needs the node that is held for it; whoever left it to the pod may have it now."""
        held = self.holds.get(uid)
        if held is None:
            return
        kept = held.node == placed_on
        self.holds.release(uid, "" if kept else f"the pod has {placed_on}" if placed_on else "the pod needs it no more")
        if not kept:
            self._queue.wake_all()

    def end_holds(self) -> None:
        """Release the holds whose time is over, and wake those they kept out."""
        now_s = self._queue.clock.now()
        ended = [
            self.holds.release(held.pod.uid, "its time is over")
            for held in self.holds.expired(now_s)
            if not self._preemption.extended(held, self._cluster.table, now_s)
        ]
        if ended:
            self._queue.wake_all()

    # --- pods that wait --------------------------------------------------------------------------------------------

    def is_to_be_tried(self, pod: Pod) -> bool:
        """Whether a pod that has just come may get what those before it in its lane could not.

        It may preempt as the first of its lane, or because the first does not; or a node is held for it.
        """
        preemption = self._preemption
        if not preemption.is_on and not self.holds:
            return False
        first = self._queue.first(pod.uid)
        if first.uid == pod.uid or self.holds.get(pod.uid) is not None:
            return True
        return preemption.may_preempt(pod) and (
            not preemption.may_preempt(first) or preemption.awaits(first, self._cluster.table)
        )

    def could_help(self, pod: Pod, row: int, profile: Profile) -> bool:
        """Whether the first of a lane, or the next one behind it that does not wait for others to leave already, may
        get the node at a row by making others go.
        """
        preemption, table = self._preemption, self._cluster.table
        if not preemption.is_on:
            return False
        looking = (
            one for one in self._in_turn(pod) if preemption.may_preempt(one) and not preemption.awaits(one, table)
        )
        first = next(looking, None)
        return first is not None and preemption.could_help(first, row, table, profile)

    def retry_holders(self) -> None:
        """Pods that stand behind others, and for which nobody leaves any more, have something to look at."""
        for held in self.holds:
            uid = held.pod.uid
            is_behind = uid in self._queue and self._queue.first(uid).uid != uid
            if is_behind and not self._preemption.awaits(held.pod, self._cluster.table):
                self._queue.retry(uid)

    # --- turns -----------------------------------------------------------------------------------------------------

    def place_instead(self, first: Pod, profile: Profile) -> Pod | None:
        """After the first of a lane was refused: one of the lane that has its node now, by a hold or as others went."""
        holders = [first.uid, *(pod.uid for pod in self._holders_behind(first))]
        held = [uid for uid in holders if self.holds.get(uid) is not None]
        placed = self._place_holder(first) or self.preempt(first, profile)
        if placed is None and any(self.holds.get(uid) is None for uid in held):
            # Two of a lane that hold one node keep each other from it; now that one has let go, the room is open.
            placed = first if isinstance(self._place(first), Placement) else None
        return placed

    def _place_holder(self, first: Pod) -> Pod | None:
        """A pod of the same lane for which a node is held that the first must leave to it, and that it gets now."""
        return next((pod for pod in self._holders_behind(first) if isinstance(self._place(pod), Placement)), None)

    def _holders_behind(self, first: Pod) -> list[Pod]:
        if first.gang is not None:
            return []
        pods = [held.pod for held in self.holds if held.pod.shape is first.shape]
        return [pod for pod in pods if pod.gang is None and pod.uid != first.uid and pod.uid in self._queue]

    def preempt(self, first: Pod, profile: Profile) -> Pod | None:
        """Make room for a pod that fits nowhere, or for one behind it; returns one that has its node at once.

        Those behind it in its lane request the same with no more priority. They are looked at where the first may not
        preempt, or waits already for others to leave: not only one of a kind can do so at a time.
        """
        for pod in self._in_turn(first):
            if not self._preemption.may_preempt(pod):
                continue
            if self._make_room(pod, profile):
                return pod
            if not self._preemption.awaits(pod, self._cluster.table):
                break
        # What is held for one behind it is closed to the first, but not to that one.
        holders = [pod for pod in self._holders_behind(first) if self._preemption.may_preempt(pod)]
        return next((pod for pod in holders if self._make_room(pod, profile)), None)

    def _in_turn(self, first: Pod) -> Iterator[Pod]:
        yield first
        if first.gang is None:
            yield from self._queue.same_lane(first.uid)[1:]

    def _make_room(self, pod: Pod, profile: Profile) -> bool:
        """Make others go for a pod, if that helps; True if they went at once and the pod has its node."""
        table, preemption = self._cluster.table, self._preemption
        was_nominated = preemption.nominated(pod.uid) is not None
        plan = preemption.plan(pod, table, profile)
        if plan is None:
            if was_nominated and preemption.nominated(pod.uid) is None:
                self._queue.wake_all()  # the node is held no longer
            return False
        victims = [placed.pod.uid for placed in plan.victims]
        now_s = self._queue.clock.now()
        displaced = preemption.nominate(pod, plan.node, plan.devices, victims, now_s=now_s)
        self._cluster.preempt(pod, plan)
        if displaced:
            self._queue.wake_all()
        if any(uid in table.placed for uid in victims):
            return False
        if isinstance(self._place(pod), Placement):
            return True
        preemption.withdraw(pod.uid)
        preemption.without_effect(pod)
        return False
