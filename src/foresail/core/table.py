"""The state of a cluster as columns: what each node has, what is free, and which rows changed since when."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.core.columns import CPU, GPU, MEMORY, NodeColumns, extended_of
from foresail.core.model import Ints, Mask, Nodes, Placement, Pod, Rows, Shape
from foresail.core.objects import ClusterObjects
from foresail.core.side_columns import SideColumn
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.standing import Standing
from foresail.core.tenants import Tenants, move_rows
from foresail.core.volumes import VolumeTaking

if TYPE_CHECKING:
    from foresail.core.memory import Memory
    from foresail.core.profile import Profile

__all__ = ["CPU", "GPU", "MEMORY", "NodeTable", "Placed"]

_FORGET_TOUCHES_AFTER = 1 << 24
_FEW_TOUCHES = 12


class Placed(NamedTuple):
    """A pod that holds room on a node."""

    pod: Pod
    row: int
    devices: tuple[int, ...]


class NodeTable(NodeColumns):
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
        super().__init__()
        self.all = Nodes(self)
        self.placed: dict[Hashable, Placed] = {}
        self.objects = ClusterObjects()
        self.volume_taking: VolumeTaking | None = None
        """Is told of pods with claims that come and go; None where nobody looks after volumes."""
        self._tenants: Tenants | None = None
        self._standing: Standing | None = None
        self.memories: dict[Profile, Memory] = {}
        self._groups: dict[str, dict[int, int]] = {}
        self._shapes: dict[PodSpec, Shape] = {}
        self._shape_keys = itertools.count()

        self._touched: Rows = np.empty(1024, dtype=np.int64)
        self._positions: Rows = np.arange(1024, dtype=np.int64)
        self._last_touch: Rows = np.empty(0, dtype=np.int64)
        self.touches = 0

        self._add_resources({*extended, *extended_of(nodes)})
        self._append([node.name for node in nodes])
        self._last_touch = np.full(self.count, -1, dtype=np.int64)
        self._write(list(range(self.count)), nodes)
        self._number_taints()
        self._rank_by(self.every_row.copy() if rank is None else np.asarray(rank, dtype=np.int64))

    # --- nodes that come, change and go ----------------------------------------------------------------------------

    def put_nodes(self, nodes: Iterable[NodeSpec]) -> list[int]:
        """Add nodes, or change those of the same names; say which rows are new or changed.

        Pods stay where they are, also on a node that has become too small for them: `free` is then below 0. New nodes
        come after the last row, and ties go by name from then on, so that a restarted scheduler breaks them alike.
        """
        told = {node.name: node for node in nodes}
        new = [name for name in told if name not in self.row_of]
        changed = {
            row: node
            for name, node in told.items()
            if (row := self.row_of.get(name)) is not None and node != self.specs[row]
        }
        if not new and not changed:
            return []
        before = {row: self.specs[row] for row in changed}
        self._append(new)
        if self._tenants is not None:
            self._tenants.append(len(new))
        changed.update((self.row_of[name], told[name]) for name in new)
        rows = list(changed)
        flags_before = bool(self.unschedulable.any())
        widths_before = self._widths()
        self._write(rows, list(changed.values()))
        if new:
            self._rank_by_name()
        if new or any(_looks_different(before[row], changed[row]) for row in before):
            self._number_taints()
            self._renew(rows)
        elif flags_before != bool(self.unschedulable.any()) or widths_before != self._widths():
            self._renew(rows)
        else:
            for row in rows:
                self._touch(row)
        return rows

    def remove_nodes(self, names: Iterable[str]) -> list[Placed]:
        """Take nodes out, with the pods on them, which are forgotten and returned; names that are not here are none.

        The last rows move up into the gaps, so rows noted before may mean other nodes or none.
        """
        gone = {row for name in names if (row := self.row_of.get(name)) is not None}
        if not gone:
            return []
        forgotten = [self.forget(uid) for uid, held in list(self.placed.items()) if held.row in gone]
        source, moved = self._remove_rows(gone)
        for uid, held in self.placed.items():
            if held.row in moved:
                self.placed[uid] = held._replace(row=moved[held.row])
        for rows in self._groups.values():
            move_rows(rows, moved)
        if self._tenants is not None:
            self._tenants.keep(source, moved)
        self._number_taints()
        self._rank_by_name()
        self._renew([])
        return forgotten

    def _renew(self, rows: Iterable[int]) -> None:
        """Whatever was remembered is worthless: labels without a node lose their codes, and touches count anew."""
        self._close_label_gaps()
        self.touches = 0
        self._last_touch = np.full(self.count, -1, dtype=np.int64)
        for row in rows:
            self._touch(row)
        self.structure += 1

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
        self._add_resources(name for name, _ in spec.extended)
        request = np.zeros(len(self.resources), dtype=np.int64)
        request[CPU] = spec.cpu_milli
        request[MEMORY] = spec.memory_bytes
        request[GPU] = spec.gpu_count * spec.gpu_milli
        for name, amount in spec.extended:
            request[self._resource_at[name]] = amount
        return Shape(next(self._shape_keys), spec, request, self._allowed(spec), self.structure)

    def _allowed(self, spec: PodSpec) -> Mask:
        wanted = set(spec.gpu_models)
        return np.array([not wanted or model in wanted for model in self.models], dtype=np.bool_)

    def _widened(self) -> None:
        for shape in self._shapes.values():
            more = len(self.resources) - len(shape.request)
            if more:
                shape.request = np.concatenate([shape.request, np.zeros(more, dtype=np.int64)])
            if len(shape.model_allowed) < len(self.models):
                shape.model_allowed = self._allowed(shape.spec)
        super()._widened()

    @property
    def shape_count(self) -> int:
        return len(self._shapes)

    def drop_shapes(self, keep: Iterable[PodSpec]) -> None:
        """Forget the compiled specs that are neither of placed pods nor among these: months of labels that no two
        pods share would fill the memory.
        """
        kept = {held.pod.spec for held in self.placed.values()}.union(keep)
        self._shapes = {spec: shape for spec, shape in self._shapes.items() if spec in kept}
        if self._tenants is not None:
            self._tenants.drop_shapes(self._shapes)
        self.structure += 1

    # --- room ------------------------------------------------------------------------------------------------------

    def assume(self, pod: Pod, placement: Placement) -> None:
        """Book the pod onto its node, so that the next decision sees it."""
        if pod.uid in self.placed:
            raise ValueError(f"{pod.name} is already on {self.names[self.placed[pod.uid].row]}; forget it first")
        self.placed[pod.uid] = held = Placed(pod, placement.row, placement.devices)
        if self._standing is not None:
            self._standing.add(held)
        self._book(pod, placement.row, placement.devices, 1)
        if self.volume_taking is not None and pod.spec.kubernetes is not None and pod.spec.kubernetes.claims:
            self.volume_taking.take(pod, placement.row)

    def forget(self, uid: Hashable) -> Placed:
        """Give back all that the pod held; the columns are then as if it had never come."""
        held = self.placed.pop(uid)
        if self._standing is not None:
            self._standing.remove(held)
        self._book(held.pod, held.row, held.devices, -1)
        if self.volume_taking is not None:
            self.volume_taking.give_back(uid)
        return held

    def resize(self, uid: Hashable, spec: PodSpec) -> Placed:
        """Let a pod that stands here ask for other amounts, as if it had come so; who stands before whom stays.

        Returns what it holds now, under a `Pod` of the new shape.
        """
        held = self.placed[uid]
        before = held.pod.spec
        if _bound_up(before) != _bound_up(spec):
            raise ValueError(
                f"{held.pod.name} keeps its GPUs and its volumes while it runs; forget it and assume it anew"
            )
        now = held._replace(pod=held.pod.with_shape(self.shape(spec)))
        self.placed[uid] = now
        if self._standing is not None:
            self._standing.replace(now)
        # The new before the old: kinds of pods that it alone stands for are then not forgotten in between.
        self._book(now.pod, now.row, now.devices, 1)
        self._book(held.pod, held.row, held.devices, -1)
        return now

    def try_with(self, held: Placed) -> None:
        """Book a pod only to see what then fits; `try_without` must follow before anyone else looks."""
        _ = self.tenants  # which are built from the pods that really stand there
        self._book(held.pod, held.row, held.devices, 1)

    def try_without(self, held: Placed) -> None:
        """Give a pod's room back only to see what then fits; `try_with` must follow before anyone else looks."""
        _ = self.tenants
        self._book(held.pod, held.row, held.devices, -1)

    def _book(self, pod: Pod, row: int, devices: tuple[int, ...], sign: int) -> None:
        shape, free = pod.shape, self.free[row]
        if sign > 0:
            free -= shape.request
        else:
            free += shape.request
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

    @property
    def standing(self) -> Standing:
        """The pods by node and by priority, for whoever asks who would have to go."""
        if self._standing is None or self._standing.structure != self.structure:
            self._standing = Standing(self.placed.values(), len(self.resources), self.structure)
        return self._standing

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

    # --- what plug-ins keep ----------------------------------------------------------------------------------------

    def side_column(self, name: str, fill: float = 0.0, dtype: npt.DTypeLike = np.float64) -> SideColumn:
        """Numbers that plug-ins keep for each node under a name, made when first asked for, `fill` on every row.

        Whoever shares a column names it with the same fill and type.
        """
        column = self._side_columns.get(name)
        if column is None:
            column = self._side_columns[name] = SideColumn(name, self.count, fill, dtype, self._touch)
        elif not column.is_made_of(fill, dtype):
            raise ValueError(
                f'the side column "{name}" is {column.values.dtype} filled with {column.fill}, '
                f"not {np.dtype(dtype)} filled with {fill}; name it alike everywhere"
            )
        return column

    # --- groups ----------------------------------------------------------------------------------------------------

    def peers(self, group: str) -> Ints:
        """Pods of one gang or replica set on each node."""
        counts = np.zeros(self.count, dtype=np.int64)
        for row, count in self._groups.get(group, {}).items():
            counts[row] = count
        return counts


def _bound_up(spec: PodSpec) -> object:
    """What a pod holds by more than amounts: devices and volumes."""
    return spec.gpu_count, spec.gpu_milli, None if spec.kubernetes is None else spec.kubernetes.claims


def _looks_different(before: NodeSpec, now: NodeSpec) -> bool:
    """Whether more than amounts has changed: what filters look at, by which whole masks are remembered."""
    return (before.labels, before.taints, before.kubernetes) != (now.labels, now.taints, now.kubernetes)
