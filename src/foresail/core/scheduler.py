"""The loop that every world runs: queue → decide → assume → bind."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide, place_gang
from foresail.core.model import Nodes, NoFit, Placement, Pod, Shape
from foresail.core.profile import Profile, UsedFilter
from foresail.core.queue import Lane, Queue
from foresail.core.spec import Gang
from foresail.core.table import NodeTable, Placed


class Cluster(Protocol):
    """Where decisions are carried out."""

    table: NodeTable

    def bind(self, pod: Pod, placement: Placement) -> None:
        """Start the pod on its node. It is already assumed; if this fails later, call `Scheduler.evict`."""

    def refuse(self, pod: Pod, why: NoFit) -> None:
        """Note that the pod fits nowhere for now; it keeps waiting."""

    def give_up(self, gang: Gang, members: list[Pod], why: str) -> None:
        """Note that a gang's timeout has passed; its members no longer wait."""


class Scheduler:
    """Feeds waiting pods to `decide` and hands the answers to a cluster."""

    def __init__(self, cluster: Cluster, profile: Profile, queue: Queue, *, decide: Decide = decide_alone) -> None:
        """`decide` may be one that listens in, or that knows the answers already."""
        self._cluster = cluster
        self._profile = profile
        self._decide = decide
        self._asked_of: dict[Shape, list[UsedFilter]] = {}
        self._structure = -1
        self.queue = queue

    def submit(self, pod: Pod) -> None:
        self.queue.add(pod)

    def place(self, pod: Pod) -> Placement | NoFit:
        """Decide about one pod here and now, without the queue."""
        outcome = self._decide(pod, self._cluster.table, self._profile)
        if isinstance(outcome, Placement):
            # Assume before binding: the next decision must see this pod even if the cluster is slow.
            self._cluster.table.assume(pod, outcome)
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
        if lane.gang is None:
            self._step_one(lane, pods[0])
        else:
            self._step_gang(lane, pods)
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
        self.queue.add(held.pod, again=True)
        return held

    def node_changed(self, row: int) -> None:
        """A node has more to offer than before: wake those that now pass its filters."""
        if not self.queue.has_sleepers:
            return
        if self._looks_at_other_nodes():
            self.queue.wake_all()
        else:
            self.queue.wake(row, self._could_help)

    def _pods_were_placed(self) -> None:
        """Usually that helps nobody, but a pod may have waited for the company of another."""
        if self.queue.has_sleepers and self._looks_at_other_nodes():
            self.queue.wake_all()

    def _looks_at_other_nodes(self) -> bool:
        """Whether a filter may open a node because of what happened on another."""
        return any(used.row_wise is False for used in self._profile.filters)

    def _could_help(self, pod: Pod, row: int) -> bool:
        table = self._cluster.table
        nodes = Nodes(table, table.every_row[row : row + 1])
        return not any(used.refuses(pod, nodes)[0] for used in self._asked(pod))

    def _asked(self, pod: Pod) -> list[UsedFilter]:
        """The filters that do not skip the pod."""
        table = self._cluster.table
        if self._structure != table.structure:
            self._structure = table.structure
            self._asked_of.clear()
        asked = self._asked_of.get(pod.shape)
        if asked is None:
            asked = [used for used in self._profile.filters if not used.skips(pod, table.all)]
            self._asked_of[pod.shape] = asked
        return asked

    def _step_one(self, lane: Lane, pod: Pod) -> None:
        outcome = self.place(pod)
        if isinstance(outcome, Placement):
            self.queue.done(lane, [pod])
            self._pods_were_placed()
        else:
            self.queue.sleep(lane)
            self._cluster.refuse(pod, outcome)

    def _step_gang(self, lane: Lane, members: list[Pod]) -> None:
        table = self._cluster.table
        placed, refusal = place_gang(members, table, self._profile, missing=lane.missing, decide=self._decide)
        for pod, placement in placed:
            self._cluster.bind(pod, placement)
        if placed:
            self.queue.done(lane, [pod for pod, _ in placed])
            self._pods_were_placed()
        if refusal is not None:
            self.queue.sleep(lane)
            for pod in members:
                if pod.uid in self.queue:
                    self._cluster.refuse(pod, refusal)

    def _give_up(self) -> None:
        for gang, members, short in self.queue.give_up():
            why = (
                f"only {gang.min_members - short} of {gang.min_members} members came"
                if short
                else f"no room was found for {gang.min_members} members together"
            )
            self._cluster.give_up(gang, members, f"the gang gave up after {gang.timeout_s:g} s: {why}")
