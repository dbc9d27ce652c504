"""VolumeBinding: nodes that reach a pod's volumes, or where volumes for its claims can be found or made."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Codes, Mask, Nodes, Pod
from foresail.core.objects import Claim, ClusterObjects, StorageClass, Volume
from foresail.core.table import NodeTable
from foresail.core.volumes import VolumePlan
from foresail.policies.kubernetes.selecting import nodes_of_terms, nodes_with_all, special

_OUT_OF_REACH, _NOT_FOUND, _NO_SPACE, _GONE = 1, 2, 4, 8
_REASONS = {
    _OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    _NOT_FOUND: "node(s) didn't find available persistent volumes to bind",
    _NO_SPACE: "node(s) did not have enough free storage",
    _GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


class KubeVolumeBinding:
    """Keep to nodes that reach the pod's bound volumes and have volumes for its unbound claims; as VolumeBinding.

    An unbound claim takes the smallest free volume that will do, small claims first; what finds none must be made by
    the class's provisioner, in a topology the class allows and where the driver says there is room.
    """

    row_wise = True
    resolvable = False

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        table, objects = nodes.table, nodes.table.objects
        found = [objects.claim(pod.spec.namespace, volume.claim) for volume in special(pod).claims]
        claims = [claim for claim in found if claim is not None]
        codes = np.zeros(table.count, dtype=np.uint8)
        for claim in claims:
            if claim.bound:
                volume = objects.volumes.get(claim.volume)
                missed = np.ones(table.count, dtype=np.bool_) if volume is None else ~reaching(table, volume)
                codes[missed & (codes == 0)] = _GONE if volume is None else _OUT_OF_REACH
        unbound = [claim for claim in claims if not claim.bound]
        if unbound:
            codes |= _unbound_codes(table, unbound)
        return codes[nodes.index]

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return tuple(reason for bit, reason in _REASONS.items() if code & bit)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        return not special(pod).claims


def reaching(table: NodeTable, volume: Volume) -> Mask:
    """Nodes from which the volume can be used; shape (all nodes,)."""
    return nodes_of_terms(table, volume.nodes, by_name=False)


def _unbound_codes(table: NodeTable, unbound: list[Claim]) -> Codes:
    # A claim that has been given a node is made there and nowhere else.
    elsewhere = np.zeros(table.count, dtype=np.bool_)
    for claim in unbound:
        if claim.selected_node:
            elsewhere[[name != claim.selected_node for name in table.names]] = True
    missing: list[tuple[Claim, Mask]] = [
        (claim, np.ones(table.count, dtype=np.bool_)) for claim in unbound if claim.selected_node
    ]
    missing += [(claim, ~_anywhere(table, found)) for claim, found in _find_volumes(table, unbound)]
    codes = np.zeros(table.count, dtype=np.uint8)
    for claim, wanted in missing:
        # The first claim that cannot be made decides; those after it are not looked at.
        codes = np.where(wanted & (codes == 0), _making_codes(table, claim), codes)
    return np.where(elsewhere, _NOT_FOUND, codes).astype(np.uint8)


def plan_volumes(pod: Pod, table: NodeTable, row: int) -> VolumePlan:
    """What the pod's unbound claims get on the node of a row, as the filter assumed when it let the pod there."""
    objects = table.objects
    found = [objects.claim(pod.spec.namespace, volume.claim) for volume in special(pod).claims]
    named = {(claim.namespace, claim.name): claim for claim in found if claim is not None and not claim.bound}
    unbound = [claim for claim in named.values() if objects.binds_later(claim)]
    if not unbound:
        return VolumePlan()
    static = [
        (claim, volume) for claim, taken in _find_volumes(table, unbound) for volume, where in taken if where[row]
    ]
    matched = {claim.name for claim, _ in static}
    return VolumePlan(tuple(static), tuple(claim for claim in unbound if claim.name not in matched))


Found = list[tuple[Volume, Mask]]
"""Volumes that a claim may get, each with the nodes where it does."""


def _find_volumes(table: NodeTable, unbound: list[Claim]) -> list[tuple[Claim, Found]]:
    """Volumes for the claims that may have one that exists, small claims first."""
    free = {name: np.ones(table.count, dtype=np.bool_) for name in sorted(table.objects.volumes)}
    to_find = sorted(
        (claim for claim in unbound if not claim.selected_node), key=lambda claim: claim.request_bytes or 0
    )
    return [(claim, _take_volume(table, claim, free)) for claim in to_find]


def _anywhere(table: NodeTable, found: Found) -> Mask:
    where = np.zeros(table.count, dtype=np.bool_)
    for _, taken in found:
        where |= taken
    return where


def _take_volume(table: NodeTable, claim: Claim, free: dict[str, Mask]) -> Found:
    """The volumes that the claim gets, which are then no longer free there."""
    missing = np.ones(table.count, dtype=np.bool_)
    volumes = [table.objects.volumes[name] for name in free]
    of_class = [volume for volume in volumes if volume.storage_class == claim.storage_class]
    suited = [volume for volume in of_class if _suits(volume, claim)]
    kept = next((volume for volume in suited if volume.claim is not None), None)
    if kept is not None:
        # A volume that is kept for this claim is the only one it gets.
        candidates = [kept]
    else:
        candidates = sorted(
            (volume for volume in suited if _is_free_for(volume, claim)), key=lambda volume: volume.capacity_bytes
        )
    found: Found = []
    for volume in candidates:
        taken = missing & free[volume.name] & reaching(table, volume)
        if taken.any():
            free[volume.name] &= ~taken
            missing &= ~taken
            found.append((volume, taken))
    return found


def _suits(volume: Volume, claim: Claim) -> bool:
    """What both a free volume and one that is kept for the claim must meet."""
    return (
        (volume.claim is None or _is_kept_for(volume, claim))
        and volume.capacity_bytes >= (claim.request_bytes or 0)
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def _is_kept_for(volume: Volume, claim: Claim) -> bool:
    if volume.claim is None:
        return False
    namespace, name, uid = volume.claim
    return (namespace, name) == (claim.namespace, claim.name) and uid in {"", claim.uid}


def _is_free_for(volume: Volume, claim: Claim) -> bool:
    return (
        volume.phase == "Available"
        and (claim.selector is None or claim.selector.selects(dict(volume.labels)))
        and claim.access_modes <= volume.access_modes
    )


def _making_codes(table: NodeTable, claim: Claim) -> Codes:
    """Why a volume for the claim cannot be made on each node, 0 where it can."""
    objects = table.objects
    storage_class = objects.volume_class(claim)
    if storage_class is None or storage_class.provisioner in {"", _NO_PROVISIONER}:
        return np.full(table.count, _NOT_FOUND, dtype=np.uint8)
    allowed = np.zeros(table.count, dtype=np.bool_)
    for term in storage_class.allowed_topologies:
        allowed |= nodes_with_all(table, term)
    if not storage_class.allowed_topologies:
        allowed[:] = True
    roomy = _with_room(table, objects, storage_class, claim)
    return np.where(allowed, np.where(roomy, 0, _NO_SPACE), _NOT_FOUND).astype(np.uint8)


def _with_room(table: NodeTable, objects: ClusterObjects, storage_class: StorageClass, claim: Claim) -> Mask:
    roomy = np.zeros(table.count, dtype=np.bool_)
    if claim.request_bytes is None or storage_class.provisioner not in objects.drivers_with_capacity:
        return ~roomy
    for capacity in objects.capacities.values():
        if capacity.storage_class != storage_class.name or capacity.nodes is None:
            continue
        if capacity.largest_bytes is not None and capacity.largest_bytes >= claim.request_bytes:
            roomy |= nodes_with_all(table, capacity.nodes.requirements)
    return roomy
