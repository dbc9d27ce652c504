"""What controllers did in a run: counted, listed, and marked in time under the CPU that pods requested."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from foresail.core.journal import What
from foresail.report.scale import numbers, time_unit
from foresail.report.style import LINE_WIDTH, NEUTRAL, PALETTE, Figure, axis, layout, text
from foresail.report.thin import evenly, thin
from foresail.results.folder import Run

MOST_LISTED = 50
"""Actions that are listed; the journal has them all."""

ACTIONS = {What.MOVE: "moves", What.RESIZE: "resizes", What.HOLD: "holds", What.DECLINE: "declined"}
"""What controllers can be seen to do, as columns and rows call it."""

_LOOKS = {What.MOVE: "diamond", What.RESIZE: "circle", What.HOLD: "square", What.DECLINE: "x-thin-open"}
_STRIP = 0.26
"""The part of the plot's height in which actions are marked."""


class Acted(NamedTuple):
    """One action, in words."""

    time_s: float
    what: str
    pod: str
    node: str
    detail: str
    by: str


def actions_of(run: Run) -> pl.DataFrame | None:
    """The records of the journal that a controller asked for, in their order; None for a run without controllers.

    A move for which the policy chose the node has that node.
    """
    journal = run.frame("journal")
    if journal is None:
        return None
    started = (
        journal.filter(what=What.START).select("time_s", "pod", chosen="node").unique(["time_s", "pod"], keep="last")
    )
    asked = journal.filter(pl.col("by") != "").join(started, on=["time_s", "pod"], how="left", maintain_order="left")
    is_open = (pl.col("what") == What.MOVE) & (pl.col("node") == "")
    return asked.with_columns(node=pl.when(is_open).then("chosen").otherwise("node").fill_null("")).drop("chosen")


def counted(actions: pl.DataFrame) -> list[tuple[str, list[int]]]:
    """Each controller with how often it did what, in the order of `ACTIONS`; those that did most come first."""
    by: dict[str, list[int]] = {}
    for controller, what in actions.select("by", "what").iter_rows():
        counts = by.setdefault(controller, [0] * len(ACTIONS))
        counts[list(ACTIONS).index(What(what))] += 1
    return sorted(by.items(), key=lambda item: (-sum(item[1]), item[0]))


def first(actions: pl.DataFrame, most: int = MOST_LISTED) -> list[Acted]:
    """The first actions of a run."""
    return [Acted(*row) for row in actions.select(Acted._fields).head(most).iter_rows()]


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


def _marks(actions: pl.DataFrame, what: What, per_unit_s: float) -> dict[str, object]:
    shown = actions[evenly(actions.height)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{actions.height:,} {ACTIONS[what]}",
        "yaxis": "y2",
        "x": numbers(np.asarray(shown["time_s"].to_numpy(), dtype=np.float64) / per_unit_s),
        "y": [ACTIONS[what]] * shown.height,
        "marker": {
            "symbol": _LOOKS[what],
            "size": 9,
            "color": NEUTRAL if what is What.DECLINE else PALETTE[1],
            "opacity": 0.7,
            "line": {"width": 2 if what is What.DECLINE else 0, "color": NEUTRAL},
        },
        "text": [text(_said(Acted(*row))) for row in shown.select(Acted._fields).iter_rows()],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _said(action: Acted) -> str:
    where = f" ({action.node})" if action.node else ""
    return f"{action.pod}{where}: {action.detail}, says {action.by}"
