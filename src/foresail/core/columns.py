"""What each node of a table has, as columns, and how rows are added, written and taken out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from foresail.core.model import Ints, Mask, Rows
from foresail.core.side_columns import SideColumn
from foresail.core.spec import WHOLE_GPU_MILLI, NodeSpec, Taint

CPU, MEMORY, GPU = 0, 1, 2
"""Places of the resources that every table has; extended ones follow."""

_COLUMNS = (
    "allocatable",
    "free",
    "gpu_count",
    "gpu_free",
    "gpu_pods",
    "gpu_model",
    "pod_count",
    "max_pods",
    "unschedulable",
    "down",
)
"""Those with a row for each node that neither ranks nor taints nor touches are in."""


class LabelColumn:
    """The values of one label over all nodes, as codes; -1 for a node without it."""

    __slots__ = ("_code_of", "codes", "values")

    def __init__(self, count: int) -> None:
        self.codes: Ints = np.full(count, -1, dtype=np.int64)
        self.values: list[str] = []
        self._code_of: dict[str, int] = {}

    def write(self, row: int, value: str | None) -> None:
        if value is not None and value not in self._code_of:
            self._code_of[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = -1 if value is None else self._code_of[value]

    def close_gaps(self) -> None:
        """Forget the values that no node has any more: some count the values for domains of a topology."""
        used = np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:] > 0
        if not used.all():
            self.values = [value for value, kept in zip(self.values, used.tolist(), strict=True) if kept]
            self._code_of = {value: code for code, value in enumerate(self.values)}
            self.codes = np.append(np.cumsum(used) - 1, -1)[self.codes]  # code -1 finds the last place


class NodeColumns:
    """Columns over all nodes. Which pods stand where is the node table's business."""

    def __init__(self) -> None:
        self.specs: list[NodeSpec] = []
        self.names: list[str] = []
        self.count = 0
        self.row_of: dict[str, int] = {}
        self.every_row: Rows = np.empty(0, dtype=np.int64)
        self.structure = 0

        self.resources: tuple[str, ...] = ("cpu", "memory", "gpu")
        self._resource_at = {name: at for at, name in enumerate(self.resources)}
        self.allocatable: Ints = np.zeros((0, len(self.resources)), dtype=np.int64)
        self.free: Ints = self.allocatable.copy()
        self.gpu_count: Ints = np.zeros(0, dtype=np.int64)
        self.gpu_free: Ints = np.zeros((0, 1), dtype=np.int64)
        self.gpu_pods: Ints = np.zeros((0, 2), dtype=np.int64)
        self.models = [""]
        self.gpu_model: Ints = np.zeros(0, dtype=np.int64)
        self.pod_count: Ints = np.zeros(0, dtype=np.int64)
        self.max_pods: Ints = np.zeros(0, dtype=np.int64)
        self.unschedulable: Mask = np.zeros(0, dtype=np.bool_)
        self.down: Mask = np.zeros(0, dtype=np.bool_)
        self.taint_sets: list[tuple[Taint, ...]] = []
        self.taint_set: Ints = np.zeros(0, dtype=np.int64)
        self._labels: dict[str, LabelColumn] = {}
        self._side_columns: dict[str, SideColumn] = {}

    def _append(self, names: Sequence[str]) -> None:
        """Give nodes that have nothing yet the rows after the last; without any, columns stay the arrays they are."""
        if not names:
            return
        more = len(names)
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros((more, *column.shape[1:]), dtype=column.dtype)]))
        self.specs.extend(NodeSpec(name, 0, 0) for name in names)
        self.row_of.update((name, self.count + at) for at, name in enumerate(names))
        self.names.extend(names)
        for labels in self._labels.values():
            labels.codes = np.concatenate([labels.codes, np.full(more, -1, dtype=np.int64)])
        for side in self._side_columns.values():
            side.append(more)
        self._resize(self.count + more)

    def _remove_rows(self, gone: set[int]) -> tuple[Rows, dict[int, int]]:
        """Close the gaps with the last rows; return the old row of each new one, and the new row of each moved one."""
        count = self.count - len(gone)
        gaps = sorted(row for row in gone if row < count)
        movers = [row for row in range(count, self.count) if row not in gone]
        source = np.arange(count, dtype=np.int64)
        source[gaps] = movers
        for name in _COLUMNS:
            setattr(self, name, getattr(self, name)[source])
        self.specs = [self.specs[row] for row in source.tolist()]
        self.names = [node.name for node in self.specs]
        self.row_of = {name: row for row, name in enumerate(self.names)}
        self._resize(count)
        for column in self._labels.values():
            column.codes = column.codes[source]
        for side in self._side_columns.values():
            side.keep(source)
        return source, dict(zip(movers, gaps, strict=True))

    def _resize(self, count: int) -> None:
        self.count = count
        self.every_row = np.arange(count, dtype=np.int64)

    def _write(self, rows: Sequence[int], nodes: Sequence[NodeSpec]) -> None:
        """Make rows what the specs say; what pods hold there stays held."""
        self._add_resources(extended_of(nodes))
        self._add_models({node.gpu_model for node in nodes})
        has: Ints = np.zeros((len(rows), len(self.resources)), dtype=np.int64)
        if rows:
            has[:, CPU] = [node.cpu_milli for node in nodes]
            has[:, MEMORY] = [node.memory_bytes for node in nodes]
            has[:, GPU] = [node.gpu_count * WHOLE_GPU_MILLI for node in nodes]
        for at, node in enumerate(nodes):
            for name, amount in node.extended:
                has[at, self._resource_at[name]] = amount
        self.free[rows] += has - self.allocatable[rows]
        self.allocatable[rows] = has
        gpu_count = np.array([node.gpu_count for node in nodes], dtype=np.int64)
        self.widen(int(gpu_count.max(initial=0)))
        self.gpu_free[rows] += self._whole_devices(gpu_count) - self._whole_devices(self.gpu_count[rows])
        self.gpu_count[rows] = gpu_count
        code_of = {model: code for code, model in enumerate(self.models)}
        self.gpu_model[rows] = [code_of[node.gpu_model] for node in nodes]
        self.max_pods[rows] = [_most_pods(node) for node in nodes]
        self.unschedulable[rows] = [node.unschedulable for node in nodes]
        for row, node in zip(rows, nodes, strict=True):
            if self._labels and node.labels != self.specs[row].labels:
                stated = dict(node.labels)
                for key, column in self._labels.items():
                    column.write(row, stated.get(key))
            self.specs[row] = node

    def _whole_devices(self, gpu_count: Ints) -> Ints:
        """Milli of each device of idle nodes with so many; shape (nodes, devices)."""
        exists = np.arange(self.gpu_free.shape[1]) < gpu_count[:, None]
        return np.where(exists, WHOLE_GPU_MILLI, 0).astype(np.int64)

    def widen(self, devices: int) -> None:
        """Make room for so many devices on a node, though none may have them: others may have placed pods so."""
        more = devices - self.gpu_free.shape[1]
        if more > 0:
            none = np.zeros((self.count, more), dtype=np.int64)
            self.gpu_free = np.hstack([self.gpu_free, none])
            self.gpu_pods = np.hstack([self.gpu_pods, none])
            self._widened()

    def _add_models(self, named: set[str]) -> None:
        new = sorted(named.difference(self.models))
        if new:
            self.models += new
            self._widened()

    def _add_resources(self, named: Iterable[str]) -> None:
        """Give every node a column of zeros for each resource that is new."""
        new = sorted(set(named).difference(self._resource_at))
        if not new:
            return
        self._resource_at.update((name, len(self.resources) + at) for at, name in enumerate(new))
        self.resources = (*self.resources, *new)
        none = np.zeros((self.count, len(new)), dtype=np.int64)
        self.allocatable = np.hstack([self.allocatable, none])
        self.free = np.hstack([self.free, none])
        self._widened()

    def resource_at(self, name: str) -> int | None:
        """The place of a resource among `resources`; None where neither a node nor a pod has named it."""
        return self._resource_at.get(name)

    def _widened(self) -> None:
        """There are more columns than before."""
        self.structure += 1

    def _widths(self) -> tuple[int, int, int]:
        return len(self.resources), len(self.models), self.gpu_free.shape[1]

    def _number_taints(self) -> None:
        code_of: dict[tuple[Taint, ...], int] = {}
        codes = [code_of.setdefault(node.taints, len(code_of)) for node in self.specs]
        self.taint_sets = list(code_of)
        self.taint_set = np.array(codes, dtype=np.int64)

    # --- ranks -----------------------------------------------------------------------------------------------------

    def _rank_by(self, rank: Ints) -> None:
        self.rank: Ints = rank
        self.by_rank: Rows = np.argsort(rank, kind="stable")
        # Position of each row in rank order: columns kept in that order find the lowest rank with a plain argmax.
        self.place: Rows = np.empty(self.count, dtype=np.int64)
        self.place[self.by_rank] = self.every_row

    def _rank_by_name(self) -> None:
        rank: Ints = np.empty(self.count, dtype=np.int64)
        rank[sorted(range(self.count), key=self.names.__getitem__)] = self.every_row
        self._rank_by(rank)

    # --- labels ----------------------------------------------------------------------------------------------------

    def label(self, key: str) -> Ints:
        """Value codes of one label over all nodes, -1 where absent."""
        return self._label_column(key).codes

    def label_values(self, key: str) -> list[str]:
        """The values of one label in the order of their codes."""
        return self._label_column(key).values

    def _label_column(self, key: str) -> LabelColumn:
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = LabelColumn(self.count)
            for row, node in enumerate(self.specs):
                for name, value in node.labels:
                    if name == key:
                        column.write(row, value)
        return column

    def _close_label_gaps(self) -> None:
        for column in self._labels.values():
            column.close_gaps()


def extended_of(nodes: Sequence[NodeSpec]) -> Iterator[str]:
    return (name for node in nodes for name, _ in node.extended)


def _most_pods(node: NodeSpec) -> int:
    """0 for no limit, -1 for a node that says nothing of pods, which Kubernetes' own filter alone reads as none."""
    return -1 if node.kubernetes is not None and node.kubernetes.takes_no_pods else node.max_pods
