"""Tables of text: the key figures of runs, and the differences between policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from foresail.results.folder import Run
from foresail.results.key_figures import KeyFigure, key_figures, run_labels


def run_table(*runs: Run, title: str | None = None) -> Table:
    """Show key figures, one row a figure and one column a run."""
    table = Table(title=None if title is None else Text(title), header_style="bold", title_justify="left")
    table.add_column("")
    # Text, not str: a policy may be called "[red]" and must not be read as markup.
    for label in run_labels(runs):
        table.add_column(Text(label), justify="right")
    for label, cells in figure_rows(runs):
        table.add_row(Text(label), *[Text("" if cell is None else cell.text) for cell in cells])
    return table


def figure_rows(runs: Sequence[Run]) -> list[tuple[str, list[KeyFigure | None]]]:
    """Line up the key figures of several runs by label; None where a run lacks one."""
    found = [{figure.label: figure for figure in key_figures(run)} for run in runs]
    labels = dict.fromkeys(label for figures in found for label in figures)
    return [(label, [figures.get(label) for figures in found]) for label in labels]


def comparison_cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Lay out paired differences as a header and rows of text.

    Rows have policy, baseline, metric, its unit, mean, low and high (the ends of the interval); any further key becomes
    a column of its own behind these.
    """
    further = list(dict.fromkeys(key for row in rows for key in row if key not in _COMPARISON_KEYS))
    header = ["policy", "baseline", "metric", "difference", "interval", *further]
    cells = [
        [
            str(row["policy"]),
            str(row["baseline"]),
            str(row["metric"]),
            signed(row["mean"]),
            f"{signed(row['low'])} … {signed(row['high'])}",
            *[_plain_cell(row.get(key)) for key in further],
        ]
        for row in rows
    ]
    return header, cells


_COMPARISON_KEYS = ("policy", "baseline", "metric", "unit", "mean", "low", "high")


def signed(value: float | None) -> str:
    """Write a difference with its sign, so that "better by" and "worse by" cannot be mixed up."""
    return "–" if value is None or math.isnan(value) else f"{value:+,.3f}"


def _plain_cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
