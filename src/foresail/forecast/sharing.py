"""How pods of a node divide its CPU, and when each would be done if it stayed so."""

from __future__ import annotations

import math
from collections.abc import Sequence


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
    there = [at for at in range(len(left)) if left[at] > 0]
    todo = list(left)
    ends_s = [0.0] * len(left)
    now_s = 0.0
    while there:
        rates = share(capacity, [weights[at] for at in there], [limits[at] for at in there])
        lasts_s = [todo[at] / rate if rate > 0 else math.inf for at, rate in zip(there, rates, strict=True)]
        first_s = min(lasts_s)
        if first_s == math.inf:
            for at in there:
                ends_s[at] = math.inf
            break
        now_s += first_s
        stay = []
        for at, rate, last_s in zip(there, rates, lasts_s, strict=True):
            if last_s <= first_s:
                ends_s[at] = now_s
            else:
                todo[at] -= rate * first_s
                stay.append(at)
        there = stay
    return ends_s


def shortest_first_ends_s(capacity: float, left: Sequence[float], limits: Sequence[float]) -> list[float]:
    """When each has done its CPU-seconds, from now, if those with least left go first and nobody comes."""
    order = sorted(range(len(left)), key=left.__getitem__)
    todo = list(left)
    ends_s = [0.0] * len(left)
    now_s = 0.0
    while order:
        rates = in_order(capacity, order, limits)
        lasts_s = [todo[at] / rates[at] if rates[at] > 0 else (0.0 if todo[at] <= 0 else math.inf) for at in order]
        first_s = min(lasts_s)
        if first_s == math.inf:
            for at in order:
                ends_s[at] = math.inf
            break
        now_s += first_s
        stay = []
        for at, last_s in zip(order, lasts_s, strict=True):
            if last_s <= first_s:
                ends_s[at] = now_s
            else:
                todo[at] -= rates[at] * first_s
                stay.append(at)
        order = stay
    return ends_s
