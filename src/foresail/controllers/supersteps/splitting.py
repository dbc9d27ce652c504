"""Splits for given seconds, greedily as published.

Seconds are tables of rows × tasks × steps of CPU; a row is a superstep, or a superstep of one scenario. What a split
costs is the sum over rows of the slowest task's seconds, each row by its weight.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True)
def greedy(seconds, weights, units):  # type: ignore[no-untyped-def]
    """Give out steps one by one: to the task that gains most in the rows in which it is the slowest.

    Ties go to the first task. A task that has all it can take is no longer looked at.
    """
    rows, tasks, width = seconds.shape
    split = np.zeros(tasks, np.int64)
    now, slowest, saves = np.empty((rows, tasks)), np.empty(rows, np.int64), np.empty(rows)
    for row in range(rows):
        for task in range(tasks):
            now[row, task] = seconds[row, task, 0]
        slowest[row] = _slowest(now[row])
        saves[row] = weights[row] * (now[row, slowest[row]] - seconds[row, slowest[row], 1])
    gain = np.empty(tasks)
    for _ in range(units):
        gain[:] = -np.inf
        for row in range(rows):
            task = slowest[row]
            gain[task] = saves[row] if gain[task] == -np.inf else gain[task] + saves[row]
        given = 0
        for task in range(1, tasks):
            if gain[task] > gain[given]:
                given = task
        split[given] += 1
        is_full = split[given] == width - 1
        for row in range(rows):
            after = -np.inf if is_full else seconds[row, given, split[given]]
            now[row, given] = after
            task = slowest[row]
            if task == given:
                task = _slowest(now[row])
            elif after > now[row, task] or (after == now[row, task] and given < task):
                task = given  # a spline is not monotone: more CPU may be slower
            else:
                continue
            slowest[row] = task
            if now[row, task] > -np.inf:
                saves[row] = weights[row] * (now[row, task] - seconds[row, task, split[task] + 1])
    return split


@numba.njit(cache=True)
def cost_of(seconds, split):  # type: ignore[no-untyped-def]
    """The sum over rows of the slowest task's seconds."""
    total = 0.0
    for row in range(seconds.shape[0]):
        most = seconds[row, 0, split[0]]
        for task in range(1, seconds.shape[1]):
            most = max(most, seconds[row, task, split[task]])
        total += most
    return total


@numba.njit(cache=True)
def _slowest(now):  # type: ignore[no-untyped-def]
    slowest = 0
    for task in range(1, len(now)):
        if now[task] > now[slowest]:
            slowest = task
    return slowest
