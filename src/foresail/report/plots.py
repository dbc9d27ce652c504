"""The plots of the report, from the tables of one run or of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from foresail.report.scale import numbers, time_unit
from foresail.report.style import LINE_WIDTH, NEUTRAL, PALETTE, Figure, axis, colour_and_dash, layout, text
from foresail.report.thin import evenly, thin
from foresail.results.folder import Run
from foresail.results.key_figures import run_labels

# From the bottom up: what a typical pod can still use, then why the rest is of no use.
CLASS_LOOKS = {
    "q3_satisfied": ("usable (q3)", "#009E73"),
    "q2_lack_gpu": ("too little GPU (q2)", "#E69F00"),
    "q4_lack_cpu": ("too little CPU (q4)", "#56B4E9"),
    "q1_lack_both": ("too little of both (q1)", "#D55E00"),
    "no_access": ("GPU model not allowed", "#CC79A7"),
    "xl_satisfied": ("pod asks no GPU (xl)", "#7F7F7F"),
    "xr_lack_cpu": ("pod asks no GPU, too little CPU (xr)", "#B5B8BD"),
}

_ROW_PX = 36
_BETWEEN_PX = 78  # room for the axis title of one panel above the next
_AROUND_PX = 120

_NEAR_FULL = 80.0


def allocation_by_load(runs: Sequence[Run]) -> Figure | None:
    """GPU allocation against load, one line a run, with a closer look near full load; None if no run has loads."""
    figure = _by_load(runs, "allocation_pct", "GPU allocation", "allocated (% of all GPUs)")
    if figure is None:
        return None
    near = [_from_load(line, _NEAR_FULL) for line in figure["data"]]
    if not any(len(line["x"]) > 1 for line in near):
        return figure
    # Until the cluster is nearly full every policy places everything: the runs only differ at the end.
    figure["data"] += [line | {"xaxis": "x2", "yaxis": "y2", "showlegend": False} for line in near]
    figure["layout"]["xaxis"]["domain"] = [0, 0.45]
    figure["layout"]["xaxis2"] = axis(f"load from {_NEAR_FULL:g} on (% of all GPUs)", anchor="y2", domain=[0.56, 1])
    figure["layout"]["yaxis2"] = axis("allocated (% of all GPUs)", anchor="x2")
    return figure


def fragmentation_by_load(runs: Sequence[Run]) -> Figure | None:
    """Fragmentation against load, one line a run; None if no run has loads."""
    return _by_load(runs, "fragmentation_pct", "GPU fragmentation", "fragmented (% of all GPUs)")


def fragment_classes(run: Run, label: str | None = None) -> Figure | None:
    """Idle GPUs by what keeps a typical pod from using them, stacked, over load or time."""
    timeline = run.frame("timeline")
    if timeline is None or timeline.is_empty() or not run.total_gpus:
        return None
    shares = {name: timeline[name].fill_null(0).to_numpy() / (10 * run.total_gpus) for name in CLASS_LOOKS}
    # A class that never occurs would be a legend entry without an area.
    shares = {name: share for name, share in shares.items() if share.any()}
    if not shares:
        return None
    if run.frame("by_load") is not None:
        x = timeline["arrived_gpu_milli"].to_numpy() / (10 * run.total_gpus)
        x_title = "load: GPUs asked for (% of all GPUs)"
    else:
        per_unit_s, unit = time_unit([timeline])
        x, x_title = timeline["time_s"].to_numpy() / per_unit_s, f"time since the trace began ({unit})"
    rows = thin(list(shares.values()))
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": CLASS_LOOKS[name][0],
            "x": numbers(x[rows]),
            "y": numbers(share[rows]),
            "stackgroup": "idle",
            "line": {"width": 0.5, "color": CLASS_LOOKS[name][1]},
            "hovertemplate": "%{y:.2f}%",
        }
        for name, share in shares.items()
    ]
    title = f"Idle GPUs by their use to a typical pod: {text(label or run.policy)}"
    return {
        "data": data,
        "layout": layout(
            title,
            hovermode="x unified",
            xaxis=axis(x_title),
            yaxis=axis("idle (% of all GPUs)", rangemode="tozero"),
        ),
    }


def wait_distribution(runs: Sequence[Run]) -> Figure | None:
    """The share of pods that had started within a wait, one line a run; None if no run has waits."""
    waits: list[tuple[int, npt.NDArray[np.float64], int]] = []
    for index, run in enumerate(runs):
        pods = run.frame("pods")
        if pods is not None and pods.height:
            wait = pods.filter(pl.col("start_s").is_finite())["wait_s"].drop_nulls().sort().to_numpy()
            waits.append((index, wait, pods.height))
    if not waits:
        return None
    floor_s = _shortest_drawn_s(np.concatenate([wait for _, wait, _ in waits]))
    data = []
    for index, wait, count in waits:
        # All pods, not only the started: a policy must not look quicker because it starts fewer.
        share = 100 * np.arange(1, len(wait) + 1) / count
        rows = evenly(len(wait))
        line = _line(runs, index, np.maximum(wait[rows], floor_s), share[rows])
        line["line"]["shape"] = "hv"
        line["hovertemplate"] = "%{y:.1f}% of the pods within %{x:.4s} s<extra>%{fullData.name}</extra>"
        data.append(line)
    return {
        "data": data,
        "layout": layout(
            "How long pods waited",
            xaxis=axis(
                f"wait (s, logarithmic; under {floor_s:g} s drawn at {floor_s:g})",
                type="log",
                dtick=1,
                exponentformat="SI",
            ),
            yaxis=axis("started (% of all pods)", range=[0, 102]),
        ),
    }


def _shortest_drawn_s(wait_s: npt.NDArray[np.float64]) -> float:
    """Choose where a logarithmic axis, which has no zero, begins: at 1 s, or earlier if many waits are shorter."""
    positive = wait_s[wait_s > 0]
    if not len(positive):
        return 1.0
    return min(1.0, 10.0 ** math.floor(math.log10(float(np.quantile(positive, 0.05)))))


def utilisation(runs: Sequence[Run]) -> Figure | None:
    """What is allocated over time: GPU, CPU and memory of a single run, else the GPUs (or CPU) of each run."""
    timed = _timed(runs)
    if not timed:
        return None
    per_unit_s, unit = time_unit([timeline for _, timeline in timed])
    data = []
    if len(timed) == 1:
        index, timeline = timed[0]
        for look, (name, share) in enumerate(_shares(runs[index], timeline).items()):
            rows = thin([share])
            line = _line(runs, index, timeline["time_s"].to_numpy()[rows] / per_unit_s, share[rows])
            line |= {"name": name, "line": {"color": PALETTE[look], "width": LINE_WIDTH}, "showlegend": True}
            data.append(line)
        of_what = "allocated (% of total)"
    else:
        for index, timeline in timed:
            name, share = next(iter(_shares(runs[index], timeline).items()))
            rows = thin([share])
            data.append(_line(runs, index, timeline["time_s"].to_numpy()[rows] / per_unit_s, share[rows]))
            of_what = f"{name} allocated (% of total)"
    for line in data:
        line["line"]["shape"] = "hv"
        line["hovertemplate"] = "%{y:.2f}%<extra>%{fullData.name}</extra>"
    return {
        "data": data,
        "layout": layout(
            "Utilisation over time",
            xaxis=axis(f"time since the trace began ({unit})"),
            yaxis=axis(of_what, rangemode="tozero"),
        ),
    }


def waiting_pods(runs: Sequence[Run]) -> Figure | None:
    """How many pods wait over time, one line a run."""
    timed = _timed(runs)
    if not timed:
        return None
    per_unit_s, unit = time_unit([timeline for _, timeline in timed])
    data = []
    for index, timeline in timed:
        waiting = timeline["waiting"].cast(pl.Float64).to_numpy()
        rows = thin([waiting])
        line = _line(runs, index, timeline["time_s"].to_numpy()[rows] / per_unit_s, waiting[rows])
        line["line"]["shape"] = "hv"
        line["hovertemplate"] = "%{y:,d} pods wait<extra>%{fullData.name}</extra>"
        data.append(line)
    return {
        "data": data,
        "layout": layout(
            "Pods waiting",
            xaxis=axis(f"time since the trace began ({unit})"),
            yaxis=axis("pods", rangemode="tozero"),
        ),
    }


def paired_differences(rows: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Differences to a baseline with their intervals, one panel a metric.

    Rows have policy, baseline, metric, mean, low and high, and may have a unit. A filled dot means that the interval
    leaves out zero.
    """
    if not rows:
        return None
    metrics = list(dict.fromkeys(str(row["metric"]) for row in rows))
    panels = [[row for row in rows if str(row["metric"]) == metric] for metric in metrics]
    inner_px = sum(_ROW_PX * len(panel) for panel in panels) + _BETWEEN_PX * (len(panels) - 1)
    figure: Figure = {
        "data": [],
        "layout": layout("Paired differences", height=inner_px + _AROUND_PX, showlegend=False),
    }
    top = 1.0
    for place, (metric, inside) in enumerate(zip(metrics, panels, strict=True)):
        number = "" if place == 0 else str(place + 1)
        bottom = max(0.0, top - _ROW_PX * len(inside) / inner_px)
        domain = [bottom, top]
        top = bottom - _BETWEEN_PX / inner_px
        figure["layout"][f"xaxis{number}"] = axis(
            _metric_title(metric, inside[0].get("unit")), anchor=f"y{number}", zeroline=True, zerolinecolor=NEUTRAL
        )
        figure["layout"][f"yaxis{number}"] = axis(
            "", anchor=f"x{number}", domain=domain, autorange="reversed", type="category"
        )
        figure["data"].append(_dots(inside, number))
    return figure


def _dots(rows: Sequence[Mapping[str, Any]], number: str) -> dict[str, Any]:
    clear = [row["low"] > 0 or row["high"] < 0 for row in rows]
    colours = [PALETTE[0] if is_clear else NEUTRAL for is_clear in clear]
    return {
        "type": "scatter",
        "mode": "markers",
        "xaxis": f"x{number}",
        "yaxis": f"y{number}",
        "x": numbers(np.array([row["mean"] for row in rows], dtype=np.float64)),
        "y": [text(f"{row['policy']} − {row['baseline']}") for row in rows],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": numbers(np.array([row["high"] - row["mean"] for row in rows], dtype=np.float64)),
            "arrayminus": numbers(np.array([row["mean"] - row["low"] for row in rows], dtype=np.float64)),
            "color": NEUTRAL,
            "thickness": 2,
            "width": 5,
        },
        "marker": {
            "size": 11,
            "color": colours,
            "symbol": ["circle" if is_clear else "circle-open" for is_clear in clear],
        },
        "customdata": [[row["low"], row["high"]] for row in rows],
        "hovertemplate": "%{y}: %{x:+.3f} (%{customdata[0]:+.3f} … %{customdata[1]:+.3f})<extra></extra>",
    }


def _metric_title(metric: str, unit: object) -> str:
    return text(f"difference in {metric} ({unit})" if unit else f"difference in {metric}")


def _by_load(runs: Sequence[Run], column: str, title: str, y_title: str) -> Figure | None:
    data = []
    for index, run in enumerate(runs):
        by_load = run.frame("by_load")
        if by_load is not None and by_load.height:
            line = _line(runs, index, by_load["load"].to_numpy(), by_load[column].to_numpy())
            line["hovertemplate"] = "%{y:.2f}% at load %{x}<extra>%{fullData.name}</extra>"
            data.append(line)
    if not data:
        return None
    return {
        "data": data,
        "layout": layout(
            title,
            xaxis=axis("load: GPUs asked for (% of all GPUs)"),
            yaxis=axis(y_title, rangemode="tozero"),
        ),
    }


def _from_load(line: Mapping[str, Any], load: float) -> dict[str, Any]:
    kept = [(x, y) for x, y in zip(line["x"], line["y"], strict=True) if x is not None and x >= load]
    return {**line, "x": [x for x, _ in kept], "y": [y for _, y in kept]}


def _line(runs: Sequence[Run], index: int, x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> dict[str, Any]:
    # Seeds of one policy share a look and a legend entry: ten near-equal lines are one statement.
    groups = [(run.policy, run.controllers, run.trace, run.load) for run in runs]
    group = list(dict.fromkeys(groups)).index(groups[index])
    colour, dash = colour_and_dash(group)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": text(run_labels(runs)[index]),
        "legendgroup": str(group),
        "showlegend": groups.index(groups[index]) == index,
        "x": numbers(x),
        "y": numbers(y),
        "line": {"color": colour, "dash": dash, "width": LINE_WIDTH},
        "opacity": 1.0 if groups.count(groups[index]) == 1 else 0.6,
    }


def _timed(runs: Sequence[Run]) -> list[tuple[int, pl.DataFrame]]:
    """Return the timelines in which time passes; a protocol that only counts arrivals has none."""
    found = []
    for index, run in enumerate(runs):
        timeline = run.frame("timeline")
        if run.frame("pods") is not None and timeline is not None and timeline.height:
            found.append((index, timeline))
    return found


def _shares(run: Run, timeline: pl.DataFrame) -> dict[str, npt.NDArray[np.float64]]:
    nodes = run.frame("nodes")
    totals = {
        "GPU": ("used_gpu_milli", 1000 * run.total_gpus),
        "CPU": ("used_cpu_milli", 0 if nodes is None else int(nodes["cpu_milli"].sum())),
        "memory": ("used_memory_bytes", 0 if nodes is None else int(nodes["memory_bytes"].sum())),
    }
    return {name: 100 * timeline[column].to_numpy() / total for name, (column, total) in totals.items() if total}
