"""Remembered answers: one column of verdicts and scores for each pod shape, recomputed for touched nodes alone."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.asking import Filters, Verdicts
from foresail.core.model import Nodes, Pod, Rows
from foresail.core.profile import Profile, UsedFilter, UsedScore
from foresail.core.table import NodeTable

_MOST_BYTES = 2 << 30
_BLOCK = 256
_BLOCKS_PAY_FROM = 8192
"""Nodes from which finding the best block first beats a look at all totals."""
NO_FILTERS = Filters([])


Answer = npt.NDArray[np.float64] | float | None
"""What a score says: of each node, not yet normalised; or the same of all, normalised; None if it must be asked."""


class RowWiseWarning(UserWarning):
    """A policy that says nothing about being row-wise turned out not to be."""


class Column:
    """What one profile thinks of every node for one pod shape, as of `cursor` touches of the table.

    The cursor is -1 as long as nobody was asked. `verdict` and `answers` are in row order. `total` is in rank order,
    -inf where a filter refuses, and filled only where the totals of this shape can be remembered: `totals_of` are the
    answers they add up, None if there are none. `reasons` counts the verdicts in words once somebody has asked.
    """

    __slots__ = (
        "_block_best",
        "_blocks",
        "answers",
        "cursor",
        "filters",
        "reasons",
        "total",
        "totals_of",
        "verdict",
    )

    def __init__(self, count: int, answers: list[Answer], filters: Filters) -> None:
        self.cursor = -1
        self.verdict: Verdicts = np.zeros(count, dtype=np.uint16)
        padded = -(-count // _BLOCK) * _BLOCK
        self.total = np.full(padded, -np.inf)
        self._blocks = self.total.reshape(-1, _BLOCK)
        self._block_best = np.full(len(self._blocks), -np.inf) if count >= _BLOCKS_PAY_FROM else None
        self.answers = answers
        self.filters = filters
        self.totals_of: list[Answer] | None = None
        self.reasons: dict[str, int] | None = None

    def replace_totals(self, places: Rows, totals: npt.NDArray[Any]) -> None:
        """Write new totals at these places, counted in rank order."""
        best = self._block_best
        if best is None:
            self.total[places] = totals
            return
        blocks = places // _BLOCK
        before = self.total[places]
        self.total[places] = totals
        # A block must be searched again only where its best total has become smaller.
        sank = blocks[(before == best[blocks]) & (totals < before)]
        with np.errstate(invalid="ignore"):  # a NaN is for `decide` to report, with the policy's name
            np.maximum.at(best, blocks, totals)
        if len(sank):
            best[sank] = self._blocks[sank].max(axis=1)

    def best(self) -> int:
        """The place of the highest total, the first of equal ones."""
        if self._block_best is None:
            return int(self.total.argmax())
        block = int(self._block_best.argmax())
        return block * _BLOCK + int(self._blocks[block].argmax())


class Memory:
    """The columns of one profile over one node table.

    The columns looked at least recently are dropped when they would outgrow two gigabytes.
    """

    def __init__(self, table: NodeTable, profile: Profile) -> None:
        self._table = table
        self._profile = profile
        self._columns: OrderedDict[int, Column] = OrderedDict()
        self._decisions = 0
        self._set_up()

    def _set_up(self) -> None:
        profile = self._profile
        self._columns.clear()
        self.scores = profile.scores
        self._as_of = (self._table.structure, profile.lessons)
        self.keeps_totals = profile.remembers_totals
        filters = Filters.of(profile)
        self._filters, self._around = filters.row_wise(), filters.looking_around()
        self._looks_around = len(self._around) > 0
        self._audited = [used for used in profile.plugins if used.row_wise is None]
        raw_columns = 0 if self.keeps_totals else sum(used.row_wise is not False for used in self.scores)
        bytes_each = max(1, self._table.count * (10 + 8 * raw_columns))
        self._most_columns = max(1, _MOST_BYTES // bytes_each)

    def find(self, pod: Pod) -> tuple[Column, Rows | None]:
        """The column for a pod's shape, and the rows to `refresh` before it is looked at; None if there are none."""
        table = self._table
        if self._as_of != (table.structure, self._profile.lessons):
            self._set_up()
        self._decisions += 1
        if self._audited and self._decisions & (self._decisions - 1) == 0:
            self._audit(pod)
        key = pod.shape.key
        column = self._columns.get(key)
        if column is None:
            if self._audited:
                self._audit(pod)
            if len(self._columns) >= self._most_columns:
                self._columns.popitem(last=False)
            column = self._columns[key] = self._new_column(pod)
        elif len(self._columns) == self._most_columns:
            self._columns.move_to_end(key)
        is_fresh = column.cursor == table.touches or not table.count
        return column, None if is_fresh else self._stale(column)

    def _stale(self, column: Column) -> Rows:
        return self._table.every_row if column.cursor < 0 else self._table.touched_since(column.cursor)

    def _new_column(self, pod: Pod) -> Column:
        """A column about which nobody has been asked yet."""
        table = self._table
        if not table.count:
            return Column(0, [], NO_FILTERS)  # no plug-in need know what to say of no nodes
        answers = [] if self.keeps_totals else self._first_answers(pod)
        return Column(table.count, answers, self._filters.for_pod(pod, table))

    def refresh(self, column: Column, pod: Pod, rows: Rows) -> None:
        """Ask about these rows anew; the others must be up to date. If a plug-in raises, they are asked for again."""
        table = self._table
        verdict, passes = column.filters.judge(pod, table, rows)
        passing = rows if passes is None else rows[passes]
        column.verdict[rows] = verdict
        column.reasons = None
        nodes = Nodes(table, passing)
        if not self.keeps_totals:
            for answer, used_score in zip(column.answers, self.scores, strict=True):
                if isinstance(answer, np.ndarray):
                    answer[passing] = used_score.score(pod, nodes)
            if column.totals_of is not None:
                self._add_up(column, rows)
            column.cursor = table.touches
            return
        totals: npt.NDArray[np.float64] | None = None
        if len(passing):
            scores = self.scores
            if len(scores) == 1:
                # A lone score needs no weight: any positive one leaves the order as it is.
                totals = scores[0].score(pod, nodes)
            else:
                totals = sum_scores([(used.weight, used.score(pod, nodes)) for used in scores], len(nodes))
        if totals is None or passes is not None:
            of_passing, totals = totals, np.empty(len(rows))
            totals.fill(-np.inf)
            if of_passing is not None:
                totals[passes] = of_passing
        column.replace_totals(table.place[rows], totals)
        column.cursor = table.touches

    def _first_answers(self, pod: Pod) -> list[Answer]:
        """Room for the scores that are remembered, beside what needs none."""
        answers: list[Answer] = []
        for used in self.scores:
            same = None if used.row_wise is False else used.same_for_all(pod, self._table.all)
            answers.append(np.zeros(self._table.count) if same is None and used.row_wise is not False else same)
        return answers

    def asked_around(self, pod: Pod) -> Filters:
        """The filters that must see the whole cluster each time, without those that have nothing against this pod."""
        return self._around.for_pod(pod, self._table) if self._looks_around and self._table.count else NO_FILTERS

    def answers(self, pod: Pod, column: Column) -> list[Answer]:
        """What the scores say of this pod now, as far as it is remembered or the same for all nodes."""
        return [
            used.same_for_all(pod, self._table.all) if answer is None else answer
            for answer, used in zip(column.answers, self.scores, strict=False)  # none are kept where totals are
        ]

    def holds_totals(self, column: Column, answers: list[Answer]) -> bool:
        """Whether these answers add up without a look at which nodes are feasible; the column's totals are then right.

        Only where totals are not kept anyway. Usually the last pod of this shape had the same answers, and only touched
        rows were added up since.
        """
        for answer, used in zip(answers, self.scores, strict=True):
            if answer is None or (used.normalizes and isinstance(answer, np.ndarray)):
                return False
        before = column.totals_of
        if before is None or any(
            now != then
            for now, then in zip(answers, before, strict=True)
            if not isinstance(now, np.ndarray)  # a remembered column stays the same object
        ):
            column.totals_of = answers
            self._add_up(column, self._table.every_row)
        return True

    def _add_up(self, column: Column, rows: Rows) -> None:
        weighted = []
        for answer, used in zip(column.totals_of or (), self.scores, strict=True):
            if answer is not None:
                weighted.append((used.weight, answer[rows] if isinstance(answer, np.ndarray) else answer))
        totals = sum_scores(weighted, len(rows))
        totals[column.verdict[rows] != 0] = -np.inf
        column.replace_totals(self._table.place[rows], totals)

    def _audit(self, pod: Pod) -> None:
        """Ask the plug-ins that declare nothing once about all nodes and once about each half of them.

        Where the answers differ, or differ from what is remembered, remembering was wrong and ends.
        """
        if not self._table.count:
            return
        feasible = np.flatnonzero(self._column_now(pod).verdict == 0)
        stale = not self._is_up_to_date(pod)
        for used in self._audited:
            rows = self._table.every_row if isinstance(used, UsedFilter) else feasible
            if not stale and self._answers_alike(used, pod, rows):
                continue
            used.row_wise = False
            warnings.warn(
                f'policy "{used.name}" gives a node another score when other nodes are asked about too; from decision '
                f"{self._decisions} on it is asked about all nodes every time. Declare row_wise = False in its class",
                RowWiseWarning,
                stacklevel=2,
            )
        if any(used.row_wise is False for used in self._audited):
            self._set_up()

    def _column_now(self, pod: Pod) -> Column:
        """What the plug-ins say of all nodes now, nothing remembered."""
        column = self._new_column(pod)
        self.refresh(column, pod, self._table.every_row)
        return column

    def _answers_alike(self, used: UsedFilter | UsedScore, pod: Pod, rows: Rows) -> bool:
        """Whether a plug-in says the same of these rows together and of each half of them."""
        ask = used.score if isinstance(used, UsedScore) else used.refuses
        together = ask(pod, Nodes(self._table, rows))
        # Both halves: the node that the others are measured against stands in one of them.
        return all(
            np.array_equal(ask(pod, Nodes(self._table, rows[half::2])), together[half::2], equal_nan=True)
            for half in (0, 1)
        )

    def _is_up_to_date(self, pod: Pod) -> bool:
        """Whether the remembered column of this pod's shape is what the plug-ins say now."""
        column = self._columns.get(pod.shape.key)
        if column is None:
            return True
        self.refresh(column, pod, self._stale(column))
        fresh = self._column_now(pod)
        return all(
            np.array_equal(old, new, equal_nan=True)
            for old, new in zip(
                (column.verdict, *(column.answers or (column.total,))),
                (fresh.verdict, *(fresh.answers or (fresh.total,))),
                strict=True,
            )
            if isinstance(old, np.ndarray) and isinstance(new, np.ndarray)
        )


def sum_scores(weighted: list[tuple[float, npt.NDArray[np.float64] | float]], count: int) -> npt.NDArray[np.float64]:
    """Weighted sum, always in the order of the profile, so that totals are the same to the last bit."""
    total: npt.NDArray[np.float64] | float = 0.0
    for weight, scores in weighted:
        total = total + weight * scores
    return total if isinstance(total, np.ndarray) else np.full(count, total)
