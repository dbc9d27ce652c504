"""Splits made better by exchanges: CPU goes from one task to another as long as that helps.

Tables are tasks × steps of CPU × rows, so that what a task would take in all rows with some CPU lies side by side. What
a split costs is the sum over rows of the slowest task's seconds.
"""

from __future__ import annotations

import numba
import numpy as np

_SIZES = 5
"""Exchanges are of 1, 2, 4, … steps: so many sizes."""
LITTLE_S = 1e-9
"""What falls by less does not fall."""
_SUMS = {"reassoc", "nsz"}
"""Sums may be taken in any order, which lets the processor add several at a time."""


@numba.njit(cache=True)
def exchange(table, first, last, split, tries):  # type: ignore[no-untyped-def]
    """Move steps from one task to another as long as the cost of rows `first` to `last` falls; `split` is changed.

    What a pair could save is bounded by what both changes alone would do; exactly reckoned are the pairs with the best
    bounds, at most `tries` before one is found that helps. Where seconds fall with CPU the bound holds, so with enough
    tries no pair of tasks is left that could help by 1, 2, 4, … steps.
    """
    tasks, width = table.shape[:2]
    rows = last - first
    now, order, most = np.empty((rows, tasks)), np.empty((rows, 3), np.int64), np.empty(rows)
    for task in range(tasks):
        for row in range(rows):
            now[row, task] = table[task, split[task], first + row]
    for row in range(rows):
        _rank(now[row], order[row])
        most[row] = now[row, order[row, 0]]
    sizes = 1
    while 2**sizes < width and sizes < _SIZES:
        sizes += 1
    given, taken = np.empty((sizes, tasks)), np.empty((sizes, tasks))
    bounds, pairs = np.empty(sizes * tasks * tasks), np.empty(sizes * tasks * tasks, np.int64)
    while True:
        _given(table, first, split, now, order, given)
        _taken(table, first, split, most, given.min(), taken)
        count = _pairs(given, taken, bounds, pairs)
        fresh, has_helped = np.ones(tasks, np.bool_), False
        for _ in range(min(tries, count)):
            best = np.argmin(bounds[:count])
            if bounds[best] == np.inf:
                break
            bounds[best] = np.inf
            step, source, target = 2 ** (pairs[best] // tasks**2), (pairs[best] // tasks) % tasks, pairs[best] % tasks
            if not (fresh[source] and fresh[target]):
                continue
            if _difference(table, first, split, now, order, source, target, step) < -LITTLE_S:
                split[source] -= step
                split[target] += step
                _move(table, first, split, now, order, most, source, target)
                fresh[source] = fresh[target] = False
                has_helped = True
        if not has_helped:
            return


@numba.njit(cache=True)
def _move(table, first, split, now, order, most, source, target):  # type: ignore[no-untyped-def]
    """Bring what is known of the rows up to date: one task has been given steps of another."""
    for row in range(len(now)):
        now[row, source] = table[source, split[source], first + row]
        now[row, target] = table[target, split[target], first + row]
        third = order[row, 2]
        # Where both were and are below the third nothing else changes.
        if (
            third < 0
            or target in (order[row, 0], order[row, 1], third)
            or max(now[row, source], now[row, target]) >= now[row, third]
        ):
            _rank(now[row], order[row])
            most[row] = now[row, order[row, 0]]


@numba.njit(cache=True)
def _given(table, first, split, now, order, given):  # type: ignore[no-untyped-def]
    """What the cost changes if a task is given 1, 2, 4, … steps that nobody lacks: it does where it is the slowest."""
    tasks, width = table.shape[:2]
    for size in range(len(given)):
        for task in range(tasks):
            given[size, task] = np.inf if split[task] + 2**size >= width else 0.0
    for row in range(len(now)):
        slowest = order[row, 0]
        most = now[row, slowest]
        second = now[row, order[row, 1]] if tasks > 1 else -np.inf
        for size in range(len(given)):
            if split[slowest] + 2**size >= width:
                break
            given[size, slowest] += max(second, table[slowest, split[slowest] + 2**size, first + row]) - most


@numba.njit(cache=True)
def _taken(table, first, split, most, gain, taken):  # type: ignore[no-untyped-def]
    """What the cost changes if 1, 2, 4, … steps are taken from a task.

    Infinite where it has too few, and where fewer steps cost already more than anybody could gain by more.
    """
    taken[:] = np.inf
    for task in range(table.shape[0]):
        for size in range(len(taken)):
            if split[task] < 2**size:
                break
            taken[size, task] = _rise(table[task, split[task] - 2**size, first : first + len(most)], most)
            if taken[size, task] + gain >= -LITTLE_S:
                break


@numba.njit(cache=True, fastmath=_SUMS)
def _rise(seconds, most):  # type: ignore[no-untyped-def]
    total = 0.0
    for row in range(len(most)):
        total += max(seconds[row] - most[row], 0.0)
    return total


@numba.njit(cache=True)
def _pairs(given, taken, bounds, pairs):  # type: ignore[no-untyped-def]
    """Exchanges that may help, with the most that they can save; how many there are."""
    sizes, tasks = given.shape
    count = 0
    for size in range(sizes):
        targets = np.nonzero(given[size] < -LITTLE_S)[0]
        for source in np.nonzero(taken[size] < np.inf)[0]:
            for target in targets:
                bound = taken[size, source] + given[size, target]
                if bound < -LITTLE_S and source != target:
                    bounds[count], pairs[count] = bound, (size * tasks + source) * tasks + target
                    count += 1
    return count


@numba.njit(cache=True)
def _difference(table, first, split, now, order, source, target, step):  # type: ignore[no-untyped-def]
    """What the cost changes if one task gives steps to another."""
    less, more = table[source, split[source] - step], table[target, split[target] + step]
    total = 0.0
    for row in range(len(now)):
        most = max(less[first + row], more[first + row])
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
