"""The map of all nodes at the end of a run: one cell a node, coloured by how much of its GPUs is allocated."""

from __future__ import annotations

import math
from typing import Any

import polars as pl

from foresail.report.style import NEUTRAL, SEQUENTIAL, Figure, layout, text
from foresail.results.folder import Run

MOST_CELLS = 20_000
"""The most cells of a map; in larger clusters a cell stands for several neighbours of one model."""

_ASPECT = 2.6  # columns per row: the map is as wide as a page and leaves room for the next plot
_CELL_PX = 15
_NO_GPU = "no GPU"


def node_map(run: Run, label: str | None = None) -> Figure | None:
    """Draw nodes by model, then by name, as a grid; each model starts a new row."""
    nodes = run.frame("nodes")
    if nodes is None or nodes.is_empty():
        return None
    cells = _cells(nodes)
    across = max(12, math.ceil(math.sqrt(cells.height * _ASPECT)))
    rows: list[list[dict[str, Any] | None]] = []
    ticks: list[tuple[float, str]] = []
    for (model,), group in cells.group_by("model", maintain_order=True):
        first = len(rows)
        members = group.to_dicts()
        for start in range(0, len(members), across):
            row = members[start : start + across]
            rows.append([*row, *[None] * (across - len(row))])
        ticks.append(((first + len(rows) - 1) / 2, f"{text(str(model))} × {sum(cell['count'] for cell in members)}"))
        rows.append([None] * across)  # a gap, so that a model ends where the eye says
    rows.pop()
    with_gpu = cells["used"].is_not_null().any()
    data = [_trace(rows, with_gpu=False)] if cells["used"].is_null().any() else []
    if with_gpu:
        data.append(_trace(rows, with_gpu=True))
    height = max(200, 80 + _CELL_PX * len(rows))
    hidden = {"showgrid": False, "zeroline": False, "showline": False, "ticks": ""}
    return {
        "data": data,
        "layout": layout(
            f"Nodes at the end: {text(label or run.policy)}",
            height=height,
            xaxis={**hidden, "showticklabels": False, "constrain": "domain"},
            yaxis={
                **hidden,
                "autorange": "reversed",
                "tickvals": [place for place, _ in ticks],
                "ticktext": [label for _, label in ticks],
                "automargin": True,
            },
        ),
    }


def _cells(nodes: pl.DataFrame) -> pl.DataFrame:
    """One row a cell: the sums over the nodes it stands for, and `used` in %, null where there is no GPU."""
    together = math.ceil(nodes.height / MOST_CELLS)
    has_gpu = pl.col("gpu_count") > 0
    named = nodes.with_columns(
        model=pl.when(has_gpu & (pl.col("model") != ""))
        .then("model")
        .when(has_gpu)
        .then(pl.lit("GPU"))
        .otherwise(pl.lit(_NO_GPU)),
    ).sort(["model", "node"])
    # Nodes without GPUs last: the map is about GPUs.
    named = pl.concat([named.filter(has_gpu), named.filter(~has_gpu)])
    place = pl.int_range(pl.len()).over("model") // together
    grouped = (
        named.with_columns(place=place)
        .group_by(["model", "place"], maintain_order=True)
        .agg(
            first=pl.col("node").first(),
            last=pl.col("node").last(),
            count=pl.len(),
            gpus=pl.col("gpu_count").sum(),
            gpu_free=pl.col("gpu_free_milli").sum(),
            cpu=pl.col("cpu_milli").sum(),
            cpu_free=pl.col("cpu_free_milli").sum(),
            pods=pl.col("pods").sum(),
            devices=pl.col("gpu_free_milli_by_device").first(),
        )
    )
    used = 100 * (1 - pl.col("gpu_free") / (1000 * pl.col("gpus")))
    return grouped.with_columns(used=pl.when(pl.col("gpus") > 0).then(used))


def _hover(cell: dict[str, Any]) -> str:
    name = text(cell["first"])
    if cell["count"] > 1:
        name = f"{cell['count']} nodes, {name} … {text(cell['last'])}"
    lines = [f"<b>{name}</b>", text(cell["model"])]
    if cell["gpus"]:
        lines.append(f"GPU allocated: {cell['used']:.1f}% of {cell['gpus']}")
        if cell["count"] == 1:
            lines.append(f"free per device (milli): {text(cell['devices'].replace('-', ' · '))}")
    lines.append(f"CPU free: {cell['cpu_free'] / 1000:,.1f} of {cell['cpu'] / 1000:,.1f} cores")
    lines.append(f"pods: {cell['pods']}")
    return "<br>".join(lines)


def _trace(rows: list[list[dict[str, Any] | None]], *, with_gpu: bool) -> dict[str, Any]:
    def value(cell: dict[str, Any] | None) -> float | None:
        if cell is None or (cell["used"] is not None) != with_gpu:
            return None
        return round(float(cell["used"]), 2) if with_gpu else 0.0

    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": [[value(cell) for cell in row] for row in rows],
        "text": [["" if cell is None else _hover(cell) for cell in row] for row in rows],
        "hovertemplate": "%{text}<extra></extra>",
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
        "zmin": 0,
        "zmax": 100,
    }
    if with_gpu:
        bar = {"title": {"text": "GPU allocated (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0, "len": 1}
        # Turned round: what is allocated recedes, and what is left idle catches the eye.
        return trace | {"colorscale": SEQUENTIAL, "reversescale": True, "colorbar": bar}
    return trace | {"colorscale": [[0, NEUTRAL], [1, NEUTRAL]], "showscale": False}
