"""Rack packing: bring the members of a gang close together."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Ints, Nodes, Pod, Scores
from foresail.core.spec import WHOLE_GPU_MILLI
from foresail.policies.racks.topology import racks, servers, sums_over

_MOST_COPIES = 1 << 20
"""What a node counts for where the pod asks for nothing."""


class RackPack:
    """Place the pod near its peers, the members of its gang or replica set that stand somewhere already.

    Score = 100 · Σ over the peers of closeness / (3 · peers), where a peer on the same node is 3 close, on the same
    server 2, in the same rack 1, elsewhere 0. The first of a group goes where the rest has most room: 100 · copies of
    the pod that fit into the node's rack / copies that fit into the best rack. Pods of no group: 0 everywhere.

    Racks and servers are the node labels `rack` and `server`; a node without them stands alone.
    """

    row_wise = False

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        if not pod.group:
            return np.zeros(len(nodes))
        table = nodes.table
        peers = table.peers(pod.group)
        count = int(peers.sum())
        if count:
            closeness = peers + sums_over(servers(table), peers) + sums_over(racks(table), peers)
            return 100.0 * closeness[nodes.index] / (3 * count)
        room = sums_over(racks(table), _copies(pod, table.all))
        return 100.0 * room[nodes.index] / max(1, int(room.max(initial=0)))


def _copies(pod: Pod, nodes: Nodes) -> Ints:
    """How many pods like this one each node could still take."""
    copies = np.full(len(nodes), _MOST_COPIES, dtype=np.int64)
    for resource in np.flatnonzero(pod.request > 0):
        np.minimum(copies, nodes.free[:, resource] // pod.request[resource], out=copies)
    if pod.gpu_count:
        if pod.shape.is_share and pod.gpu_milli:
            by_device = (nodes.gpu_free // pod.gpu_milli).sum(axis=1)
        else:
            by_device = (nodes.gpu_free >= WHOLE_GPU_MILLI).sum(axis=1) // pod.gpu_count
        np.minimum(copies, by_device, out=copies)
        copies[~pod.shape.model_allowed[nodes.gpu_model]] = 0
    copies[nodes.down | nodes.unschedulable] = 0
    return np.maximum(copies, 0)
