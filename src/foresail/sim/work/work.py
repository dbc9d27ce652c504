"""What the simulator asks of any kind of work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from foresail.core.backoff import NO_BACKOFF, Backoff
from foresail.core.clock import Clock
from foresail.core.spec import Workload
from foresail.core.table import NodeTable
from foresail.sim.agenda import Agenda

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interruptions:
    """What a pod loses that is torn away from its node, and what it costs to go on elsewhere."""

    keeps_progress: bool = False
    """Whether a pod that lost its node goes on from its last checkpoint, instead of from its beginning."""
    checkpoint_every_s: float = 0.0
    """Time between two checkpoints of a running pod, counted from when it began to work on its node; 0: at any time."""
    restart_s: float = 0.0
    """How long a pod that starts again, or has been moved, holds its room before it works."""
    start_s: float = 0.0
    """The same for a pod that starts for the first time."""
    job_backoff: Backoff = NO_BACKOFF
    """How much later a pod of a Job comes back, by how often it has: the Job's controller waits."""

    def pause_s(self, comes_back: int, *, of_job: bool) -> float:
        """How long a pod holds its room before it works; `comes_back` is how often it has had a node before."""
        if not comes_back:
            return self.start_s
        return self.restart_s + (self.job_backoff.pause_s(comes_back) if of_job else 0.0)


def of_jobs(workload: Workload) -> list[bool]:
    """Which pods a Job makes anew when they go."""
    by_spec = [spec.owner.partition("/")[0] == "Job" for spec in workload.specs]
    return [by_spec[spec] for spec in workload.spec_of.tolist()]


WorkOf = Callable[[Workload, NodeTable, Clock, Agenda], "Work"]
"""Makes the work of a workload, on these nodes, in this time."""


class Work(Protocol):
    """How far running pods are. Plans their ends in the agenda, and plans anew when something changes them.

    A pod is named by its index in the workload, a node by its row in the table.
    """

    def start(self, index: int, row: int) -> None:
        """The pod has its node and begins, or goes on with what it had kept."""

    def resume(self, index: int) -> None:
        """A pod that had to get ready first begins to work."""

    def end(self, index: int) -> None:
        """The pod has done its work and leaves its node."""

    def stop(self, index: int) -> None:
        """The pod is torn away from its node."""

    def move(self, index: int, row: int) -> None:
        """The pod writes a checkpoint, leaves its node and goes on at another: it loses time, but no work."""

    def resize(self, index: int, cpu_milli: int, cpu_limit_milli: int) -> None:
        """The pod requests so much from now on, and may use so much, 0 for no limit."""

    def settle(self) -> None:
        """Plan the ends that this instant has changed; time may go on then."""

    def busy_milli(self) -> Floats | None:
        """CPU that the pods of each node use now; shape (nodes,). None where that is what they request."""

    def used_milli(self, index: int) -> float:
        """CPU that the running pod uses now."""

    def used_cpu_s(self, index: int) -> float:
        """CPU-seconds that the pod has used so far, for what it has lost as well."""

    def done_cpu_s(self, index: int) -> float:
        """CPU-seconds of its work that the pod has behind it now, what it has lost not counted."""

    def left_cpu_s(self, index: int) -> float:
        """CPU-seconds of its work that the pod still has before it; infinity for one that never ends."""

    def end_s(self, index: int) -> float:
        """When the pod is done; for one without a node, if it got one now. Infinity where nobody knows."""

    def target_s(self) -> Floats | None:
        """When each training job had most of its loss behind it; shape (pods,), not a number where it had not. None
        where nobody gets on by work. For the end of a run.
        """

    def alone_s(self) -> Floats:
        """How long each pod would run if nothing disturbed it; shape (pods,), infinity for one that never ends."""
