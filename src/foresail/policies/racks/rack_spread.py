"""Rack spreading: keep replicas apart, so that one rack takes few of them down."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Nodes, Pod, Scores
from foresail.policies.racks.topology import racks, sums_over


class RackSpread:
    """Place the pod in the rack with the fewest of its peers, and there on the node with the fewest.

    With n peers in all, r in the node's rack and p on the node: score = 100 · (1 - (r + p/(n+1))/(n+1)). A node of a
    rack with fewer peers is always better, whatever stands on the node. Pods of no group: 0 everywhere.

    Racks are the node label `rack`; a node without it stands alone.
    """

    row_wise = False

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        if not pod.group:
            return np.zeros(len(nodes))
        table = nodes.table
        peers = table.peers(pod.group)
        more = int(peers.sum()) + 1
        crowd = sums_over(racks(table), peers) + peers / more
        return 100.0 * (1.0 - crowd[nodes.index] / more)
