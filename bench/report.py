"""Turns measured figures into docs/benchmarks.md and its plot, and finds broken limits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

_SIZES = (1_000, 10_000, 100_000)


def write_pages(figures: dict[str, Any], thresholds: dict[str, dict[str, Any]], docs: Path) -> list[str]:
    """Write the page and the plot; return a line for each limit that is broken."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`; limits and goals stand in `bench/thresholds.toml`, the figures in",
        "`bench/results.json`. A part alone: `.venv/bin/python bench/run.py warm-run`.",
        "",
        f"Measured on: {figures['machine']}.",
        "",
        "| figure | measured | limit | goal | what |",
        "|---|--:|--:|--:|---|",
    ]
    broken = []
    for name, limit in thresholds.items():
        if name not in figures:
            lines.append(f"| {name} | not measured | {_limit(limit)} | | {limit['what']} |")
            continue
        value = float(figures[name])
        if value > limit.get("most", math.inf) or value < limit.get("least", -math.inf):
            broken.append(f"{name} is {value:.3g}, the limit is {_limit(limit)}")
        goal = limit.get("goal")
        met = goal is not None and (value <= goal if "most" in limit else value >= goal)
        reached = "" if goal is None else f"{goal:g}{' ✓' if met else ' (missed)'}"
        lines.append(f"| {name} | {value:.3g} | {_limit(limit)} | {reached} | {limit['what']} |")
    if "warm_run_median_s" in figures:
        lines += ["", f"The median of the 25 warm runs was {figures['warm_run_median_s']:.3g} s."]
    if "shared_cpu_large_changes" in figures:
        jobs, changes, each_us = (
            [float(figures[f"shared_cpu_{name}"]) for name in names]
            for names in (
                ("small_finished", "large_finished"),
                ("small_changes", "large_changes"),
                ("event_us_50", "event_us_2000"),
            )
        )
        lines += [
            "",
            f"All {jobs[0]:.0f} and {jobs[1]:,.0f} jobs that share CPU finished;",
            f"{changes[0]:.0f} and {changes[1]:.0f} times one was moved or resized.",
            f"An arrival or an end took {each_us[0]:.0f} µs on 50 nodes, {each_us[1]:.0f} µs on 2 000.",
        ]
    if "million_pods_arrived" in figures:
        lines += [
            "",
            f"Of the {figures['million_pods_arrived']:,.0f} pods {figures['million_pods_failed']:,.0f} found no room.",
        ]
    if all(f"decision_us_{size}" in figures for size in _SIZES):
        times_us = [float(figures[f"decision_us_{size}"]) for size in _SIZES]
        lines += ["", "## Time per decision", "", "| nodes | µs per decision |", "|--:|--:|"]
        lines += [f"| {size:,} | {time_us:.1f} |" for size, time_us in zip(_SIZES, times_us, strict=True)]
        lines += ["", "![Time per decision by number of nodes](benchmarks.svg)"]
        (docs / "benchmarks.svg").write_text(_plot(times_us), encoding="utf-8")
    lines += _throughput(figures)
    (docs / "benchmarks.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return broken


def _throughput(figures: dict[str, Any]) -> list[str]:
    """Pods bound a second by each scheduler, where they were measured."""
    columns = {
        "kube_scheduler": "kube-scheduler",
        "foresail": "`foresail run`",
        "extender_sample": "kube-scheduler asking `foresail extender --sample`",
        "kube_scheduler_all_nodes": "kube-scheduler, all nodes",
        "extender": "kube-scheduler, all nodes, asking `foresail extender`",
    }
    rows = []
    for kind, what in (("plain", "plain"), ("spread", "topology spread"), ("anti_affinity", "required anti-affinity")):
        rates = [figures.get(f"{name}_{kind}_pods_per_s") for name in columns]
        if rates[0] is not None:
            shown = ["" if rate is None else f"{rate:.0f}" for rate in rates]
            rows.append(f"| {what} | {' | '.join(shown)} |")
    if not rows:
        return []
    return [
        "",
        "## Pods bound a second",
        "",
        "1000 nodes (KWOK), 3000 pods, one real API server on the same cores, the schedulers in turns;",
        f"medians of {figures['throughput_rounds']:.0f} round(s). Alone: `.venv/bin/python bench/run.py throughput`.",
        "kube-scheduler as it comes looks at 420 of 1000 nodes for a pod, alone and where it asks an extender that is",
        "started with `--sample`. `foresail run` looks at all nodes, and so does kube-scheduler in the last two",
        "columns (`percentageOfNodesToScore: 100`).",
        "",
        f"| pods | {' | '.join(columns.values())} |",
        f"|---|{'--:|' * len(columns)}",
        *rows,
    ]


def _limit(limit: dict[str, Any]) -> str:
    return f"≤ {limit['most']:g}" if "most" in limit else f"≥ {limit['least']:g}"


def _plot(times_us: list[float]) -> str:
    """A log-log line beside the line of a cost that grows as the nodes do."""
    width, height, margin = 560, 320, 60
    top = math.ceil(math.log10(max(*times_us, times_us[0] * 100)))
    bottom = math.floor(math.log10(min(times_us)))

    def point(size: float, time_us: float) -> str:
        x = margin + (math.log10(size) - 3) / 2 * (width - 2 * margin)
        y = height - margin - (math.log10(time_us) - bottom) / (top - bottom) * (height - 2 * margin)
        return f"{x:.1f},{y:.1f}"

    measured = " ".join(point(size, time_us) for size, time_us in zip(_SIZES, times_us, strict=True))
    linear = " ".join(point(size, times_us[0] * size / 1000) for size in _SIZES)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<polyline points="{linear}" fill="none" stroke="#999999" stroke-dasharray="4 4"/>',
        f'<polyline points="{measured}" fill="none" stroke="#0072b2" stroke-width="2"/>',
    ]
    for size, time_us in zip(_SIZES, times_us, strict=True):
        x, y = point(size, time_us).split(",")
        parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="#0072b2"/>')
        parts.append(f'<text x="{x}" y="{float(y) + 20:.1f}" text-anchor="middle">{time_us:.0f} µs</text>')
        parts.append(f'<text x="{x}" y="{height - margin + 25}" text-anchor="middle">{size:,}</text>')
    parts += [
        f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">nodes</text>',
        f'<text x="{margin}" y="24">time per decision (µs, log); dashed: growing as the nodes do</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
