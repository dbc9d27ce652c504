"""Would these pods fit, and where? Pods are placed on a cluster as it stands, and no time passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from foresail.core.clock import SimClock
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Decide
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preemption import Preemption
from foresail.core.profile import Profile
from foresail.core.queue import Queue
from foresail.core.scheduler import Scheduler
from foresail.core.spec import Gang, PodSpec, Workload
from foresail.core.table import NodeTable
from foresail.errors import PolicyError
from foresail.results.result import RunResult
from foresail.results.tables import Columns
from foresail.sim.meter import Meter
from foresail.sim.node_table import node_columns

PROTOCOL = "snapshot"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """What became of one pod."""

    pod: Pod
    placement: Placement | None
    why: str = ""
    """Why it fits nowhere; empty if it got a node."""

    @property
    def devices(self) -> str:
        return "" if self.placement is None else "-".join(map(str, self.placement.devices))


class _SnapshotCluster:
    """Carries decisions out by writing them down."""

    def __init__(self, table: NodeTable, on_answer: Callable[[int], None]) -> None:
        self.table = table
        self.placed: dict[Hashable, tuple[Pod, Placement]] = {}
        self.refused: dict[Hashable, NoFit] = {}
        """By lane: whatever refuses one pod of a lane refuses all of it."""
        self._on_answer = on_answer

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.placed[pod.uid] = (pod, placement)
        self._on_answer(len(self.placed))

    def refuse(self, pod: Pod, why: NoFit) -> None:
        self.refused[_lane_of(pod)] = why

    def give_up(self, gang: Gang, _members: list[Pod], why: str) -> float:
        raise AssertionError(f"no time passes here, yet {gang.name} gave up: {why}")

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        """Pods on nodes stay there: the question is what fits beside them."""

    def policy_failed(self, _pods: list[Pod], error: PolicyError) -> None:
        raise error


def place_all(
    table: NodeTable,
    pods: Sequence[Pod],
    profile: Profile,
    *,
    placed_members: Callable[[str], int] = lambda _gang: 0,
    on_progress: Progress | None = None,
    decide: Decide = decide_alone,
) -> list[PodOutcome]:
    """Give every pod its turn, by priority and then by time, each seeing those before it. The table keeps them.

    `placed_members` says how many of a gang stand already. Answers come in the order in which nodes were given, then
    the pods that fit nowhere in the order of the queue. `decide` may be one that listens in.
    """
    cluster = _SnapshotCluster(table, lambda done: on_progress(done, len(pods)) if on_progress is not None else None)
    queue = Queue(SimClock())
    scheduler = Scheduler(cluster, profile, queue, decide=decide)
    for gang in dict.fromkeys(pod.gang for pod in pods if pod.gang is not None):
        queue.members_placed(gang, placed_members(gang.name))
    for pod in pods:
        scheduler.submit(pod)
    scheduler.run_until_idle()
    left = {pod.uid for pod in queue}
    waiting = sorted((pod for pod in pods if pod.uid in left), key=lambda pod: (-pod.priority, pod.arrival_s))
    members = Counter(pod.gang.name for pod in waiting if pod.gang is not None)
    standing = Counter(pod.gang.name for pod, _ in cluster.placed.values() if pod.gang is not None)
    for name in members:
        standing[name] += placed_members(name)
    answers = [PodOutcome(pod, placement) for pod, placement in cluster.placed.values()]
    for pod in waiting:
        refusal = cluster.refused.get(_lane_of(pod))
        if refusal is not None:
            why = ", ".join(f"{count} {reason}" for reason, count in refusal.reasons.items()) or refusal.main_reason
            if pod.gang is not None and standing[pod.gang.name] < pod.gang.at_once:
                why = f"its gang {pod.gang.name} does not fit together: {refusal}"
        elif pod.gang is not None:
            there = members[pod.gang.name] + standing[pod.gang.name]
            why = f"its gang {pod.gang.name} starts with {pod.gang.at_once} members; there are {there}"
        else:
            raise AssertionError(f"{pod.name} was neither placed nor refused")
        answers.append(PodOutcome(pod, None, why))
    return answers


def _lane_of(pod: Pod) -> Hashable:
    return pod.shape if pod.gang is None else ("gang", pod.gang.name)


class Measured:
    """The cluster before and after, as the tables of a results folder."""

    def __init__(self, table: NodeTable, expected: Workload) -> None:
        """`expected` are the pods by which fragmentation is measured."""
        self._table = table
        self._meter = Meter(table, expected, 2)
        self._extended = expected.extended
        self._meter.record()
        self._running = int(table.pod_count.sum())

    def result(self, answers: Sequence[PodOutcome], profile: Profile, *, name: str, seed: int) -> RunResult:
        self._meter.change_all()
        self._meter.record()
        count = len(answers)
        placed = [answer.placement is not None for answer in answers]
        names = [answer.pod.name for answer in answers]
        nodes = ["" if answer.placement is None else answer.placement.node for answer in answers]
        start_s = np.where(placed, 0.0, np.nan)
        zeros, unknown = np.zeros(count), np.full(count, np.nan)
        asked = sum(answer.pod.gpu_count * answer.pod.gpu_milli for answer in answers)
        reasons: dict[str, int] = {}
        for answer in answers:
            if answer.why:
                reasons[answer.why] = reasons.get(answer.why, 0) + 1
        pods: Columns = {
            "pod": names,
            "submit_s": zeros,
            "start_s": start_s,
            "end_s": unknown,
            "wait_s": start_s,
            "run_s": np.zeros(count),
            "slowdown": unknown,
            "outcome": ["running" if found else "waiting" for found in placed],
            "restarts": np.zeros(count, dtype=np.int64),
            "reason": [answer.why for answer in answers],
        }
        return RunResult(
            protocol=PROTOCOL,
            policy=profile.name,
            trace=name,
            seed=seed,
            load=None,
            total_gpus=int(self._table.gpu_count.sum()),
            tables={
                "placements": {
                    "order": np.arange(count, dtype=np.int64),
                    "pod": names,
                    "node": nodes,
                    "devices": [answer.devices for answer in answers],
                    "time_s": zeros,
                },
                "timeline": {
                    "time_s": np.zeros(2),
                    "arrived_gpu_milli": np.array([0, asked], dtype=np.int64),
                    **self._meter.columns(),
                    "running": np.array([self._running, self._running + sum(placed)], dtype=np.int64),
                    "waiting": np.array([count, count - sum(placed)], dtype=np.int64),
                    "failed": np.zeros(2, dtype=np.int64),
                    "finished": np.zeros(2, dtype=np.int64),
                },
                "nodes": node_columns(self._table, self._extended),
                "pods": pods,
            },
            summary={"pods": count, "fit": sum(placed), "reasons": dict(sorted(reasons.items()))},
            profile=profile.description,
        )


def workload_of(specs: Sequence[PodSpec]) -> Workload:
    """Pods of which nothing counts but what they ask: what to expect, for policies that learn."""
    numbers = {spec: at for at, spec in enumerate(dict.fromkeys(specs))}
    spec_of = np.array([numbers[spec] for spec in specs], dtype=np.int64)
    return Workload([str(at) for at in range(len(specs))], list(numbers), spec_of)
