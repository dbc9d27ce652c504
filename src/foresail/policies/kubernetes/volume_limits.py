"""NodeVolumeLimits: a CSI driver attaches only so many volumes to a node."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from foresail.core.kubernetes import ClaimVolume
from foresail.core.model import Ints, Mask, Nodes, Pod
from foresail.core.objects import ClusterObjects
from foresail.core.table import NodeTable
from foresail.policies.kubernetes.selecting import special

Attached = tuple[str, str]
"""Driver and handle of a volume."""


class KubeVolumeLimits:
    """Keep to nodes where no CSI driver would have to attach more volumes than it can; as NodeVolumeLimits.

    Counted are the volumes of the node's pods and those its VolumeAttachments name, each handle once; claims without a
    volume count for the driver of their class.
    """

    row_wise = True
    only_worsens = True
    reason = "node(s) exceed max volume count"

    def passes(self, pod: Pod, nodes: Nodes) -> Mask:
        table = nodes.table
        new = _attached(table.objects, pod.spec.namespace, special(pod).claims)
        passing = np.ones(table.count, dtype=np.bool_)
        by_pods = _where_mounted(table)
        for driver in {driver for driver, _ in new}:
            limit = _limits(table, driver)
            attached = _attached_count(table, driver, by_pods)
            # What the node's pods have already needs no further place; an attachment alone does not say so.
            added = np.zeros(table.count, dtype=np.int64)
            for volume in new:
                if volume[0] == driver:
                    added += ~by_pods.get(volume, np.zeros(table.count, dtype=np.bool_))
            passing &= (limit < 0) | (added == 0) | (attached + added <= limit)
        return passing[nodes.index]

    def skips(self, pod: Pod, nodes: Nodes) -> bool:
        return not special(pod).claims or not any(nodes.table.objects.volume_limits.values())


def _attached(objects: ClusterObjects, namespace: str, volumes: Iterable[ClaimVolume]) -> set[Attached]:
    """The CSI volumes behind claims."""
    found = set()
    for volume in volumes:
        claim = objects.claim(namespace, volume.claim)
        if claim is None:
            continue
        bound = objects.volumes.get(claim.volume)
        if bound is not None:
            if bound.driver and bound.handle:
                found.add((bound.driver, bound.handle))
            continue
        storage_class = objects.volume_class(claim)
        if storage_class is not None and storage_class.provisioner:
            # No handle yet; a space keeps this name apart from any real one.
            found.add((storage_class.provisioner, f"claim {namespace}/{claim.name}"))
    return found


def _where_mounted(table: NodeTable) -> dict[Attached, Mask]:
    """CSI volume to the nodes whose pods mount it; shape (all nodes,)."""
    where: dict[Attached, Mask] = {}
    for mounted, rows in table.tenants.volumes.items():
        for volume in _attached(table.objects, mounted.namespace, mounted.claims):
            where.setdefault(volume, np.zeros(table.count, dtype=np.bool_))[list(rows)] = True
    return where


def _attached_count(table: NodeTable, driver: str, by_pods: dict[Attached, Mask]) -> Ints:
    objects = table.objects
    where = {volume: mask.copy() for volume, mask in by_pods.items() if volume[0] == driver}
    for node, attacher, name in objects.attachments.values():
        volume = objects.volumes.get(name)
        if attacher == driver and volume is not None and volume.driver and node in table.row_of:
            key = (attacher, volume.handle)
            where.setdefault(key, np.zeros(table.count, dtype=np.bool_))[table.row_of[node]] = True
    total = np.zeros(table.count, dtype=np.int64)
    for mask in where.values():
        total += mask
    return total


def _limits(table: NodeTable, driver: str) -> Ints:
    """Most volumes of a driver on each node, -1 for no limit; shape (all nodes,)."""
    limits = np.full(table.count, -1, dtype=np.int64)
    for node, by_driver in table.objects.volume_limits.items():
        if driver in by_driver and node in table.row_of:
            limits[table.row_of[node]] = by_driver[driver]
    return limits
