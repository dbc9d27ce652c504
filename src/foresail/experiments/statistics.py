"""Means, and differences between policies paired by seed with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
import numpy.typing as npt

from foresail.experiments.experiment import ALL_TRACES
from foresail.results.metrics import Metric

RESAMPLES = 10_000
CONFIDENCE = 0.95
_SEED = 20_240_229
"""Any number will do, as long as it stays: the same differences then have the same interval for ever."""
_DRAWS_AT_ONCE = 2_000_000

Key = tuple[str, str, int]
"""Trace, policy and seed of a run."""
Values = Mapping[Key, Mapping[str, float | None]]
"""The values of every finished run by metric."""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One policy on one trace, or on all of them, by one metric."""

    trace: str
    policy: str
    baseline: str
    metric: str
    better: str
    """`higher` or `lower`."""
    n: int
    """Runs with a value."""
    mean: float | None
    sd: float | None
    """Standard deviation of a sample; None for fewer than two runs."""
    pairs: int | None = None
    """Runs that the baseline has a value for under the same trace and seed; None for the baseline itself."""
    diff_mean: float | None = None
    """Mean of policy − baseline over the pairs."""
    diff_low: float | None = None
    diff_high: float | None = None
    """Ends of the 95 % interval; None for fewer than two pairs, from which no spread can be told."""
    wins: int | None = None
    """Pairs in which the policy is better; a tie is no win."""


def compare(
    values: Values, *, traces: Sequence[str], policies: Sequence[str], baseline: str, metrics: Sequence[Metric]
) -> list[ComparisonRow]:
    """One row for each trace, policy and metric, and rows over all traces where there are several."""
    groups = [(trace, [trace]) for trace in traces]
    if len(traces) > 1:
        groups.append((ALL_TRACES, list(traces)))
    return [
        _row(values, name, members, policy, baseline, metric)
        for name, members in groups
        for policy in policies
        for metric in metrics
    ]


def _row(values: Values, name: str, traces: Sequence[str], policy: str, baseline: str, metric: Metric) -> ComparisonRow:
    def of(which: str) -> dict[tuple[str, int], float]:
        found = {
            (trace, seed): measured.get(metric.name)
            for (trace, called, seed), measured in values.items()
            if called == which and trace in traces
        }
        return {key: value for key, value in found.items() if value is not None}

    mine = of(policy)
    amounts = list(mine.values())
    mean = fmean(amounts) if amounts else None
    sd = stdev(amounts) if len(amounts) > 1 else None
    row = ComparisonRow(name, policy, baseline, metric.name, metric.better, len(amounts), mean, sd)
    if policy == baseline:
        return row
    theirs = of(baseline)
    differences = [value - theirs[key] for key, value in mine.items() if key in theirs]
    interval = bootstrap_interval(differences)
    low, high = (None, None) if interval is None else interval
    sign = 1 if metric.higher_is_better else -1
    return ComparisonRow(
        name,
        policy,
        baseline,
        metric.name,
        metric.better,
        len(amounts),
        mean,
        sd,
        pairs=len(differences),
        diff_mean=fmean(differences) if differences else None,
        diff_low=low,
        diff_high=high,
        wins=sum(sign * difference > 0 for difference in differences),
    )


def bootstrap_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """The percentile bootstrap interval of a mean; None for fewer than two values.

    Values are drawn with replacement, as many as there are, 10 000 times over; the ends leave 2.5 % of the means of
    these draws on either side. Every call starts from the same random numbers.
    """
    count = len(differences)
    if count < 2:
        return None
    sample: npt.NDArray[np.float64] = np.array(differences, dtype=np.float64)
    random = np.random.Generator(np.random.PCG64(_SEED))
    means = np.empty(RESAMPLES)
    at_once = max(1, _DRAWS_AT_ONCE // count)
    for start in range(0, RESAMPLES, at_once):
        rows = min(at_once, RESAMPLES - start)
        means[start : start + rows] = sample[random.integers(0, count, size=(rows, count))].mean(axis=1)
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [outside, 1 - outside]).tolist()
    return low, high
