"""VolumeRestrictions: disks that one node may mount only once, and claims that only one pod may use."""

from __future__ import annotations

import numpy as np

from foresail.core.model import Codes, Nodes, Pod
from foresail.policies.kubernetes.selecting import special

_DISK, _ONE_POD = 1, 2
_REASONS = {
    _DISK: "node(s) had no available disk",
    _ONE_POD: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod",
}


class KubeVolumeRestrictions:
    """Keep away from nodes where a disk of the pod is mounted already; as kube-scheduler's VolumeRestrictions.

    Disks may be shared that all pods only read, except AWS ones. A claim for one pod only (ReadWriteOncePod) that a pod
    uses anywhere closes every node.
    """

    row_wise = False
    only_worsens = True

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes:
        tenants = nodes.table.tenants
        own = special(pod)
        taken = tenants.anywhere(
            rows
            for mounted, rows in tenants.volumes.items()
            if any(disk.conflicts(other) for disk in own.disks for other in mounted.disks)
        )
        otherwise = _ONE_POD if self._is_in_use(pod, nodes) else 0
        return np.where(taken[nodes.index], _DISK, otherwise).astype(np.uint8)

    def _is_in_use(self, pod: Pod, nodes: Nodes) -> bool:
        namespace, objects = pod.spec.namespace, nodes.table.objects
        alone = set()
        for volume in special(pod).claims:
            claim = objects.claim(namespace, volume.claim)
            if claim is not None and not volume.ephemeral and "ReadWriteOncePod" in claim.access_modes:
                alone.add(volume)
        return any(
            mounted.namespace == namespace and alone.intersection(mounted.claims)
            for mounted in nodes.table.tenants.volumes
        )

    def why(self, _pod: Pod, code: int) -> tuple[str, ...]:
        return (_REASONS[code],)

    def skips(self, pod: Pod, _nodes: Nodes) -> bool:
        own = special(pod)
        return not own.disks and not own.claims
