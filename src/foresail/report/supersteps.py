"""Plots of bulk-synchronous jobs: where their time goes, how CPU is split over time, how long supersteps take."""

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
from foresail.report.thin import thin

Floats = npt.NDArray[np.float64]

PARTS = {
    "work_s": ("work", "#009E73"),
    "waiting_s": ("waiting", "#E69F00"),
    "reconfiguration_s": ("changing", "#D55E00"),
}
"""Where time goes, each with its word and colour."""
_MOST_JOBS = 8
"""Jobs that are drawn one by one."""
_ROW_PX, _AROUND_PX = 32, 150


@dataclass(frozen=True, eq=False, slots=True)
class DrawnJob:
    """What is drawn of a job."""

    label: str
    tasks: Sequence[str]
    figures: Mapping[str, Any]
    cpu_milli: Floats
    """Supersteps × tasks."""
    seconds: Floats
    """Supersteps × tasks."""


def where_time_goes(jobs: Sequence[DrawnJob]) -> Figure:
    """A bar a job: work of the mean task, its waiting at the barrier, and changes of the split."""
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": word,
            "x": [round(float(job.figures[key]), 3) for job in jobs],
            "y": [text(job.label) for job in jobs],
            "marker": {"color": colour},
            "hovertemplate": "%{y}, %{fullData.name}: %{x:.0f} s<extra></extra>",
        }
        for key, (word, colour) in PARTS.items()
    ]
    y_axis = axis("", type="category", autorange="reversed")
    height = _ROW_PX * len(jobs) + _AROUND_PX
    x_axis = axis("seconds, of the mean task", rangemode="tozero")
    return {
        "data": data,
        "layout": layout("Where time goes", height=height, barmode="stack", xaxis=x_axis, yaxis=y_axis),
    }


def split_over_time(job: DrawnJob) -> Figure:
    """The CPU of each task, stacked, superstep by superstep."""
    rows = thin(list(job.cpu_milli.T))
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": text(task),
            "x": rows.tolist(),
            "y": [round(float(value)) for value in job.cpu_milli[rows, at]],
            "stackgroup": "cpu",
            "line": {"width": 0.5, "shape": "hv", "color": PALETTE[at % len(PALETTE)]},
            "hovertemplate": "%{y} milli",
        }
        for at, task in enumerate(job.tasks)
    ]
    return {
        "data": data,
        "layout": layout(
            f"CPU of each task: {text(job.label)}",
            hovermode="x unified",
            xaxis=axis("superstep"),
            yaxis=axis("CPU (milli)", rangemode="tozero"),
        ),
    }


def superstep_seconds(jobs: Sequence[DrawnJob]) -> Figure:
    """How long each superstep took, a line a job."""
    data = []
    for at, job in enumerate(jobs):
        took = job.seconds.max(axis=1)
        rows = thin([took])
        colour, dash = colour_and_dash(at)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": text(job.label),
                "x": rows.tolist(),
                "y": [round(float(value), 3) for value in took[rows]],
                "line": {"color": colour, "dash": dash, "width": LINE_WIDTH},
                "hovertemplate": "superstep %{x}: %{y:.1f} s<extra>%{fullData.name}</extra>",
            }
        )
    x_axis, y_axis = axis("superstep"), axis("seconds of the slowest task", rangemode="tozero")
    return {"data": data, "layout": layout("How long supersteps took", xaxis=x_axis, yaxis=y_axis)}


def superstep_figures(jobs: Sequence[DrawnJob]) -> dict[str, Figure]:
    """Every plot, by a name that serves as file name and anchor."""
    first = jobs[:_MOST_JOBS]
    figures = {"where-time-goes": where_time_goes(jobs), "superstep-seconds": superstep_seconds(first)}
    return figures | {f"split-{at}": split_over_time(job) for at, job in enumerate(first, 1)}


def write_superstep_page(
    path: Path, subtitle: str, head: Sequence[str], cells: Sequence[Sequence[str]], jobs: Sequence[DrawnJob]
) -> None:
    """Write the page: one table, then the plots."""
    cards = [table_card("Jobs", head, cells)]
    write_page(path, render_page("Bulk-synchronous jobs", html.escape(subtitle), cards, superstep_figures(jobs)))
