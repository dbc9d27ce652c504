"""Turns figures of training jobs into docs/training-results.md and its plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FIGURES = {
    "mean_pct": "mean completion",
    "makespan_pct": "makespan",
    "best_pct": "best job",
    "worst_pct": "worst job",
    "slower_pct": "slower jobs",
    "target_pct": "time to 90 % of the loss drop",
}
EARLIER = "measured with an earlier version"
"""Key of the figures: parts that were not measured anew when a controller changed. The page says so."""
PANELS = ("mean_pct", "makespan_pct")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#666666")
WIDTH, HEIGHT, MARGIN = 340, 230, 48


def write_page(
    figures: Mapping[str, Any], worlds: Iterable[str], sweeps: Sequence[Any], starts: Sequence[str], docs: Path
) -> None:
    lines = [
        "# Training jobs: results",
        "",
        "Written by `python bench/training.py`; every figure stands in `bench/training.json`, and",
        "`foresail compare examples/experiments/training-50.toml` and its neighbours give the same. All is simulated,",
        "with 20 seeds. Changes are in % of the same seed without a controller: the mean over seeds and its 95 %",
        "interval. *Best* and *worst* are the jobs of a seed that gain and lose most, *slower* is the share of jobs",
        "that end later. Rows in italics are [bounds](reference/experiments.md#changescsv), no strategies.",
    ]
    for world in worlds:
        if f"tables/{world}" in figures:
            lines += [
                "",
                f"## {world}",
                "",
                *_table(figures[f"tables/{world}"]),
                *_age(figures, f"tables/{world}", "tables"),
            ]
    drawn = [sweep for sweep in sweeps if f"{sweep.name}/{starts[0]}/{sweep.values[0]:g}" in figures]
    if drawn:
        lines += ["", "## What it depends on", "", "50 jobs; bands are 95 % intervals, the dashed line is no change."]
    for sweep in drawn:
        file = f"training-{sweep.name}.svg"
        (docs / "images" / file).write_text(_plot(figures, sweep, starts), encoding="utf-8")
        lines += ["", f"![{sweep.label}](images/{file})"]
        lines += _age(figures, sweep.name, sweep.name)
    (docs / "training-results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _age(figures: Mapping[str, Any], measured: str, part: str) -> list[str]:
    if measured not in figures.get(EARLIER, []):
        return []
    return [
        "",
        f"`gain` and `focus` measured with an earlier version; `python bench/training.py {part}` measures anew.",
    ]


def _table(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [f"| strategy | {' | '.join(FIGURES.values())} |", f"|---|{'--:|' * len(FIGURES)}"]
    for one in changes:
        cells = [_cell(one["figures"].get(name), share=name == "slower_pct") for name in FIGURES]
        label = one["strategy"] if one["kind"] == "run" else f"*{one['strategy']}*"
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _cell(figure: Mapping[str, float] | None, *, share: bool) -> str:
    if figure is None:
        return ""
    form = ".1f" if share else "+.1f"
    text = f"{figure['mean']:{form}} ({figure['low']:{form}} … {figure['high']:{form}})"
    return text.replace("-", "−")


def _plot(figures: Mapping[str, Any], sweep: Any, starts: Sequence[str]) -> str:
    """A panel for each start and figure; a line for each strategy."""
    width, height = 2 * WIDTH, len(starts) * HEIGHT + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        "<style>text {font-size: 12px}</style>",
    ]
    lines = {start: [figures[f"{sweep.name}/{start}/{value:g}"] for value in sweep.values] for start in starts}
    first = figures[f"{sweep.name}/{starts[0]}/{sweep.values[0]:g}"]
    names = [one["strategy"].partition(":")[0] for one in first if one["kind"] == "run"]
    for down, start in enumerate(starts):
        for across, figure in enumerate(PANELS):
            series = {
                name: [
                    [one for one in changes if one["kind"] == "run"][at]["figures"][figure] for changes in lines[start]
                ]
                for at, name in enumerate(names)
            }
            title = f"{FIGURES[figure]}, {start.replace('-', ' ')}, %"
            parts += _panel(series, sweep.values, title, across * WIDTH, down * HEIGHT)
    foot = len(starts) * HEIGHT + 24
    parts.append(f'<text x="{MARGIN}" y="{foot}">{sweep.label}:</text>')
    for at, name in enumerate(names):
        x = 300 + 95 * at
        parts.append(f'<rect x="{x}" y="{foot - 10}" width="12" height="12" fill="{COLOURS[at]}"/>')
        parts.append(f'<text x="{x + 16}" y="{foot}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(
    series: Mapping[str, Sequence[Mapping[str, float]]], values: Sequence[float], title: str, left: int, top: int
) -> list[str]:
    ends = [point[end] for points in series.values() for point in points for end in ("low", "high")]
    low, high = min(0.0, *ends), max(0.0, *ends)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)

    def x(at: int) -> float:
        return left + MARGIN + at / (len(values) - 1) * (WIDTH - MARGIN - 16)

    def y(value: float) -> float:
        return top + HEIGHT - 30 - (value - low) / (high - low) * (HEIGHT - 60)

    last = x(len(values) - 1)
    parts = [
        f'<text x="{left + MARGIN}" y="{top + 18}">{title}</text>',
        f'<path d="M{x(0):.1f} {y(0):.1f} L{last:.1f} {y(0):.1f}" stroke="#999999" stroke-dasharray="4 4"/>',
        *(
            f'<text x="{left + MARGIN - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
            for tick in _ticks(low, high)
        ),
        *(
            f'<text x="{x(at):.1f}" y="{top + HEIGHT - 12}" text-anchor="middle">{value:g}</text>'
            for at, value in enumerate(values)
        ),
    ]
    for number, points in enumerate(series.values()):
        colour = COLOURS[number]
        above = [f"{x(at):.1f},{y(point['high']):.1f}" for at, point in enumerate(points)]
        below = [f"{x(at):.1f},{y(point['low']):.1f}" for at, point in enumerate(points)]
        middle = " ".join(f"{x(at):.1f},{y(point['mean']):.1f}" for at, point in enumerate(points))
        parts.append(f'<polygon points="{" ".join(above + below[::-1])}" fill="{colour}" opacity="0.15"/>')
        parts.append(f'<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return parts


def _ticks(low: float, high: float) -> list[float]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if (high - low) / step <= 6)
    first = int(low // step) + 1
    return [number * step for number in range(first, int(high // step) + 1)]
