"""Plots of how wrong forecasters of workloads are, and the page with them."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from foresail.report.page import render_page, table_card, write_page
from foresail.report.style import LINE_WIDTH, NEUTRAL, PALETTE, Figure, axis, colour_and_dash, layout, text

Rows = Sequence[Mapping[str, Any]]
Shown = Mapping[str, Mapping[str, Sequence[float]]]

_MOST_SERIES = 12
"""Series that are drawn one by one."""


def errors_by_ahead(rows: Rows) -> Figure:
    """The error of each forecaster by how far it looks ahead, as the mean over series."""
    data = [
        _line(name, at, ahead, means, "%{fullData.name}, t+%{x}: %{y:.2f}")
        for at, (name, ahead, means) in enumerate(_means(rows, "rmse"))
    ]
    x_axis, y_axis = axis("supersteps ahead"), axis("RMSE (workload)", rangemode="tozero")
    return {"data": data, "layout": layout("Error by how far ahead, mean of all series", xaxis=x_axis, yaxis=y_axis)}


def coverage_by_ahead(rows: Rows) -> Figure | None:
    """How many values lie between the quantiles 0.1 and 0.9; None if no forecaster has quantiles."""
    known = [row for row in rows if row["coverage_80"] is not None]
    if not known:
        return None
    data = [
        _line(name, at, ahead, [100 * mean for mean in means], "%{fullData.name}, t+%{x}: %{y:.1f} %")
        for at, (name, ahead, means) in enumerate(_means(known, "coverage_80"))
    ]
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 80, "y1": 80}
    shapes = [line | {"line": {"color": NEUTRAL, "dash": "dash", "width": 1}}]
    x_axis, y_axis = axis("supersteps ahead"), axis("values inside (%)", range=[0, 100])
    title = "Values between the quantiles 0.1 and 0.9"
    return {"data": data, "layout": layout(title, xaxis=x_axis, yaxis=y_axis, shapes=shapes)}


def errors_by_series(rows: Rows, ahead: int) -> Figure:
    """The error of each forecaster on each series, so many supersteps ahead."""
    chosen = [row for row in rows if row["ahead"] == ahead]
    data = []
    for at, name in enumerate(dict.fromkeys(row["forecaster"] for row in chosen)):
        own = [row for row in chosen if row["forecaster"] == name]
        data.append(
            {
                "type": "bar",
                "name": text(name),
                "x": [text(row["series"]) for row in own],
                "y": [round(row["rmse"], 4) for row in own],
                "marker": {"color": PALETTE[at % len(PALETTE)]},
                "hovertemplate": "%{x}, %{fullData.name}: %{y:.2f}<extra></extra>",
            }
        )
    y_axis = axis("RMSE (workload)", rangemode="tozero")
    x_axis = axis("", type="category")
    title = f"Error on each series, {ahead} supersteps ahead"
    return {"data": data, "layout": layout(title, height=460, xaxis=x_axis, yaxis=y_axis, barmode="group")}


def forecasts_of(series: str, forecaster: str, shown: Mapping[str, Sequence[float]], ahead: int) -> Figure | None:
    """The last values of one series, what was said of them so many supersteps before, and the middle 80 %."""
    said = shown.get(f"t+{ahead}")
    if said is None:
        return None
    x = list(range(len(said)))
    data: list[dict[str, Any]] = []
    low, high = shown.get(f"t+{ahead} low"), shown.get(f"t+{ahead} high")
    if low is not None and high is not None:
        band = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip"}
        data.append(band | {"y": list(low), "showlegend": False})
        data.append(
            band | {"y": list(high), "name": "middle 80 %", "fill": "tonexty", "fillcolor": "rgba(0,114,178,0.2)"}
        )
    looks = {"type": "scatter", "mode": "lines", "x": x}
    data.append(looks | {"name": "value", "y": list(shown["value"]), "line": {"color": NEUTRAL, "width": LINE_WIDTH}})
    data.append(looks | {"name": f"said {ahead} before", "y": list(said), "line": {"color": PALETTE[0], "width": 1.2}})
    title = f"{text(series)}: {text(forecaster)}"
    x_axis, y_axis = axis("superstep, of the last of the test"), axis("workload")
    return {"data": data, "layout": layout(title, height=300, xaxis=x_axis, yaxis=y_axis)}


def forecast_figures(rows: Rows, shown: Mapping[str, Shown], ahead: Sequence[int]) -> dict[str, Figure]:
    """Every plot, by a name that serves as file name and anchor; single series are drawn of the last forecaster."""
    there = {row["ahead"] for row in rows}
    found: dict[str, Figure | None] = {"errors-by-ahead": errors_by_ahead(rows)}
    found |= {f"errors-by-series-{one}": errors_by_series(rows, one) for one in ahead if one in there}
    found["coverage"] = coverage_by_ahead(rows)
    forecaster = list(shown)[-1]
    middle = [one for one in ahead if one in there][-1:]
    for number, (series, lines) in enumerate(list(shown[forecaster].items())[:_MOST_SERIES], start=1):
        for one in middle:
            found[f"series-{number}"] = forecasts_of(series, forecaster, lines, one)
    return {name: figure for name, figure in found.items() if figure is not None}


def write_forecast_page(
    path: Path, subtitle: str, head: Sequence[str], cells: Sequence[Sequence[str]], figures: Mapping[str, Figure]
) -> None:
    """Write the page: one table, then the plots."""
    cards = [table_card("Error in units of workload", head, cells)]
    write_page(path, render_page("Forecasts of workloads", html.escape(subtitle), cards, figures))


def _means(rows: Rows, key: str) -> list[tuple[str, list[int], list[float]]]:
    """By forecaster: how far ahead, and the mean over series of a column."""
    found = []
    for name in dict.fromkeys(row["forecaster"] for row in rows):
        by_ahead: dict[int, list[float]] = {}
        for row in rows:
            if row["forecaster"] == name:
                by_ahead.setdefault(row["ahead"], []).append(row[key])
        found.append((name, list(by_ahead), [sum(one) / len(one) for one in by_ahead.values()]))
    return found


def _line(name: str, at: int, x: Sequence[int], y: Sequence[float], hover: str) -> dict[str, Any]:
    colour, dash = colour_and_dash(at)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": text(name),
        "x": list(x),
        "y": [round(value, 4) for value in y],
        "line": {"color": colour, "dash": dash, "width": LINE_WIDTH},
        "marker": {"size": 5},
        "hovertemplate": f"{hover}<extra></extra>",
    }
