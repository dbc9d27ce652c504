"""Who stands where, and with which priority: what a search for pods that would have to go begins with."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from foresail.core.model import Ints

if TYPE_CHECKING:
    from foresail.core.table import Placed

_PODS = 0
_FEW = 1024


class Standing:
    """The pods of a node table by row, and what they hold as columns.

    Built from the pods that are there when somebody first asks, and kept up to date from then on: tables on which
    nothing is ever preempted pay nothing for it. Rows and resources are those of one `structure` of the table; once it
    has grown, the table builds another.
    """

    def __init__(self, placed: Iterable[Placed], resources: int, structure: int) -> None:
        self.structure = structure
        self._on_row: dict[int, dict[Hashable, Placed]] = {}
        self._slot_of: dict[Hashable, int] = {}
        self._unused: list[int] = []
        self._row: Ints = np.full(_FEW, -1, dtype=np.int64)
        self._priority: Ints = np.zeros(_FEW, dtype=np.int64)
        self._held: Ints = np.zeros((_FEW, 1 + resources), dtype=np.int64)
        for held in placed:
            self.add(held)

    def add(self, held: Placed) -> None:
        pod = held.pod
        self._on_row.setdefault(held.row, {})[pod.uid] = held
        slot = self._unused.pop() if self._unused else len(self._slot_of)
        if slot == len(self._row):
            self._row = np.concatenate([self._row, np.full_like(self._row, -1)])
            self._priority = np.concatenate([self._priority, np.zeros_like(self._priority)])
            self._held = np.concatenate([self._held, np.zeros_like(self._held)])
        self._slot_of[pod.uid] = slot
        self._write(slot, held)

    def replace(self, held: Placed) -> None:
        """A pod that stands there holds other amounts; it keeps its place among its equals."""
        slot = self._slot_of.get(held.pod.uid)
        if slot is None:
            return  # came while this was out of date
        self._on_row[int(self._row[slot])][held.pod.uid] = held
        self._write(slot, held)

    def _write(self, slot: int, held: Placed) -> None:
        pod = held.pod
        self._row[slot] = held.row
        self._priority[slot] = pod.priority
        # A pod may name a resource that the table gets only now; then this is out of date and soon built anew.
        request = pod.shape.request[: self._held.shape[1] - 1]
        self._held[slot] = 0
        self._held[slot, _PODS] = 1
        self._held[slot, 1 : 1 + len(request)] = request

    def remove(self, held: Placed) -> None:
        uid = held.pod.uid
        slot = self._slot_of.pop(uid, None)
        if slot is None:
            return  # came while this was out of date
        self._unused.append(slot)
        # Not `held.row`: nodes may have come or gone, and the pod's row with them, since this was built.
        del self._on_row[int(self._row[slot])][uid]
        self._row[slot] = -1

    def on(self, row: int) -> list[Placed]:
        """The pods on a row, as they were placed."""
        return list(self._on_row.get(row, {}).values())

    def below(self, row: int, priority: int) -> list[Placed]:
        """The pods on a row with less priority than this, the most important first.

        That is by priority, then by `Pod.arrival_s`, the earlier first; what then still ties stays as it was placed.
        """
        found = [held for held in self._on_row.get(row, {}).values() if held.pod.priority < priority]
        return sorted(found, key=lambda held: (-held.pod.priority, held.pod.arrival_s))

    def held_below(self, priority: int, count: int) -> tuple[Ints, Ints]:
        """How many pods with less priority than this stand on each of `count` rows, and what they hold together.

        Shapes (nodes,) and (nodes, resources).
        """
        lower = np.flatnonzero((self._row >= 0) & (self._priority < priority))
        sums: Ints = np.zeros((count, self._held.shape[1]), dtype=np.int64)
        np.add.at(sums, self._row[lower], self._held[lower])
        return sums[:, _PODS], sums[:, 1:]
