"""A cluster in virtual time: pods start when they are bound, and end when their work is done."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from foresail.core.clock import Clock
from foresail.core.journal import Journal, What
from foresail.core.lifecycle import State
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preemption import Preemption
from foresail.core.spec import Gang
from foresail.core.table import NodeTable
from foresail.core.volumes import TakenVolumes
from foresail.errors import PolicyError
from foresail.sim.images import PulledImages
from foresail.sim.ledger import Ledger
from foresail.sim.work.work import Work


def _cannot_evict(_indices: list[int]) -> None:
    raise NotImplementedError("a cluster on which pods preempt others needs evict=")


class SimCluster:
    """Carries decisions out in virtual time; a pod's uid is its index in the workload."""

    def __init__(
        self,
        table: NodeTable,
        clock: Clock,
        ledger: Ledger,
        work: Work,
        journal: Journal,
        *,
        evict: Callable[[list[int]], None] = _cannot_evict,
        volumes: TakenVolumes | None = None,
        images: PulledImages | None = None,
    ) -> None:
        """`evict` makes running pods wait again; only a scheduler that preempts needs it. `volumes` that a decision
        took are bound when the pod starts, and its `images` pulled.
        """
        self._images = images
        self._volumes = volumes
        self._evict = evict
        self.table = table
        self.ledger = ledger
        self.work = work
        self._clock = clock
        self._journal = journal
        self.running: dict[int, None] = {}
        """The pods on nodes, in the order of their starts."""
        self._on_row: dict[int, dict[int, None]] = {}
        self._refusal_of: dict[Hashable, str] = {}

    # --- what the scheduler asks for -------------------------------------------------------------------------------

    def bind(self, pod: Pod, placement: Placement) -> None:
        ledger, now_s, index = self.ledger, self._clock.now(), index_of(pod)
        row = placement.row
        if self.table.down[row]:
            raise PolicyError(
                f"{pod.name} was placed on {placement.node}, which is down; the profile lacks a filter that keeps away "
                'from such nodes: add "schedulable" to its filters'
            )
        if self._volumes is not None:
            self._volumes.settle(pod.uid)
        if self._images is not None:
            self._images.pull(pod.spec, row)
        moved = ledger.lives.of(index) is State.MOVING
        ledger.lives.turn(index, State.RUNNING)
        if moved:
            self._leave_node(index)
            self.work.move(index, row)
        else:
            ledger.waited_s[index] += now_s - ledger.waits_since_s[index]
            self.running[index] = None
            self.work.start(index, row)
        ledger.start_s[index] = now_s
        ledger.start_number[index] = ledger.starts
        ledger.starts += 1
        ledger.row[index] = row
        ledger.devices[index] = placement.devices
        self._on_row.setdefault(row, {})[index] = None
        self._journal.note(What.START, pod=pod.name, node=placement.node)

    def refuse(self, pod: Pod, why: NoFit) -> None:
        # Once for all that stand in its lane: the others are not tried, and wait for the same reason.
        self._refusal_of[_lane_of(pod)] = why.main_reason
        if self._journal.is_read:
            self._journal.note(What.REFUSE, pod=pod.name, detail=str(why))

    def give_up(self, _gang: Gang, members: list[Pod], why: str) -> float:
        for pod in members:
            self.fail(pod, why)
        return math.inf

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        if self._journal.is_read:
            self._journal.note(What.PREEMPT, pod=pod.name, node=plan.node, detail=str(plan))
        self._evict([index_of(held.pod) for held in plan.victims])

    def policy_failed(self, _pods: list[Pod], error: PolicyError) -> None:
        """Results of a policy that fails now and then are worth nothing: the run ends."""
        raise error

    # --- what happens by itself ------------------------------------------------------------------------------------

    def arrive(self, pod: Pod) -> None:
        """Note that the pod has come and waits."""
        self.ledger.lives.turn(index_of(pod), State.WAITING)
        self.ledger.waits_since_s[index_of(pod)] = self._clock.now()
        self._journal.note(What.ARRIVE, pod=pod.name)

    def fail(self, pod: Pod, why: str) -> None:
        """Note that a waiting pod will never be placed."""
        ledger, now_s, index = self.ledger, self._clock.now(), index_of(pod)
        ledger.lives.turn(index, State.FAILED)
        ledger.waited_s[index] += now_s - ledger.waits_since_s[index]
        ledger.reason[index] = why
        self._journal.note(What.GIVE_UP, pod=pod.name, detail=why)

    def end(self, index: int) -> None:
        """Note that the pod has done its work."""
        self.work.end(index)
        self._leave_node(index)
        del self.running[index]
        self.ledger.lives.turn(index, State.FINISHED)
        self.ledger.end_s[index] = self._clock.now()
        self._tell(What.END, index)

    def lose(self, index: int) -> None:
        """Note that the pod has lost its node and waits again."""
        ledger = self.ledger
        self.work.stop(index)
        self._leave_node(index)
        del self.running[index]
        ledger.lives.turn(index, State.WAITING)
        ledger.waits_since_s[index] = self._clock.now()
        ledger.restarts[index] += 1
        ledger.evictions += 1
        self._tell(What.EVICT, index)

    def change_node(self, row: int, what: What) -> None:
        """Note what happened to a node."""
        self._journal.note(what, node=self.table.names[row])

    def running_on(self, row: int) -> list[int]:
        """The pods on a node in the order of their starts."""
        return list(self._on_row.get(row, ()))

    def why_waiting(self, pod: Pod) -> str:
        """Why a waiting pod waits, as far as it has been tried."""
        return self._refusal_of.get(_lane_of(pod), "")

    def _leave_node(self, index: int) -> None:
        ledger = self.ledger
        ledger.ran_s[index] += self._clock.now() - ledger.start_s[index]
        del self._on_row[ledger.row[index]][index]

    def _tell(self, what: What, index: int) -> None:
        ledger = self.ledger
        self._journal.note(what, pod=ledger.names[index], node=self.table.names[ledger.row[index]])


def index_of(pod: Pod) -> int:
    """The pod's place in the workload."""
    assert isinstance(pod.uid, int)  # noqa: S101 - tells the type checker what the simulator gave the pod
    return pod.uid


def _lane_of(pod: Pod) -> Hashable:
    return pod.shape if pod.gang is None else pod.gang.name
