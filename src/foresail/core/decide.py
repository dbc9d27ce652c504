"""`decide`: one pod, all nodes, one profile, one answer. Everything that places a pod comes through here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.core.memory import CODES_PER_FILTER, Answer, Column, Memory, sum_scores
from foresail.core.model import Nodes, NoFit, Placement, Pod, Rows
from foresail.core.profile import Profile, UsedFilter
from foresail.core.table import NodeTable
from foresail.errors import PolicyError

Verdicts = npt.NDArray[np.uint16]
ONLY_NODE_SCORE = 0.0
"""Total of a node that has no rival, where totals depend on the rivals: nobody asks the scores then."""


def decide(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
    """The best node for the pod and the devices on it, or why there is none. Changes nothing."""
    memory = memory_of(table, profile)
    if not table.count:
        return NoFit(pod.name, 0, {})
    column = memory.column(pod)
    around = memory.asked_around(pod)
    answers = memory.answers(pod, column)
    if not around and memory.holds_totals(column, answers):
        place = column.best()
        best = float(column.total[place])
        if best == -np.inf:
            # Nothing has been touched since the last pod of this shape was refused: the reasons are still the same.
            if column.reasons is None:
                column.reasons = count_reasons(pod, profile, column.verdict)
            return NoFit(pod.name, table.count, column.reasons)
        if profile.tie is not None:
            tied = table.by_rank[np.flatnonzero(column.total == best)]
            place = int(table.place[break_tie(pod, table, profile, tied)])
        row = int(table.by_rank[place])
        if not memory.keeps_totals and table.count - np.count_nonzero(column.verdict) == 1:
            best = ONLY_NODE_SCORE
    else:
        verdict = full_verdict(pod, table, column, around)
        rows = np.flatnonzero(verdict == 0)
        if not len(rows):
            return NoFit(pod.name, table.count, count_reasons(pod, profile, verdict))
        row, best = _choose(pod, table, profile, answers, rows)
    if best != best:  # noqa: PLR0124 - only NaN differs from itself, and argmax finds it first
        raise nan_error(pod, table, profile, row)
    return Placement(row, table.names[row], profile.devices_on(row, pod, table.all), best)


def memory_of(table: NodeTable, profile: Profile) -> Memory:
    """What this profile remembers about the table."""
    memory = table.memories.get(profile)
    if memory is None:
        memory = table.memories[profile] = Memory(table, profile)
    return memory


def _choose(pod: Pod, table: NodeTable, profile: Profile, answers: list[Answer], rows: Rows) -> tuple[int, float]:
    """The best of the feasible rows where totals depend on all of them."""
    if len(rows) == 1:
        return int(rows[0]), ONLY_NODE_SCORE
    total = sum_over(pod, table, profile, answers, rows)
    best = float(total.max())
    tied = rows[total == best] if best == best else rows[np.isnan(total)]  # noqa: PLR0124 - NaN is reported by decide
    return break_tie(pod, table, profile, tied), best


def sum_over(
    pod: Pod, table: NodeTable, profile: Profile, answers: list[Answer], rows: Rows
) -> npt.NDArray[np.float64]:
    """Totals of the feasible rows, scores being normalised over them; shape (rows,)."""
    nodes = Nodes(table, rows)
    weighted: list[tuple[float, npt.NDArray[np.float64] | float]] = []
    for used, answer in zip(profile.scores, answers, strict=True):
        if answer is None or isinstance(answer, np.ndarray):
            raw = used.score(pod, nodes) if answer is None else answer[rows]
            weighted.append((used.weight, used.normalize(pod, nodes, raw)))
        else:
            weighted.append((used.weight, answer))
    return sum_scores(weighted, len(rows))


def break_tie(pod: Pod, table: NodeTable, profile: Profile, tied: Rows) -> int:
    """One of the rows that share the best total: by the profile's tie rule, then by the lowest rank."""
    if profile.tie is not None and len(tied) > 1:
        scores = profile.tie.score(pod, Nodes(table, tied))
        tied = tied[scores == scores.max()]
    return int(tied[table.rank[tied].argmin()])


def full_verdict(pod: Pod, table: NodeTable, column: Column, around: list[tuple[int, UsedFilter]]) -> Verdicts:
    """Verdicts of all filters: the remembered ones, and those that must see the whole cluster each time.

    A node counts under the first filter that refuses it, in the order of the profile, whichever kind that filter is.
    """
    verdict = column.verdict
    for at, used in around:
        open_rows = table.every_row
        if verdict.any():
            open_rows = np.flatnonzero((verdict == 0) | (verdict > at * CODES_PER_FILTER))
        codes = used.refuses(pod, Nodes(table, open_rows))
        refused = np.flatnonzero(codes)
        if len(refused):
            verdict = verdict.copy() if verdict is column.verdict else verdict
            verdict[open_rows[refused]] = codes[refused].astype(np.uint16) + at * CODES_PER_FILTER
    return verdict


def count_reasons(pod: Pod, profile: Profile, verdict: Verdicts) -> dict[str, int]:
    """Count the nodes by reason, the most frequent first, equal counts in the order of the filters."""
    counts: dict[str, int] = {}
    per_code = np.bincount(verdict)
    for code in per_code.nonzero()[0].tolist():
        if code:
            for reason in profile.filters[code // CODES_PER_FILTER].why(pod, code % CODES_PER_FILTER):
                counts[reason] = counts.get(reason, 0) + int(per_code[code])
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def nan_error(pod: Pod, table: NodeTable, profile: Profile, row: int) -> PolicyError:
    """What is told of scores that have no order."""
    names = " + ".join(f'"{used.name}"' for used in profile.scores)
    return PolicyError(f"{names} scored node {table.names[row]} NaN for {pod.name}")
