"""By how much jobs end sooner or later than in the baseline, job by job and seed by seed, and what bounds allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.experiments.plan import Plan
from foresail.experiments.request import RunRequest
from foresail.experiments.run import trace_of
from foresail.experiments.runner import RUNS, ExperimentOutcome
from foresail.experiments.statistics import bootstrap_interval
from foresail.results.folder import Run, read_run
from foresail.sim.bounds import (
    PooledJobs,
    earliest_end_s,
    pooled_sharing,
    shortest_remaining_first,
    shortest_to_target_first,
)
from foresail.sim.work.targets import target_fractions

Floats = npt.NDArray[np.float64]

FIGURES = {
    "mean_pct": "mean completion: of all jobs, from submission to end",
    "makespan_pct": "from the first submission to the last end",
    "best_pct": "the job that gains most",
    "worst_pct": "the job that loses most",
    "slower_pct": "share of the jobs that end later than in the baseline",
    "target_pct": "mean time from submission until 90 % of the way to the lowest loss",
}
"""What is measured of a seed, each a change in % of the baseline; only `slower_pct` is a share in %."""
_ROUNDING = 1e-9
"""A job counts as slower from this part of its time on: two sums of the same may differ in the last bits."""


@dataclass(frozen=True, slots=True)
class Change:
    """One figure over all seeds."""

    mean: float
    low: float | None
    high: float | None
    """Ends of the 95 % interval; None for fewer than two seeds."""


@dataclass(frozen=True, slots=True)
class Changes:
    """One strategy, or one bound, against the baseline."""

    strategy: str
    kind: str
    """`run` for what was simulated, `bound` for what was worked out."""
    seeds: int
    """With both runs finished."""
    figures: dict[str, Change]
    unpinned: int = 0
    """Jobs of all seeds that could not start where they do in the baseline."""


def change_of(submit_s: Floats, baseline_end_s: Floats, end_s: Floats) -> dict[str, float]:
    """The figures of one seed; all columns have the jobs in the same order."""
    before_s, after_s = baseline_end_s - submit_s, end_s - submit_s
    by_job = 100 * (after_s / before_s - 1)
    return {
        "mean_pct": 100 * (float(after_s.mean() / before_s.mean()) - 1),
        "makespan_pct": _makespan_change(submit_s, baseline_end_s, float(end_s.max())),
        "best_pct": float(by_job.min()),
        "worst_pct": float(by_job.max()),
        "slower_pct": 100 * float((by_job > 100 * _ROUNDING).mean()),
    }


def _makespan_change(submit_s: Floats, baseline_end_s: Floats, end_s: float) -> float:
    first_s = float(submit_s.min())
    return 100 * ((end_s - first_s) / (float(baseline_end_s.max()) - first_s) - 1)


class JobTimes(NamedTuple):
    """When the jobs of a run came, ended, and had their target; in the order of their names."""

    submit_s: Floats
    end_s: Floats
    target_s: Floats
    unpinned: int = 0
    """How many could not start where they were to."""

    @classmethod
    def of(cls, run: Run) -> JobTimes | None:
        """None if a job has not ended. Runs on a cluster know nothing of targets."""
        pods = run.columns("pods") or {"pod": [], "submit_s": [], "end_s": []}
        order = sorted(range(len(pods["pod"])), key=lambda row: str(pods["pod"][row]))
        submit_s, end_s = (np.asarray(pods[name], dtype=np.float64)[order] for name in ("submit_s", "end_s"))
        target_s = np.full(len(order), np.nan)
        if "target_s" in pods:
            target_s = np.asarray(pods["target_s"], dtype=np.float64)[order]
        if not order or not np.isfinite(end_s).all():
            return None
        return cls(submit_s, end_s, target_s, len(run.summary.get("pins_not_kept", ())))


def changes_of(plan: Plan, out: Path, carried: ExperimentOutcome) -> list[Changes]:
    """Every strategy against the baseline, and the bounds behind them; only for training jobs."""
    if plan.experiment.training is None:
        return []
    times = {
        (planned.policy, planned.seed): JobTimes.of(read_run(out / RUNS / planned.folder))
        for planned in plan.runs
        if planned.folder in carried.there
    }
    requests = [planned.request for planned in plan.runs if planned.policy == plan.baseline]
    return changes_between(times, plan.policies, plan.baseline, requests)


def changes_between(
    times: Mapping[tuple[str, int], JobTimes | None],
    strategies: Sequence[str],
    baseline: str,
    requests: Sequence[RunRequest],
) -> list[Changes]:
    """The same from what runs gave, by strategy and seed; `requests` are those of the baseline."""
    seeds = [request.seed for request in requests]
    rows = []
    for strategy in strategies:
        if strategy != baseline:
            pairs = [(times.get((baseline, seed)), times.get((strategy, seed))) for seed in seeds]
            figures = [_paired(before, after) for before, after in pairs if before is not None and after is not None]
            unpinned = sum(after.unpinned for _, after in pairs if after is not None)
            rows.append(_over_seeds(strategy, "run", figures, unpinned))
    before_by_seed = {seed: before for seed in seeds if (before := times.get((baseline, seed))) is not None}
    return rows + _bounds([request for request in requests if request.seed in before_by_seed], before_by_seed)


def _paired(baseline: JobTimes, other: JobTimes) -> dict[str, float]:
    # On a cluster, jobs of two runs are not submitted at quite the same times.
    end_s = other.end_s + (baseline.submit_s - other.submit_s)
    figures = change_of(baseline.submit_s, baseline.end_s, end_s)
    return figures | _target_change(baseline, other)


def _target_change(baseline: JobTimes, other: JobTimes) -> dict[str, float]:
    has_target = np.isfinite(baseline.target_s)
    if not has_target.any():
        return {}
    before_s, after_s = ((run.target_s - run.submit_s)[has_target].mean() for run in (baseline, other))
    return {"target_pct": 100 * (float(after_s / before_s) - 1)}


def _bounds(requests: Sequence[RunRequest], baseline: Mapping[int, JobTimes]) -> list[Changes]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in BOUNDS}
    for request in requests:
        trace = trace_of(request)
        arrival_s = trace.workload.arrival_s * request.clock.arrival_scale
        jobs = PooledJobs.of(replace(trace.workload, arrival_s=arrival_s), trace.nodes)
        by_name = sorted(range(len(trace.workload)), key=trace.workload.names.__getitem__)
        before = baseline[request.seed]
        submit_s, end_s = before[:2]
        for name, ends_of in ENDS.items():
            found[name].append(change_of(submit_s, end_s, ends_of(jobs)[by_name]))
        found[MAKESPAN].append({"makespan_pct": _makespan_change(submit_s, end_s, earliest_end_s(jobs))})
        target_s = shortest_to_target_first(jobs, target_fractions(trace.workload))[by_name]
        found[TARGETS].append(_target_change(before, before._replace(target_s=target_s)))
    return [_over_seeds(name, "bound", figures) for name, figures in found.items() if name != TARGETS or any(figures)]


ENDS: dict[str, Callable[[PooledJobs], Floats]] = {
    "pooled sharing": pooled_sharing,
    "clairvoyant shortest remaining first": shortest_remaining_first,
}
"""Bounds that say when every job ends, by name."""
MAKESPAN, TARGETS = "makespan bound", "clairvoyant shortest to target first"
BOUNDS = (*ENDS, MAKESPAN, TARGETS)
"""The last two have a makespan alone, and the time to the target alone."""


def _over_seeds(strategy: str, kind: str, figures: Sequence[Mapping[str, float]], unpinned: int = 0) -> Changes:
    summed = {}
    for name in FIGURES:
        values = [one[name] for one in figures if name in one]
        if values:
            low, high = bootstrap_interval(values) or (None, None)
            summed[name] = Change(fmean(values), low, high)
    return Changes(strategy, kind, len(figures), summed, unpinned)
