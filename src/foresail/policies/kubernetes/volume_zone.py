"""VolumeZone: a volume of a zone or region is used there."""

from __future__ import annotations

import numpy as np

from foresail.core.kubernetes import Requirement
from foresail.core.model import Mask, Nodes, Pod
from foresail.core.table import NodeTable
from foresail.policies.kubernetes.selecting import ZONE, nodes_with, special

_REGION = "topology.kubernetes.io/region"
_TODAY = {"failure-domain.beta.kubernetes.io/zone": ZONE, "failure-domain.beta.kubernetes.io/region": _REGION}
_KEYS = (*_TODAY, ZONE, _REGION)


class KubeVolumeZone:
    """Keep to nodes in the zones and regions that the labels of the pod's volumes name; as VolumeZone.

    A node without any such label passes; one that has some and lacks the volume's does not. A label of the beta names
    is looked for under today's name too.
    """

    row_wise = True
    resolvable = False
    reason = "node(s) had no available volume zone"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        table, objects = nodes.table, nodes.table.objects
        matching = np.ones(table.count, dtype=np.bool_)
        for volume in special(pod).claims:
            claim = None if volume.ephemeral else objects.claim(pod.spec.namespace, volume.claim)
            bound = None if claim is None else objects.volumes.get(claim.volume)
            for key, value in bound.labels if bound is not None else ():
                if key in _KEYS:
                    matching &= _in_one_of(table, key, tuple(part.strip() for part in value.split("__")))
        return (matching | ~_has_any(table))[nodes.index]

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not special(pod).claims


def _in_one_of(table: NodeTable, key: str, values: tuple[str, ...]) -> Mask:
    matching = nodes_with(table, Requirement(key, "In", values))
    if key not in _TODAY:
        return matching
    return np.where(table.label(key) >= 0, matching, nodes_with(table, Requirement(_TODAY[key], "In", values)))


def _has_any(table: NodeTable) -> Mask:
    found = np.zeros(table.count, dtype=np.bool_)
    for key in _KEYS:
        found |= table.label(key) >= 0
    return found
