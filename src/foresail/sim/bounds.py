"""What no placement could beat, and what one that knew everything would do: jobs over all CPUs as one pool.

Nodes, moves and their cost are left out; limits of jobs hold. Times count from the start of the trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from foresail.core.spec import NodeSpec, Workload
from foresail.sim.work.shared_cpu import start_cpu_s, work_cpu_s
from foresail.sim.work.work import Floats


class PooledJobs(NamedTuple):
    """PooledJobs before a pool of CPUs; every column has a value for each job."""

    arrival_s: Sequence[float]
    work_cpu_s: Sequence[float]
    limit: Sequence[float]
    """The most CPUs that it can use at a time."""
    capacity: float
    """CPUs of the pool."""

    @classmethod
    def of(cls, workload: Workload, nodes: Sequence[NodeSpec]) -> PooledJobs:
        """The jobs of a trace; nobody uses more than the largest node has."""
        most = max(node.cpu_milli for node in nodes) / 1000
        limits = workload.cpu_limit_milli / 1000
        limit = np.where(limits > 0, np.minimum(limits, most), most)
        capacity = sum(node.cpu_milli for node in nodes) / 1000
        work = work_cpu_s(workload) + start_cpu_s(workload)
        return cls(workload.arrival_s.tolist(), work.tolist(), limit.tolist(), capacity)


def pooled_sharing(jobs: PooledJobs) -> Floats:
    """When each job ends if all share the pool equally, nobody above its limit: what moves alone could reach."""

    def grant(present: list[int], _left: list[float]) -> list[float]:
        grants, room = [0.0] * len(present), jobs.capacity
        by_limit = sorted(range(len(present)), key=lambda at: jobs.limit[present[at]])
        for place, at in enumerate(by_limit):
            grants[at] = min(jobs.limit[present[at]], room / (len(present) - place))
            room -= grants[at]
        return grants

    return _flow(jobs, grant)


def shortest_remaining_first(jobs: PooledJobs) -> Floats:
    """When each job ends if those with the least time left at their limit always go first; needs to know the future."""

    def grant(present: list[int], left: list[float]) -> list[float]:
        grants, room = [0.0] * len(present), jobs.capacity
        for at in sorted(range(len(present)), key=lambda at: (left[at] / jobs.limit[present[at]], present[at])):
            grants[at] = min(jobs.limit[present[at]], room)
            room -= grants[at]
        return grants

    return _flow(jobs, grant)


def shortest_to_target_first(jobs: PooledJobs, fraction: Floats) -> Floats:
    """When each job has its target if those with the least time left to it always go first.

    `fraction`: the part of its work after which a job has it, not a number for one that has none. Whoever has it gets
    CPU only where nobody else can use it, and so keeps nobody from his own.
    """
    with_target = np.flatnonzero(np.isfinite(fraction))
    columns = (np.asarray(column)[with_target] for column in jobs[:3])
    arrival_s, work_cpu_s, limit = columns
    to_target = (work_cpu_s * fraction[with_target]).tolist()
    at_s = np.full(len(fraction), np.nan)
    at_s[with_target] = shortest_remaining_first(
        PooledJobs(arrival_s.tolist(), to_target, limit.tolist(), jobs.capacity)
    )
    return at_s


def earliest_end_s(jobs: PooledJobs) -> float:
    """A time before which no schedule can have done all jobs.

    No job ends before it has worked at its limit since it came; and what comes at t or later takes the whole pool for
    its work, and begins no earlier than t.
    """
    alone = max(at + work / most for at, work, most in zip(jobs.arrival_s, jobs.work_cpu_s, jobs.limit, strict=True))
    together = max(
        begin
        + math.fsum(work for at, work in zip(jobs.arrival_s, jobs.work_cpu_s, strict=True) if at >= begin)
        / jobs.capacity
        for begin in jobs.arrival_s
    )
    return max(alone, together)


def _flow(jobs: PooledJobs, grant: Callable[[list[int], list[float]], list[float]]) -> Floats:
    """Let jobs come and end; `grant` divides the pool among those present whenever one does."""
    ends_s = np.full(len(jobs.arrival_s), np.nan)
    coming = sorted(range(len(jobs.arrival_s)), key=lambda index: (jobs.arrival_s[index], index))
    present: list[int] = []
    left: list[float] = []
    now_s = 0.0
    while coming or present:
        next_s = jobs.arrival_s[coming[0]] if coming else math.inf
        grants = grant(present, left)
        takes_s = [one / rate if rate > 0 else math.inf for one, rate in zip(left, grants, strict=True)]
        first_s = now_s + min(takes_s, default=math.inf)
        until_s = min(next_s, first_s)
        passed_s = until_s - now_s
        # Whoever is first is done by definition, whatever rounding makes of what is left.
        done = [first_s <= next_s and take_s == min(takes_s) for take_s in takes_s]
        ends_s[[index for index, over in zip(present, done, strict=True) if over]] = until_s
        left = [max(0.0, one - rate * passed_s) for one, rate, over in zip(left, grants, done, strict=True) if not over]
        present = [index for index, over in zip(present, done, strict=True) if not over]
        now_s = until_s
        while coming and jobs.arrival_s[coming[0]] <= now_s:
            present.append(coming.pop(0))
            left.append(jobs.work_cpu_s[present[-1]])
    return ends_s
