"""Whether a gang fits together at all: try every way to place it, until one fits, none is left, or it takes too long.

One pass places each member on its best node, and may so leave a large member without the one node that would have
taken it. The search is for gangs that such a pass did not place. It begins with the members that have the fewest nodes
to choose from, takes back what leads nowhere, and looks only once at arrangements that differ in nothing but which of
several equal members, or of several equal nodes, is which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foresail.core.asking import Filters
from foresail.core.clock import Clock
from foresail.core.gang import Placements
from foresail.core.holds import Holds
from foresail.core.model import Mask, NoFit, Placement, Pod, Rows, Shape
from foresail.core.profile import Profile
from foresail.core.table import NodeTable

MOST_MEMBERS = 64
"""Larger gangs are placed in one pass or not at all: they have more arrangements than anybody could look at."""
_ALONE = -1
"""Stands for the domain of a node that shares it with no other."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How long one search may take, whichever limit comes first."""

    tries: int = 20_000
    """Placements that are tried. In simulations, where no time passes, it is the only limit: runs can be repeated."""
    seconds: float = float("inf")


DEFAULT_LIMITS = SearchLimits()


@dataclass(slots=True)
class NoRoomTogether(NoFit):
    """A gang was searched for in vain: why one of its members does not fit, and how the search ended."""

    ended: str
    is_proved: bool
    """Whether every arrangement was tried."""

    def __str__(self) -> str:
        return f"{NoFit.__str__(self)}; {self.ended}"


class GangSearch:
    """One search for one gang. Afterwards the table is as it was."""

    def __init__(
        self,
        members: Sequence[Pod],
        table: NodeTable,
        profile: Profile,
        *,
        missing: int,
        holds: Holds,
        clock: Clock,
        limits: SearchLimits,
    ) -> None:
        """`missing` of the members must find room together."""
        self._table, self._profile, self._holds = table, profile, holds
        self._missing = missing
        self._clock, self._limits = clock, limits
        self._tries = 0
        self._ends_s = clock.now() + limits.seconds

        self._waiting: list[list[Pod]] = list(self._by_kind(members).values())
        """The members that have no node yet, one list for each kind; emptied from the end."""
        self._requests = np.array([pods[0].request for pods in self._waiting])
        self._placed: Placements = []
        self._on_row: dict[int, Counter[int]] = {}
        """Members of each kind on a row."""
        self._dead_ends: set[Hashable] = set()
        self._filters: dict[Shape, Filters] = {}
        """Scores are not asked: that a gang fits matters more than where."""
        self._rows: dict[Hashable, Rows] = {}
        """Where members of a kind may go at all."""
        self._nodes: _AlikeNodes
        filters = Filters.of(profile).looking_around()
        self._room_only_shrinks = not any(len(filters.for_pod(pods[0], table)) for pods in self._waiting)

    @property
    def is_worthwhile(self) -> bool:
        """Whether there may be an arrangement although one pass found none.

        For equal members there is none, unless filters look at other nodes: wherever one of them goes, as many others
        find room as before.
        """
        members = sum(map(len, self._waiting))
        return 0 < self._missing <= members <= MOST_MEMBERS and (len(self._waiting) > 1 or not self._room_only_shrinks)

    def find(self, refusal: NoFit) -> Placements | NoRoomTogether:
        """Where enough members go, in an order in which each is let in; or how the search ended."""
        self._look_at_nodes()
        try:
            if self._place_rest():
                return list(self._placed)
            ended, is_proved = "its gang fits in no other arrangement either", True
        except _TakesTooLongError as spent:
            ended, is_proved = f"the search for an arrangement of its gang gave up after {spent}", False
        finally:
            for pod, _ in reversed(self._placed):
                self._table.forget(pod.uid)
        return NoRoomTogether(refusal.pod, refusal.node_count, refusal.reasons, ended, is_proved)

    def _look_at_nodes(self) -> None:
        """Note which nodes take whom before anybody is placed, and which of them are alike."""
        table, examples = self._table, [pods[0] for pods in self._waiting]
        filters = Filters.of(self._profile)
        self._filters = {pod.shape: filters.for_shape(pod, table) for pod in examples}
        open_rows = {self._kind_of(pod): self._open_rows(pod) for pod in examples}
        if self._room_only_shrinks:
            self._rows = open_rows
        own = [pod.spec.kubernetes for pod in examples]
        if any(kubernetes is not None and (kubernetes.claims or kubernetes.disks) for kubernetes in own):
            apart: Collection[int] = range(table.count)  # which volumes a node can reach is not in its columns
        else:
            apart = {row for pod in examples for row in self._holds.holders(pod, table)} if self._holds else ()
        takes = [np.isin(table.every_row, rows) for rows in open_rows.values()]
        self._nodes = _AlikeNodes(table, takes, apart, looks_around=not self._room_only_shrinks)

    def _kind_of(self, pod: Pod) -> Hashable:
        """The same for members that are interchangeable: they ask the same, and the same holds are against them."""
        return pod.shape, self._holds.kind_of(pod)

    def _by_kind(self, members: Sequence[Pod]) -> dict[Hashable, list[Pod]]:
        kinds: dict[Hashable, list[Pod]] = {}
        for pod in reversed(members):  # they are taken from the end
            kinds.setdefault(self._kind_of(pod), []).append(pod)
        return kinds

    # --- one step after the other ----------------------------------------------------------------------------------

    def _place_rest(self) -> bool:
        if len(self._placed) == self._missing:
            return True
        state = self._state()
        if state in self._dead_ends:
            return False
        rows = {kind: self._open_rows(pods[-1]) for kind, pods in enumerate(self._waiting) if pods}
        if self._is_possible(rows):
            hardest_first = sorted(rows, key=lambda kind: (len(rows[kind]), -self._size(kind)))
            if not self._room_only_shrinks:  # one member may be what another waits for, so every order is tried
                if any(self._place_one(kind, rows[kind]) for kind in hardest_first):
                    return True
            elif self._place_one(hardest_first[0], rows[hardest_first[0]]) or self._go_without(hardest_first[0]):
                return True
        self._dead_ends.add(state)
        return False

    def _place_one(self, kind: int, rows: Rows) -> bool:
        """One member of a kind gets one of these rows, and the rest follow."""
        pod = self._waiting[kind].pop()
        tried: set[Hashable] = set()
        for row in self._tightest_first(kind, rows):
            alike = self._alike(row)
            if alike in tried:
                continue
            tried.add(alike)
            for devices in self._device_choices(pod, row):
                self._count_try()
                placement = Placement(row, self._table.names[row], devices)
                self._table.assume(pod, placement)
                self._placed.append((pod, placement))
                self._on_row.setdefault(row, Counter())[kind] += 1
                if self._place_rest():
                    return True
                self._on_row[row][kind] -= 1
                self._placed.pop()
                self._table.forget(pod.uid)
        self._waiting[kind].append(pod)
        return False

    def _go_without(self, kind: int) -> bool:
        """No more members of a kind get a node, and the rest follow."""
        left_out, self._waiting[kind] = self._waiting[kind], []
        try:
            return self._place_rest()
        finally:
            self._waiting[kind] = left_out

    def _count_try(self) -> None:
        self._tries += 1
        if self._tries > self._limits.tries:
            raise _TakesTooLongError(f"{self._limits.tries} tries")
        if self._clock.now() > self._ends_s:
            raise _TakesTooLongError(f"{self._limits.seconds * 1000:.0f} ms")

    # --- what to try -----------------------------------------------------------------------------------------------

    def _open_rows(self, pod: Pod) -> Rows:
        """The nodes that take a member now, room that is held for others aside."""
        filters = self._filters[pod.shape]
        rows = filters.left_of(self._rows.get(self._kind_of(pod), self._table.every_row), pod, self._table)
        held = self._holds.holders(pod, self._table) if self._holds else {}
        if not held:
            return rows
        open_to_it = [
            row not in held or self._holds.lets(filters, pod, self._table, row, held[row]) for row in rows.tolist()
        ]
        return rows[open_to_it]

    def _tightest_first(self, kind: int, rows: Rows) -> list[int]:
        """Rows by how little is left on them afterwards, so that room for large members is broken into last."""
        asked = self._requests.any(axis=0)
        left = (self._table.free[rows] - self._requests[kind])[:, asked]
        shares = left / np.maximum(self._table.allocatable[rows][:, asked], 1)
        ordered: list[int] = rows[np.argsort(shares.sum(axis=1), kind="stable")].tolist()
        return ordered

    def _device_choices(self, pod: Pod, row: int) -> Iterator[tuple[int, ...]]:
        """First what the profile chooses; then, for a share of a GPU, each other device of another fullness."""
        chosen = self._profile.devices_on(row, pod, self._table.all)
        yield chosen
        if pod.shape.is_share:
            free = self._table.gpu_free[row].tolist()
            tried = {free[device] for device in chosen}
            for device, milli in enumerate(free):
                if milli >= pod.gpu_milli and milli not in tried:
                    tried.add(milli)
                    yield (device,)

    def _size(self, kind: int) -> float:
        """The largest part of the largest node that a member asks for."""
        largest = np.maximum(self._table.allocatable.max(axis=0, initial=0), 1)
        return float((self._requests[kind] / largest).max())

    # --- what need not be tried ------------------------------------------------------------------------------------

    def _is_possible(self, rows: dict[int, Rows]) -> bool:
        """Whether enough members wait, and the nodes that take any of them have together what the least of them ask."""
        waiting = [len(pods) for pods in self._waiting]
        needed = self._missing - len(self._placed)
        if sum(waiting) < needed:
            return False
        least = np.sort(np.repeat(self._requests, waiting, axis=0), axis=0)[:needed].sum(axis=0)
        free = np.maximum(self._table.free, 0)
        if self._room_only_shrinks:
            takes_one = np.zeros(self._table.count, dtype=np.bool_)
            takes_one[np.concatenate(list(rows.values()))] = True
            free = free[takes_one]
        return bool((least <= free.sum(axis=0)).all())

    def _state(self) -> Hashable:
        """All that matters to those who still wait: how many of each kind, and how many nodes look how."""
        looks = Counter(self._alike(row) for row, kinds in self._on_row.items() if any(kinds.values()))
        return tuple(map(len, self._waiting)), frozenset(looks.items())

    def _alike(self, row: int) -> Hashable:
        """The same for nodes that are interchangeable as they stand."""
        members = self._on_row.get(row)
        counts = tuple(sorted((kind, count) for kind, count in members.items() if count)) if members else ()
        return self._nodes.kind_of(row), counts, self._table.gpu_free[row].tobytes()


class _AlikeNodes:
    """Which nodes were interchangeable before the search began."""

    def __init__(self, table: NodeTable, takes: Sequence[Mask], apart: Collection[int], *, looks_around: bool) -> None:
        """`takes`: which nodes take members of each shape. Rows that stand `apart` are like no other. `looks_around`:
        whether it matters which pods stand on a node.
        """
        self._table = table
        self._takes = takes
        self._apart = apart
        self._looks_around = looks_around
        self._amounts = np.column_stack([table.free, table.pod_count, table.down, table.unschedulable])
        self._tenants: dict[int, Counter[Shape]] = {}
        if looks_around:
            for held in table.placed.values():
                self._tenants.setdefault(held.row, Counter())[held.pod.shape] += 1
        self._kinds: dict[int, Hashable] = {}

    def kind_of(self, row: int) -> Hashable:
        kind = self._kinds.get(row)
        if kind is None:
            kind = self._kinds[row] = row if row in self._apart else self._describe(row)
        return kind

    def _describe(self, row: int) -> Hashable:
        return (
            replace(self._table.specs[row], name="", labels=()),
            self._amounts[row].tobytes(),
            tuple(bool(takes[row]) for takes in self._takes),
            tuple(self._domains(row)) if self._looks_around else (),
            frozenset(self._tenants.get(row, Counter()).items()),
        )

    def _domains(self, row: int) -> Iterator[tuple[str, int]]:
        """Labels beyond what they let pass: which other nodes share the value, however it is called."""
        for key, _ in self._table.specs[row].labels:
            codes = self._table.label(key)
            is_shared = np.count_nonzero(codes == codes[row]) > 1
            yield key, int(codes[row]) if is_shared else _ALONE


class _TakesTooLongError(Exception):
    """A limit of the search is reached."""
