"""The handful of numbers that a run is shown with: its metrics, and why pods failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foresail.results.folder import Run, StoredRun
from foresail.results.metrics import FAILED_PODS, FULL_LOAD, LOAD_STEMS, Metric, at_load, metrics
from foresail.results.tables import Column

_REASONS_SHOWN = 5
_UNSAID = frozenset({"pods", "actions"})
"""Units that the label says already."""


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
    pods = run.columns("pods")
    figures = [KeyFigure("pods", len((run.columns("placements") or {"pod": []})["pod"]), digits=0)]
    figures += [found for metric in _shown(run) if (found := _figure(metric, run)) is not None]
    return figures if pods is None else figures + _reasons(pods)


def _shown(run: Run) -> list[Metric]:
    """The metrics of a run in the order in which they are read: by load after the count of failed pods."""
    if run.columns("pods") is not None:
        # A protocol that nobody has described shows what its tables allow.
        known = [metric for metric in metrics() if run.protocol in metric.protocols]
        return known or [metric for metric in metrics() if "clock" in metric.protocols]
    own = [metric for metric in metrics() if run.protocol in metric.protocols]
    failed = [metric for metric in metrics() if metric.name == FAILED_PODS]
    by_load = run.columns("by_load")
    loads = [] if by_load is None else np.asarray(by_load["load"], dtype=np.float64).tolist()
    if loads:
        last = max(loads)
        wanted = [FULL_LOAD, last] if FULL_LOAD in loads and last != FULL_LOAD else [last]
        failed += [at_load(stem, load) for stem in LOAD_STEMS for load in wanted]
    return failed + [metric for metric in own if metric.name != FAILED_PODS]


def _figure(metric: Metric, run: Run) -> KeyFigure | None:
    value = metric.value(run)
    if value is None and metric.hidden_without_value:
        return None
    return KeyFigure(metric.label, value, "" if metric.unit in _UNSAID else metric.unit, metric.digits)


def _reasons(pods: Mapping[str, Column]) -> list[KeyFigure]:
    """Why pods failed, the most frequent reasons first."""
    failed = Counter(why for why, how in zip(pods["reason"], pods["outcome"], strict=True) if how == "failed")
    reasons = sorted(failed.items(), key=lambda item: (-item[1], item[0]))
    shown, others = reasons[:_REASONS_SHOWN], reasons[_REASONS_SHOWN:]
    figures = [KeyFigure(f"failed: {reason or 'no reason given'}", count, digits=0) for reason, count in shown]
    if others:
        count = sum(count for _, count in others)
        figures.append(KeyFigure(f"failed: {len(others)} other reasons", count, digits=0))
    return figures


def run_name(policy: str, controllers: Sequence[str]) -> str:
    """What a run goes by in tables, plots and folders: "fgd", "fgd with equal-shares and mover"."""
    return f"{policy} with {' and '.join(controllers)}" if controllers else policy


def _world(run: Run) -> str:
    """Where a run took place; its manifest says so, if that was no simulation."""
    manifest = run.manifest if isinstance(run, StoredRun) else {}
    return "on the cluster" if manifest.get("world") == "kube" else "simulated"


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Name each run by its policy, its controllers and by whatever else tells it apart from the others."""
    labels = [run_name(run.policy, run.controllers) for run in runs]
    worlds = [_world(run) for run in runs]
    if len(set(worlds)) > 1:
        labels = [f"{label} · {world}" for label, world in zip(labels, worlds, strict=True)]
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
