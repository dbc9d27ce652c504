"""GPU pods that could go elsewhere: what fragmentation each move would take away, while a batch is planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.control import RunningPod
from foresail.core.model import Pod, Shape
from foresail.core.table import NodeTable
from foresail.forecast.fragmentation import TypicalPods
from foresail.forecast.fragmentation_falls import falls_on_arrival, falls_on_departure

MayTake = Callable[[RunningPod, str], bool]


class Repacking:
    """The nodes as the moves of a batch leave them, and by how much F would fall with the next."""

    def __init__(
        self, table: NodeTable, typical: TypicalPods, movable: Sequence[RunningPod], may_take: MayTake
    ) -> None:
        self._table = table
        self._may_take = may_take
        self._requests: tuple[Any, ...] = typical.requests(typical.share)
        self._free, self._gpu_free, self._pod_count = table.free.copy(), table.gpu_free.copy(), table.pod_count.copy()
        self._takes = ~(table.unschedulable | table.down)
        """Nodes that may be a target still."""
        self._pods = list(movable)
        self._shapes: dict[int, Shape] = {one.pod.shape.key: one.pod.shape for one in movable}
        self._row = np.array([table.placed[one.pod.uid].row for one in movable], dtype=np.int64)
        self._cpu = np.array([one.pod.spec.cpu_milli for one in movable], dtype=np.int64)
        self._held = np.zeros((len(movable), table.gpu_free.shape[1]), dtype=np.int64)
        for at, one in enumerate(movable):
            for device in table.placed[one.pod.uid].devices:
                self._held[at, device] += one.pod.gpu_milli
        self._on_departure = np.zeros(len(movable))
        self._on_arrival = {key: np.full(table.count, -np.inf) for key in self._shapes}
        self._device = {key: np.full(table.count, -1, dtype=np.int64) for key in self._shapes}
        self._look_at(table.every_row)

    def best_targets(self) -> Iterator[tuple[RunningPod, str, float]]:
        """Each pod for which a move makes F fall, with the node where it falls most and by how many milli."""
        for at, one in enumerate(self._pods):
            falls = self._on_arrival[one.pod.shape.key] + self._on_departure[at]
            falls = np.where(self._takes, falls, -np.inf)
            falls[self._row[at]] = -np.inf
            while (best := falls.max(initial=-np.inf)) > 0:
                row = int(falls.argmax())
                if self._may_take(one, self._table.names[row]):
                    yield one, self._table.names[row], float(best)
                    break
                falls[row] = -np.inf

    def move(self, one: RunningPod, node: str) -> None:
        """The pod goes there. Nobody goes to where it was in this batch: there is room only once it has left."""
        at, to = self._pods.index(one), self._table.row_of[node]
        source, shape = int(self._row[at]), one.pod.shape
        self._free[source] += shape.request
        self._gpu_free[source] += self._held[at]
        self._pod_count[source] -= 1
        self._free[to] -= shape.request
        for device in self._devices(one.pod, to):
            self._gpu_free[to, device] -= shape.gpu_milli
        self._pod_count[to] += 1
        self._takes[source] = False
        del self._pods[at]
        self._row, self._cpu = np.delete(self._row, at), np.delete(self._cpu, at)
        self._held, self._on_departure = np.delete(self._held, at, axis=0), np.delete(self._on_departure, at)
        self._look_at(np.array([source, to], dtype=np.int64))

    def _devices(self, pod: Pod, row: int) -> list[int]:
        if pod.shape.is_share:
            return [int(self._device[pod.shape.key][row])]
        fitting = np.flatnonzero(self._gpu_free[row] >= pod.gpu_milli)
        return [int(device) for device in fitting[: pod.gpu_count]]

    def _look_at(self, rows: npt.NDArray[np.int64]) -> None:
        """Work out anew what concerns these nodes."""
        table, free, gpu_free = self._table, self._free, self._gpu_free
        falls, device = np.empty(len(rows)), np.empty(len(rows), dtype=np.int64)
        for key, shape in self._shapes.items():
            of_shape = (shape.spec.cpu_milli, shape.gpu_count, shape.gpu_milli, shape.is_share)
            falls_on_arrival(rows, free, gpu_free, table.gpu_model, *of_shape, falls, device, *self._requests)
            has_room = (free[rows, : len(shape.request)] >= shape.request).all(axis=1)
            has_room &= (table.max_pods[rows] == 0) | (self._pod_count[rows] < table.max_pods[rows])
            has_room &= shape.model_allowed[table.gpu_model[rows]]
            self._on_arrival[key][rows] = np.where(has_room, falls, -np.inf)
            self._device[key][rows] = device
        touched = np.flatnonzero(np.isin(self._row, rows))
        on_departure = np.empty(len(touched))
        falls_on_departure(
            self._row[touched],
            free,
            gpu_free,
            table.gpu_model,
            self._cpu[touched],
            self._held[touched],
            on_departure,
            *self._requests,
        )
        self._on_departure[touched] = on_departure
