"""Pins: pods that first start where somebody says, if they can; so that two runs begin from the same placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from foresail.core.gang import Decide
from foresail.core.journal import Record, What
from foresail.core.model import Mask, Nodes, NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.table import NodeTable


class BrokenPin(NamedTuple):
    """A pod that first started elsewhere than it was to."""

    pod: str
    pinned_to: str
    node: str


class Pins:
    """Sends each pod to its pinned node the first time it is placed, if the filters let it; else the policy decides."""

    def __init__(self, first_node: Mapping[str, str]) -> None:
        """Nodes by the names of pods."""
        self._node_of = dict(first_node)
        self.broken: list[BrokenPin] = []
        """In the order in which they started."""

    def deciding(self, decide: Decide) -> Decide:
        """`decide`, but with the pins."""

        def answer(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
            row = table.row_of.get(self._node_of.get(pod.name, ""))
            if row is not None:
                narrowed = profile.behind("pinned", _OnlyRow(row))
                try:
                    outcome = decide(pod, table, narrowed)
                finally:
                    table.memories.pop(narrowed, None)
                if isinstance(outcome, Placement):
                    return outcome
            return decide(pod, table, profile)

        return answer

    def listen(self, record: Record) -> None:
        """A pin holds until its pod has started."""
        if record.what is What.START:
            pinned_to = self._node_of.pop(record.pod, record.node)
            if pinned_to != record.node:
                self.broken.append(BrokenPin(record.pod, pinned_to, record.node))


class _OnlyRow:
    """Keep a pod on the node that it is pinned to."""

    row_wise = True
    reason = "are not where it is pinned"

    def __init__(self, row: int) -> None:
        self._row = row

    def passes(self, _pod: Pod, nodes: Nodes) -> Mask:
        only: Mask = nodes.index == self._row
        return only
