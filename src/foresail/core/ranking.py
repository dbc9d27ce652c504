"""The same decision seen from outside: who is feasible, all totals, and the one that `decide` would choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.core.decide import Verdicts, break_tie, full_verdict, memory_of, nan_error, sum_over
from foresail.core.memory import CODES_PER_FILTER
from foresail.core.model import Nodes, Pod, Rows
from foresail.core.profile import Profile
from foresail.core.table import NodeTable


class Ranking(NamedTuple):
    """Totals of some feasible nodes, and the best of them, ties broken as `decide` breaks them."""

    totals: npt.NDArray[np.float64]
    best: int
    """A row of the table."""


def verdicts(pod: Pod, table: NodeTable, profile: Profile) -> Verdicts:
    """0 for each node that passes all filters, else a number for `reasons_of`; shape (all nodes,)."""
    if not table.count:
        return np.zeros(0, dtype=np.uint16)
    memory = memory_of(table, profile)
    return full_verdict(pod, table, memory.column(pod), memory.asked_around(pod))


def reasons_of(pod: Pod, profile: Profile, verdict: int) -> tuple[str, ...]:
    """What a verdict means, in words."""
    return profile.filters[verdict // CODES_PER_FILTER].why(pod, verdict % CODES_PER_FILTER)


def rank(pod: Pod, table: NodeTable, profile: Profile, rows: Rows) -> Ranking:
    """Totals over these rows, which must be feasible, at least one; scores are normalised over them alone."""
    memory = memory_of(table, profile)
    column = memory.column(pod)
    if memory.keeps_totals:
        totals = column.total[table.place[rows]]
    else:
        totals = sum_over(pod, table, profile, memory.answers(pod, column), rows)
    if np.isnan(totals).any():
        raise nan_error(pod, table, profile, int(rows[np.isnan(totals)][0]))
    return Ranking(totals, break_tie(pod, table, profile, rows[totals == totals.max()]))


def best_first(pod: Pod, table: NodeTable, profile: Profile) -> Iterator[int]:
    """Feasible rows from the best to the worst: what `decide` would choose, and what it would if those were not there.

    Only for profiles that remember totals and have no tie rule; the table must not change on the way.
    """
    if not table.count:
        return
    totals = memory_of(table, profile).column(pod).total.copy()
    while (best := float(totals[place := int(totals.argmax())])) != -np.inf:
        row = int(table.by_rank[place])
        if best != best:  # noqa: PLR0124 - only NaN differs from itself, and argmax finds it first
            raise nan_error(pod, table, profile, row)
        yield row
        totals[place] = -np.inf


def refusal(pod: Pod, table: NodeTable, profile: Profile, row: int) -> tuple[str, ...]:
    """Why one node is refused now, nothing remembered; empty if it passes."""
    nodes = Nodes(table, np.array([row], dtype=np.int64))
    for used in profile.filters:
        if not used.skips(pod, table.all) and (code := int(used.refuses(pod, nodes)[0])):
            return used.why(pod, code)
    return ()
