"""The kinds of objects that are read and written, and where the API server has them: the one table of paths."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of object in one version of its API."""

    kind: str
    api_version: str
    """Group and version as objects write it: `v1`, `apps/v1`."""
    plural: str
    namespaced: bool = True
    optional: bool = False
    """Not every cluster serves it."""
    dispensable: bool = False
    """An account may lack the right to list it, and go on without."""

    @property
    def group(self) -> str:
        """The API group, empty for that of pods and nodes."""
        return self.api_version.rpartition("/")[0]

    @property
    def path(self) -> str:
        """All objects there are; those without a namespace are made here."""
        return f"{self._root}/{self.plural}"

    def within(self, namespace: str) -> str:
        """All objects of a namespace; new ones are made here."""
        return f"{self._root}/namespaces/{namespace}/{self.plural}" if self.namespaced else self.path

    def named(self, name: str, namespace: str = "", *, part: str = "") -> str:
        """One object, or a part of it such as `status` or `binding`."""
        return f"{self.within(namespace)}/{name}" + (f"/{part}" if part else "")

    @property
    def _root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"


_STORAGE = "storage.k8s.io/v1"

NODE = Kind("Node", "v1", "nodes", namespaced=False)
POD = Kind("Pod", "v1", "pods")
NAMESPACE = Kind("Namespace", "v1", "namespaces", namespaced=False)
VOLUME = Kind("PersistentVolume", "v1", "persistentvolumes", namespaced=False)
CLAIM = Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims")
SERVICE_ACCOUNT = Kind("ServiceAccount", "v1", "serviceaccounts")
CONFIG_MAP = Kind("ConfigMap", "v1", "configmaps")
REPLICATION_CONTROLLER = Kind("ReplicationController", "v1", "replicationcontrollers")
REPLICA_SET = Kind("ReplicaSet", "apps/v1", "replicasets")
STATEFUL_SET = Kind("StatefulSet", "apps/v1", "statefulsets")
DEPLOYMENT = Kind("Deployment", "apps/v1", "deployments")
JOB = Kind("Job", "batch/v1", "jobs")
EVENT = Kind("Event", "events.k8s.io/v1", "events")
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases")
PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", namespaced=False, dispensable=True)
RUNTIME_CLASS = Kind("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", namespaced=False)

KINDS: dict[str, Kind] = {
    "Node": NODE,
    "Pod": POD,
    "Namespace": NAMESPACE,
    "Service": Kind("Service", "v1", "services"),
    "ReplicationController": REPLICATION_CONTROLLER,
    "ReplicaSet": REPLICA_SET,
    "StatefulSet": STATEFUL_SET,
    "PersistentVolume": VOLUME,
    "PersistentVolumeClaim": CLAIM,
    "StorageClass": Kind("StorageClass", _STORAGE, "storageclasses", namespaced=False),
    "CSINode": Kind("CSINode", _STORAGE, "csinodes", namespaced=False),
    "CSIDriver": Kind("CSIDriver", _STORAGE, "csidrivers", namespaced=False),
    "CSIStorageCapacity": Kind("CSIStorageCapacity", _STORAGE, "csistoragecapacities"),
    "VolumeAttachment": Kind("VolumeAttachment", _STORAGE, "volumeattachments", namespaced=False),
    "PodDisruptionBudget": Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets"),
    # Gangs. Kubernetes 1.35 serves the first of these, 1.36 the second and 1.37 the next two, where the feature is on.
    "Workload": Kind("Workload", "scheduling.k8s.io/v1alpha1", "workloads", optional=True),
    "PodGroup": Kind("PodGroup", "scheduling.k8s.io/v1alpha2", "podgroups", optional=True),
    "PodGroup.v1alpha3": Kind("PodGroup", "scheduling.k8s.io/v1alpha3", "podgroups", optional=True),
    "PodGroup.v1beta1": Kind("PodGroup", "scheduling.k8s.io/v1beta1", "podgroups", optional=True),
    "PodGroup.scheduling.x-k8s.io": Kind("PodGroup", "scheduling.x-k8s.io/v1alpha1", "podgroups", optional=True),
    "PodGroup.scheduling.volcano.sh": Kind("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups", optional=True),
}
"""What is watched: name of the watch, which is the kind where there is one of it, to the kind."""
