"""A bulk-synchronous job on a cluster beside its simulation: seconds, splits and how long resizes took."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.report.page import render_page, table_card, write_page
from foresail.report.style import LINE_WIDTH, PALETTE, Figure, axis, colour_and_dash, layout, text

Floats = npt.NDArray[np.float64]
_BINS = 20
WORDS = {
    "supersteps": "supersteps",
    "real_s": "slowest tasks on the cluster, together (s)",
    "simulated_s": "the same in simulation (s)",
    "difference": "mean difference of a superstep",
    "difference_same_split": "the same, with the splits of the cluster",
    "overhead_s": "barrier and waiting for reports, mean of a superstep (s)",
    "changes": "changes of the split",
    "change_mean_s": "mean time of a change (s)",
    "resizes": "resizes that kubelets set aside",
    "resize_median_s": "median time until set aside (s)",
    "total_s": "supersteps and changes on the cluster, together (s)",
}
"""What is told of an overlay."""
_PARTS = {"difference", "difference_same_split"}


@dataclass(frozen=True, eq=False, slots=True)
class DrawnOverlay:
    """What is drawn: one value a superstep, or supersteps × tasks."""

    tasks: Sequence[str]
    steps: npt.NDArray[np.int64]
    real_s: Floats
    """The slowest task's work on the cluster."""
    superstep_s: Floats
    """From the opening of the superstep to the last report."""
    simulated_s: Floats
    """The slowest task's work in simulation, with the splits planned there."""
    expected_s: Floats
    """What the profile says of the splits that the cluster had."""
    cpu_milli: Floats
    simulated_cpu_milli: Floats
    changed: npt.NDArray[np.bool_]
    changing_s: Floats
    allocated_s: Floats
    """Of each resize: from the controller's word until the kubelet had set it aside."""


def in_words(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Figures for people."""
    return [(word, _written(key, figures[key])) for key, word in WORDS.items()]


def _written(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key in _PARTS:
        return f"{100 * value:.1f} %"
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def seconds_overlaid(drawn: DrawnOverlay) -> Figure:
    """How long supersteps took on the cluster, in simulation, and by the profile with the cluster's splits."""
    lines = (("cluster", drawn.real_s), ("simulation", drawn.simulated_s), ("profile, same split", drawn.expected_s))
    data = []
    for at, (name, seconds) in enumerate(lines):
        colour, dash = colour_and_dash(at)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": drawn.steps.tolist(),
                "y": [round(float(value), 3) for value in seconds],
                "line": {"color": colour, "dash": dash, "width": LINE_WIDTH},
                "hovertemplate": "superstep %{x}: %{y:.2f} s<extra>%{fullData.name}</extra>",
            }
        )
    y_axis = axis("seconds of the slowest task", rangemode="tozero")
    return {"data": data, "layout": layout("How long supersteps took", xaxis=axis("superstep"), yaxis=y_axis)}


def splits_overlaid(drawn: DrawnOverlay) -> Figure:
    """The CPU of each task: lines on the cluster, dotted in simulation."""
    data = []
    for kind, dash, table in (("", "solid", drawn.cpu_milli), (" (simulation)", "dot", drawn.simulated_cpu_milli)):
        for at, task in enumerate(drawn.tasks):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": text(f"{task}{kind}"),
                    "x": drawn.steps.tolist(),
                    "y": [round(float(value)) for value in table[:, at]],
                    "line": {"color": PALETTE[at % len(PALETTE)], "dash": dash, "shape": "hv", "width": LINE_WIDTH},
                    "hovertemplate": "%{y} milli",
                }
            )
    y_axis = axis("CPU (milli)", rangemode="tozero")
    return {
        "data": data,
        "layout": layout("CPU of each task", hovermode="x unified", xaxis=axis("superstep"), yaxis=y_axis),
    }


def resize_histogram(drawn: DrawnOverlay) -> Figure:
    """How many resizes were set aside after how long."""
    counts, edges = np.histogram(drawn.allocated_s, bins=_BINS)
    bars = {
        "type": "bar",
        "x": [round(float(value), 4) for value in (edges[:-1] + edges[1:]) / 2],
        "y": counts.tolist(),
        "marker": {"color": PALETTE[0]},
        "hovertemplate": "%{x:.2f} s: %{y} resizes<extra></extra>",
    }
    x_axis = axis("seconds until the kubelet had set it aside", rangemode="tozero")
    return {"data": [bars], "layout": layout("Resizes in place", xaxis=x_axis, yaxis=axis("resizes"))}


def overlay_figures(drawn: DrawnOverlay) -> dict[str, Figure]:
    """Every plot, by a name that serves as file name and anchor."""
    figures = {"seconds": seconds_overlaid(drawn), "splits": splits_overlaid(drawn)}
    return figures | ({"resizes": resize_histogram(drawn)} if len(drawn.allocated_s) else {})


def write_overlay_page(path: Path, name: str, figures: Mapping[str, Any], drawn: DrawnOverlay) -> None:
    """Write the page: the figures, the supersteps, then the plots."""
    head = ("superstep", "cluster (s)", "simulation (s)", "profile, same split (s)", "change before it (s)")
    cells = [
        (str(step), f"{real:.2f}", f"{simulated:.2f}", f"{expected:.2f}", f"{changing:.2f}" if changed else "")
        for step, real, simulated, expected, changed, changing in zip(
            drawn.steps,
            drawn.real_s,
            drawn.simulated_s,
            drawn.expected_s,
            drawn.changed,
            drawn.changing_s,
            strict=True,
        )
    ]
    cards = [
        table_card("Cluster and simulation", ("", "value"), in_words(figures)),
        table_card("Supersteps", head, cells),
    ]
    title = "A bulk-synchronous job, run and simulated"
    write_page(path, render_page(title, html.escape(name), cards, overlay_figures(drawn)))
