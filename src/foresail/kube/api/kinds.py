"""The kinds of objects that are watched, and where the API server has them."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One watch: the kind that comes from it and its path."""

    kind: str
    path: str
    optional: bool = False
    """Not every cluster serves it."""
    dispensable: bool = False
    """An account may lack the right to list it, and go on without."""


KINDS: dict[str, Kind] = {
    "Node": Kind("Node", "/api/v1/nodes"),
    "Pod": Kind("Pod", "/api/v1/pods"),
    "Namespace": Kind("Namespace", "/api/v1/namespaces"),
    "Service": Kind("Service", "/api/v1/services"),
    "ReplicationController": Kind("ReplicationController", "/api/v1/replicationcontrollers"),
    "ReplicaSet": Kind("ReplicaSet", "/apis/apps/v1/replicasets"),
    "StatefulSet": Kind("StatefulSet", "/apis/apps/v1/statefulsets"),
    "PersistentVolume": Kind("PersistentVolume", "/api/v1/persistentvolumes"),
    "PersistentVolumeClaim": Kind("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    "StorageClass": Kind("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    "CSINode": Kind("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    "CSIDriver": Kind("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers"),
    "CSIStorageCapacity": Kind("CSIStorageCapacity", "/apis/storage.k8s.io/v1/csistoragecapacities"),
    "VolumeAttachment": Kind("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments"),
    "PodDisruptionBudget": Kind("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets"),
    # Kubernetes 1.36 serves one of these, 1.37 others, and only where the feature is on.
    "PodGroup": Kind("PodGroup", "/apis/scheduling.k8s.io/v1alpha2/podgroups", optional=True),
    "PodGroup.v1alpha3": Kind("PodGroup", "/apis/scheduling.k8s.io/v1alpha3/podgroups", optional=True),
    "PodGroup.v1beta1": Kind("PodGroup", "/apis/scheduling.k8s.io/v1beta1/podgroups", optional=True),
    "PodGroup.scheduling.x-k8s.io": Kind("PodGroup", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", optional=True),
}
"""Name of the watch, which is the kind where there is one of it, to what is watched."""
