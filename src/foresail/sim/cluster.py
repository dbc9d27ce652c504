"""A cluster in virtual time: pods start when they are bound, and end when their time is over.

Everything that will happen is an event, and the order of events is the order of their tuples: by time, then departures
before faults before arrivals, then in the order they were made.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Sequence

from foresail.core.clock import Clock
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preemption import Preemption
from foresail.core.spec import Gang
from foresail.core.table import NodeTable
from foresail.core.volumes import TakenVolumes
from foresail.errors import PolicyError

DEPARTURE, FAULT, ARRIVAL = range(3)
"""What happens at one instant happens in this order: rooms are free before nodes fail, and both before pods come."""

Event = tuple[float, int, int, int]
"""Time in seconds, kind, sequence within the kind, and what it is about: a pod's index or a fault's."""

OnEvent = Callable[[float, str, str], None]
"""Is told the time, what happened, and the pod or node it happened to."""

NOT_ARRIVED, WAITING, RUNNING, FINISHED, FAILED = "", "waiting", "running", "finished", "failed"


def _nobody(_time_s: float, _kind: str, _name: str) -> None:
    pass


def _cannot_evict(_indices: list[int]) -> None:
    raise NotImplementedError("a cluster on which pods preempt others needs evict=")


class Ledger:
    """What has happened to every pod so far; one entry a pod, at the pod's index."""

    def __init__(self, names: Sequence[str], duration_s: Sequence[float]) -> None:
        count = len(names)
        self.names = names
        self.outcome = [NOT_ARRIVED] * count
        self.left_s = list(duration_s)
        """How long the pod still has to run; infinity for one that never ends."""
        self.waits_since_s = [math.nan] * count
        self.waited_s = [0.0] * count
        """Time spent waiting, all waits together, up to the last start or failure."""
        self.ran_s = [0.0] * count
        """Time spent on nodes, runs that were cut short included, up to the last end or eviction."""
        self.start_s = [math.nan] * count
        """The last start."""
        self.end_s = [math.nan] * count
        self.start_number = [-1] * count
        """Which start of the whole run the pod's last one was; -1 if it never started."""
        self.row = [-1] * count
        self.devices: list[tuple[int, ...]] = [()] * count
        self.restarts = [0] * count
        self.reason = [""] * count
        """Why the pod failed."""
        self.count = {NOT_ARRIVED: count, WAITING: 0, RUNNING: 0, FINISHED: 0, FAILED: 0}
        self.starts = 0
        self.evictions = 0

    def turn(self, index: int, outcome: str) -> None:
        """Note that the pod is now waiting, running, finished or failed."""
        self.count[self.outcome[index]] -= 1
        self.count[outcome] += 1
        self.outcome[index] = outcome


class SimCluster:
    """Carries decisions out in virtual time; a pod's uid is its index in the workload."""

    def __init__(
        self,
        table: NodeTable,
        clock: Clock,
        ledger: Ledger,
        *,
        keeps_progress: bool = False,
        on_event: OnEvent | None = None,
        evict: Callable[[list[int]], None] = _cannot_evict,
        volumes: TakenVolumes | None = None,
    ) -> None:
        """`keeps_progress`: an evicted pod goes on where it was, instead of from its beginning.

        `evict` makes running pods wait again; only a scheduler that preempts needs it. `volumes` that a decision took
        are bound when the pod starts.
        """
        self._volumes = volumes
        self._evict = evict
        self.table = table
        self.ledger = ledger
        self.events: list[Event] = []
        """A heap of what will happen, departures of pods that were evicted meanwhile among it."""
        self._clock = clock
        self._keeps_progress = keeps_progress
        self._on_event = on_event or _nobody
        self._on_row: dict[int, dict[int, None]] = {}
        self._refusal_of: dict[Hashable, str] = {}

    # --- what the scheduler asks for -------------------------------------------------------------------------------

    def bind(self, pod: Pod, placement: Placement) -> None:
        ledger, now_s, index = self.ledger, self._clock.now(), _index(pod)
        row = placement.row
        if self.table.down[row]:
            raise PolicyError(
                f"{pod.name} was placed on {placement.node}, which is down; the profile lacks a filter that keeps away "
                'from such nodes: add "schedulable" to its filters'
            )
        if self._volumes is not None:
            self._volumes.settle(pod.uid)
        ledger.turn(index, RUNNING)
        ledger.waited_s[index] += now_s - ledger.waits_since_s[index]
        ledger.start_s[index] = now_s
        ledger.start_number[index] = number = ledger.starts
        ledger.starts += 1
        ledger.row[index] = row
        ledger.devices[index] = placement.devices
        self._on_row.setdefault(row, {})[index] = None
        if ledger.left_s[index] < math.inf:
            heapq.heappush(self.events, (now_s + ledger.left_s[index], DEPARTURE, number, index))
        self._on_event(now_s, "start", pod.name)

    def refuse(self, pod: Pod, why: NoFit) -> None:
        # Once for all that stand in its lane: the others are not tried, and wait for the same reason.
        self._refusal_of[_lane_of(pod)] = why.main_reason

    def give_up(self, _gang: Gang, members: list[Pod], why: str) -> None:
        for pod in members:
            self.fail(pod, why)

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        self._on_event(self._clock.now(), "preempt", pod.name)
        self._evict([_index(held.pod) for held in plan.victims])

    def policy_failed(self, _pods: list[Pod], error: PolicyError) -> None:
        """Results of a policy that fails now and then are worth nothing: the run ends."""
        raise error

    # --- what happens by itself ------------------------------------------------------------------------------------

    def next_time_s(self) -> float:
        """When something happens next, infinity for never."""
        events = self.events
        while events and self._is_stale(events[0]):
            heapq.heappop(events)
        return events[0][0] if events else math.inf

    def pop(self) -> Event | None:
        """The next event of this instant, if there is one."""
        return heapq.heappop(self.events) if self.next_time_s() <= self._clock.now() else None

    def arrive(self, pod: Pod) -> None:
        """Note that the pod has come and waits."""
        self.ledger.turn(_index(pod), WAITING)
        self.ledger.waits_since_s[_index(pod)] = self._clock.now()

    def fail(self, pod: Pod, why: str) -> None:
        """Note that a waiting pod will never be placed."""
        ledger, now_s, index = self.ledger, self._clock.now(), _index(pod)
        ledger.turn(index, FAILED)
        ledger.waited_s[index] += now_s - ledger.waits_since_s[index]
        ledger.reason[index] = why
        self._on_event(now_s, "give_up", pod.name)

    def end(self, index: int) -> None:
        """Note that the pod has run its time."""
        self._leave_node(index)
        self.ledger.turn(index, FINISHED)
        self.ledger.end_s[index] = self._clock.now()
        self._on_event(self._clock.now(), "end", self.ledger.names[index])

    def lose(self, index: int) -> None:
        """Note that the pod has lost its node and waits again."""
        ledger, now_s = self.ledger, self._clock.now()
        if self._keeps_progress:
            ledger.left_s[index] = max(0.0, ledger.left_s[index] - (now_s - ledger.start_s[index]))
        self._leave_node(index)
        ledger.turn(index, WAITING)
        ledger.waits_since_s[index] = now_s
        ledger.restarts[index] += 1
        ledger.evictions += 1
        self._on_event(now_s, "evict", ledger.names[index])

    def change_node(self, row: int, event: str) -> None:
        """Note what happened to a node."""
        self._on_event(self._clock.now(), event, self.table.names[row])

    def running_on(self, row: int) -> list[int]:
        """The pods on a node in the order of their starts."""
        return list(self._on_row.get(row, ()))

    def why_waiting(self, pod: Pod) -> str:
        """Why a waiting pod waits, as far as it has been tried."""
        return self._refusal_of.get(_lane_of(pod), "")

    def _is_stale(self, event: Event) -> bool:
        """Whether this would be the end of a run that was cut short; the pod may have started anew since."""
        _, kind, number, index = event
        ledger = self.ledger
        return kind == DEPARTURE and (ledger.start_number[index] != number or ledger.outcome[index] != RUNNING)

    def _leave_node(self, index: int) -> None:
        ledger = self.ledger
        ledger.ran_s[index] += self._clock.now() - ledger.start_s[index]
        del self._on_row[ledger.row[index]][index]


def _index(pod: Pod) -> int:
    assert isinstance(pod.uid, int)  # noqa: S101 - tells the type checker what the simulator gave the pod
    return pod.uid


def _lane_of(pod: Pod) -> Hashable:
    return pod.shape if pod.gang is None else pod.gang.name
