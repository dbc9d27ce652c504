"""What controllers weighed, as tables: every candidate, and the log of moved and kept jobs as it was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from foresail.core.control import Considering
from foresail.core.journal import Considered, Weighed
from foresail.results.tables import Columns


def candidate_tables(candidates: Sequence[Considered], controllers: Sequence[Any]) -> dict[str, Columns]:
    """The tables of a run's candidates; none where no controller tells what it weighs."""
    if not any(isinstance(one, Considering) for one in controllers):
        return {}
    return {"candidates": candidate_columns(candidates), "distribution": distribution_columns(candidates)}


def candidate_columns(candidates: Sequence[Considered]) -> Columns:
    """Every candidate; collect them with `journal.listen_to_candidates(candidates.append)`."""
    return {
        "time_s": np.array([one.time_s for one in candidates], dtype=np.float64),
        "by": [one.by for one in candidates],
        "pod": [one.pod for one in candidates],
        "job": [one.job for one in candidates],
        "from_node": [one.node for one in candidates],
        "to_node": [one.to_node for one in candidates],
        "gain": np.array([one.gain for one in candidates], dtype=np.float64),
        "cost": np.array([one.cost for one in candidates], dtype=np.float64),
        "unit": [one.unit for one in candidates],
        "outcome": [one.outcome.value for one in candidates],
        "why": [one.why for one in candidates],
    }


def distribution_columns(candidates: Sequence[Considered]) -> Columns:
    """One row for each job in each turn, however many nodes were weighed for it: where it went, or that it stayed."""
    went: dict[tuple[float, str, str], tuple[str, str]] = {}
    for one in candidates:
        turn = (one.time_s, one.by, one.job)
        to_node = one.to_node if one.outcome is Weighed.CHOSEN else ""
        known = went.get(turn)
        went[turn] = (one.node, to_node or (known[1] if known else ""))
    return {
        "time": np.array([time_s for time_s, _, _ in went], dtype=np.float64),
        "job": [job for _, _, job in went],
        "orginal_node": [node for node, _ in went.values()],
        "to_node": [to_node for _, to_node in went.values()],
    }
