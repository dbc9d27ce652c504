"""The handful of numbers a run is judged by, worked out from its tables alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from foresail.results.folder import Run

FULL_LOAD = 100
"""The load, in % of all GPUs, at which runs are compared besides their last load."""

_REASONS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number of a run with what it is and its unit."""

    label: str
    value: float | None
    """None where the run has nothing to measure, for example the wait when no pod started."""
    unit: str = ""
    digits: int = 2

    @property
    def text(self) -> str:
        if self.value is None:
            return "–"
        number = f"{self.value:,.{self.digits}f}"
        return f"{number} {self.unit}" if self.unit and self.unit != "%" else number + self.unit


def key_figures(run: Run) -> list[KeyFigure]:
    """Work out a run's key figures; which ones depends on the tables it has, not on how it was made."""
    figures = _counts(run)
    by_load = run.frame("by_load")
    if by_load is not None:
        figures += _at_loads(by_load)
    pods = run.frame("pods")
    if pods is not None:
        figures += _waits(pods) + _allocation(run) + _failures(pods)
    return figures


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Name each run by its policy and by whatever else tells it apart from the others."""
    labels = [run.policy for run in runs]
    if len({run.trace for run in runs}) > 1:
        labels = [f"{label} · {run.trace}" for label, run in zip(labels, runs, strict=True)]
    if len({run.seed for run in runs}) > 1:
        labels = [f"{label} · seed {run.seed}" for label, run in zip(labels, runs, strict=True)]
    if len({run.load for run in runs}) > 1:
        labels = [f"{label} · load {run.load}" for label, run in zip(labels, runs, strict=True)]
    seen: dict[str, int] = {}
    for index, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        if seen[label] > 1:
            labels[index] = f"{label} ({seen[label]})"
    return labels


def _counts(run: Run) -> list[KeyFigure]:
    placements = run.frame("placements")
    assert placements is not None  # noqa: S101 - every run has placements; this only tells the type checker
    figures = [KeyFigure("pods", placements.height, digits=0)]
    if run.frame("pods") is None:
        # Without departures a pod is tried once: not placed is failed.
        figures.append(KeyFigure("failed", int((placements["node"] == "").sum()), digits=0))
    return figures


def _at_loads(by_load: pl.DataFrame) -> list[KeyFigure]:
    loads = by_load["load"].drop_nulls().to_list()
    if not loads:
        return []
    last = max(loads)
    wanted = [FULL_LOAD, last] if FULL_LOAD in loads and last != FULL_LOAD else [last]
    figures = []
    for label, column in (
        ("GPU allocation", "allocation_pct"),
        ("fragmentation", "fragmentation_pct"),
        ("fragmentation ratio", "fragmentation_ratio_pct"),
    ):
        for load in wanted:
            value = by_load.filter(pl.col("load") == load)[column].to_list()[0]
            figures.append(KeyFigure(f"{label} at load {load:g}", value, "%"))
    return figures


def _waits(pods: pl.DataFrame) -> list[KeyFigure]:
    started = pods.filter(pl.col("start_s").is_finite())
    wait, slowdown = started["wait_s"].drop_nulls(), started["slowdown"].drop_nulls()
    figures = [KeyFigure("wait mean", _mean(wait), "s", 1)]
    figures += [KeyFigure(f"wait p{share}", _quantile(wait, share), "s", 1) for share in (50, 95, 99)]
    figures += [
        KeyFigure("bounded slowdown mean", _mean(slowdown)),
        KeyFigure("bounded slowdown p95", _quantile(slowdown, 95)),
    ]
    ends = pods["end_s"].filter(pods["end_s"].is_finite())
    makespan_s = None if ends.is_empty() else float(ends.to_numpy().max() - pods["submit_s"].to_numpy().min())
    return [*figures, KeyFigure("makespan", makespan_s, "s", 0)]


def _allocation(run: Run) -> list[KeyFigure]:
    timeline = run.frame("timeline")
    if timeline is None or timeline.height < 2 or not run.total_gpus:
        return []
    # A snapshot holds until the next one, so each counts for as long as it lasted.
    lasted_s = timeline["time_s"].diff().slice(1)
    whole_s = float(lasted_s.sum())
    if whole_s <= 0:
        return []
    used = float((timeline["used_gpu_milli"].slice(0, timeline.height - 1) * lasted_s).sum())
    return [KeyFigure("GPU allocation over time", used / whole_s / run.total_gpus / 10, "%")]


def _failures(pods: pl.DataFrame) -> list[KeyFigure]:
    failed = pods.filter(pl.col("outcome") == "failed")
    figures = [KeyFigure("failed", failed.height, digits=0)]
    reasons = failed.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    for reason, count in reasons.head(_REASONS_SHOWN).iter_rows():
        figures.append(KeyFigure(f"failed: {reason or 'no reason given'}", count, digits=0))
    others = reasons.slice(_REASONS_SHOWN)
    if others.height:
        figures.append(KeyFigure(f"failed: {others.height} other reasons", int(others["len"].sum()), digits=0))
    return figures


def _mean(values: pl.Series) -> float | None:
    return None if values.is_empty() else float(values.to_numpy().mean())


def _quantile(values: pl.Series, share_pct: int) -> float | None:
    return values.quantile(share_pct / 100, "linear")
