"""The state of a cluster as columns: what each node has, what is free, and which rows changed since when."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.core.model import Ints, Mask, Nodes, Placement, Pod, Rows, Shape
from foresail.core.objects import ClusterObjects
from foresail.core.spec import WHOLE_GPU_MILLI, NodeSpec, PodSpec, Taint
from foresail.core.tenants import Tenants

if TYPE_CHECKING:
    from foresail.core.memory import Memory
    from foresail.core.profile import Profile

CPU, MEMORY, GPU = 0, 1, 2
"""Places of the resources that every table has; extended ones follow."""

_FORGET_TOUCHES_AFTER = 1 << 24
_FEW_TOUCHES = 12


class Placed(NamedTuple):
    """A pod that holds room on a node."""

    pod: Pod
    row: int
    devices: tuple[int, ...]


class NodeTable:
    """Columns over all nodes, and the only place where they change.

    `assume` books a pod onto a node and `forget` gives the room back, to the last milli. Every change notes its row,
    so that whoever remembers an answer can ask what has been touched since. `structure` grows when remembered
    answers are worthless altogether: nodes came or went, labels, taints, cordons or objects of the cluster changed
    what filters look at.
    """

    def __init__(
        self,
        nodes: Sequence[NodeSpec],
        *,
        rank: npt.ArrayLike | None = None,
        extended: Iterable[str] = (),
    ) -> None:
        """`rank` breaks ties, lowest first (default: row order). `extended` adds resources that only pods name."""
        self.specs = list(nodes)
        self.names = [node.name for node in nodes]
        self.count = len(self.names)
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self.every_row: Rows = np.arange(self.count, dtype=np.int64)
        self.all = Nodes(self)
        self.structure = 0
        self.rank: Ints = self.every_row.copy() if rank is None else np.asarray(rank, dtype=np.int64)
        self.by_rank: Rows = np.argsort(self.rank, kind="stable")
        # Position of each row in rank order: columns kept in that order find the lowest rank with a plain argmax.
        self.place: Rows = np.empty(self.count, dtype=np.int64)
        self.place[self.by_rank] = self.every_row

        named = dict.fromkeys(name for node in nodes for name, _ in node.extended)
        named.update(dict.fromkeys(extended))
        self.resources: tuple[str, ...] = ("cpu", "memory", "gpu", *sorted(named))
        self._resource_at = {name: at for at, name in enumerate(self.resources)}
        self.allocatable: Ints = np.zeros((self.count, len(self.resources)), dtype=np.int64)
        if self.count:
            self.allocatable[:, CPU] = [node.cpu_milli for node in nodes]
            self.allocatable[:, MEMORY] = [node.memory_bytes for node in nodes]
            self.allocatable[:, GPU] = [node.gpu_count * WHOLE_GPU_MILLI for node in nodes]
        for row, node in enumerate(nodes):
            for name, amount in node.extended:
                self.allocatable[row, self._resource_at[name]] = amount
        self.free: Ints = self.allocatable.copy()

        self.gpu_count: Ints = np.array([node.gpu_count for node in nodes], dtype=np.int64)
        devices = max(1, int(self.gpu_count.max(initial=0)))
        self.gpu_free: Ints = np.where(np.arange(devices) < self.gpu_count[:, None], WHOLE_GPU_MILLI, 0).astype(
            np.int64
        )
        self.gpu_pods: Ints = np.zeros((self.count, devices + 1), dtype=np.int64)
        self.models = ["", *sorted({node.gpu_model for node in nodes} - {""})]
        code_of = {model: code for code, model in enumerate(self.models)}
        self.gpu_model: Ints = np.array([code_of[node.gpu_model] for node in nodes], dtype=np.int64)

        self.pod_count: Ints = np.zeros(self.count, dtype=np.int64)
        self.max_pods: Ints = np.array([node.max_pods for node in nodes], dtype=np.int64)
        self.unschedulable: Mask = np.array([node.unschedulable for node in nodes], dtype=np.bool_)
        self.down: Mask = np.zeros(self.count, dtype=np.bool_)
        self.taint_sets: list[tuple[Taint, ...]] = list(dict.fromkeys(node.taints for node in nodes))
        taint_code = {taints: code for code, taints in enumerate(self.taint_sets)}
        self.taint_set: Ints = np.array([taint_code[node.taints] for node in nodes], dtype=np.int64)

        self.placed: dict[Hashable, Placed] = {}
        self.objects = ClusterObjects()
        self._tenants: Tenants | None = None
        self.memories: dict[Profile, Memory] = {}
        self._groups: dict[str, dict[int, int]] = {}
        self._labels: dict[str, tuple[Ints, list[str]]] = {}
        self._shapes: dict[PodSpec, Shape] = {}

        self._touched: Rows = np.empty(1024, dtype=np.int64)
        self._positions: Rows = np.arange(1024, dtype=np.int64)
        self._last_touch: Rows = np.full(self.count, -1, dtype=np.int64)
        self.touches = 0

    # --- compiled pods ---------------------------------------------------------------------------------------------

    def shape(self, spec: PodSpec) -> Shape:
        """The compiled form of a spec; equal specs give the same object."""
        shape = self._shapes.get(spec)
        if shape is None:
            shape = self._shapes[spec] = self._compile(spec)
        return shape

    def pod(self, name: str, spec: PodSpec) -> Pod:
        return Pod(name, self.shape(spec))

    def _compile(self, spec: PodSpec) -> Shape:
        request = np.zeros(len(self.resources), dtype=np.int64)
        request[CPU] = spec.cpu_milli
        request[MEMORY] = spec.memory_bytes
        request[GPU] = spec.gpu_count * spec.gpu_milli
        for name, amount in spec.extended:
            at = self._resource_at.get(name)
            if at is None:
                self._add_resource(name)
                request = np.append(request, 0)
                at = self._resource_at[name]
            request[at] = amount
        wanted = set(spec.gpu_models)
        allowed = np.array([not wanted or model in wanted for model in self.models], dtype=np.bool_)
        return Shape(len(self._shapes), spec, request, allowed, self.structure)

    def _add_resource(self, name: str) -> None:
        """Give every node a column of zeros for a resource that only this pod names."""
        self._resource_at[name] = len(self.resources)
        self.resources = (*self.resources, name)
        none = np.zeros((self.count, 1), dtype=np.int64)
        self.allocatable = np.hstack([self.allocatable, none])
        self.free = np.hstack([self.free, none])
        for shape in self._shapes.values():
            shape.request = np.append(shape.request, 0)
        self.structure += 1

    # --- room ------------------------------------------------------------------------------------------------------

    def assume(self, pod: Pod, placement: Placement) -> None:
        """Book the pod onto its node, so that the next decision sees it."""
        if pod.uid in self.placed:
            raise ValueError(f"{pod.name} is already on {self.names[self.placed[pod.uid].row]}; forget it first")
        self.placed[pod.uid] = Placed(pod, placement.row, placement.devices)
        self._book(pod, placement.row, placement.devices, 1)

    def forget(self, uid: Hashable) -> Placed:
        """Give back all that the pod held; the columns are then as if it had never come."""
        held = self.placed.pop(uid)
        self._book(held.pod, held.row, held.devices, -1)
        return held

    def _book(self, pod: Pod, row: int, devices: tuple[int, ...], sign: int) -> None:
        shape = pod.shape
        if sign > 0:
            self.free[row] -= shape.request
        else:
            self.free[row] += shape.request
        self.pod_count[row] += sign
        if shape.gpu_count:
            milli = sign * shape.gpu_milli
            gpu_free = self.gpu_free[row]
            for device in devices:
                gpu_free[device] -= milli
            self.gpu_pods[row, shape.gpu_kind] += sign
        group = pod.group
        if group:
            rows = self._groups.setdefault(group, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self._groups[group]
        if self._tenants is not None:
            self._tenants.book(shape, row, sign)
        self._touch(row)

    @property
    def tenants(self) -> Tenants:
        """Which kinds of pods stand where, for filters and scores that look at other pods."""
        if self._tenants is None:
            self._tenants = Tenants(self.count)
            for held in self.placed.values():
                self._tenants.book(held.pod.shape, held.row, 1)
        return self._tenants

    def objects_changed(self) -> None:
        """Objects of the cluster came, went or changed: whatever was remembered may be wrong."""
        self.structure += 1

    def set_down(self, row: int, *, down: bool) -> None:
        """Take a node out of, or back into, the choice; what runs on it is for the caller to move."""
        self._set_flag(self.down, row, value=down)

    def set_unschedulable(self, row: int, *, unschedulable: bool) -> None:
        self._set_flag(self.unschedulable, row, value=unschedulable)

    def _set_flag(self, flags: Mask, row: int, *, value: bool) -> None:
        any_before = bool(flags.any())
        flags[row] = value
        self._touch(row)
        # A filter that skips because no node is marked must be asked again once one is.
        if bool(flags.any()) != any_before:
            self.structure += 1

    # --- what changed ----------------------------------------------------------------------------------------------

    def _touch(self, row: int) -> None:
        at = self.touches
        if at == len(self._touched):
            self._touched = np.concatenate([self._touched, np.empty_like(self._touched)])
            self._positions = np.arange(len(self._touched), dtype=np.int64)
        self._touched[at] = row
        self._last_touch[row] = at
        self.touches = at + 1
        if self.touches >= _FORGET_TOUCHES_AFTER:
            self.touches = 0
            self._last_touch.fill(-1)
            self.structure += 1

    def touched_since(self, cursor: int) -> Rows:
        """Rows touched since there had been `cursor` touches; among very few, one may stand twice."""
        end = self.touches
        if end - cursor >= self.count:
            return np.flatnonzero(self._last_touch >= cursor)
        rows = self._touched[cursor:end]
        if end - cursor < _FEW_TOUCHES:
            return rows  # looking at a row twice costs less than finding out
        latest: Rows = rows[self._last_touch[rows] == self._positions[cursor:end]]
        return latest

    # --- labels and groups -----------------------------------------------------------------------------------------

    def label(self, key: str) -> Ints:
        """Value codes of one label over all nodes, -1 where absent."""
        return self._label_column(key)[0]

    def label_values(self, key: str) -> list[str]:
        """The values of one label in the order of their codes."""
        return self._label_column(key)[1]

    def _label_column(self, key: str) -> tuple[Ints, list[str]]:
        column = self._labels.get(key)
        if column is None:
            codes = np.full(self.count, -1, dtype=np.int64)
            code_of: dict[str, int] = {}
            for row, node in enumerate(self.specs):
                for name, value in node.labels:
                    if name == key:
                        codes[row] = code_of.setdefault(value, len(code_of))
            column = self._labels[key] = (codes, list(code_of))
        return column

    def peers(self, group: str) -> Ints:
        """Pods of one gang or replica set on each node."""
        counts = np.zeros(self.count, dtype=np.int64)
        for row, count in self._groups.get(group, {}).items():
            counts[row] = count
        return counts
