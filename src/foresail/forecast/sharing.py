"""How pods of a node divide its CPU, and when each would be done if it stayed so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

LEAST_WEIGHT = 2.0
"""Weight of a pod that requests nothing, as the kubelet gives it, next to 1000 for a request of one CPU."""


def share(capacity: float, weights: Sequence[float], limits: Sequence[float]) -> list[float]:
    """Divide a capacity by weight, nobody above its limit; what those leave goes to the others by weight."""
    if math.fsum(limits) <= capacity:
        return list(limits)
    grants = [0.0] * len(weights)
    left, weight_left = capacity, math.fsum(weights)
    by_level = sorted(range(len(weights)), key=lambda at: limits[at] / weights[at])
    for place, at in enumerate(by_level):
        level = left / weight_left
        if limits[at] > weights[at] * level:
            # All that follow have more limit for their weight: one level for all, so that equals get equal shares.
            for other in by_level[place:]:
                grants[other] = weights[other] * level
            break
        grants[at] = limits[at]
        left = max(0.0, left - limits[at])
        weight_left -= weights[at]
    return grants


def in_order(capacity: float, order: Sequence[int], limits: Sequence[float]) -> list[float]:
    """Divide a capacity by rank: each in `order` up to its limit, as far as it goes."""
    grants = [0.0] * len(limits)
    for at in order:
        grants[at] = min(limits[at], capacity)
        capacity -= grants[at]
        if capacity <= 0:
            break
    return grants


def fair_ends_s(
    capacity: float, left: Sequence[float], weights: Sequence[float], limits: Sequence[float]
) -> list[float]:
    """When each has done its CPU-seconds, from now, if all share by weight and nobody comes."""
    ends_s = [math.inf if work > 0 else 0.0 for work in left]
    now_s = 0.0
    for lasts_s, _, ending in _fair_phases(capacity, left, weights, limits):
        now_s += lasts_s
        for at in ending:
            ends_s[at] = now_s
    return ends_s


def fair_progress(
    capacity: float, left: Sequence[float], weights: Sequence[float], limits: Sequence[float], for_s: float
) -> tuple[list[float], list[float]]:
    """CPU-seconds that each does in so long if all share by weight, and when it is done, infinity if not by then."""
    done = [0.0] * len(left)
    ends_s = [math.inf if work > 0 else 0.0 for work in left]
    now_s = 0.0
    for lasts_s, rates, ending in _fair_phases(capacity, left, weights, limits):
        step_s = min(lasts_s, for_s - now_s)
        for at, rate in rates.items():
            done[at] += rate * step_s
        if now_s + lasts_s > for_s:
            break
        now_s += lasts_s
        for at in ending:
            done[at], ends_s[at] = left[at], now_s
    return done, ends_s


def _fair_phases(
    capacity: float, left: Sequence[float], weights: Sequence[float], limits: Sequence[float]
) -> Iterator[tuple[float, dict[int, float], list[int]]]:
    """Stretches of time in which nobody ends: how long each lasts, who has how much, and who is done after it."""
    todo = {at: work for at, work in enumerate(left) if work > 0}
    while todo:
        rates = dict(zip(todo, share(capacity, [weights[at] for at in todo], [limits[at] for at in todo]), strict=True))
        lasts_s = {at: todo[at] / rate if rate > 0 else math.inf for at, rate in rates.items()}
        first_s = min(lasts_s.values())
        ending = [at for at, last_s in lasts_s.items() if last_s <= first_s < math.inf]
        yield first_s, rates, ending
        if not ending:
            return
        todo = {at: todo[at] - rates[at] * first_s for at in todo if at not in ending}


def shortest_first_ends_s(
    capacity: float, left: Sequence[float], limits: Sequence[float], ready_s: Sequence[float] = ()
) -> list[float]:
    """When each has done its CPU-seconds, from now, if those with least left go first and nobody comes.

    Nobody gets on before it is ready, in `ready_s` from now; without that all are.
    """
    order = sorted(range(len(left)), key=left.__getitem__)
    ready = list(ready_s) or [0.0] * len(left)
    todo = list(left)
    ends_s = [0.0] * len(left)
    now_s = 0.0
    while order:
        there = [at for at in order if ready[at] <= now_s]
        rates = in_order(capacity, there, limits)
        lasts_s = [todo[at] / rates[at] if rates[at] > 0 else (0.0 if todo[at] <= 0 else math.inf) for at in there]
        next_s = min((ready[at] for at in order if ready[at] > now_s), default=math.inf)
        first_s = min(min(lasts_s, default=math.inf), next_s - now_s)
        if first_s == math.inf:
            for at in order:
                ends_s[at] = math.inf
            break
        ended = {at for at, last_s in zip(there, lasts_s, strict=True) if last_s <= first_s}
        now_s = next_s if first_s == next_s - now_s else now_s + first_s
        for at in ended:
            ends_s[at] = now_s
        for at in there:
            todo[at] -= rates[at] * first_s
        order = [at for at in order if at not in ended]
    return ends_s


def earliest_s(cpus: float, left: Sequence[float], limits: Sequence[float], ready_s: Sequence[float] = ()) -> float:
    """When jobs can all be done, from now; `ready_s` as in `shortest_first_ends_s`."""
    ready = ready_s or [0.0] * len(left)
    alone_s = (begin_s + work / limit for begin_s, work, limit in zip(ready, left, limits, strict=True))
    return max(math.fsum(left) / cpus, *alone_s) if left else 0.0


class DueJob(NamedTuple):
    """A job that is to be done by some time."""

    left_cpu_s: float
    limit: float
    """The most CPUs that it can use."""
    due_s: float
    """From now; below 0 if it is late."""


def rates_in_time(cpus: float, jobs: Sequence[DueJob], lasts_s: float, *, urgent: float = 1.0) -> list[float]:
    """CPUs for each job for the next while: as many as cannot wait if all are to be done when they are due, and beyond
    that the shortest first.

    What can wait is found backwards from the latest time: of those that are not due before it, the longest wait. Where
    more than `urgent` of the CPUs cannot wait, not all will be in time: each gets as much less, and the shortest jobs
    the rest.
    """
    rates = _unable_to_wait(cpus, jobs, lasts_s)
    wanted, most = math.fsum(rates), urgent * cpus
    if wanted > most:
        rates = [rate * most / wanted for rate in rates]
        wanted = most
    free = cpus - wanted
    for at in sorted(range(len(jobs)), key=lambda at: jobs[at].left_cpu_s):
        more = min(jobs[at].limit - rates[at], free)
        if more > 0:
            rates[at] += more
            free -= more
    return rates


def _unable_to_wait(cpus: float, jobs: Sequence[DueJob], lasts_s: float) -> list[float]:
    later = [0.0] * len(jobs)
    dues_s = sorted({job.due_s for job in jobs if job.due_s > lasts_s}, reverse=True)
    for end_s, begin_s in pairwise([*dues_s, lasts_s]):
        room = cpus * (end_s - begin_s)
        waiting = [at for at, job in enumerate(jobs) if job.due_s >= end_s]
        for at in sorted(waiting, key=lambda at: (later[at] - jobs[at].left_cpu_s) / jobs[at].limit):
            waits = min(jobs[at].left_cpu_s - later[at], jobs[at].limit * (end_s - begin_s), room)
            later[at] += waits
            room -= waits
    return [min(job.limit, (job.left_cpu_s - wait) / lasts_s) for job, wait in zip(jobs, later, strict=True)]
