"""The objects of a cluster that are neither nodes nor pods, as far as placing pods looks at them."""

from __future__ import annotations

from dataclasses import dataclass, field

from foresail.core.kubernetes import NodeTerm, Requirement, Selector

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class StorageClass:
    """Where volumes of a class come from, and when."""

    name: str
    provisioner: str = ""
    waits: bool = False
    """Volumes are bound when the first pod that uses them is placed (WaitForFirstConsumer)."""
    allowed_topologies: tuple[tuple[Requirement, ...], ...] = ()
    """Alternatives, one of which a node must meet for a volume to be made there; none for anywhere."""


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    capacity_bytes: int = 0
    storage_class: str = ""
    access_modes: frozenset[str] = frozenset()
    mode: str = "Filesystem"
    phase: str = "Available"
    labels: tuple[tuple[str, str], ...] = ()
    nodes: tuple[NodeTerm, ...] | None = None
    """Alternatives, one of which a node must meet; None for a volume that every node reaches."""
    claim: tuple[str, str, str] | None = None
    """Namespace, name and uid of the claim it is bound to or kept for; the uid may be empty."""
    driver: str = ""
    """CSI driver, with the volume's handle there; empty for a volume of another kind."""
    handle: str = ""
    attributes_class: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    uid: str = ""
    storage_class: str = ""
    request_bytes: int | None = None
    access_modes: frozenset[str] = frozenset()
    mode: str = "Filesystem"
    selector: Selector | None = None
    """Labels of volumes that will do; None for any volume."""
    volume: str = ""
    bound: bool = False
    """Binding is complete; a claim that only names its volume is not there yet."""
    selected_node: str = ""
    phase: str = "Pending"
    attributes_class: str = ""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class StorageCapacity:
    """What is left for new volumes of a class on nodes of a topology (CSIStorageCapacity)."""

    storage_class: str
    largest_bytes: int | None
    """The largest volume that still fits; None if the driver does not say."""
    nodes: Selector | None


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of the pods it selects may be made to go now."""

    namespace: str
    name: str
    selector: Selector | None
    """Of pods in its namespace; None selects nothing."""
    allowed: int = 0
    """`status.disruptionsAllowed`."""
    disrupted: frozenset[str] = frozenset()
    """Names of pods on their way out that are counted in `allowed` already."""


@dataclass(slots=True)
class ClusterObjects:
    """All of them by name. After a change tell the table: `table.objects_changed()`."""

    namespaces: dict[str, Labels] = field(default_factory=dict)
    services: dict[tuple[str, str], Labels] = field(default_factory=dict)
    """Namespace and name to the labels a service selects by; services without a selector are left out."""
    controllers: dict[tuple[str, str, str], Selector] = field(default_factory=dict)
    """Kind (ReplicaSet, StatefulSet, ReplicationController), namespace and name to the selector."""
    storage_classes: dict[str, StorageClass] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    """By namespace and name."""
    volume_limits: dict[str, dict[str, int]] = field(default_factory=dict)
    """Node to CSI driver to the most volumes it attaches there (CSINode)."""
    drivers_with_capacity: set[str] = field(default_factory=set)
    """CSI drivers that say how much storage is left (CSIDriver.spec.storageCapacity)."""
    capacities: dict[tuple[str, str], StorageCapacity] = field(default_factory=dict)
    """By namespace and name."""
    attachments: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Name of a VolumeAttachment to its node, driver and volume."""
    budgets: dict[tuple[str, str], DisruptionBudget] = field(default_factory=dict)
    """By namespace and name. No filter looks at them, so a change need not be told to the table."""

    def claim(self, namespace: str, name: str) -> Claim | None:
        return self.claims.get((namespace, name))

    def volume_class(self, claim: Claim) -> StorageClass | None:
        return self.storage_classes.get(claim.storage_class)

    def binds_later(self, claim: Claim) -> bool:
        """Whether the claim is bound only when a pod that uses it is placed."""
        found = self.volume_class(claim)
        return not claim.volume and found is not None and found.waits
