"""What runs are compared by: names, which way is better, and the value a run has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from foresail.errors import OptionError, did_you_mean
from foresail.results.folder import Run
from foresail.results.key_figures import FULL_LOAD, key_figures

_AT_LOAD = re.compile(r"(allocation|fragmentation|fragmentation_ratio)_at_([1-9]\d{0,4})_pct")
_STEMS = ("allocation", "fragmentation", "fragmentation_ratio")
FAILED_PODS = "failed_pods"

# Metric by the label of the key figure it is, so that a comparison and a run's own table cannot disagree.
_CLOCK = {
    "wait_mean_s": "wait mean",
    "wait_p50_s": "wait p50",
    "wait_p95_s": "wait p95",
    "wait_p99_s": "wait p99",
    "slowdown_mean": "bounded slowdown mean",
    "slowdown_p95": "bounded slowdown p95",
    "makespan_s": "makespan",
    "allocation_over_time_pct": "GPU allocation over time",
    FAILED_PODS: "failed",
}
_CLOCK_DEFAULT = (
    "wait_mean_s",
    "wait_p95_s",
    "slowdown_mean",
    "makespan_s",
    "allocation_over_time_pct",
    FAILED_PODS,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a run."""

    name: str
    figure: str
    """The column of `by_load.csv`, or the label of the key figure."""
    load_pct: int | None = None
    """The load at which it is read, in % of all GPUs; None for figures of the whole run."""

    @property
    def higher_is_better(self) -> bool:
        return self.name.startswith("allocation")

    @property
    def better(self) -> str:
        return "higher" if self.higher_is_better else "lower"


def default_metrics(protocol: str, load: float) -> list[str]:
    """The key figures of a protocol; those by load at full load and at the last load, the last one first."""
    if protocol == "clock":
        return list(_CLOCK_DEFAULT)
    last = round(load * 100)
    loads = [last, FULL_LOAD] if last > FULL_LOAD else [last]
    return [*(f"{stem}_at_{pct}_pct" for stem in _STEMS for pct in loads), FAILED_PODS]


def find_metric(name: str, protocol: str, load: float) -> Metric:
    """The metric of this name, if runs of this protocol and load have it."""
    if protocol == "clock":
        if name in _CLOCK:
            return Metric(name, _CLOCK[name])
        known = list(_CLOCK)
    else:
        if name == FAILED_PODS:
            return Metric(name, "failed")
        matched = _AT_LOAD.fullmatch(name)
        last = round(load * 100)
        if matched and int(matched[2]) <= last:
            return Metric(name, f"{matched[1]}_pct", int(matched[2]))
        if matched:
            raise OptionError(f'metric "{name}" is above the last load, {last} %; raise --load or ask for less')
        known = default_metrics(protocol, load)
    hint = did_you_mean(name, known) or ";"
    raise OptionError(f'protocol {protocol} has no metric "{name}"{hint} there are {", ".join(known)}')


def measure(run: Run, metrics: Iterable[Metric]) -> dict[str, float | None]:
    """The run's values by metric; None where it has nothing to measure."""
    figures = {figure.label: figure.value for figure in key_figures(run)}
    by_load = run.frame("by_load")
    values: dict[str, float | None] = {}
    for metric in metrics:
        if metric.load_pct is None:
            value = figures.get(metric.figure)
        else:
            value = None if by_load is None else _at_load(by_load, metric.figure, metric.load_pct)
        values[metric.name] = value
    return values


def _at_load(by_load: pl.DataFrame, column: str, load_pct: int) -> float | None:
    # In a small cluster one pod may be several percent, so that a load is passed over; then the one before it counts.
    # The arrivals of a seed are the same for every policy, so pairs are read at the same load.
    reached = by_load.filter(pl.col("load") <= load_pct).sort("load")
    return None if reached.is_empty() else float(reached[column][-1])
