"""ImageLocality: prefer nodes that have the pod's images already."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Ints, Nodes, Pod, Scores
from foresail.core.table import NodeTable
from foresail.policies.kubernetes.scaling import BEST
from foresail.policies.kubernetes.selecting import remembered, special

_LEAST_BYTES = 23 * 2**20
_MOST_BYTES = 1000 * 2**20
"""For each container."""


class KubeImageLocality:
    """Prefer nodes that have the pod's images already, large ones above all; as kube-scheduler's ImageLocality.

    An image on a node counts int(its size · the part of all nodes that have it). The sum s is cut to 23 MiB … 1000 MiB
    for each container, and score = 100·(s - 23 MiB) div (1000 MiB·containers - 23 MiB): the containers stretch the
    upper end alone.
    """

    row_wise = True

    def score(self, pod: Pod, nodes: Nodes) -> Scores:
        own = special(pod)
        total = np.zeros(len(nodes), dtype=np.int64)
        worth = _worth(nodes.table, None) if own.images else {}
        for image in own.images:
            if image in worth:
                total += worth[image][nodes.index]
        most = _MOST_BYTES * own.container_count
        return BEST * (np.clip(total, _LEAST_BYTES, most) - _LEAST_BYTES) // (most - _LEAST_BYTES)

    def same_for_all(self, pod: Pod, nodes: Nodes) -> float | None:
        images = special(pod).images
        return None if images and not _worth(nodes.table, None).keys().isdisjoint(images) else 0.0


@remembered
def _worth(table: NodeTable, _key: None) -> dict[str, Ints]:
    """Image to what it counts on each node; shape (all nodes,)."""
    size_of: dict[str, int] = {}
    rows_of: dict[str, list[int]] = {}
    for row, node in enumerate(table.specs):
        for name, size in dict(node.kubernetes.images).items() if node.kubernetes else ():
            # Kubernetes keeps the size that the first node with the image told it.
            size_of.setdefault(name, size)
            rows_of.setdefault(name, []).append(row)
    worth = {}
    for name, rows in rows_of.items():
        worth[name] = np.zeros(table.count, dtype=np.int64)
        worth[name][rows] = int(size_of[name] * (len(rows) / table.count))
    return worth
