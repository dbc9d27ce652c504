"""What a controller is: it looks at a view of the cluster now and then, and says what should change, and why.

The same object runs in the simulator and on a real cluster. It holds no client and no clock, starts nothing and never
sleeps; what it remembers between turns is plain state, which it can rebuild from the view after a restart.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from foresail.core.columns import CPU
from foresail.core.model import Pod
from foresail.core.table import NodeTable

CPU_USED_MILLI = "cpu_used_milli"
"""Reading: CPU that a pod uses now."""
CPU_USED_S = "cpu_used_s"
"""Reading: CPU-seconds that a pod has used since it was made; a successor begins at 0."""
STEPS_DONE = "steps_done"
"""Reading: the step of a training job's last report; goes on across moves and restarts."""
STEPS_TOTAL = "steps_total"
"""Reading: after how many steps a training job is done, as it says itself."""
LOSS = "loss"
"""Reading: the loss in a training job's last report."""
ACCURACY = "accuracy"
"""Reading: the accuracy in a training job's last report."""
WORK_DONE_CPU_S = "work_done_cpu_s"
"""Reading: CPU-seconds of work that a pod has behind it."""
WORK_LEFT_CPU_S = "work_left_cpu_s"
"""Reading: CPU-seconds of work that a pod still has before it; known in simulated worlds alone."""

SUPERSTEPS_DONE = "supersteps_done"
"""Reading: how many supersteps a task of a bulk-synchronous job has finished."""
SUPERSTEPS_TOTAL = "supersteps_total"
"""Reading: after how many supersteps the job is done."""
WORKLOAD = "workload"
"""Reading: how much work a task had in the superstep that it finished last."""


class Telemetry(Protocol):
    """What is known of running pods beyond their specification."""

    def reading(self, uid: Hashable, name: str) -> float | None:
        """The latest value of a reading; None where nobody has measured it."""


NO_MOVE = "foresail.dev/no-move"
"""Annotation: whoever wrote the pod does not want it moved. Any value but `false` counts."""


def is_not_to_move(annotations: Mapping[str, str]) -> bool:
    """Whether a pod's annotations say that nobody is to move it."""
    return annotations.get(NO_MOVE, "false").lower() != "false"


SUPERSTEPS_JOB = "foresail.dev/superstep-job"
"""Annotation: the bulk-synchronous job that a pod belongs to."""
SUPERSTEPS_TASK = "foresail.dev/superstep-task"
"""Annotation: which task of that job it is."""


class NoTelemetry:
    """Nothing is measured."""

    def reading(self, uid: Hashable, name: str) -> float | None:  # noqa: ARG002 - see Telemetry
        return None


class RunningPod(NamedTuple):
    """A pod on a node."""

    pod: Pod
    node: str
    since_s: float
    """When it got this node, on the clock of the view."""
    cpu_milli: int
    """What it requests now: also its weight where pods compete for CPU."""
    cpu_limit_milli: int = 0
    """The most it may use, 0 for no limit."""
    annotations: Mapping[str, str] = {}
    """Those of foresail.dev; written by whoever wrote the pod, so never more than a claim."""
    stable_id: Hashable = None
    """Names the job across moves, where every successor is a new pod; None for one whose uid stays."""

    @property
    def job(self) -> Hashable:
        """Who this is, also after a move: what a controller remembers of a job it keeps under this."""
        return self.pod.uid if self.stable_id is None else self.stable_id


class NodeRoom(NamedTuple):
    """A node as `View.by_node` gives it."""

    name: str
    row: int
    cpu_milli: int
    """What all pods on it may request together."""
    cpu_free_milli: int


@dataclass(frozen=True, slots=True)
class View:
    """The cluster at one moment. Controllers look and do not touch."""

    now_s: float
    table: NodeTable
    running: Mapping[Hashable, RunningPod]
    """By uid, in the order in which they started."""
    telemetry: Telemetry

    def by_node(self) -> Iterator[tuple[NodeRoom, list[RunningPod]]]:
        """Every node with pods on it, by row, and those pods in the order in which they started."""
        table = self.table
        on: dict[int, list[RunningPod]] = {}
        for one in self.running.values():
            row = table.row_of.get(one.node)
            if row is not None:
                on.setdefault(row, []).append(one)
        for row in sorted(on):
            cpu_milli, free_milli = int(table.allocatable[row, CPU]), int(table.free[row, CPU])
            yield NodeRoom(table.names[row], row, cpu_milli, free_milli), on[row]


@dataclass(frozen=True, slots=True)
class Move:
    """Let a running pod go on elsewhere."""

    pod: Pod
    why: str
    node: str = ""
    """Where to; empty leaves it to the policy."""


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a running pod another amount of CPU where it stands."""

    pod: Pod
    cpu_milli: int
    """What it requests from now on."""
    why: str
    cpu_limit_milli: int | None = None
    """The most it may use from now on, 0 for no limit; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep room on a node for a pod, against pods of no more priority."""

    pod: Pod
    node: str
    why: str
    for_s: float
    """After so long the room is anybody's again: a hold always ends."""


Action = Move | Resize | Hold


@runtime_checkable
class Controller(Protocol):
    """What changes while pods run."""

    def act(self, view: View) -> Sequence[Action]:
        """What should change now; an empty answer is the usual one."""


class Candidate(NamedTuple):
    """A move that a controller weighed in its turn, be it made or not."""

    pod: Pod
    node: str
    """Where to; empty for a pod that was looked at and for which no node came into question."""
    why: str
    """What speaks for it, or why it was left."""
    gain: float = math.nan
    """What it would bring, in `unit`; not a number where the controller does not reckon."""
    cost: float = math.nan
    """What it would take, in the same unit."""
    unit: str = "s"


@runtime_checkable
class Considering(Protocol):
    """A controller that tells of every move that it weighed."""

    def considered(self) -> Sequence[Candidate]:
        """Those of the last turn, asked for once after it. Which were made, its answer says."""


@runtime_checkable
class Periodic(Protocol):
    """A controller that wants a turn every so often."""

    every_s: float


@runtime_checkable
class Timed(Protocol):
    """A controller that says itself when it wants its next turn."""

    def next_time_s(self) -> float:
        """On the clock of the view; infinity for never."""


class Steered(Protocol):
    """Where actions are carried out: the part of a cluster that controllers may change.

    `Scheduler.hold` and `Scheduler.hold_to_move` do core's part of it.

    Each says why it cannot be done, in words; empty if it is done or under way.
    """

    def move(self, pod: Pod, node: str, why: str) -> str: ...

    def resize(self, pod: Pod, cpu_milli: int, cpu_limit_milli: int | None, why: str) -> str: ...

    def hold(self, pod: Pod, node: str, for_s: float, why: str) -> str: ...
