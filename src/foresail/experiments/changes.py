"""By how much jobs end sooner or later than in the baseline, job by job and seed by seed, and what bounds allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from foresail.experiments.plan import Plan
from foresail.experiments.run import trace_of
from foresail.experiments.runner import RUNS, ExperimentOutcome
from foresail.experiments.statistics import bootstrap_interval
from foresail.results.folder import read_run
from foresail.results.tables import Column
from foresail.sim.bounds import PooledJobs, earliest_end_s, pooled_sharing, shortest_remaining_first

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


def changes_of(plan: Plan, out: Path, carried: ExperimentOutcome) -> list[Changes]:
    """Every strategy against the baseline, and the bounds behind them; only for training jobs."""
    if plan.experiment.training is None:
        return []
    times: dict[tuple[str, int], _Times] = {}
    for planned in plan.runs:
        if planned.folder in carried.there:
            found = _times(read_run(out / RUNS / planned.folder).columns("pods") or {})
            if found is not None:
                times[planned.policy, planned.seed] = found
    rows = []
    for policy in plan.policies:
        if policy == plan.baseline:
            continue
        figures = [
            _paired(times[plan.baseline, seed], times[policy, seed])
            for seed in plan.experiment.seeds
            if (policy, seed) in times and (plan.baseline, seed) in times
        ]
        rows.append(_over_seeds(policy, "run", figures))
    return rows + _bounds(plan, {seed: found for (policy, seed), found in times.items() if policy == plan.baseline})


class _Times(NamedTuple):
    """Of the jobs of a run, in the order in which they came."""

    submit_s: Floats
    end_s: Floats
    target_s: Floats


def _times(pods: Mapping[str, Column]) -> _Times | None:
    """None if a job has not ended. Runs on a cluster know nothing of targets."""
    submit_s, end_s = (np.asarray(pods[name], dtype=np.float64) for name in ("submit_s", "end_s"))
    found = _Times(submit_s, end_s, np.asarray(pods.get("target_s", np.full(len(end_s), np.nan)), dtype=np.float64))
    return found if len(found.end_s) and np.isfinite(found.end_s).all() else None


def _paired(baseline: _Times, other: _Times) -> dict[str, float]:
    figures = change_of(baseline.submit_s, baseline.end_s, other.end_s)
    has_target = np.isfinite(baseline.target_s)
    if has_target.any():
        before_s, after_s = ((run.target_s - run.submit_s)[has_target].mean() for run in (baseline, other))
        figures["target_pct"] = 100 * (float(after_s / before_s) - 1)
    return figures


def _bounds(plan: Plan, baseline: Mapping[int, _Times]) -> list[Changes]:
    found: dict[str, list[dict[str, float]]] = {name: [] for name in BOUNDS}
    for planned in plan.runs:
        if planned.policy != plan.baseline or planned.seed not in baseline:
            continue
        trace = trace_of(planned.request)
        jobs = PooledJobs.of(trace.workload, trace.nodes)
        submit_s, end_s, _ = baseline[planned.seed]
        # Results list pods by time and then as the trace does.
        order = np.argsort(trace.workload.arrival_s, kind="stable")
        for name, bound in BOUNDS.items():
            if bound is None:
                found[name].append({"makespan_pct": _makespan_change(submit_s, end_s, earliest_end_s(jobs))})
            else:
                found[name].append(change_of(submit_s, end_s, bound(jobs)[order]))
    return [_over_seeds(name, "bound", figures) for name, figures in found.items()]


BOUNDS: dict[str, Callable[[PooledJobs], Floats] | None] = {
    "pooled sharing": pooled_sharing,
    "clairvoyant shortest remaining first": shortest_remaining_first,
    "makespan bound": None,
}
"""Bounds by name; the last has a makespan alone."""


def _over_seeds(strategy: str, kind: str, figures: Sequence[Mapping[str, float]]) -> Changes:
    summed = {}
    for name in FIGURES:
        values = [one[name] for one in figures if name in one]
        if values:
            low, high = bootstrap_interval(values) or (None, None)
            summed[name] = Change(fmean(values), low, high)
    return Changes(strategy, kind, len(figures), summed)
