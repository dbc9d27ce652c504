"""Turns figures of a bulk-synchronous job on a lab into docs/supersteps-lab.md and its plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

GOAL_PCT = 15
WIDTH, HEIGHT, BARS = 680, 240, 16
COLOUR = "#0072b2"


def write_page(figures: Mapping[str, Any], docs: Path) -> None:
    runs = figures["runs"]
    resizes_s = sorted(value for run in runs for value in run["resizes_s"])
    (docs / "images" / "supersteps-lab-resizes.svg").write_text(_histogram(resizes_s), encoding="utf-8")
    lines = [
        "# A bulk-synchronous job on a lab",
        "",
        "Written by `python bench/supersteps_lab.py`; every figure stands in `bench/supersteps_lab.json`. Three",
        f"tasks of stress-ng on one kubelet of {figures['node_cpu']} CPU (one machine of",
        f"{figures['machine']['cpus']} CPUs), as `examples/supersteps/stress-3.toml` says, and the same in simulation",
        "with the profile that `foresail measure stress --on kube` measured there right before",
        f"({figures['points']} points).",
        "[How to do it](guides/supersteps.md#run).",
        "",
        "## Strategies",
        "",
        "Seconds on the cluster, from the opening of each superstep to its last report, and of changes of the split.",
        "",
        "| strategy | barrier | supersteps | total | of it changes | changes | a change takes |",
        "|---|---|--:|--:|--:|--:|--:|",
        *map(_strategy, runs),
        "",
        _verdict(runs),
        "",
        "## Simulated against real supersteps",
        "",
        "Seconds of the slowest task of each superstep. With the same split: what the profile says of the splits that",
        "the cluster had, which leaves out that a plan may come out otherwise in simulation.",
        "",
        "| strategy | barrier | real | simulated | mean difference | with the same split | barrier and reports |",
        "|---|---|--:|--:|--:|--:|--:|",
        *map(_agreement, runs),
        "",
        _near(runs),
        "",
        "## Resizes in place",
        "",
        *_resizes(runs, resizes_s),
        *(["", figures["note"]] if figures["note"] else []),
    ]
    (docs / "supersteps-lab.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _strategy(run: Mapping[str, Any]) -> str:
    changing_s = (run["change_mean_s"] or 0.0) * run["changes"]
    took = "–" if run["change_mean_s"] is None else f"{run['change_mean_s']:.2f} s"
    return (
        f"| `{run['strategy']}` | {run['barrier']} | {run['supersteps']} | {run['total_s']:.1f} s | {changing_s:.1f} s "
        f"| {run['changes']} | {took} |"
    )


def _verdict(runs: Sequence[Mapping[str, Any]]) -> str:
    total = {(run["strategy"], run["barrier"]): run["total_s"] for run in runs}
    planned = total["scenario", "lease"]
    said = [
        f"{100 * (1 - planned / total[strategy, 'lease']):+.1f} % against `{strategy}`"
        for strategy in ("even", "exppo")
    ]
    return f"The planned split saves {' and '.join(said)}, with the time of its changes."


def _agreement(run: Mapping[str, Any]) -> str:
    return (
        f"| `{run['strategy']}` | {run['barrier']} | {run['real_s']:.1f} s | {run['simulated_s']:.1f} s "
        f"| {100 * run['difference']:.1f} % | {100 * run['difference_same_split']:.1f} % | {run['overhead_s']:.2f} s |"
    )


def _near(runs: Sequence[Mapping[str, Any]]) -> str:
    off_pct = 100 * fmean(run["difference"] for run in runs)
    word = "within" if off_pct <= GOAL_PCT else "beyond"
    return (
        f"Over all runs a superstep is off by {off_pct:.1f} % on average, {word} the {GOAL_PCT} % that were aimed at."
    )


def _resizes(runs: Sequence[Mapping[str, Any]], resizes_s: Sequence[float]) -> list[str]:
    outcomes = Counter(outcome for run in runs for outcome in run["outcomes"])
    effect_s = sorted(value for run in runs for value in run["in_effect_s"])
    if not resizes_s:
        return ["No resize was seen."]
    return [
        f"{sum(outcomes.values())} resizes were asked for: {', '.join(f'{n} {word}' for word, n in outcomes.items())}.",
        "A pod that grows waits for those that give back.",
        "",
        "| from the controller's word until | median | 95 % | longest |",
        "|---|--:|--:|--:|",
        _quantiles("set aside by the kubelet", resizes_s),
        _quantiles("told in the pod's status", effect_s),
        "",
        "![histogram of the time until kubelets had set resizes aside](images/supersteps-lab-resizes.svg)",
    ]


def _quantiles(word: str, values: Sequence[float]) -> str:
    at = values[min(len(values) - 1, int(0.95 * len(values)))]
    return f"| {word} | {median(values):.2f} s | {at:.2f} s | {values[-1]:.2f} s |"


def _histogram(values: Sequence[float]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    parts = ['<rect width="100%" height="100%" fill="white"/>', "<style>text {font-size: 12px}</style>"]
    if not values:
        return "\n".join([head, *parts, '<text x="40" y="40">no resize was seen</text>', "</svg>"]) + "\n"
    wide_s = values[-1] / BARS or 1.0
    counts = [0] * BARS
    for value in values:
        counts[min(BARS - 1, int(value / wide_s))] += 1
    left, bottom, width = 50, HEIGHT - 40, (WIDTH - 80) / BARS
    for at, count in enumerate(counts):
        tall = count / max(counts) * (HEIGHT - 80)
        x, y = left + at * width, bottom - tall
        parts.append(f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{tall:.1f}" fill="{COLOUR}"/>')
        if count:
            parts.append(f'<text x="{x + width / 2:.1f}" y="{y - 4:.1f}" text-anchor="middle">{count}</text>')
        if at % 4 == 0:
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{at * wide_s:.2f}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">seconds until set aside</text>')
    return "\n".join([head, *parts, "</svg>"]) + "\n"
