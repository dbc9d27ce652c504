"""What a finished run knows: the tables that the results folder, the report and the comparison are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

Column = npt.NDArray[Any] | list[str]

FRAGMENT_CLASSES = (
    "q1_lack_both",
    "q2_lack_gpu",
    "q3_satisfied",
    "q4_lack_cpu",
    "xl_satisfied",
    "xr_lack_cpu",
    "no_access",
)
"""The seven classes that idle GPU milli fall into; all but `q3_satisfied` count as fragments."""


@dataclass(slots=True)
class RunResult:
    """One policy over one trace with one seed.

    `placements`: order, pod, node (empty when not placed), devices ("0", "0-1-2" or empty), time_s. One row a pod,
    in order of decision.
    `timeline`: one row an event (protocol openb: an arrival; protocol clock: a snapshot). Always time_s,
    arrived_gpu_milli, used_gpu_milli, used_cpu_milli, used_memory_bytes, idle_gpu_milli, fragment_milli, the seven
    fragment classes, running, waiting, failed, finished.
    `by_load`: load, allocation_pct, fragmentation_pct, fragmentation_ratio_pct; None where load means nothing.
    `pods`: protocol clock only: pod, submit_s, start_s, end_s, wait_s, run_s, slowdown, outcome
    ("finished", "running", "waiting", "failed"), restarts, reason.
    `nodes`: the state at the end: node, model, cpu_milli, memory_bytes, gpu_count, cpu_free_milli,
    memory_free_bytes, gpu_free_milli (total), gpu_free_milli_by_device ("1000-0-250"), pods.
    `summary`: the key figures, ready for JSON.
    """

    protocol: str
    policy: str
    trace: str
    seed: int
    load: float | None
    total_gpus: int
    placements: dict[str, Column]
    timeline: dict[str, Column]
    nodes: dict[str, Column]
    summary: dict[str, Any]
    by_load: dict[str, Column] | None = None
    pods: dict[str, Column] | None = None
    profile: dict[str, Any] = field(default_factory=dict)
