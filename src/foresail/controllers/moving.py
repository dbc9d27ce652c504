"""What all controllers that move jobs go by: who may be moved, and where there is room."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from foresail.core.control import RunningPod, View, is_not_to_move
from foresail.core.model import Pod

SYSTEM_NAMESPACE = "kube-system"


def may_be_moved(one: RunningPod) -> bool:
    """Whether a pod is one that may go on elsewhere: alone, and nobody has said no."""
    system = one.pod.spec.namespace == SYSTEM_NAMESPACE
    return one.pod.gang is None and not system and not is_not_to_move(one.annotations)


class Room:
    """What nodes have left while a batch of moves is planned.

    What a move takes is gone for those after it. What it leaves behind is not counted: on a real cluster it is free
    only once the pod has left, so no two moves of a batch wait for each other's room.
    """

    def __init__(self, view: View) -> None:
        table = view.table
        self._row_of = table.row_of
        self._free = table.free.copy()
        self._open = ~(table.unschedulable | table.down)

    def takes(self, pod: Pod, node: str) -> bool:
        """Whether the node has what the pod requests; whether its other filters agree, the scheduler says."""
        row = self._row_of[node]
        request = np.asarray(pod.request)
        return bool(self._open[row]) and bool((request <= self._free[row, : len(request)]).all())

    def take(self, pod: Pod, node: str) -> None:
        row = self._row_of[node]
        request = np.asarray(pod.request)
        self._free[row, : len(request)] -= request

    def free_cpu_milli(self, node: str) -> int:
        return int(self._free[self._row_of[node], 0])


def jobs_by_node(view: View, jobs: Iterable[RunningPod]) -> dict[str, list[RunningPod]]:
    """The jobs on every node, also on those that have none; nodes in the order of the table."""
    on: dict[str, list[RunningPod]] = {name: [] for name in view.table.names}
    for one in jobs:
        if one.node in on:
            on[one.node].append(one)
    return on
