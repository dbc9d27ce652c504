"""Splits made better by exchanges: CPU goes from one task to another as long as that helps.

Seconds and costs are those of `splitting`.
"""

from __future__ import annotations

import numba
import numpy as np

_SIZES = 5
"""Exchanges are of 1, 2, 4, … steps: so many sizes."""
_LITTLE_S = 1e-9
"""What falls by less does not fall."""


@numba.njit(cache=True)
def exchange(seconds, split, tries):  # type: ignore[no-untyped-def]
    """Move steps from one task to another as long as the cost falls; `split` is changed.

    What a pair could save is bounded by what both changes alone would do; exactly reckoned are the pairs with the best
    bounds, at most `tries` before one is found that helps. Where seconds fall with CPU the bound holds, so with enough
    tries no pair of tasks is left that could help by 1, 2, 4, … steps.
    """
    rows, tasks, width = seconds.shape
    now, order = np.empty((rows, tasks)), np.empty((rows, 3), np.int64)
    for row in range(rows):
        for task in range(tasks):
            now[row, task] = seconds[row, task, split[task]]
        _rank(now[row], order[row])
    sizes = 1
    while 2**sizes < width and sizes < _SIZES:
        sizes += 1
    given, taken = np.empty((sizes, tasks)), np.empty((sizes, tasks))
    while True:
        _alone(seconds, split, now, order, given, taken)
        size, source, target = _first_that_helps(seconds, split, now, order, given, taken, tries)
        if size < 0:
            return
        split[source] -= 2**size
        split[target] += 2**size
        for row in range(rows):
            now[row, source] = seconds[row, source, split[source]]
            now[row, target] = seconds[row, target, split[target]]
            _rank(now[row], order[row])


@numba.njit(cache=True)
def _alone(seconds, split, now, order, given, taken):  # type: ignore[no-untyped-def]
    """What the cost changes if a task is given 1, 2, 4, … steps that nobody lacks, or if they are taken from it."""
    rows, tasks, width = seconds.shape
    for size in range(len(given)):
        step = 2**size
        for task in range(tasks):
            given[size, task] = np.inf if split[task] + step >= width else 0.0
            taken[size, task] = np.inf if split[task] < step else 0.0
        for row in range(rows):
            slowest, most = order[row, 0], now[row, order[row, 0]]
            if split[slowest] + step < width:
                second = now[row, order[row, 1]] if tasks > 1 else -np.inf
                given[size, slowest] += max(second, seconds[row, slowest, split[slowest] + step]) - most
        for task in range(tasks):
            if split[task] >= step:
                total = 0.0
                for row in range(rows):
                    total += max(seconds[row, task, split[task] - step] - now[row, order[row, 0]], 0.0)
                taken[size, task] = total


@numba.njit(cache=True)
def _first_that_helps(seconds, split, now, order, given, taken, tries):  # type: ignore[no-untyped-def]
    """Size, source and target of an exchange that helps, by what it seems to save; −1 if there is none."""
    sizes, tasks = given.shape
    bounds = np.empty((sizes, tasks, tasks))
    for size in range(sizes):
        for source in range(tasks):
            for target in range(tasks):
                bounds[size, source, target] = taken[size, source] + given[size, target]
            bounds[size, source, source] = np.inf
    for _ in range(tries):
        at = np.argmin(bounds)
        size, source, target = at // (tasks * tasks), (at // tasks) % tasks, at % tasks
        if not bounds[size, source, target] < -_LITTLE_S:
            break
        bounds[size, source, target] = np.inf
        if _difference(seconds, split, now, order, source, target, 2**size) < -_LITTLE_S:
            return size, source, target
    return -1, -1, -1


@numba.njit(cache=True)
def _difference(seconds, split, now, order, source, target, step):  # type: ignore[no-untyped-def]
    """What the cost changes if one task gives steps to another."""
    total = 0.0
    for row in range(seconds.shape[0]):
        most = max(seconds[row, source, split[source] - step], seconds[row, target, split[target] + step])
        for place in range(order.shape[1]):
            other = order[row, place]
            if other >= 0 and other not in (source, target):
                most = max(most, now[row, other])
                break
        total += most - now[row, order[row, 0]]
    return total


@numba.njit(cache=True)
def _rank(now, order):  # type: ignore[no-untyped-def]
    """The three slowest tasks; −1 where there are fewer."""
    order[:] = -1
    for task in range(len(now)):
        if order[0] < 0 or now[task] > now[order[0]]:
            order[2], order[1], order[0] = order[1], order[0], task
        elif order[1] < 0 or now[task] > now[order[1]]:
            order[2], order[1] = order[1], task
        elif order[2] < 0 or now[task] > now[order[2]]:
            order[2] = task
