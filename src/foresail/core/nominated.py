"""Pods for which others are leaving: each holds its node against pods of no more priority until it stands there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from foresail.core.asking import Filters
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.model import Mask, Nodes, NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.table import NodeTable, Placed


class Nomination(NamedTuple):
    """A pod and the node that is being cleared for it."""

    pod: Pod
    node: str
    devices: tuple[int, ...]
    victims: frozenset[Hashable]
    """Who leaves for it."""


class Nominations:
    """Which pod waits for which node to be cleared.

    Nodes are kept by name, since rows change when nodes come and go. A pod is nominated when victims leave for it and
    withdrawn once it stands somewhere, no longer waits, or is not to get the node after all (a victim could not be
    deleted).
    """

    def __init__(self) -> None:
        self._of: dict[Hashable, Nomination] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(list(self._of.values()))

    def get(self, uid: Hashable) -> Nomination | None:
        return self._of.get(uid)

    def nominate(
        self, pod: Pod, node: str, devices: tuple[int, ...] = (), victims: Iterable[Hashable] = ()
    ) -> list[Pod]:
        """Hold the node for the pod. Pods of less priority lose theirs if it is the same: they may not fit any more.

        Returns those.
        """
        displaced = [
            other.pod for other in self._of.values() if other.node == node and other.pod.priority < pod.priority
        ]
        for other in displaced:
            del self._of[other.uid]
        self._of[pod.uid] = Nomination(pod, node, devices, frozenset(victims))
        return displaced

    def withdraw(self, uid: Hashable) -> None:
        """The pod no longer holds a node; one that holds none is none to withdraw."""
        self._of.pop(uid, None)

    def holders(self, pod: Pod, table: NodeTable) -> dict[int, list[Placed]]:
        """Row to the pods that hold it against this one: those of at least its priority, itself aside."""
        found: dict[int, list[Placed]] = {}
        for other in self._of.values():
            row = table.row_of.get(other.node)
            if row is None or other.pod.priority < pod.priority or other.pod.uid == pod.uid:
                continue
            if other.pod.uid not in table.placed:
                found.setdefault(row, []).append(Placed(other.pod, row, other.devices))
        return found

    def deciding(self, decide: Decide = decide_alone) -> Decide:
        """`decide`, but a nominated pod takes its node as soon as it fits there, and others leave it to it.

        A node that is held must pass the filters both with and without the pods that hold it, as they may yet end up
        elsewhere. What other nodes see is the cluster without them.
        """

        def answer(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
            if not self._of:
                return decide(pod, table, profile)
            return self._decide(decide, pod, table, profile)

        return answer

    def _decide(self, decide: Decide, pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
        held = self.holders(pod, table)
        filters = Filters.of(profile).for_pod(pod, table)
        own = self._of.get(pod.uid)
        row = None if own is None else table.row_of.get(own.node)
        if row is not None and filters.passes(pod, table, row, held.get(row, ())):
            allowed = np.zeros(table.count, dtype=np.bool_)
            allowed[row] = True
            return _decide_among(allowed, decide, pod, table, profile)
        closed = [row for row, holders in held.items() if not filters.passes(pod, table, row, holders)]
        if not closed:
            return decide(pod, table, profile)
        if profile.remembers_totals:
            # A node's total is then the same whoever else is feasible, so only a choice that is held is wrong.
            outcome = decide(pod, table, profile)
            if isinstance(outcome, NoFit) or outcome.row not in closed:
                return outcome
        allowed = np.ones(table.count, dtype=np.bool_)
        allowed[closed] = False
        return _decide_among(allowed, decide, pod, table, profile)


class _Among:
    """Keep to some nodes."""

    row_wise = True
    reason = "are held for a pod that others are leaving for"

    def __init__(self, allowed: Mask) -> None:
        self._allowed = allowed

    def passes(self, _pod: Pod, nodes: Nodes) -> Mask:
        mask: Mask = self._allowed[nodes.index]
        return mask


def _decide_among(allowed: Mask, decide: Decide, pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
    narrowed = Profile(
        profile.name,
        filters=[("nominated", _Among(allowed)), *((used.name, used.plugin) for used in profile.filters)],
        scores=profile.scores,
        devices=profile.devices,
        devices_given=True,
        tie=profile.tie,
    )
    try:
        return decide(pod, table, narrowed)
    finally:
        table.memories.pop(narrowed, None)
