"""What nodes offer and pods ask, as a trace or a cluster states it, before it is compiled into columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from foresail.core.kubernetes import UNSTATED_CPU_MILLI, UNSTATED_MEMORY_BYTES, KubernetesNode, KubernetesPod

WHOLE_GPU_MILLI = 1000
"""One whole GPU device, in milli-GPU."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's consent to a taint; empty fields match anything, as in Kubernetes.

    The operators Gt and Lt are those of Kubernetes' feature gate TaintTolerationComparisonOperators; a cluster where it
    is off accepts no pod with one.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in {"Gt", "Lt"}:
            return self._compares(taint.value)
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)

    def _compares(self, value: str) -> bool:
        """Whether the taint's number is above (Gt) or below (Lt) the toleration's; what is no number is neither."""
        own, other = _whole(self.value), _whole(value)
        if own is None or other is None:
            return False
        return other > own if self.operator == "Gt" else other < own


def _whole(text: str) -> int | None:
    """A number as Kubernetes takes it there: plain decimal digits within 64 bits."""
    if re.fullmatch(r"0|-?[1-9][0-9]*", text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What one node offers.

    `gpu_count` devices of `gpu_model`, each worth 1000 milli-GPU. `max_pods` 0 means no limit. `extended` are
    further resources by their Kubernetes name, in their own integer unit. `kubernetes` is what only Kubernetes says.
    """

    name: str
    cpu_milli: int
    memory_bytes: int
    gpu_count: int = 0
    gpu_model: str = ""
    max_pods: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    extended: tuple[tuple[str, int], ...] = ()
    unschedulable: bool = False
    kubernetes: KubernetesNode | None = None


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What a pod requests. Pods that request the same share one spec, and so one remembered score column.

    `gpu_milli` is per device; below 1000 only together with `gpu_count` 1 (a GPU share). `gpu_models` lists the
    allowed models as the trace wrote them (a model may stand twice); empty means any. `owner` names the
    replica set a pod belongs to, empty for none. `kubernetes` is what only Kubernetes says.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_count: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    extended: tuple[tuple[str, int], ...] = ()
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = "default"
    owner: str = ""
    kubernetes: KubernetesPod | None = None

    @property
    def scored_request(self) -> tuple[int, int]:
        """Milli-CPU and bytes that the waiting pod counts for in Kubernetes' NodeResourcesFit score."""
        stated = None if self.kubernetes is None else self.kubernetes.scored_request
        return stated or self._or_unstated

    @property
    def held_request(self) -> tuple[int, int]:
        """The same once the pod is on a node."""
        stated = None if self.kubernetes is None else self.kubernetes.held_request
        return stated or self._or_unstated

    @property
    def _or_unstated(self) -> tuple[int, int]:
        return self.cpu_milli or UNSTATED_CPU_MILLI, self.memory_bytes or UNSTATED_MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together or not at all."""

    name: str
    min_members: int
    timeout_s: float = 600.0
    """How long the gang may wait for its members and for room before it is given up."""
    topology: tuple[str, ...] = ()
    """Node labels from the closest to the widest, such as rack and zone: members go to nodes that share a value."""
    topology_required: bool = False
    """Whether they wait until they can, of the widest label at least; else they go anywhere if they cannot."""
    later_members: int = 0
    """How many of the minimum are made only once the others run, as a launcher that waits for its workers: these are
    declared, but not waited for."""

    @property
    def at_once(self) -> int:
        """How many members start together."""
        return max(1, self.min_members - self.later_members)


def parse_topology(text: str) -> tuple[tuple[str, ...], bool]:
    """`topology` and `topology_required` of a gang as people write them: `required:rack`, `preferred:rack,zone`; empty
    for none.
    """
    form, _, rest = text.partition(":")
    labels = tuple(label.strip() for label in rest.split(",")) if text else ()
    if text and (form not in {"required", "preferred"} or not all(labels)):
        raise ValueError(
            f'the topology is "{text}"; write required: or preferred: and node labels from the closest to the widest, '
            "for example preferred:rack,topology.kubernetes.io/zone"
        )
    return labels, form == "required"


def written_topology(gang: Gang) -> str:
    """As `parse_topology` reads it."""
    form = "required" if gang.topology_required else "preferred"
    return f"{form}:{','.join(gang.topology)}" if gang.topology else ""


@dataclass(frozen=True, slots=True)
class Training:
    """What a training job tells of itself while it works: a row every so many steps, as it gets on with its work.

    `loss` and `accuracy` are values at equal distances of the work, the first before it begins and the last at its
    end; between them they are interpolated. Empty for what it does not tell. `start_cpu_s` are CPU-seconds that it
    needs each time it starts, before it gets on.
    """

    name: str
    steps: int
    report_every: int
    loss: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()
    start_cpu_s: float = 0.0


def _no_floats() -> npt.NDArray[np.float64]:
    return np.empty(0, dtype=np.float64)


def _no_ints() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class Workload:
    """All pods of a trace as columns; row order is the order of the input.

    `spec_of[i]` indexes `specs`. `arrival_s` counts from the start of the trace; `duration_s` is how long the pod
    runs once placed, infinity if the trace does not say. `gang_of[i]` indexes `gangs`, -1 for none. Where pods share
    CPU, `cpu_limit_milli` is the most that a pod may use (0: no limit), `cpu_weight` what it counts for against others
    (0: what it requests), `work_cpu_s` the CPU-seconds it has to do (not a number: its duration at what it requests);
    decisions do not depend on them. `training_of[i]` indexes `trainings`, -1 for a pod that reports no progress.
    Columns left out are filled with: arrival 0, duration infinity, priority 0, no gang, no limit, weight 0, no stated
    work, no training.
    """

    names: Sequence[str]
    specs: list[PodSpec]
    spec_of: npt.NDArray[np.int64]
    arrival_s: npt.NDArray[np.float64] = field(default_factory=_no_floats)
    duration_s: npt.NDArray[np.float64] = field(default_factory=_no_floats)
    priority: npt.NDArray[np.int64] = field(default_factory=_no_ints)
    gang_of: npt.NDArray[np.int64] = field(default_factory=_no_ints)
    gangs: list[Gang] = field(default_factory=list)
    cpu_limit_milli: npt.NDArray[np.int64] = field(default_factory=_no_ints)
    cpu_weight: npt.NDArray[np.float64] = field(default_factory=_no_floats)
    work_cpu_s: npt.NDArray[np.float64] = field(default_factory=_no_floats)
    training_of: npt.NDArray[np.int64] = field(default_factory=_no_ints)
    trainings: list[Training] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.names)
        if not len(self.arrival_s):
            self.arrival_s = np.zeros(count)
        if not len(self.duration_s):
            self.duration_s = np.full(count, np.inf)
        if not len(self.priority):
            self.priority = np.zeros(count, dtype=np.int64)
        if not len(self.gang_of):
            self.gang_of = np.full(count, -1, dtype=np.int64)
        if not len(self.cpu_limit_milli):
            self.cpu_limit_milli = np.zeros(count, dtype=np.int64)
        if not len(self.cpu_weight):
            self.cpu_weight = np.zeros(count)
        if not len(self.work_cpu_s):
            self.work_cpu_s = np.full(count, np.nan)
        if not len(self.training_of):
            self.training_of = np.full(count, -1, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.names)

    def spec(self, index: int) -> PodSpec:
        return self.specs[int(self.spec_of[index])]

    @property
    def extended(self) -> list[str]:
        """The extended resources that pods request, by name."""
        return sorted({name for spec in self.specs for name, _ in spec.extended})
