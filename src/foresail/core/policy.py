"""The contract: what a filter, a score and a device rule look like to the core.

A plug-in is a plain object with one of the methods below; it need not inherit from anything.

Row-wise plug-ins
-----------------
A plug-in is row-wise when a node's answer depends on that node and the pod's shape alone. The core then remembers its
answers and asks again only for nodes that changed. A plug-in says so with `row_wise = True`, or that it looks at other
nodes, at the pod's name or at a random number with `row_wise = False`. One that says nothing is taken for row-wise but
audited: now and then the core asks about all nodes again, and at the first disagreement stops remembering.

Filters and preemption
----------------------
A filter may say what taking pods away from a node cannot change: `resolvable = False` if nothing it refuses for, or
`unresolvable`, the codes of which that is true (kube-scheduler's UnschedulableAndUnresolvable). Nodes refused so are
not searched for victims. A filter that refuses every node with less of a resource left than the pod asks, or with no
place for one more pod, may say `counts_room = True`; then nodes that would have too little even without their less
important pods are not searched either. If no filter ever opens a node because one more pod stands on it
(`only_worsens = True`), several can be put back at a time; a required affinity of the pod is known to the core and need
not be thought of here.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from foresail.core.model import Codes, Mask, Nodes, Pod, Scores
from foresail.core.spec import Workload


@runtime_checkable
class Filter(Protocol):
    """Which nodes could take the pod; `reason` completes "420 nodes …"."""

    reason: str

    def passes(self, pod: Pod, nodes: Nodes) -> Mask: ...


@runtime_checkable
class ReasonedFilter(Protocol):
    """A filter with more than one reason: it answers with codes and can say what a code means."""

    def refuses(self, pod: Pod, nodes: Nodes) -> Codes: ...

    def why(self, pod: Pod, code: int) -> tuple[str, ...]: ...


@runtime_checkable
class Skippable(Protocol):
    """A filter that can tell without a look at single nodes that it would pass every one.

    A row-wise filter tells it from the pod's shape and from labels, taints, cordons and objects of the cluster alone:
    it is asked once. Others are asked each time and may look at the pods on the nodes as well.
    """

    def skips(self, pod: Pod, nodes: Nodes) -> bool: ...


@runtime_checkable
class Score(Protocol):
    """How good each node is for the pod."""

    def score(self, pod: Pod, nodes: Nodes) -> Scores: ...


@runtime_checkable
class Normalizing(Protocol):
    """A score that is rescaled over the feasible nodes before it is weighted.

    `keeps_best` promises that the best raw score stays the best, so that a lone score need not be rescaled at all.
    """

    keeps_best: bool

    def normalize(self, pod: Pod, nodes: Nodes, raw: Scores) -> Scores: ...


@runtime_checkable
class Indifferent(Protocol):
    """A score that can tell without a look at single nodes that it would give every one the same.

    It then says what, as after `normalize`; None if it must be asked. Row-wise scores are asked once, as filters are
    by `skips`, the others each time.
    """

    def same_for_all(self, pod: Pod, nodes: Nodes) -> float | None: ...


@runtime_checkable
class DeviceRule(Protocol):
    """Which GPU devices of the chosen node the pod gets. Called only for pods that ask for GPUs."""

    def devices(self, pod: Pod, nodes: Nodes, row: int) -> tuple[int, ...]: ...


@runtime_checkable
class Learning(Protocol):
    """A plug-in that wants to know the expected pods before the first decision."""

    def learn(self, workload: Workload, nodes: Nodes) -> None: ...


@runtime_checkable
class Seeded(Protocol):
    """A plug-in that draws random numbers; it is told the run's seed before the first decision."""

    def seed(self, seed: int) -> None: ...


@runtime_checkable
class Accompanied(Protocol):
    """A plug-in that scores by side columns which a controller writes, and so brings that controller along.

    Companions change no pods, have their turns before all other controllers, and are no part of what was asked for:
    results do not name them. Where no controllers have turns, side columns hold what they were filled with.
    """

    companions: tuple[str, ...]
    """Each as `NAME` or `NAME:key=value,…`."""


def is_row_wise(plugin: Any) -> bool | None:
    """True or False where the plug-in says so, None where it says nothing and must be audited."""
    declared = getattr(plugin, "row_wise", None)
    return None if declared is None else bool(declared)
