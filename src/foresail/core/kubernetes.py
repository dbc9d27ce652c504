"""What only Kubernetes says of nodes and pods: affinity, spreading, ports, images and volumes, ready to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

UNSTATED_CPU_MILLI = 100
UNSTATED_MEMORY_BYTES = 200 * 2**20
"""What Kubernetes takes a container for, when it scores, that does not say how much it needs."""

Term = TypeVar("Term")

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the address a host port is taken on, not one that is listened on


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a selector: a label key, an operator and its values."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist; for labels of nodes also Gt and Lt."""
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """Whether a label with this value, None for no such label, meets the requirement."""
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            return value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        try:
            found, bound = int(value), int(self.values[0])
        except ValueError:
            return False
        return found > bound if self.operator == "Gt" else self.operator == "Lt" and found < bound


@dataclass(frozen=True, slots=True)
class Selector:
    """Labels that are looked for; all requirements must be met, and none at all are met by everything.

    Where Kubernetes has no selector rather than an empty one, nothing is selected: that is None, not `Selector()`.
    """

    requirements: tuple[Requirement, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(line.accepts(labels.get(line.key)) for line in self.requirements)


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One alternative of a node affinity: labels and names that a node must have. An empty term fits no node."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()
    """`matchFields`: requirements on `metadata.name`."""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that an affinity or anti-affinity is about, and how near they must stand to count."""

    topology_key: str
    selector: Selector | None
    namespaces: tuple[str, ...]
    """As listed; the pod's own where the term names neither namespaces nor a selector for them."""
    namespace_selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class Weighted(Generic[Term]):
    """A term that is preferred, not required."""

    weight: int
    term: Term


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """How unevenly pods may stand over the domains of a topology."""

    max_skew: int
    topology_key: str
    selector: Selector | None
    hard: bool
    """True for DoNotSchedule, False for ScheduleAnyway."""
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a pod takes."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: HostPort) -> bool:
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in {self.address, other.address}


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk named in the pod itself (no claim), which pods on one node may share only in some ways."""

    kind: str
    """The volume's field: awsElasticBlockStore, gcePersistentDisk, iscsi or rbd."""
    name: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    """Of an rbd disk, sorted; two are the same disk only if they share one."""

    def conflicts(self, other: Disk) -> bool:
        if (self.kind, self.name) != (other.kind, other.name):
            return False
        if self.kind == "rbd" and not set(self.monitors).intersection(other.monitors):
            return False
        return self.kind == "awsElasticBlockStore" or not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """A volume that comes from a claim in the pod's namespace."""

    claim: str
    ephemeral: bool = False
    """The claim is made for this pod alone, from a template in it."""


@dataclass(frozen=True, slots=True)
class KubernetesPod:
    """What a pod asks beyond resources, labels, tolerations and its node selector."""

    required_nodes: tuple[NodeTerm, ...] | None = None
    """Alternatives, one of which the node must meet; None where the pod requires nothing."""
    preferred_nodes: tuple[Weighted[NodeTerm], ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    preferred_affinity: tuple[Weighted[PodTerm], ...] = ()
    preferred_anti_affinity: tuple[Weighted[PodTerm], ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    disks: tuple[Disk, ...] = ()
    claims: tuple[ClaimVolume, ...] = ()
    resource_claims: tuple[str, ...] = ()
    """Resource claims by name; one that is made from a template by its name within the pod."""
    images: tuple[str, ...] = ()
    """With their tags, one for each container and each image volume that names one."""
    container_count: int = 1
    """Containers and init containers."""
    features: tuple[str, ...] = ()
    """What the node's kubelet must have declared."""
    scored_request: tuple[int, int] | None = None
    """See `PodSpec.scored_request`; None where it follows from the request."""
    held_request: tuple[int, int] | None = None
    """See `PodSpec.held_request`; None where it follows from the request."""
    terminating: bool = False

    @property
    def has_terms(self) -> bool:
        """Whether other pods are drawn or kept away by this one."""
        return bool(self.affinity or self.anti_affinity or self.preferred_affinity or self.preferred_anti_affinity)


@dataclass(frozen=True, slots=True)
class KubernetesNode:
    """What a node has beyond resources, labels and taints."""

    images: tuple[tuple[str, int], ...] = ()
    """Names, each with the image's size in bytes."""
    features: tuple[str, ...] = ()
    """What its kubelet has declared."""
    takes_no_pods: bool = False
    """It states what it has, and no place for a pod among it; to kube-scheduler that is a full node."""
