"""The loop that every world runs: queue → decide → assume → bind."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Protocol

from foresail.core.asking import Filters, looks_at_other_nodes
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide, place_gang
from foresail.core.lane import Lane
from foresail.core.model import NoFit, Placement, Pod, Shape
from foresail.core.preemption import Preempting, Preemption
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.spec import Gang
from foresail.core.table import NodeTable, Placed
from foresail.errors import PolicyError


class Cluster(Protocol):
    """Where decisions are carried out."""

    table: NodeTable

    def bind(self, pod: Pod, placement: Placement) -> None:
        """Start the pod on its node. It is already assumed; if this fails later, call `Scheduler.evict`."""

    def refuse(self, pod: Pod, why: NoFit) -> None:
        """Note that the pod fits nowhere for now; it keeps waiting."""

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> None:
        """Note that a gang's timeout has passed; its members no longer wait."""

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        """Make the victims go. Call `Scheduler.evict` or `Scheduler.release` for each, now or when it has left."""

    def policy_failed(self, pods: list[Pod], error: PolicyError) -> None:
        """A policy failed on one of these pods; they keep waiting, unless this raises the error again."""


class Scheduler:
    """Feeds waiting pods to `decide` and hands the answers to a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        profile: Profile,
        queue: Queue,
        *,
        decide: Decide = decide_alone,
        preemption: Preempting | None = None,
    ) -> None:
        """`decide` may be one that listens in, or that knows the answers already.

        With `preemption` a pod that fits nowhere may make pods of less priority go.
        """
        self._cluster = cluster
        self._profile = profile
        self._decide = decide if preemption is None else preemption.nominations.deciding(decide)
        self._preemption = preemption
        self._filters_for: dict[Shape, Filters] = {}
        self._structure = -1
        self.queue = queue

    @property
    def profile(self) -> Profile:
        return self._profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        """Decide by another profile from now on; whoever fitted nowhere is tried again."""
        self._cluster.table.memories.pop(self._profile, None)
        self._filters_for.clear()
        self._profile = profile
        self.queue.wake_all()

    def submit(self, pod: Pod, *, again: bool = False) -> None:
        """Let a pod wait for its turn; `again` if it has had a node and lost it."""
        self.queue.add(pod, again=again)
        if self._preemption is not None and self._may_make_room(pod, self._preemption):
            # Its shape may sleep because it fits nowhere; but this pod may make room where the others could not.
            self.queue.rouse(pod.uid)

    def _may_make_room(self, pod: Pod, preemption: Preempting) -> bool:
        """Whether a pod that has just come may preempt: as the first of its lane, or because the first does not."""
        first = self.queue.first(pod.uid)
        if first.uid == pod.uid:
            return True
        return preemption.may_preempt(pod) and (
            not preemption.may_preempt(first) or preemption.awaits(first, self._cluster.table)
        )

    def withdraw(self, uid: Hashable) -> None:
        """A waiting pod is to wait no longer."""
        self.queue.remove(uid)
        self._hold_no_node(uid)

    def _hold_no_node(self, uid: Hashable, placed_on: str = "") -> None:
        """The pod is no longer to get the node that is held for it; whoever left it to the pod may have it now."""
        held = None if self._preemption is None else self._preemption.nominations.get(uid)
        if self._preemption is not None and held is not None:
            self._preemption.nominations.withdraw(uid)
            if held.node != placed_on:
                self.queue.wake_all()

    def place(self, pod: Pod) -> Placement | NoFit:
        """Decide about one pod here and now, without the queue."""
        outcome = self._decide(pod, self._cluster.table, self._profile)
        if isinstance(outcome, Placement):
            # Assume before binding: the next decision must see this pod even if the cluster is slow.
            self._cluster.table.assume(pod, outcome)
            self._hold_no_node(pod.uid, outcome.node)
            self._cluster.bind(pod, outcome)
        return outcome

    def step(self) -> bool:
        """Give the next lane its turn; False when none is ready.

        Gangs are given up only when nothing is ready any more, so that one whose timeout ends now has a last try.
        """
        turn = self.queue.pop(self._could_help)
        if turn is None:
            self._give_up()
            return False
        lane, pods = turn
        try:
            if lane.gang is None:
                self._step_one(lane, pods[0])
            else:
                self._step_gang(lane, pods)
        except Exception as error:
            self.queue.sleep(lane)  # whatever went wrong, nobody drops out of the queue
            if not isinstance(error, PolicyError):
                raise
            self._cluster.policy_failed(pods, error)
        return True

    def run_until_idle(self) -> None:
        """Give turns until nothing that waits can be placed now."""
        while self.step():
            pass

    def release(self, uid: Hashable) -> Placed:
        """A pod has left its node for good: free its room and wake those it could help."""
        held = self._cluster.table.forget(uid)
        self.node_changed(held.row)
        return held

    def evict(self, uid: Hashable) -> Placed:
        """A pod has lost its node before its end: free its room and let it wait again."""
        held = self.release(uid)
        self.submit(held.pod, again=True)
        return held

    def node_changed(self, row: int) -> None:
        """A node has more to offer than before: wake those that now pass its filters."""
        if not self.queue.has_sleepers:
            return
        if looks_at_other_nodes(self._profile):
            self.queue.wake_all()
        else:
            self.queue.wake(row, self._could_help)
            self._rouse_holders()

    def _rouse_holders(self) -> None:
        """Pods that stand behind others, and for which nobody leaves any more, have something to look at."""
        if self._preemption is None:
            return
        for held in self._preemption.nominations:
            uid = held.pod.uid
            is_behind = uid in self.queue and self.queue.first(uid).uid != uid
            if is_behind and not self._preemption.awaits(held.pod, self._cluster.table):
                self.queue.rouse(uid)

    def pod_came(self) -> None:
        """A pod has got a node. Usually that helps nobody, but one may have waited for the company of another."""
        if self.queue.has_sleepers and looks_at_other_nodes(self._profile):
            self.queue.wake_all()

    def _could_help(self, pod: Pod, row: int) -> bool:
        table = self._cluster.table
        try:
            if self._filters(pod).passes(pod, table, row):
                return True
            return self._preemption is not None and self._preemption.could_help(pod, row, table, self._profile)
        except PolicyError:
            return True  # its turn will tell what is wrong with the policy

    def _filters(self, pod: Pod) -> Filters:
        """Those that may have something against pods of this shape."""
        table = self._cluster.table
        if self._structure != table.structure:
            self._structure = table.structure
            self._filters_for.clear()
        filters = self._filters_for.get(pod.shape)
        if filters is None:
            filters = self._filters_for[pod.shape] = Filters.of(self._profile).for_shape(pod, table)
        return filters

    def _step_one(self, lane: Lane, pod: Pod) -> None:
        outcome = self.place(pod)
        if isinstance(outcome, NoFit):
            placed = self._place_holder(pod) or self._preempt(pod)
            if placed is None:
                self.queue.sleep(lane)
                self._cluster.refuse(pod, outcome)
                return
            pod = placed
        self.queue.done(lane, [pod])
        self.pod_came()

    def _place_holder(self, first: Pod) -> Pod | None:
        """A pod of the same lane for which a node is held that the first must leave to it, and that it gets now."""
        return next((pod for pod in self._holders_behind(first) if isinstance(self.place(pod), Placement)), None)

    def _holders_behind(self, first: Pod) -> list[Pod]:
        if self._preemption is None or first.gang is not None:
            return []
        pods = [held.pod for held in self._preemption.nominations if held.pod.shape is first.shape]
        return [pod for pod in pods if pod.gang is None and pod.uid != first.uid and pod.uid in self.queue]

    def _preempt(self, first: Pod) -> Pod | None:
        """Make room for a pod that fits nowhere, or for one behind it; returns one that has its node at once.

        Those behind it in its lane ask the same with no more priority. They are looked at where the first may not
        preempt, or waits already for others to leave: not only one of a kind can do so at a time.
        """
        if self._preemption is None:
            return None
        for pod in self._in_turn(first):
            if not self._preemption.may_preempt(pod):
                continue
            if self._make_room(pod):
                return pod
            if not self._preemption.awaits(pod, self._cluster.table):
                break
        # What is held for one behind it is closed to the first, but not to that one.
        holders = [pod for pod in self._holders_behind(first) if self._preemption.may_preempt(pod)]
        return next((pod for pod in holders if self._make_room(pod)), None)

    def _in_turn(self, first: Pod) -> Iterator[Pod]:
        yield first
        if first.gang is None:
            yield from self.queue.companions(first.uid)[1:]

    def _make_room(self, pod: Pod) -> bool:
        """Make others go for a pod, if that helps; True if they went at once and the pod has its node."""
        table, preemption = self._cluster.table, self._preemption
        if preemption is None:
            return False
        held = preemption.nominations.get(pod.uid)
        plan = preemption.plan(pod, table, self._profile)
        if plan is None:
            if held is not None and preemption.nominations.get(pod.uid) is None:
                self.queue.wake_all()  # the node is held no longer
            return False
        victims = [held.pod.uid for held in plan.victims]
        displaced = preemption.nominations.nominate(pod, plan.node, plan.devices, victims)
        self._cluster.preempt(pod, plan)
        if displaced:
            self.queue.wake_all()
        if any(uid in table.placed for uid in victims):
            return False
        if isinstance(self.place(pod), Placement):
            return True
        preemption.nominations.withdraw(pod.uid)
        preemption.gave_nothing(pod)
        return False

    def _step_gang(self, lane: Lane, members: list[Pod]) -> None:
        table = self._cluster.table
        placed, refusal = place_gang(members, table, self._profile, missing=lane.missing, decide=self._decide)
        for pod, placement in placed:
            self._hold_no_node(pod.uid, placement.node)
            self._cluster.bind(pod, placement)
        if placed:
            self.queue.done(lane, [pod for pod, _ in placed])
            self.pod_came()
        if refusal is None:
            return
        waiting = [pod for pod in members if pod.uid in self.queue]
        if lane.started:
            # Only now: what a member clears before its gang is complete might stay empty.
            made_room = [pod for pod in waiting if self._preempt(pod) is not None]
            if made_room:
                self.queue.done(lane, made_room)
                self.pod_came()
                waiting = [pod for pod in waiting if pod.uid in self.queue]
        if waiting:
            self.queue.sleep(lane)
            for pod in waiting:
                self._cluster.refuse(pod, refusal)

    def _give_up(self) -> None:
        for gang, members, short in self.queue.give_up():
            why = (
                f"only {gang.min_members - short} of {gang.min_members} members came"
                if short
                else f"no room was found for {gang.min_members} members together"
            )
            self._cluster.give_up(gang, members, f"the gang gave up after {gang.timeout_s:g} s: {why}")
