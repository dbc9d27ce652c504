"""`decide`: one pod, all nodes, one profile, one answer. Everything that places a pod comes through here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.core.memory import CODES_PER_FILTER, Column, Memory, sum_scores
from foresail.core.model import Nodes, NoFit, Placement, Pod, Rows
from foresail.core.profile import Profile
from foresail.core.table import NodeTable
from foresail.errors import PolicyError

Verdicts = npt.NDArray[np.uint16]


def decide(pod: Pod, table: NodeTable, profile: Profile) -> Placement | NoFit:
    """The best node for the pod and the devices on it, or why there is none. Changes nothing."""
    memory = table.memories.get(profile)
    if memory is None:
        memory = table.memories[profile] = Memory(table, profile)
    if not table.count:
        return NoFit(pod.name, 0, {})
    column = memory.column(pod)
    if memory.keeps_totals:
        place = column.best()
        best = float(column.total[place])
        if best == -np.inf:
            # Nothing has been touched since the last pod of this shape was refused: the reasons are still the same.
            if column.reasons is None:
                column.reasons = count_reasons(pod, profile, column.verdict)
            return NoFit(pod.name, table.count, column.reasons)
        if profile.tie is not None:
            tied = table.by_rank[np.flatnonzero(column.total == best)]
            place = int(table.place[_break_tie(pod, table, profile, tied)])
        row = int(table.by_rank[place])
    else:
        verdict = full_verdict(pod, table, profile, column)
        rows = np.flatnonzero(verdict == 0)
        if not len(rows):
            return NoFit(pod.name, table.count, count_reasons(pod, profile, verdict))
        row, best = _choose(pod, table, profile, memory, column, rows)
    if best != best:  # noqa: PLR0124 - only NaN differs from itself, and argmax finds it first
        raise PolicyError(f"{_names(profile)} scored node {table.names[row]} NaN for {pod.name}")
    devices = profile.devices.devices(pod, table.all, row) if pod.shape.gpu_count else ()
    return Placement(row, table.names[row], devices, best)


def _choose(
    pod: Pod, table: NodeTable, profile: Profile, memory: Memory, column: Column, rows: Rows
) -> tuple[int, float]:
    """The best of the feasible rows where totals depend on all of them."""
    if len(rows) == 1:
        return int(rows[0]), 0.0
    nodes = Nodes(table, rows)
    raw_of = dict(zip(map(id, memory.scores), column.raw, strict=True))
    weighted = []
    for used in profile.scores:
        remembered = raw_of.get(id(used))
        raw = used.score(pod, nodes) if remembered is None else remembered[rows]
        weighted.append((used.weight, used.normalize(pod, nodes, raw)))
    total = sum_scores(weighted, len(rows))
    best = float(total.max())
    tied = rows[total == best] if best == best else rows[np.isnan(total)]  # noqa: PLR0124 - NaN is reported by decide
    return _break_tie(pod, table, profile, tied), best


def _break_tie(pod: Pod, table: NodeTable, profile: Profile, tied: Rows) -> int:
    """One of the rows that share the best total: by the profile's tie rule, then by the lowest rank."""
    if profile.tie is not None and len(tied) > 1:
        scores = profile.tie.score(pod, Nodes(table, tied))
        tied = tied[scores == scores.max()]
    return int(tied[table.rank[tied].argmin()])


def full_verdict(pod: Pod, table: NodeTable, profile: Profile, column: Column) -> Verdicts:
    """Verdicts of all filters: the remembered ones, and those that must see the whole cluster each time.

    A node counts under the first filter that refuses it, in the order of the profile, whichever kind that filter is.
    """
    if all(used.row_wise is not False for used in profile.filters):
        return column.verdict
    verdict = column.verdict.copy()
    for at, used in enumerate(profile.filters):
        if used.row_wise is not False or used.skips(pod, table.all):
            continue
        open_rows = np.flatnonzero((verdict == 0) | (verdict > at * CODES_PER_FILTER))
        codes = used.refuses(pod, Nodes(table, open_rows))
        refused = codes != 0
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


def _names(profile: Profile) -> str:
    return " + ".join(f'"{used.name}"' for used in profile.scores)
