"""Splits planned over many ways in which the work may go on, each change weighed against what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from foresail.controllers.supersteps.exchange import exchange
from foresail.controllers.supersteps.planner import Floats, ShareGrid, SplitOutlook, Units
from foresail.controllers.supersteps.splitting import cost_of, greedy
from foresail.controllers.supersteps.tables import Tables
from foresail.forecast.runtime.curves import RuntimeCurves

FEW = 8
"""With so few scenarios a second beginning is tried for every span; with many it gains nothing that is not noise."""


@dataclass(frozen=True, eq=False, slots=True)
class SpansAhead:
    """The cheapest way through the next supersteps, whatever the split is now."""

    paths: Floats
    """Workloads of each scenario: scenarios × tasks × supersteps."""
    cheapest_s: Floats
    """What the cheapest way costs from the first superstep on, from the second, …; 0 at the end."""
    split: Units
    """Of the span that comes first."""


class Scenario:
    """The cheapest way through the next `window` supersteps over all scenarios, of keeping the split and changing it.

    For every span of these supersteps the split is looked for whose sum of maxima is least on average: greedily, and
    then by exchanges between pairs of tasks. Dynamic programming chooses the spans: each change costs `penalty_s`.
    Half of the scenarios are drawn, the others are their mirror images at the forecast: what is expected is then the
    forecast itself, however few are drawn. A span that begins later is reckoned with the errors of forecasts made then.
    """

    def __init__(
        self,
        curves: RuntimeCurves,
        grid: ShareGrid,
        *,
        window: int = 6,
        penalty_s: float = 15.0,
        scenarios: int = 64,
        tries: int = 64,
    ) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; it is a number of supersteps, 1 or more")
        if scenarios < 2 or scenarios % 2:
            raise ValueError(f"scenarios is {scenarios}; it is 2 or more, and even: half of them are mirror images")
        self.horizon, self.scenarios = window, scenarios // 2
        # Beyond the last amount of CPU that changes anything nobody is given any: tables stay narrow.
        same = (curves.pieces == curves.pieces[:, -1:]).all(axis=(0, 2, 3))
        width = len(same) - int(same[::-1].argmin()) + 1 if not same.all() else 1
        width = min(width, len(same))
        self._tables = Tables(RuntimeCurves(curves.breaks, np.ascontiguousarray(curves.pieces[:, :width])))
        self._most = width - 1
        self._grid, self._units = grid, min(grid.units, grid.tasks * (width - 1))
        self.penalty_s, self._tries = penalty_s, tries

    def plan(self, outlook: SplitOutlook) -> Units | None:
        spans, table = self._spans(outlook)
        if outlook.current is None:
            return spans.split
        current = self._within(outlook.current)
        keeps = _keeping_s(table, current, spans.cheapest_s, self.penalty_s) <= spans.cheapest_s[0] + self.penalty_s
        return None if keeps else spans.split

    def spans(self, outlook: SplitOutlook) -> SpansAhead:
        """What the coming supersteps cost, for those who weigh a change by more than that."""
        return self._spans(outlook)[0]

    def _spans(self, outlook: SplitOutlook) -> tuple[SpansAhead, Floats]:
        """The spans, and the table of the way through from the first superstep on."""
        ahead = min(self.horizon, outlook.left, outlook.workloads.shape[1])
        expected = outlook.workloads[:, :ahead]
        errors = np.zeros((1, *expected.shape))
        if outlook.scenarios is not None:
            drawn = outlook.scenarios[:, :, :ahead] - expected
            errors = np.concatenate([drawn, -drawn])
        splits = np.zeros((ahead, ahead + 1, self._grid.tasks), np.int64)
        cheapest_s, length = np.zeros(ahead + 1), 0
        for start in reversed(range(ahead)):
            # By the time that a later span is split, what comes then is known as well as what comes next is now.
            paths = expected[:, start:] + errors[:, :, : ahead - start]
            # Supersteps first: a span of them is then one block of rows.
            table = self._tables.table(paths.transpose(2, 0, 1).reshape(-1, self._grid.tasks))
            length = _cheapest_span(table, start, self._units, self.penalty_s, self._tries, splits, cheapest_s)
        return SpansAhead(paths, cheapest_s, splits[0, length]), table

    def _within(self, split: Units) -> Units:
        """A split as tables have it: what is beyond them is as good as their end."""
        within: Units = np.minimum(split, self._most)
        return within


@numba.njit(cache=True)
def _cheapest_span(table, start, units, penalty_s, tries, splits, cheapest):  # type: ignore[no-untyped-def]
    """How long the span that begins at `start` is best, with its splits by length and what it and the rest cost.

    Table: tasks × steps of CPU × rows, which are the scenarios of superstep `start`, those of the next, … What comes
    after this span is known already: supersteps are gone through from the last to the first.
    """
    ahead = len(splits) - start
    paths = table.shape[2] // ahead
    rows = table.transpose(2, 0, 1)
    weights = np.ones(ahead * paths)
    cheapest[start] = np.inf
    best = 0
    for length in range(1, ahead + 1):
        span = rows[: length * paths]
        if length == 1:
            split = greedy(span, weights, units)
        else:
            split = _for_both(splits[start, length - 1], splits[start + 1, length - 1], units)
        exchange(table, 0, length * paths, split, tries)
        total = cost_of(span, split)
        if length > 1 and paths <= FEW:
            other = greedy(span, weights, units)
            exchange(table, 0, length * paths, other, tries)
            if cost_of(span, other) < total:
                split, total = other, cost_of(span, other)
        splits[start, length] = split
        cost = total / paths
        if length < ahead:
            cost += cheapest[start + length] + penalty_s
        if cost < cheapest[start]:
            cheapest[start], best = cost, length
    return best


@numba.njit(cache=True)
def _keeping_s(table, current, cheapest, penalty_s):  # type: ignore[no-untyped-def]
    """What the cheapest way costs that begins by keeping the split."""
    ahead = len(cheapest) - 1
    paths = table.shape[2] // ahead
    rows = table.transpose(2, 0, 1)
    kept, total = np.inf, 0.0
    for length in range(1, ahead + 1):
        total += cost_of(rows[(length - 1) * paths : length * paths], current) / paths
        after = cheapest[length] + penalty_s if length < ahead else 0.0
        kept = min(kept, total + after)
    return kept


@numba.njit(cache=True)
def _for_both(one, other, units):  # type: ignore[no-untyped-def]
    """A split for two spans that overlap: each task has what it has in either, cut down to the steps there are."""
    asked = np.maximum(one, other)
    total = max(asked.sum(), 1)
    split, rest = asked * units // total, asked * units % total
    for _ in range(units - split.sum()):
        task = np.argmax(rest)
        rest[task] = -1
        split[task] += 1
    return split
