"""What a policy sees and what a decision is: `Pod`, `Nodes`, `Placement`, `NoFit`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.core.spec import PodSpec

if TYPE_CHECKING:
    from foresail.core.spec import Gang
    from foresail.core.table import NodeTable

Scores = npt.NDArray[Any]
"""One number a node, higher is better; shape (nodes,)."""
Mask = npt.NDArray[np.bool_]
"""True where a node passes; shape (nodes,)."""
Codes = npt.NDArray[np.uint8]
"""0 where a node passes, else a number the filter can turn into reasons; shape (nodes,)."""
Rows = npt.NDArray[np.int64]
"""Row numbers of nodes."""
Ints = npt.NDArray[np.int64]


class Shape:
    """A pod's request, compiled against the columns of one node table; shared by all pods that request the same."""

    __slots__ = (
        "gpu_count",
        "gpu_kind",
        "gpu_milli",
        "is_share",
        "key",
        "model_allowed",
        "owner_group",
        "request",
        "spec",
        "structure",
    )

    def __init__(self, key: int, spec: PodSpec, request: Ints, model_allowed: Mask, structure: int) -> None:
        self.key = key
        self.spec = spec
        self.request = request
        self.gpu_count = spec.gpu_count
        self.gpu_milli = spec.gpu_milli
        self.is_share = spec.gpu_count == 1 and spec.gpu_milli < 1000
        self.gpu_kind = 0 if self.is_share else spec.gpu_count
        self.model_allowed = model_allowed
        self.owner_group = f"owner/{spec.namespace}/{spec.owner}" if spec.owner else ""
        self.structure = structure


class Pod:
    """One pod that waits for a node: who it is, and the compiled form of its request."""

    __slots__ = ("arrival_s", "gang", "name", "priority", "shape", "uid")

    def __init__(
        self,
        name: str,
        shape: Shape,
        *,
        uid: Hashable = None,
        priority: int = 0,
        gang: Gang | None = None,
        arrival_s: float = 0.0,
    ) -> None:
        self.name = name
        self.shape = shape
        self.uid = name if uid is None else uid
        self.priority = priority
        self.gang = gang
        self.arrival_s = arrival_s

    def __repr__(self) -> str:
        return f"Pod({self.name!r})"

    def with_shape(self, shape: Shape) -> Pod:
        """The same pod, asking for something else."""
        return Pod(self.name, shape, uid=self.uid, priority=self.priority, gang=self.gang, arrival_s=self.arrival_s)

    @property
    def spec(self) -> PodSpec:
        return self.shape.spec

    @property
    def request(self) -> Ints:
        """Amounts in the units and the order of `Nodes.resources`; shape (resources,)."""
        return self.shape.request

    @property
    def gpu_count(self) -> int:
        return self.shape.gpu_count

    @property
    def gpu_milli(self) -> int:
        """Milli-GPU on each of the `gpu_count` devices."""
        return self.shape.gpu_milli

    @property
    def group(self) -> str:
        """The gang, else the replica set, that this pod has peers in; empty for none."""
        if self.gang is not None:
            return f"gang/{self.gang.name}"
        return self.shape.owner_group


class Nodes:
    """The nodes a policy is asked about: all of a table, or only the rows that must be scored anew.

    Every column has one row a node that is asked about. Kernels that would rather not copy read the whole columns
    from `table` at `index`.
    """

    __slots__ = ("rows", "table")

    def __init__(self, table: NodeTable, rows: Rows | None = None) -> None:
        self.table = table
        self.rows = rows

    def __len__(self) -> int:
        return self.table.count if self.rows is None else len(self.rows)

    def at(self, rows: Rows) -> Nodes:
        """The nodes at these rows of the whole table."""
        return Nodes(self.table, rows)

    @property
    def index(self) -> Rows:
        """Row numbers into the whole table."""
        return self.table.every_row if self.rows is None else self.rows

    @property
    def names(self) -> list[str]:
        names = self.table.names
        return names if self.rows is None else [names[row] for row in self.rows]

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resource columns: cpu (milli), memory (bytes), gpu (milli over all devices), then extended."""
        return self.table.resources

    @property
    def allocatable(self) -> Ints:
        """Shape (nodes, resources)."""
        return self._take(self.table.allocatable)

    @property
    def free(self) -> Ints:
        """Shape (nodes, resources)."""
        return self._take(self.table.free)

    @property
    def gpu_free(self) -> Ints:
        """Free milli of each device, 0 where a node has fewer; shape (nodes, most devices of any node)."""
        return self._take(self.table.gpu_free)

    @property
    def gpu_count(self) -> Ints:
        return self._take(self.table.gpu_count)

    @property
    def gpu_model(self) -> Ints:
        """Code of the GPU model; `table.models[code]` is its name, code 0 the empty one."""
        return self._take(self.table.gpu_model)

    @property
    def gpu_pods(self) -> Ints:
        """Pods on the node by GPUs asked: column 0 counts GPU shares, column k pods with k GPUs."""
        return self._take(self.table.gpu_pods)

    @property
    def pod_count(self) -> Ints:
        return self._take(self.table.pod_count)

    @property
    def max_pods(self) -> Ints:
        """Most pods a node takes; 0 for no limit, -1 for one that states amounts but no pods (see `KubernetesNode`)."""
        return self._take(self.table.max_pods)

    @property
    def unschedulable(self) -> Mask:
        return self._take(self.table.unschedulable)

    @property
    def down(self) -> Mask:
        return self._take(self.table.down)

    @property
    def taint_set(self) -> Ints:
        """Code of the node's set of taints; `table.taint_sets[code]` is the set."""
        return self._take(self.table.taint_set)

    def label(self, key: str) -> Ints:
        """Code of the node's value of a label, -1 where it has none; `table.label_values(key)` names the codes."""
        return self._take(self.table.label(key))

    def resource(self, name: str) -> ResourceColumn:
        """What nodes have of a resource by its Kubernetes name, extended ones like any other."""
        at = self.table.resource_at(name)
        if at is None:
            none = np.zeros(len(self), dtype=np.int64)
            return ResourceColumn(name, None, none, none)
        return ResourceColumn(name, at, self._take(self.table.allocatable[:, at]), self._take(self.table.free[:, at]))

    def side(self, name: str, fill: float = 0.0, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        """The numbers that a plug-in keeps for each node under this name, see `table.side_column`; shape (nodes,)."""
        return self._take(self.table.side_column(name, fill, dtype).values)

    def peers(self, group: str) -> Ints:
        """How many pods of a gang or replica set stand on each node."""
        return self._take(self.table.peers(group))

    def _take(self, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return column if self.rows is None else column[self.rows]


class ResourceColumn(NamedTuple):
    """One resource over the nodes that a policy is asked about."""

    name: str
    at: int | None
    """Its place among `Nodes.resources`; None where neither a node nor a pod has named it, all amounts are then 0."""
    allocatable: Ints
    """Shape (nodes,), in the resource's own unit."""
    free: Ints
    """Shape (nodes,)."""

    def requested_by(self, pod: Pod) -> int:
        return 0 if self.at is None else int(pod.request[self.at])


class Placement(NamedTuple):
    """Where a pod goes: a row of the node table, and the GPU devices on that node."""

    row: int
    node: str
    devices: tuple[int, ...] = ()
    score: float = 0.0


@dataclass(slots=True)
class NoFit:
    """No node takes the pod; `reasons` counts nodes by why, the largest count first."""

    pod: str
    node_count: int
    reasons: dict[str, int]

    def __str__(self) -> str:
        why = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items()) or "there are no nodes"
        return f"0/{self.node_count} nodes fit {self.pod}: {why}"

    @property
    def main_reason(self) -> str:
        """The reason of most nodes."""
        return next(iter(self.reasons), "there are no nodes")


class Declined(NoFit):
    """Nodes would take the pod, but whoever was asked wants it to wait; so nobody is made to go for it."""

    __slots__ = ()
