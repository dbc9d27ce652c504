"""Asking filters about nodes: the one place that goes through them in turn, and that knows what a verdict is.

A verdict is one number a node: 0 for a pass, else which filter of the profile refused the pod first, and by which of
its codes. Everybody else hands verdicts on, and comes back here for what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import numpy.typing as npt

from foresail.core.model import Mask, Nodes, Pod, Rows
from foresail.core.profile import Profile, UsedFilter
from foresail.core.resource_claims import ResourceClaims
from foresail.core.table import NodeTable, Placed

Verdicts = npt.NDArray[np.uint16]
"""One a node; `reasons_of` says what one means, `count_reasons` what many do."""

_CODES_PER_FILTER = 256
"""A verdict is the filter's number times this, plus its code; a pass is 0 whoever is asked."""


_UNCONDITIONAL = UsedFilter("resource-claims", ResourceClaims())
"""Asked before all others, whatever the profile has."""


def _all_filters(profile: Profile) -> list[UsedFilter]:
    """The filters of a profile by their number."""
    return [_UNCONDITIONAL, *profile.filters]


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One filter: how many nodes it was asked about, and how many it refused, by reason."""

    name: str
    asked: int
    refused: dict[str, int]


class Filters:
    """Some filters of a profile in its order. Each keeps its number there, so that verdicts of parts can be joined."""

    __slots__ = ("_numbered",)

    def __init__(self, numbered: Sequence[tuple[int, UsedFilter]]) -> None:
        self._numbered = numbered

    @classmethod
    def of(cls, profile: Profile) -> Filters:
        return cls(list(enumerate(_all_filters(profile))))

    def __len__(self) -> int:
        return len(self._numbered)

    # --- which of them ---------------------------------------------------------------------------------------------

    def _only(self, chosen: Callable[[UsedFilter], bool]) -> Filters:
        return Filters([(at, used) for at, used in self._numbered if chosen(used)])

    def row_wise(self) -> Filters:
        """Those whose answer about a node depends on that node alone."""
        return self._only(lambda used: used.row_wise is not False)

    def looking_around(self) -> Filters:
        """Those that look at other nodes, too, and must be asked anew each time."""
        return self._only(lambda used: used.row_wise is False)

    def for_pod(self, pod: Pod, table: NodeTable) -> Filters:
        """Those that may have something against this pod as the table is now."""
        return self._only(lambda used: not used.skips(pod, table.all))

    def for_shape(self, pod: Pod, table: NodeTable) -> Filters:
        """Those that may have something against pods of this shape, until the table's structure changes.

        What looks at other pods may have nothing to say now and much to say after the next one is placed.
        """
        return self._only(lambda used: used.row_wise is False or not used.skips(pod, table.all))

    def by_resolvable(self) -> tuple[Filters, Filters]:
        """Those that may pass a node once pods have left it, and those that never will."""
        return self._only(_is_resolvable), self._only(lambda used: not _is_resolvable(used))

    @property
    def counts_room(self) -> bool:
        """Whether one of them refuses every node that has too little left (see `policy`)."""
        return any(getattr(used.plugin, "counts_room", False) for _, used in self._numbered)

    @property
    def only_worsens(self) -> bool:
        """Whether none of them opens a node because one more pod stands on it (see `policy`)."""
        return all(getattr(used.plugin, "only_worsens", False) for _, used in self._numbered)

    # --- many nodes ------------------------------------------------------------------------------------------------

    def judge(self, pod: Pod, table: NodeTable, rows: Rows) -> tuple[Verdicts, Rows | None]:
        """The verdict about each of these rows, and which of them pass, by their places here; None if all do.

        Each filter is asked about the nodes that those before it passed.
        """
        passes: Rows | None = None
        verdict: Verdicts | None = None
        for at, used in self._numbered:
            codes = used.refuses(pod, Nodes(table, rows if passes is None else rows[passes]))
            if not np.count_nonzero(codes):
                continue
            if verdict is None:
                verdict = _verdict_of_code(at).take(codes)
            else:
                verdict[passes] = _verdict_of_code(at).take(codes)
            passes = np.logical_not(verdict).nonzero()[0]
        return np.zeros(len(rows), dtype=np.uint16) if verdict is None else verdict, passes

    def complete(self, verdict: Verdicts, pod: Pod, table: NodeTable) -> Verdicts:
        """The verdicts of other filters about all nodes, completed by those of these.

        A node counts under the first filter that refuses it, in the order of the profile. What is given stays as it is.
        """
        given = verdict
        for at, used in self._numbered:
            open_rows = table.every_row
            if verdict.any():
                open_rows = np.flatnonzero((verdict == 0) | (verdict > at * _CODES_PER_FILTER))
            codes = used.refuses(pod, Nodes(table, open_rows))
            refused = np.flatnonzero(codes)
            if len(refused):
                verdict = verdict.copy() if verdict is given else verdict
                verdict[open_rows[refused]] = _verdict_of_code(at)[codes[refused]]
        return verdict

    def left_of(self, rows: Rows, pod: Pod, table: NodeTable) -> Rows:
        """Those of the rows that all pass, in the order given."""
        passes = self.judge(pod, table, rows)[1]
        return rows if passes is None else rows[passes]

    def step_by_step(self, pod: Pod, table: NodeTable) -> tuple[list[FilterStep], Rows]:
        """What each filter says of the nodes that those before it passed, and the rows that all pass."""
        steps = []
        rows = table.every_row
        for at, used in self._numbered:
            if used.skips(pod, table.all):
                if used is not _UNCONDITIONAL:
                    steps.append(FilterStep(used.name, len(rows), {}))
                continue
            verdict = _verdict_of_code(at)[used.refuses(pod, Nodes(table, rows))]
            steps.append(FilterStep(used.name, len(rows), _counted(pod, {at: used}, verdict)))
            rows = rows[verdict == 0]
        return steps, rows

    # --- one node --------------------------------------------------------------------------------------------------

    def refusal(self, pod: Pod, table: NodeTable, row: int) -> tuple[str, ...]:
        """Why the first that refuses one node does so; empty if it passes."""
        nodes = Nodes(table, table.every_row[row : row + 1])
        for _, used in self._numbered:
            code = int(used.refuses(pod, nodes)[0])
            if code:
                return used.why(pod, code)
        return ()

    def passes(self, pod: Pod, table: NodeTable, row: int, held: Sequence[Placed] = ()) -> bool:
        """Whether one node passes; where room is held for others, both with and without them."""
        nodes = Nodes(table, table.every_row[row : row + 1])
        for one in held:
            table.try_with(one)
        try:
            passes = self._pass(pod, nodes)
        finally:
            for one in held:
                table.try_without(one)
        return passes and (not held or self._pass(pod, nodes))

    def _pass(self, pod: Pod, nodes: Nodes) -> bool:
        return all(not used.refuses(pod, nodes)[0] for _, used in self._numbered)


def refusal(pod: Pod, table: NodeTable, profile: Profile, row: int) -> tuple[str, ...]:
    """Why one node is refused now, nothing remembered; empty if it passes."""
    return Filters.of(profile).for_pod(pod, table).refusal(pod, table, row)


def looks_at_other_nodes(profile: Profile) -> bool:
    """Whether a filter may open or close a node because of what happened on another."""
    return len(Filters.of(profile).looking_around()) > 0


# --- what verdicts mean ----------------------------------------------------------------------------------------------


def reasons_of(pod: Pod, profile: Profile, verdict: int) -> tuple[str, ...]:
    """What a verdict means, in words."""
    return _all_filters(profile)[verdict // _CODES_PER_FILTER].why(pod, verdict % _CODES_PER_FILTER)


def count_reasons(pod: Pod, profile: Profile, verdict: Verdicts) -> dict[str, int]:
    """Count the nodes by reason, the most frequent first, equal counts in the order of the filters."""
    return dict(sorted(_counted(pod, _all_filters(profile), verdict).items(), key=lambda item: -item[1]))


def _counted(pod: Pod, filters: Sequence[UsedFilter] | Mapping[int, UsedFilter], verdict: Verdicts) -> dict[str, int]:
    """Nodes by reason, in the order of the filters and of their codes; filters are found by their number."""
    counts: dict[str, int] = {}
    per_verdict = np.bincount(verdict)
    for one in (per_verdict > 0).nonzero()[0].tolist():
        if one:
            for reason in filters[one // _CODES_PER_FILTER].why(pod, one % _CODES_PER_FILTER):
                counts[reason] = counts.get(reason, 0) + int(per_verdict[one])
    return counts


def reasons_if_all_refuse(pod: Pod, table: NodeTable, profile: Profile) -> dict[str, int]:
    """Why no node of a table takes the pod, counted; empty if one does.

    Filters that look at more than one node are left out: what they refuse now they may pass once other pods run. On a
    table without pods the answer tells which pods could never be placed.
    """
    verdict, _ = Filters.of(profile).row_wise().for_pod(pod, table).judge(pod, table, table.every_row)
    return count_reasons(pod, profile, verdict) if verdict.all() else {}


def resolvable_by_removal(verdict: Verdicts, profile: Profile) -> Mask:
    """Where taking pods away might change what refuses the pod; shape (all nodes,)."""
    resolvable = np.ones(len(verdict), dtype=np.bool_)
    filters = _all_filters(profile)
    for one in np.unique(verdict).tolist():
        if one:
            used = filters[one // _CODES_PER_FILTER]
            if not _is_resolvable(used) or one % _CODES_PER_FILTER in getattr(used.plugin, "unresolvable", ()):
                resolvable[verdict == one] = False
    return resolvable


def _is_resolvable(used: UsedFilter) -> bool:
    return bool(getattr(used.plugin, "resolvable", True))


@cache
def _verdict_of_code(at: int) -> Verdicts:
    """The verdict for each code of the filter with this number."""
    verdicts = np.arange(_CODES_PER_FILTER, dtype=np.uint16) + np.uint16(at * _CODES_PER_FILTER)
    verdicts[0] = 0
    return verdicts


# --- a table as it would be ------------------------------------------------------------------------------------------


class Without:
    """Pods that are away from their nodes for a moment; all of them are back afterwards, whatever happens."""

    def __init__(self, table: NodeTable, pods: Iterable[Placed]) -> None:
        self._table = table
        self._away: dict[Hashable, Placed] = {}
        for placed in pods:
            self.take_away(placed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for placed in list(self._away.values()):
            self.put_back(placed)

    def take_away(self, placed: Placed) -> None:
        self._table.try_without(placed)
        self._away[placed.pod.uid] = placed

    def put_back(self, placed: Placed) -> None:
        del self._away[placed.pod.uid]
        self._table.try_with(placed)
