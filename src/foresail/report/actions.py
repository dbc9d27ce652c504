"""What controllers did, marked in time under the CPU that pods requested."""

from __future__ import annotations

import numpy as np
import polars as pl

from foresail.report.scale import numbers, time_unit
from foresail.report.style import LINE_WIDTH, NEUTRAL, PALETTE, Figure, axis, layout, text
from foresail.report.thin import evenly, thin
from foresail.results.actions import ACTIONS, Acted, actions_of, first
from foresail.results.folder import Run

_SYMBOLS = dict(zip(ACTIONS, ("diamond", "circle", "square", "x-thin-open"), strict=True))
_DECLINED = list(ACTIONS)[-1]
_STRIP = 0.26
"""The part of the plot's height in which actions are marked."""


def actions_over_time(run: Run, label: str) -> Figure | None:
    """CPU that pods requested, and used where they share it, over time; under it a mark for each action."""
    timeline, actions = run.frame("timeline"), actions_of(run)
    if timeline is None or timeline.is_empty() or actions is None or actions.is_empty():
        return None
    per_unit_s, unit = time_unit([timeline])
    data = [_line(timeline, "used_cpu_milli", "requested", PALETTE[0], per_unit_s)]
    if "busy_cpu_milli" in timeline.columns:
        data.append(_line(timeline, "busy_cpu_milli", "used", PALETTE[2], per_unit_s))
    there = [what for what in ACTIONS if actions.filter(what=what).height]
    data += [_marks(actions.filter(what=what), what, per_unit_s) for what in there]
    return {
        "data": data,
        "layout": layout(
            f"CPU and what controllers did: {text(label)}",
            height=460,
            xaxis=axis(f"time since the trace began ({unit})", anchor="y2"),
            yaxis=axis("CPUs", rangemode="tozero", domain=[_STRIP + 0.06, 1]),
            yaxis2=axis(
                "", domain=[0, _STRIP], type="category", categoryarray=[ACTIONS[what] for what in reversed(there)]
            ),
        ),
    }


def _line(timeline: pl.DataFrame, column: str, name: str, colour: str, per_unit_s: float) -> dict[str, object]:
    cpus = timeline[column].cast(pl.Float64).to_numpy() / 1000
    rows = thin([cpus])
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"CPU {name}",
        "x": numbers(timeline["time_s"].to_numpy()[rows] / per_unit_s),
        "y": numbers(cpus[rows]),
        "line": {"color": colour, "width": LINE_WIDTH, "shape": "hv"},
        "hovertemplate": f"%{{y:,.1f}} CPUs {name}<extra></extra>",
    }


def _marks(actions: pl.DataFrame, what: str, per_unit_s: float) -> dict[str, object]:
    shown = actions[evenly(actions.height)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{actions.height:,} {ACTIONS[what]}",
        "yaxis": "y2",
        "x": numbers(np.asarray(shown["time_s"].to_numpy(), dtype=np.float64) / per_unit_s),
        "y": [ACTIONS[what]] * shown.height,
        "marker": {
            "symbol": _SYMBOLS[what],
            "size": 9,
            "color": NEUTRAL if what == _DECLINED else PALETTE[1],
            "opacity": 0.7,
            "line": {"width": 2 if what == _DECLINED else 0, "color": NEUTRAL},
        },
        "text": [text(_said(action)) for action in first(shown, shown.height)],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _said(action: Acted) -> str:
    where = f" ({action.node})" if action.node else ""
    return f"{action.pod}{where}: {action.detail}, says {action.by}"
