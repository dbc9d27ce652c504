"""Plots of training jobs: where each ran and with which share, how its loss fell, when it was done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import polars as pl

from foresail.report.style import LINE_WIDTH, NEUTRAL, PALETTE, Figure, axis, colour_and_dash, layout, text
from foresail.results.folder import Run
from foresail.results.key_figures import run_labels

_ROW_PX = 16
_AROUND_PX = 150
_MOST_JOBS = 100
"""Plots with a row or a line a job show the first so many."""
_THICKEST = 0.9


def completions(runs: Sequence[Run]) -> Figure | None:
    """How long each job took from its submission to its end, side by side for all runs; None without jobs."""
    tables = [(at, run.frame("pods")) for at, run in enumerate(runs) if run.frame("jobs") is not None]
    found = [(at, pods.filter(pl.col("end_s").is_not_null())) for at, pods in tables if pods is not None]
    if not found:
        return None
    names = _first_jobs(found[0][1]["pod"].to_list())
    labels = run_labels(runs)
    data = []
    for at, pods in found:
        took = dict(zip(pods["pod"], pods["end_s"] - pods["submit_s"], strict=True))
        colour, _ = colour_and_dash(at)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": text(labels[at]),
                "x": [_short(took.get(name)) for name in names],
                "y": [text(name) for name in names],
                "marker": {"color": colour, "size": 8, "symbol": at % 20},
                "hovertemplate": "%{y}: %{x:.0f} s<extra>%{fullData.name}</extra>",
            }
        )
    height = _ROW_PX * len(names) + _AROUND_PX
    y_axis = axis("", type="category", autorange="reversed")
    x_axis = axis("from submission to end (s)", rangemode="tozero")
    return {"data": data, "layout": layout("Completion of each job", height=height, xaxis=x_axis, yaxis=y_axis)}


def gantt(run: Run, label: str | None = None) -> Figure | None:
    """Where each job ran: a bar a stay on a node, thick where the job had much CPU, and a mark for each move."""
    jobs = run.frame("jobs")
    if jobs is None or jobs.is_empty():
        return None
    ends = _ends(run)
    names = _first_jobs(jobs["job"].to_list())
    nodes = sorted(set(jobs["node"]))
    most_milli = max(1.0, float(jobs["cpu_used_milli"].fill_null(0).to_numpy().max()))
    bars: dict[str, list[tuple[str, float, float, float]]] = {node: [] for node in nodes}
    moves: list[tuple[str, float, str, str]] = []
    for name in names:
        rows = jobs.filter(pl.col("job") == name).sort("time_s")
        places = list(rows.select("time_s", "node", "cpu_used_milli").fill_null(0).iter_rows())
        last_s = max(ends.get(name, places[-1][0]), places[-1][0])
        for (time_s, node, used_milli), (until_s, next_node, _) in pairwise([*places, (last_s, places[-1][1], 0.0)]):
            bars[node].append((name, time_s, until_s, used_milli))
            if next_node != node:
                moves.append((name, until_s, node, next_node))
    data = [_stays(node, bars[node], PALETTE[at % len(PALETTE)], most_milli) for at, node in enumerate(nodes)]
    if moves:
        data.append(_moves(moves))
    return {
        "data": data,
        "layout": layout(
            f"Where jobs ran, thicker with more CPU: {text(label or run.policy)}",
            height=_ROW_PX * len(names) + _AROUND_PX,
            barmode="overlay",
            bargap=0.1,
            xaxis=axis("time since the trace began (s)", rangemode="tozero"),
            yaxis=axis("", type="category", autorange="reversed", categoryarray=[text(name) for name in names]),
        ),
    }


def _stays(node: str, bars: Sequence[tuple[str, float, float, float]], colour: str, most_milli: float) -> Figure:
    joined = _joined(bars)
    return {
        "type": "bar",
        "orientation": "h",
        "name": text(node),
        "y": [text(name) for name, *_ in joined],
        "base": [_short(from_s) for _, from_s, _, _ in joined],
        "x": [_short(until_s - from_s) for _, from_s, until_s, _ in joined],
        "width": [round(max(0.15, _THICKEST * used / most_milli), 2) for *_, used in joined],
        "customdata": [_short(used / 1000) for *_, used in joined],
        "marker": {"color": colour, "line": {"width": 0}},
        "hovertemplate": "%{y} from %{base:.0f} s for %{x:.0f} s: %{customdata} CPU<extra>%{fullData.name}</extra>",
    }


def _joined(bars: Sequence[tuple[str, float, float, float]]) -> list[tuple[str, float, float, float]]:
    """Bars that follow on each other with about the same share are one: the page stays small."""
    joined: list[tuple[str, float, float, float]] = []
    for name, from_s, until_s, used in bars:
        if joined:
            last, begun_s, over_s, had = joined[-1]
            if last == name and over_s == from_s and abs(had - used) <= 0.1 * max(had, used):
                joined[-1] = (name, begun_s, until_s, had)
                continue
        joined.append((name, from_s, until_s, used))
    return joined


def _moves(moves: Sequence[tuple[str, float, str, str]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "moved",
        "x": [_short(time_s) for _, time_s, _, _ in moves],
        "y": [text(name) for name, *_ in moves],
        "customdata": [[text(here), text(there)] for *_, here, there in moves],
        "marker": {"symbol": "diamond", "size": 9, "color": NEUTRAL, "line": {"width": 1, "color": "white"}},
        "hovertemplate": "%{y} moved at %{x:.0f} s: %{customdata[0]} → %{customdata[1]}<extra></extra>",
    }


def growth_curves(run: Run, label: str | None = None) -> Figure | None:
    """How far the loss of each job has fallen, in % of its whole fall, over time; None if no job reports a loss."""
    jobs = run.frame("jobs")
    if jobs is None or not jobs["loss"].is_not_null().any():
        return None
    data = []
    for at, name in enumerate(_first_jobs(jobs["job"].to_list())):
        rows = jobs.filter((pl.col("job") == name) & pl.col("loss").is_not_null()).sort("time_s")
        if rows.height < 2:
            continue
        loss = rows["loss"].to_numpy()
        fall = float(loss[0] - loss.min()) or 1.0
        colour, dash = colour_and_dash(at)
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": text(name),
                "x": [_short(time_s) for time_s in rows["time_s"]],
                "y": [_short(100 * (float(loss[0]) - value) / fall) for value in loss.tolist()],
                "customdata": [_short(value) for value in loss.tolist()],
                "line": {"color": colour, "dash": dash, "width": LINE_WIDTH},
                "hovertemplate": "%{fullData.name} at %{x:.0f} s: loss %{customdata}<extra></extra>",
            }
        )
    title = f"How far losses have fallen: {text(label or run.policy)}"
    x_axis, y_axis = axis("time since the trace began (s)"), axis("of the job's whole fall (%)", rangemode="tozero")
    return {"data": data, "layout": layout(title, xaxis=x_axis, yaxis=y_axis, showlegend=len(data) <= 12)}


def cpu_use(run: Run, label: str | None = None) -> Figure | None:
    """The CPU that jobs use over time, stacked by node; None without jobs."""
    jobs = run.frame("jobs")
    if jobs is None or jobs.is_empty():
        return None
    by_node = jobs.group_by("time_s", "node").agg(pl.col("cpu_used_milli").fill_null(0).sum())
    times = sorted(set(jobs["time_s"]))
    data = []
    for at, node in enumerate(sorted(set(jobs["node"]))):
        used = dict(by_node.filter(pl.col("node") == node).select("time_s", "cpu_used_milli").iter_rows())
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": text(node),
                "stackgroup": "cpu",
                "x": [_short(time_s) for time_s in times],
                "y": [_short(used.get(time_s, 0.0) / 1000) for time_s in times],
                "line": {"width": 0.5, "shape": "hv", "color": PALETTE[at % len(PALETTE)]},
                "hovertemplate": "%{y:.2f} CPU on %{fullData.name}<extra></extra>",
            }
        )
    title = f"CPU that jobs use: {text(label or run.policy)}"
    x_axis, y_axis = axis("time since the trace began (s)"), axis("CPU", rangemode="tozero")
    return {"data": data, "layout": layout(title, xaxis=x_axis, yaxis=y_axis)}


def _first_jobs(names: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(names))[:_MOST_JOBS]


def _ends(run: Run) -> dict[str, float]:
    pods = run.frame("pods")
    if pods is None:
        return {}
    done = pods.filter(pl.col("end_s").is_not_null())
    return dict(zip(done["pod"], done["end_s"], strict=True))


def _short(value: float | None) -> float | None:
    """Six digits are finer than any screen."""
    return None if value is None else float(f"{value:.6g}")
