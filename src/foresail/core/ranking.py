"""The same decision seen from outside: who is feasible, all totals, and the one that `decide` would choose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.core.decide import Verdicts, break_tie, full_verdict, memory_of, sum_over
from foresail.core.memory import CODES_PER_FILTER
from foresail.core.model import Nodes, Pod, Rows
from foresail.core.profile import Profile
from foresail.core.table import NodeTable
from foresail.errors import PolicyError


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
        names = " + ".join(f'"{used.name}"' for used in profile.scores)
        raise PolicyError(f"{names} scored node {table.names[rows[np.isnan(totals)][0]]} NaN for {pod.name}")
    return Ranking(totals, break_tie(pod, table, profile, rows[totals == totals.max()]))


def refusal(pod: Pod, table: NodeTable, profile: Profile, row: int) -> tuple[str, ...]:
    """Why one node is refused now, nothing remembered; empty if it passes."""
    nodes = Nodes(table, np.array([row], dtype=np.int64))
    for used in profile.filters:
        if not used.skips(pod, table.all) and (code := int(used.refuses(pod, nodes)[0])):
            return used.why(pod, code)
    return ()
