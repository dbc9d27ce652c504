"""Why a pod got its node, or none: every filter's count and every score, worked out afresh from the same plug-ins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foresail.core.asking import Filters, FilterStep
from foresail.core.decide import decide
from foresail.core.memory import sum_scores
from foresail.core.model import Nodes, NoFit, Placement, Pod
from foresail.core.profile import Profile
from foresail.core.spec import PodSpec
from foresail.core.table import NodeTable


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """One score on one node: as the policy gave it, after normalising, and its weight in the total."""

    name: str
    raw: float
    normalized: float
    weight: float


@dataclass(frozen=True, slots=True)
class ScoredNode:
    """A feasible node with its scores; the best total comes first, equal ones by rank."""

    node: str
    rank: int
    total: float
    scores: list[ScoreLine]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and all that led to it."""

    pod: str
    request: str
    """What the pod requests, in words."""
    outcome: Placement | NoFit
    node_count: int
    filters: list[FilterStep]
    feasible: int
    candidates: list[ScoredNode]
    tied: int
    """Nodes that share the best total."""


def explain(pod: Pod, table: NodeTable, profile: Profile, *, top: int = 5) -> Explanation:
    """Decide, and show the work: filters in their order, then the best `top` nodes."""
    filters, rows = Filters.of(profile).step_by_step(pod, table)
    nodes = Nodes(table, rows)
    lines = []
    for used_score in profile.scores if len(rows) else ():
        raw = used_score.score(pod, nodes)
        lines.append((used_score, raw, used_score.normalize(pod, nodes, raw)))
    total = sum_scores([(used_score.weight, scaled) for used_score, _, scaled in lines], len(rows))
    order = np.lexsort((table.rank[rows], -total))[:top]
    candidates = [
        ScoredNode(
            node=table.names[rows[at]],
            rank=int(table.rank[rows[at]]),
            total=float(total[at]),
            scores=[
                ScoreLine(used.name, float(raw[at]), float(scaled[at]), used.weight) for used, raw, scaled in lines
            ],
        )
        for at in order
    ]
    return Explanation(
        pod=pod.name,
        request=describe(pod.spec),
        outcome=decide(pod, table, profile),
        node_count=table.count,
        filters=filters,
        feasible=len(rows),
        candidates=candidates,
        tied=int((total == total.max()).sum()) if len(rows) else 0,
    )


def describe(spec: PodSpec) -> str:
    """What a pod requests: "8000 milli cpu, 30 GiB memory, 2 whole GPUs of T4"."""
    parts = [f"{spec.cpu_milli} milli cpu", f"{spec.memory_bytes / 2**30:.4g} GiB memory"]
    if spec.gpu_count == 1 and spec.gpu_milli < 1000:
        parts.append(f"{spec.gpu_milli} milli of a GPU")
    elif spec.gpu_count:
        parts.append(f"{spec.gpu_count} whole GPU{'s' if spec.gpu_count > 1 else ''}")
    if spec.gpu_count and spec.gpu_models:
        parts[-1] += f" of {' or '.join(dict.fromkeys(spec.gpu_models))}"
    parts += [f"{amount} {name}" for name, amount in spec.extended]
    if spec.node_selector:
        parts.append("nodes with " + ", ".join(f"{key}={value}" for key, value in spec.node_selector))
    return ", ".join(parts)
