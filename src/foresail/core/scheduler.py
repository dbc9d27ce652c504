"""The loop that every world runs: queue → decide → assume → bind."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from foresail.core.asking import Filters, Without, looks_at_other_nodes
from foresail.core.decide import decide as decide_alone
from foresail.core.domains import Domain
from foresail.core.gang import Decide, Placements, Questions, Result
from foresail.core.gang_placing import GangPlacing
from foresail.core.gang_search import DEFAULT_LIMITS, SearchLimits
from foresail.core.holds import Ends
from foresail.core.journal import Journal
from foresail.core.lane import NEVER_S, Lane
from foresail.core.making_room import MakingRoom, Preemptible
from foresail.core.model import Declined, NoFit, Placement, Pod, Shape
from foresail.core.preempting import Preempting
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.reservations import Reservations, ReservationSettings, nobody_knows
from foresail.core.spec import Gang
from foresail.core.table import NodeTable, Placed
from foresail.errors import PolicyError


class Cluster(Preemptible, Protocol):
    """Where decisions are carried out."""

    def bind(self, pod: Pod, placement: Placement) -> None:
        """Start the pod on its node. It is already assumed; if this fails later, call `Scheduler.evict`."""

    def refuse(self, pod: Pod, why: NoFit) -> None:
        """Note that the pod fits nowhere for now; it keeps waiting."""

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> float:
        """Note that a gang's timeout has passed; its members no longer wait. Returns after how many seconds they do
        again; infinity if they never do.
        """

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
        journal: Journal | None = None,
        search_limits: SearchLimits = DEFAULT_LIMITS,
        reservations: ReservationSettings | None = None,
        ends: Ends = nobody_knows,
    ) -> None:
        """`decide` may be one that listens in, or that knows the answers already.

        With `preemption` a pod that fits nowhere may make pods of less priority go. `journal` is told of room that is
        kept no longer. `search_limits` say how long one search for an arrangement of a gang may take. With
        `reservations` room is kept for the gang that is the first in line; `ends` tells when pods leave their nodes.
        """
        self._cluster = cluster
        self._profile = profile
        self._room = MakingRoom(cluster, queue, preemption or Preempting.off(), self.place)
        self.holds = self._room.holds
        """Room that is kept for pods."""
        self.holds.journal = journal
        self.reservations = (
            None
            if reservations is None
            else Reservations(reservations, queue, self.holds, ends=ends, limits=search_limits)
        )
        self._gangs = GangPlacing(queue, self.holds, search_limits, self.reservations)
        self._decide_alone, self._decide_beside_holds = decide, self.holds.deciding(decide)
        self._filters_for: dict[Shape, Filters] = {}
        self._structure = -1
        self.queue = queue

    @property
    def table(self) -> NodeTable:
        """The nodes that are decided about."""
        return self._cluster.table

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
        fills_in = self.reservations is not None and self.reservations.fills_in(pod)
        if fills_in or self._room.is_to_be_tried(pod):
            # Its shape may sleep because it fits nowhere; but this pod may get what the others could not.
            self.queue.retry(pod.uid)

    def withdraw(self, uid: Hashable) -> None:
        """A waiting pod is to wait no longer."""
        self.queue.remove(uid)
        self._room.let_go(uid)

    def next_time_s(self) -> float:
        """When there is something to do although nothing happens: the queue needs a look, a hold ends, or room is to
        be kept for a gang.
        """
        reserved_s = NEVER_S if self.reservations is None else self.reservations.next_time_s()
        return min(self.queue.next_time_s(), self.holds.next_time_s(), reserved_s)

    @property
    def domain(self) -> Domain | None:
        """Where the gang whose turn it is must go; None for anywhere."""
        return self._gangs.domain

    @property
    def _within(self) -> Profile:
        """The profile, and only the nodes where the gang whose turn it is must go."""
        domain = self._gangs.domain
        return self._profile if domain is None else domain.profile

    @property
    def _decide(self) -> Decide:
        return self._decide_beside_holds if self.holds else self._decide_alone

    def decide(self, pod: Pod) -> Placement | NoFit:
        """What the profile says of a pod now, room that is held for others aside. Changes nothing."""
        return self._decide(pod, self._cluster.table, self._within)

    def refusal(self, pod: Pod, row: int) -> str:
        """Why a pod would not get the node at a row now; empty if it would."""
        if self.domain is not None and not self.domain.is_open[row]:
            return self.domain.refusal
        reasons = self._filters(pod).refusal(pod, self._cluster.table, row)
        if reasons or not self.holds:
            return ", ".join(reasons)
        return self._room.refusal(pod, row, self._profile)

    def place(self, pod: Pod) -> Placement | NoFit:
        """Decide about one pod here and now, without the queue."""
        outcome = self.decide(pod)
        if isinstance(outcome, Placement):
            self.start(pod, outcome)
        return outcome

    def start(self, pod: Pod, placement: Placement) -> None:
        """Let a pod have its node."""
        # Assume before binding: the next decision must see this pod even if the cluster is slow.
        self._cluster.table.assume(pod, placement)
        if self.holds:
            self._room.let_go(pod.uid, placement.node)
            if self.reservations is not None:
                self.reservations.disturbed(pod, placement.node)
        self._cluster.bind(pod, placement)

    # --- turns -----------------------------------------------------------------------------------------------------

    def turns(self) -> Questions[None]:
        """Give turns until nothing that waits can be placed now."""
        while (yield from self.turn()):
            pass

    def turn(self) -> Questions[bool]:
        """Give the next lane its turn; False when none is ready.

        Gangs are given up only when nothing is ready any more, so that one whose timeout ends now has a last try.
        """
        if self.holds.next_time_s() <= self.queue.clock.now():
            self._room.end_holds()
        if self.reservations is not None:
            self.reservations.look_after()
        turn = self.queue.pop(self._could_help)
        if turn is None:
            return self._give_up()
        lane, pods = turn
        try:
            if lane.gang is None:
                pod, outcome = pods[0], (yield pods[0])
                if self.reservations is not None and isinstance(outcome, NoFit):
                    behind = self.reservations.behind(lane, pod)
                    if behind is not None and isinstance(fills_in := (yield behind), Placement):
                        pod, outcome = behind, fills_in
                self._carry_out(lane, pod, outcome)
            else:
                table, profile = self._cluster.table, self._profile
                placed, refusal = yield from self._gangs.place(lane, lane.gang, pods, table, profile)
                self._carry_out_gang(lane, pods, placed, refusal)
        except Exception as error:
            self.queue.sleep(lane)  # whatever went wrong, nobody drops out of the queue
            if not isinstance(error, PolicyError):
                raise
            self._cluster.policy_failed(pods, error)
        return True

    def answer(self, questions: Questions[Result]) -> Result:
        """Go through a loop that asks, and decide about each pod as the profile says.

        Decided here and not further down: a reader, and a traceback, has few steps from the loop to a policy.
        """
        table = self._cluster.table
        try:
            pod = next(questions)
            while True:
                try:
                    outcome = self._decide(pod, table, self._within)
                except BaseException as error:  # noqa: BLE001 - the loop puts its books in order and raises it again
                    pod = questions.throw(error)
                else:
                    pod = questions.send(outcome)
        except StopIteration as end:
            result: Result = end.value
            return result

    def run_until_idle(self) -> None:
        """Give turns until nothing that waits can be placed now, and decide as the profile says."""
        self.answer(self.turns())

    # --- what becomes of pods --------------------------------------------------------------------------------------

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

    # --- room that is kept for somebody ----------------------------------------------------------------------------

    def nominate(self, pod: Pod, node: str) -> None:
        """Others left, or are leaving, a node for this pod since before anybody here knew."""
        self._room.nominate(pod, node)

    def hold(self, pod: Pod, node: str, for_s: float, why: str) -> str:
        """Keep room on a node for a pod, against pods of no more priority; says why that cannot be, empty if it is."""
        table = self._cluster.table
        row = table.row_of.get(node)
        if row is None:
            return f"there is no node {node}"
        if (placed := table.placed.get(pod.uid)) is not None and placed.row == row:
            return f"it stands on {node} already"
        return self._room.hold(pod, row, for_s, why, self._profile)

    def release_room(self, uid: Hashable) -> None:
        """Room that is kept for a pod is anybody's again; the pod itself goes on waiting, if it does."""
        self._room.let_go(uid)

    def hold_to_move(
        self, uid: Hashable, node: str, for_s: float, why: str, *, successor: Pod | None = None, beside: bool = False
    ) -> str:
        """Keep room for a placed pod where it is to go on; says why it cannot go there, empty if it can.

        Without a node it is the policy that chooses. Then `evict` the pod: it takes the room that is held for it as
        soon as it waits. Where another pod goes on in its place, `successor` is what that will request, under the
        placed pod's uid; with `beside` it comes while the placed pod still stands.
        """
        table = self._cluster.table
        placed = table.placed.get(uid)
        if placed is None:
            return "it has no node"
        pod = successor or placed.pod
        with Without(table, [] if beside else [placed]):
            if not node:
                outcome = self._decide(pod, table, self._profile)
                if isinstance(outcome, NoFit):
                    return str(outcome)
                node = outcome.node
            against = self._move_refusal(pod, node, placed)
            return against or self._room.hold(pod, table.row_of[node], for_s, why, self._profile)

    def move_refusal(self, uid: Hashable, node: str, successor: Pod, *, beside: bool = False) -> str:
        """Why a pod's successor would not get a node as it is now, held or not; empty if it would."""
        placed = self._cluster.table.placed.get(uid)
        if placed is None:
            return "it has no node"
        with Without(self._cluster.table, [] if beside else [placed]):
            return self._move_refusal(successor, node, placed)

    def _move_refusal(self, pod: Pod, node: str, placed: Placed) -> str:
        row = self._cluster.table.row_of.get(node)
        if row is None:
            return f"there is no node {node}"
        if row == placed.row:
            return f"it stands on {node} already"
        refusal = self.refusal(pod, row)
        return f"{node} does not take it: {refusal}" if refusal else ""

    # --- what happens on nodes -------------------------------------------------------------------------------------

    def node_changed(self, row: int) -> None:
        """A node has more to offer than before: wake those that now pass its filters."""
        if not self.queue.has_sleepers:
            return
        if looks_at_other_nodes(self._profile):
            self.queue.wake_all()
        else:
            self.queue.wake(row, self._could_help)
            self._room.retry_holders()

    def pod_came(self) -> None:
        """A pod has got a node. Usually that helps nobody, but one may have waited for the company of another."""
        if self.queue.has_sleepers and looks_at_other_nodes(self._profile):
            self.queue.wake_all()

    def _could_help(self, pod: Pod, row: int) -> bool:
        table = self._cluster.table
        try:
            if self._filters(pod).passes(pod, table, row):
                return True
            return self._room.could_help(pod, row, self._profile)
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

    def _carry_out(self, lane: Lane, pod: Pod, outcome: Placement | NoFit) -> None:
        if isinstance(outcome, Placement):
            self.start(pod, outcome)
        else:
            placed = None if isinstance(outcome, Declined) else self._room.place_instead(pod, self._profile)
            if placed is None:
                self.queue.sleep(lane)
                self._cluster.refuse(pod, outcome)
                return
            pod = placed
        self.queue.done(lane, [pod])
        self.pod_came()

    def _carry_out_gang(self, lane: Lane, members: list[Pod], placed: Placements, refusal: NoFit | None) -> None:
        for pod, placement in placed:
            self._room.let_go(pod.uid, placement.node)
            self._cluster.bind(pod, placement)
        if placed:
            self.queue.done(lane, [pod for pod, _ in placed])
            if self.reservations is not None and not lane.lacking:
                self.reservations.over(lane.key)
            self.pod_came()
        if refusal is None:
            return
        waiting = [pod for pod in members if pod.uid in self.queue]
        if lane.started and not isinstance(refusal, Declined):
            # Only now: what a member clears before its gang is complete might stay empty.
            made_room = [pod for pod in waiting if self._room.preempt(pod, self._profile) is not None]
            if made_room:
                self.queue.done(lane, made_room)
                self.pod_came()
                waiting = [pod for pod in waiting if pod.uid in self.queue]
        if waiting:
            self.queue.sleep(lane)
            for pod in waiting:
                self._cluster.refuse(pod, refusal)

    def _give_up(self) -> bool:
        """Give up the gangs whose timeout has passed; whether that opens room to others."""
        opens = False
        for gang, members, short in self.queue.give_up():
            why = (
                f"only {gang.at_once - short} of {gang.at_once} members came"
                if short
                else f"no room was found for {gang.at_once} members together"
            )
            again_s = self._cluster.give_up(gang, members, f"the gang gave up after {gang.timeout_s:g} s: {why}")
            if self.reservations is not None:
                opens = self.reservations.given_up(("gang", gang.name), again_s) or opens
        return opens
