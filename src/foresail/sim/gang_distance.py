"""How far apart the members of gangs stand that are to be close."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from foresail.core.spec import Workload
from foresail.core.table import NodeTable
from foresail.sim.ledger import Ledger


def gang_distance(workload: Workload, ledger: Ledger, table: NodeTable) -> dict[str, Any] | None:
    """How many gangs have a topology and started, and of all pairs of their members, by where each started last, the
    part that does not share a value of the closest label; None if no gang has a topology.
    """
    if not any(gang.topology for gang in workload.gangs):
        return None
    started = pairs = together = 0
    for number, gang in enumerate(workload.gangs):
        rows = [ledger.row[index] for index in np.flatnonzero(workload.gang_of == number).tolist()]
        rows = [row for row in rows if row >= 0]
        if not gang.topology or not rows:
            continue
        started += 1
        codes = table.label(gang.topology[0])
        # A node without the label is close to itself alone.
        counts = Counter((int(codes[row]), -1 if codes[row] >= 0 else row) for row in rows)
        pairs += len(rows) * (len(rows) - 1) // 2
        together += sum(count * (count - 1) // 2 for count in counts.values())
    return {"started": started, "pairs_apart_pct": 100.0 * (pairs - together) / pairs if pairs else None}
