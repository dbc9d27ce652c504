"""Jobs in two worlds: what a simulation said next to what happened, and the error between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from foresail.report.style import NEUTRAL, Figure, axis, colour_and_dash, layout, text

Rows = Sequence[Mapping[str, Any]]
"""As `agreement.csv` has them: policy, seed, job, simulated_s, real_s, error_pct."""


def agreement_cells(rows: Rows) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table: the errors of each strategy over its jobs."""
    head = ["strategy", "jobs", "real mean (s)", "simulated mean (s)", "error of the mean (%)", "mean error (%)"]
    lines = []
    for policy, own in _by_policy(rows).items():
        real_s, simulated_s = (fmean(row[key] for row in own) for key in ("real_s", "simulated_s"))
        off_pct = fmean(abs(row["error_pct"]) for row in own)
        of_mean = f"{100 * (simulated_s / real_s - 1):+.1f}"
        lines.append([policy, str(len(own)), f"{real_s:.1f}", f"{simulated_s:.1f}", of_mean, f"{off_pct:.1f}"])
    return head, lines


def overlaid_completions(rows: Rows) -> Figure | None:
    """What was simulated over what happened, a point a job; on the line both are the same. None without jobs."""
    if not rows:
        return None
    most_s = max(max(row["real_s"], row["simulated_s"]) for row in rows)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "the same",
            "x": [0, most_s],
            "y": [0, most_s],
            "line": {"color": NEUTRAL, "dash": "dash", "width": 1},
            "hoverinfo": "skip",
        }
    ]
    for at, (policy, own) in enumerate(_by_policy(rows).items()):
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": text(policy),
                "x": [round(row["real_s"], 3) for row in own],
                "y": [round(row["simulated_s"], 3) for row in own],
                "customdata": [text(_name(row, rows)) for row in own],
                "marker": {"color": colour_and_dash(at)[0], "size": 9, "symbol": at % 20},
                "hovertemplate": "%{customdata}: %{x:.1f} s, simulated %{y:.1f} s<extra>%{fullData.name}</extra>",
            }
        )
    x_axis, y_axis = axis("real completion (s)", rangemode="tozero"), axis("simulated (s)", rangemode="tozero")
    return {"data": data, "layout": layout("Simulated over real completion", height=460, xaxis=x_axis, yaxis=y_axis)}


def errors_by_job(rows: Rows) -> Figure | None:
    """By how much each job's simulated completion is off, in % of the real one. None without jobs."""
    if not rows:
        return None
    data = [
        {
            "type": "bar",
            "name": text(policy),
            "x": [text(_name(row, rows)) for row in own],
            "y": [round(row["error_pct"], 2) for row in own],
            "marker": {"color": colour_and_dash(at)[0]},
            "hovertemplate": "%{x}: %{y:+.1f} %<extra>%{fullData.name}</extra>",
        }
        for at, (policy, own) in enumerate(_by_policy(rows).items())
    ]
    x_axis, y_axis = (
        axis("", type="category"),
        axis("error of the simulation (%)", zeroline=True, zerolinecolor=NEUTRAL),
    )
    title = "How far simulated completions are off"
    return {"data": data, "layout": layout(title, barmode="group", xaxis=x_axis, yaxis=y_axis)}


def _by_policy(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["policy"], []).append(row)
    return found


def _name(row: Mapping[str, Any], rows: Rows) -> str:
    return f"{row['job']}, seed {row['seed']}" if len({one["seed"] for one in rows}) > 1 else str(row["job"])
