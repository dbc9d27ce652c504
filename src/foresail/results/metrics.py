"""What runs are judged by: each metric has a name, a unit, a direction and one formula over a run's tables.

Summaries, key figures, comparisons and reports all go by what stands here. Protocols and plug-ins add metrics with
`register`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foresail.core.journal import What
from foresail.errors import OptionError, did_you_mean
from foresail.results.folder import Run
from foresail.results.tables import Column

Floats = npt.NDArray[np.float64]

FULL_LOAD = 100
"""The load, in % of all GPUs, at which runs are compared besides their last load."""
FAILED_PODS = "failed_pods"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a run."""

    name: str
    """As experiment files and tables have it; ends in its unit."""
    label: str
    """As people read it."""
    unit: str
    better: Literal["higher", "lower"]
    formula: str
    """In words, for the reference."""
    value: Callable[[Run], float | None]
    """None where the run has nothing to measure, for example the wait when no pod started."""
    protocols: tuple[str, ...]
    """Whose runs have it."""
    digits: int = 2
    """How many are shown behind the point."""
    is_default: bool = False
    """Whether it is compared where an experiment names no metrics."""
    hidden_without_value: bool = False
    """Whether a run that has nothing to measure is not said to have it at all."""

    @property
    def higher_is_better(self) -> bool:
        return self.better == "higher"

    @property
    def difference_unit(self) -> str:
        """What a difference of two values is measured in."""
        return "percentage points" if self.unit == "%" else self.unit


# --- the formulas --------------------------------------------------------------------------------------------------


def mean(values: Floats) -> float | None:
    """The mean; the same whatever order the values come in, which is why the sum is an exact one."""
    return math.fsum(values.tolist()) / len(values) if len(values) else None


def most(values: Floats) -> float | None:
    return float(values.max()) if len(values) else None


def percentile(values: Floats, share_pct: int) -> float | None:
    """The percentile; between two values it is interpolated linearly."""
    return float(np.percentile(values, share_pct)) if len(values) else None


def spread(values: Floats) -> dict[str, float | None]:
    """The mean and the percentiles that summaries show."""
    return {"mean": mean(values), **{f"p{share}": percentile(values, share) for share in (50, 95, 99)}}


def waits_s(pods: Mapping[str, Column]) -> Floats:
    """How long the pods waited that got a node."""
    return _floats(pods, "wait_s")[np.isfinite(_floats(pods, "start_s"))]


def slowdowns(pods: Mapping[str, Column]) -> Floats:
    """The bounded slowdowns of the pods that have ended."""
    return _floats(pods, "slowdown")[_has_ended(pods)]


def completions_s(pods: Mapping[str, Column]) -> Floats:
    """From submission to end, of the pods that have ended."""
    return (_floats(pods, "end_s") - _floats(pods, "submit_s"))[_has_ended(pods)]


def makespan_s(pods: Mapping[str, Column]) -> float | None:
    """From the first submission to the last end."""
    ends_s = _floats(pods, "end_s")[_has_ended(pods)]
    return float(ends_s.max() - _floats(pods, "submit_s").min()) if len(ends_s) else None


def _has_ended(pods: Mapping[str, Column]) -> npt.NDArray[np.bool_]:
    return np.isfinite(_floats(pods, "end_s"))


def _floats(columns: Mapping[str, Column], name: str) -> Floats:
    return np.asarray(columns[name], dtype=np.float64)


def _of_pods(
    values: Callable[[Mapping[str, Column]], Any], figure: Callable[[Any], float | None], run: Run
) -> float | None:
    pods = run.columns("pods")
    return None if pods is None else figure(values(pods))


def _failed_pods(run: Run) -> float | None:
    pods = run.columns("pods")
    if pods is not None:
        return list(pods["outcome"]).count("failed")
    # Without departures a pod is tried once: not placed is failed.
    return list((run.columns("placements") or {"node": []})["node"]).count("")


def _allocation_over_time(run: Run) -> float | None:
    # From the sums that the run kept at every change: what snapshots show depends on how often one is taken.
    value = run.summary.get("allocation", {}).get("gpu_pct")
    return None if value is None else float(value)


def _actions(what: What, run: Run) -> float | None:
    journal = run.columns("journal")
    if journal is None or not run.controllers:
        return None
    return list(zip(journal["what"], map(bool, journal["by"]), strict=True)).count((what.value, True))


def _members_apart(run: Run) -> float | None:
    value = run.summary.get("gangs_to_be_close", {}).get("pairs_apart_pct")
    return None if value is None else float(value)


def _fragmentation_over_time(run: Run) -> float | None:
    value = run.summary.get("fragmentation", {}).get("pct")
    return None if value is None else float(value)


def _at_load(column: str, load_pct: float, run: Run) -> float | None:
    # In a small cluster one pod may be several percent, so that a load is passed over; then the one before it counts.
    # The arrivals of a seed are the same for every policy, so pairs are read at the same load.
    by_load = run.columns("by_load")
    if by_load is None:
        return None
    loads = _floats(by_load, "load")
    reached = np.flatnonzero(loads <= load_pct)
    return float(by_load[column][reached[np.argmax(loads[reached])]]) if len(reached) else None


# --- the registry --------------------------------------------------------------------------------------------------

_CLOCK = ("clock", "snapshot")
_METRICS: dict[str, Metric] = {}


def register(metric: Metric) -> Metric:
    """Make a metric known; its name must be new."""
    if metric.name in _METRICS or _AT_LOAD.fullmatch(metric.name):
        raise ValueError(f"there is a metric {metric.name} already; give this one another name")
    _METRICS[metric.name] = metric
    return metric


def metrics() -> list[Metric]:
    """Every metric but those by load, which `at_load` makes."""
    return list(_METRICS.values())


_AT_LOAD = re.compile(r"(allocation|fragmentation|fragmentation_ratio)_at_([1-9]\d{0,4})_pct")
_BY_LOAD: dict[str, tuple[str, Literal["higher", "lower"]]] = {
    "allocation": ("GPU allocation", "higher"),
    "fragmentation": ("fragmentation", "lower"),
    "fragmentation_ratio": ("fragmentation ratio", "lower"),
}
LOAD_STEMS = tuple(_BY_LOAD)
"""What is measured at a load."""


def at_load(stem: str, load_pct: float) -> Metric:
    """A figure of `by_load.csv` at a load, in % of all GPUs."""
    label, better = _BY_LOAD[stem]
    return Metric(
        name=f"{stem}_at_{load_pct:g}_pct",
        label=f"{label} at load {load_pct:g}",
        unit="%",
        better=better,
        formula=f"`{stem}_pct` of `by_load.csv` at load {load_pct:g}",
        value=partial(_at_load, f"{stem}_pct", load_pct),
        protocols=("openb",),
    )


def _register_built_in() -> None:
    for figure, compared in (("mean", True), ("p50", False), ("p95", True), ("p99", False)):
        of = mean if figure == "mean" else partial(percentile, share_pct=int(figure[1:]))
        register(
            Metric(
                name=f"wait_{figure}_s",
                label=f"wait {figure}",
                unit="s",
                better="lower",
                formula=f"{_said(figure)} of `wait_s` over pods with a `start_s`",
                value=partial(_of_pods, waits_s, of),
                protocols=_CLOCK,
                digits=1,
                is_default=compared,
            )
        )
    for figure, compared in (("mean", True), ("p95", False)):
        of = mean if figure == "mean" else partial(percentile, share_pct=int(figure[1:]))
        register(
            Metric(
                name=f"slowdown_{figure}",
                label=f"bounded slowdown {figure}",
                unit="",
                better="lower",
                formula=f"{_said(figure)} of `slowdown` over pods with an `end_s`",
                value=partial(_of_pods, slowdowns, of),
                protocols=_CLOCK,
                is_default=compared,
            )
        )
    register(
        Metric(
            name="makespan_s",
            label="makespan",
            unit="s",
            better="lower",
            formula="last `end_s` − first `submit_s`",
            value=partial(_of_pods, lambda pods: pods, makespan_s),
            protocols=_CLOCK,
            digits=0,
            is_default=True,
        )
    )
    register(
        Metric(
            name="allocation_over_time_pct",
            label="GPU allocation over time",
            unit="%",
            better="higher",
            formula="∫ `used_gpu_milli` dt / whole time / `total_gpus` / 10, summed at every change and so the same "
            "however often a snapshot is taken; `allocation.gpu_pct` of `summary.json`",
            value=_allocation_over_time,
            protocols=_CLOCK,
            is_default=True,
            hidden_without_value=True,
        )
    )
    register(
        Metric(
            name="gang_members_apart_pct",
            label="gang members apart",
            unit="%",
            better="lower",
            formula="of all pairs of members of a gang with a topology, by where each started last, those that do not "
            "share a value of its closest label; `gangs_to_be_close.pairs_apart_pct` of `summary.json`",
            value=_members_apart,
            protocols=_CLOCK,
            hidden_without_value=True,
        )
    )
    register(
        Metric(
            name="fragmentation_over_time_pct",
            label="fragmentation over time",
            unit="%",
            better="lower",
            formula="∫ `fragment_milli` dt / whole time / `total_gpus` / 10, summed at every change; "
            "`fragmentation.pct` of `summary.json`",
            value=_fragmentation_over_time,
            protocols=_CLOCK,
            hidden_without_value=True,
        )
    )
    register(
        Metric(
            name=FAILED_PODS,
            label="failed",
            unit="pods",
            better="lower",
            formula="pods with outcome `failed`; without `pods.parquet`: rows of `placements.csv` with an empty `node`",
            value=_failed_pods,
            protocols=("openb", *_CLOCK),
            digits=0,
            is_default=True,
        )
    )


def _register_actions() -> None:
    for what, name, label in (
        (What.MOVE, "moves", "moves"),
        (What.RESIZE, "resizes", "resizes"),
        (What.DECLINE, "declined_actions", "declined actions"),
    ):
        register(
            Metric(
                name=name,
                label=label,
                unit="actions",
                better="lower",
                formula=f"records `{what}` of `journal.parquet` with a controller in `by`; none without controllers",
                value=partial(_actions, what),
                protocols=("clock",),
                digits=0,
                hidden_without_value=True,
            )
        )


def _said(figure: str) -> str:
    return "mean" if figure == "mean" else f"{figure[1:]} % quantile (linear)"


_register_built_in()
_register_actions()


def default_metrics(protocol: str, load: float) -> list[str]:
    """The key figures of a protocol; those by load at full load and at the last load, the last one first."""
    own = [metric.name for metric in metrics() if metric.is_default and protocol in metric.protocols]
    if protocol != "openb":
        return own
    last = round(load * 100)
    loads = [last, FULL_LOAD] if last > FULL_LOAD else [last]
    return [*(f"{stem}_at_{pct}_pct" for stem in LOAD_STEMS for pct in loads), *own]


def find_metric(name: str, protocol: str, load: float) -> Metric:
    """The metric of this name, if runs of this protocol and load have it."""
    metric = _METRICS.get(name)
    if metric is not None and protocol in metric.protocols:
        return metric
    matched = _AT_LOAD.fullmatch(name)
    if protocol == "openb":
        last = round(load * 100)
        if matched and int(matched[2]) <= last:
            return at_load(matched[1], int(matched[2]))
        if matched:
            raise OptionError(f'metric "{name}" is above the last load, {last} %; raise --load or ask for less')
    own = [metric.name for metric in metrics() if protocol in metric.protocols]
    known = list(dict.fromkeys([*default_metrics(protocol, load), *own])) if protocol == "openb" else own
    hint = did_you_mean(name, known) or ";"
    raise OptionError(f'protocol {protocol} has no metric "{name}"{hint} there are {", ".join(known)}')


def measure(run: Run, wanted: Iterable[Metric]) -> dict[str, float | None]:
    """The run's values by metric; None where it has nothing to measure."""
    return {metric.name: metric.value(run) for metric in wanted}
