"""What a node still has before it, from what its training jobs report: the published cost of a node.

Whoever watches jobs writes it to side columns of the node table, and whoever places pods reads it there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

COST = "progress.cost"
"""Side column: C of the node, 1 for one without jobs."""
COST_IF_ALL_OVER = "progress.cost_if_all_over"
"""Side column: C as it counts once every node is over its limit."""
USED = "progress.used"
"""Side column: what the node's jobs use, as a part of its CPU."""
JOBS = "progress.jobs"
"""Side column: how many jobs those were."""
PODS = "progress.pods"
"""Side column: how many pods the node had then, so that those which came or left since are counted."""
EMPTY_COST = 1.0
"""C of a node without jobs, and of one that nobody watches."""

_LEAST_CPU_MILLI = 1.0
"""A job that uses nothing at the moment of the look counts as one that uses this much: it will end some day."""


class WatchedJob(NamedTuple):
    """What is known of one job on a node."""

    cpu_milli: float
    """CPU that it uses now."""
    ran_s: float
    """Since it started on the node."""
    known_s: float
    """Since it was submitted."""
    epochs: float
    """How many it has altogether."""
    epoch: float = 0.0
    """How many are behind it."""
    epoch_s: float | None = None
    """How long the last one took; None for a job that has not reported twice yet."""


class NodeCost(NamedTuple):
    """What the jobs of a node make of it."""

    cost: float
    """C = 1 + Σ ⌈P_j⌉."""
    cost_if_all_over: float
    used: float
    """Part of the node's CPU that is in use, at most 1."""


def node_cost(jobs: Sequence[WatchedJob], total_milli: float) -> NodeCost:
    """The cost of a node with these jobs and so much CPU.

    With n jobs, R those of them that report: used = n/|R| · Σ_R cpu_j, at most the total. A job of R has the share
    U_j = cpu_j / used and P_j = epoch_s / U_j · (epochs − epoch), any other U_j = 1/n and P_j = ran_s / U_j · epochs.
    If all nodes are over their limit, P_j = epoch_s · n · (epochs − epoch), or known_s · n · epochs.
    """
    count = len(jobs)
    cpus = [max(job.cpu_milli, _LEAST_CPU_MILLI) for job in jobs]
    reporting = [cpu for job, cpu in zip(jobs, cpus, strict=True) if job.epoch_s is not None]
    used = min(count / len(reporting) * math.fsum(reporting), total_milli) if reporting else 0.0
    cost = if_all_over = EMPTY_COST
    for job, cpu in zip(jobs, cpus, strict=True):
        if job.epoch_s is None:
            cost += math.ceil(job.ran_s / (1 / count) * job.epochs)
            if_all_over += math.ceil(job.known_s * count * job.epochs)
        else:
            left = max(0.0, job.epochs - job.epoch)
            cost += math.ceil(job.epoch_s / (cpu / used) * left)
            if_all_over += math.ceil(job.epoch_s * count * left)
    return NodeCost(cost, if_all_over, used / total_milli if total_milli > 0 else 0.0)
