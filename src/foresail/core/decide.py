"""`decide`: one pod, all nodes, one profile, one answer. Everything that places a pod comes through here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.core.asking import Verdicts, count_reasons
from foresail.core.memory import NO_FILTERS, Answer, Memory, sum_scores
from foresail.core.model import Nodes, NoFit, Placement, Pod, Rows
from foresail.core.profile import Profile
from foresail.core.table import NodeTable
from foresail.errors import PolicyError

_NOWHERE = -np.inf
"""Total of a node that is refused."""
ONLY_NODE_SCORE = 0.0
"""Total of a node that has no rival, where totals depend on the rivals: nobody asks the scores then."""


def decide(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
    """The best node for the pod and the devices on it, or why there is none. Changes nothing."""
    decision = Decision(pod, table, profile)
    return decision.best() if decision.has_totals else decision.best_of(table.every_row)


class Ranking(NamedTuple):
    """Totals of some feasible nodes, and the best of them."""

    totals: npt.NDArray[np.float64]
    best: int
    """A row of the table."""


class Decision:
    """One pod before the nodes of a table: who is feasible, how good they are, and which of them is taken.

    For whoever asks more than `decide` answers, such as about some of the nodes. It holds for the table as it is when
    the decision is made, and no longer than until that changes.
    """

    __slots__ = ("_answers", "_around", "_column", "_memory", "_pod", "_profile", "_table", "_verdict")

    def __init__(self, pod: Pod, table: NodeTable, profile: Profile) -> None:
        self._pod, self._table, self._profile = pod, table, profile
        self._memory = memory = memory_of(table, profile)
        self._column, stale = memory.find(pod)
        if stale is not None:
            memory.refresh(self._column, pod, stale)
        self._around = memory.asked_around(pod)
        self._answers: list[Answer] | None = None
        self._verdict: Verdicts | None = None

    @property
    def verdict(self) -> Verdicts:
        """What the filters say of every node; shape (all nodes,)."""
        if self._verdict is None:
            self._verdict = self._around.complete(self._column.verdict, self._pod, self._table)
        return self._verdict

    @property
    def has_totals(self) -> bool:
        """Whether the totals of all nodes are known without asking anybody again."""
        if (self._around is not NO_FILTERS and self._around) or not self._table.count:
            return False
        return self._memory.keeps_totals or self._memory.holds_totals(self._column, self._said())

    def best(self) -> Placement | NoFit:
        """The best of all nodes, or why there is none; only where the decision `has_totals`."""
        table, profile, memory, column = self._table, self._profile, self._memory, self._column
        place = column.best()
        best = column.total.item(place)
        if best == _NOWHERE:
            # Nothing has been touched since the last pod of this shape was refused: the reasons are still the same.
            if column.reasons is None:
                column.reasons = count_reasons(self._pod, profile, column.verdict)
            return NoFit(self._pod.name, table.count, column.reasons)
        if best != best:  # noqa: PLR0124 - only NaN differs from itself, and argmax finds it first
            raise self._nan_error(table.by_rank.item(place))
        if profile.tie is not None:
            place = int(table.place[self._break_tie(table.by_rank[np.flatnonzero(column.total == best)])])
        if not memory.keeps_totals and table.count - np.count_nonzero(column.verdict) == 1:
            best = ONLY_NODE_SCORE
        return self._placement(table.by_rank.item(place), best)

    def best_of(self, rows: Rows) -> Placement | NoFit:
        """The best of these nodes, scores being normalised over the feasible ones of them, or why there is none."""
        verdict = self.verdict[rows]
        feasible: Rows = rows[verdict == 0]
        if not len(feasible):
            return NoFit(self._pod.name, len(rows), count_reasons(self._pod, self._profile, verdict))
        if len(feasible) == 1 and not self._memory.keeps_totals:
            return self._placement(int(feasible[0]), ONLY_NODE_SCORE)
        totals, best = self.rank(feasible)
        return self._placement(best, float(totals.max()))

    def rank(self, rows: Rows) -> Ranking:
        """Totals of these nodes, which must be feasible, at least one; scores are normalised over them alone."""
        if self._memory.keeps_totals:
            totals = self._column.total[self._table.place[rows]]
        else:
            pod, nodes = self._pod, Nodes(self._table, rows)
            weighted: list[tuple[float, npt.NDArray[np.float64] | float]] = []
            for used, answer in zip(self._profile.scores, self._said(), strict=True):
                if answer is None or isinstance(answer, np.ndarray):
                    raw = used.score(pod, nodes) if answer is None else answer[rows]
                    weighted.append((used.weight, used.normalize(pod, nodes, raw)))
                else:
                    weighted.append((used.weight, answer))
            totals = sum_scores(weighted, len(rows))
        unordered = np.isnan(totals)
        if unordered.any():
            raise self._nan_error(self._first(rows[unordered]))
        return Ranking(totals, self._break_tie(rows[totals == totals.max()]))

    def best_first(self) -> Iterator[int]:
        """Feasible rows from the best to the worst: what is taken, and what would be if those were not there.

        Only for profiles that remember totals and have no tie rule.
        """
        table = self._table
        totals = self._column.total.copy()
        while len(totals) and (best := float(totals[place := int(totals.argmax())])) != -np.inf:
            row = int(table.by_rank[place])
            if best != best:  # noqa: PLR0124 - only NaN differs from itself, and argmax finds it first
                raise self._nan_error(row)
            yield row
            totals[place] = -np.inf

    # --- parts -----------------------------------------------------------------------------------------------------

    def _said(self) -> list[Answer]:
        if self._answers is None:
            self._answers = self._memory.answers(self._pod, self._column)
        return self._answers

    def _break_tie(self, tied: Rows) -> int:
        """One of the rows that share the best total: by the profile's tie rule, then by the lowest rank."""
        tie = self._profile.tie
        if tie is not None and len(tied) > 1:
            scores = tie.score(self._pod, Nodes(self._table, tied))
            tied = tied[scores == scores.max()]
        return self._first(tied)

    def _first(self, rows: Rows) -> int:
        return int(rows[self._table.rank[rows].argmin()])

    def _placement(self, row: int, total: float) -> Placement:
        table = self._table
        return Placement(row, table.names[row], self._profile.devices_on(row, self._pod, table.all), total)

    def _nan_error(self, row: int) -> PolicyError:
        """What is told of scores that have no order."""
        names = " + ".join(f'"{used.name}"' for used in self._profile.scores)
        return PolicyError(f"{names} scored node {self._table.names[row]} NaN for {self._pod.name}")


def memory_of(table: NodeTable, profile: Profile) -> Memory:
    """What this profile remembers about the table."""
    memory = table.memories.get(profile)
    if memory is None:
        memory = table.memories[profile] = Memory(table, profile)
    return memory
