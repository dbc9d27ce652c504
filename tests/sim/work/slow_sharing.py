"""Shared CPU worked out the long way, for comparison: every job at every instant, shares found by halving.

Shares nothing with the simulator: no heap, no rows that are brought up to date, no sorted water-filling.
"""

import math
from typing import NamedTuple


class Job(NamedTuple):
    start_s: float
    row: int
    work: float
    weight: float
    limit: float


def _grants(capacity, members):
    """The level L with Σ min(limit, weight · L) = capacity, by halving; all limits if they fit together."""
    capped = [(weight, min(limit, capacity)) for weight, limit in members]
    if sum(limit for _, limit in capped) <= capacity:
        return [limit for _, limit in capped]
    low, high = 0.0, max(limit / weight for weight, limit in capped)
    for _ in range(200):
        middle = (low + high) / 2
        if sum(min(limit, weight * middle) for weight, limit in capped) > capacity:
            high = middle
        else:
            low = middle
    return [min(limit, weight * low) for weight, limit in capped]


def ends_by_hand(cpus, jobs, changes, *, restart_s, loss):
    """When each job ends."""
    row = [job.row for job in jobs]
    weight = [job.weight for job in jobs]
    limit = [job.limit for job in jobs]
    left = [job.work for job in jobs]
    works_from = [job.start_s for job in jobs]
    ends = [math.inf] * len(jobs)
    pending = list(changes)
    now = 0.0
    while any(end == math.inf for end in ends):
        rate = [0.0] * len(jobs)
        for at, capacity in enumerate(cpus):
            on = [j for j in range(len(jobs)) if row[j] == at and ends[j] == math.inf and works_from[j] <= now]
            demand = sum(min(limit[j], capacity) for j in on)
            worth = 1 / (1 + loss * (demand / capacity - 1)) if demand > capacity else 1.0
            for j, granted in zip(on, _grants(capacity, [(weight[j], limit[j]) for j in on]), strict=True):
                rate[j] = granted * worth
        coming = [time for time in works_from if time > now]
        coming += [time for time, *_ in pending[:1]]
        finishing = [now + left[j] / rate[j] for j in range(len(jobs)) if rate[j] > 0]
        then = min(coming + finishing)
        for j in range(len(jobs)):
            if rate[j] > 0:
                done_then = now + left[j] / rate[j] <= then * (1 + 1e-15)
                left[j] = 0.0 if done_then else left[j] - rate[j] * (then - now)
                if done_then:
                    ends[j] = then
        now = then
        while pending and pending[0][0] <= now:
            _, j, what, value, cap = pending.pop(0)
            if ends[j] < math.inf or jobs[j].start_s > now:
                continue
            if what == "move":
                row[j], works_from[j] = value, now + restart_s
            else:
                weight[j], limit[j] = float(value), cap
    return ends
