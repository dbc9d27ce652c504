"""Turns figures of training jobs on a lab into docs/training-lab.md and its plots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

GOAL_PCT = 15
REAL, SIMULATED = "#0072b2", "#d55e00"
WIDTH, ROW, LEFT, TOP = 680, 18, 190, 40
HISTOGRAM_HEIGHT, BARS = 240, 16


def write_page(figures: Mapping[str, Any], docs: Path) -> None:
    runs = figures["runs"]
    resizes_s = sorted(one["took_s"] for run in runs for one in run["resizes"])
    (docs / "images" / "training-lab-completion.svg").write_text(_completions(runs), encoding="utf-8")
    (docs / "images" / "training-lab-resizes.svg").write_text(_histogram(resizes_s), encoding="utf-8")
    jobs = [one for run in runs if run["planned"] for one in run["jobs"]]
    lines = [
        "# Training jobs on a lab",
        "",
        "Written by `python bench/training_lab.py`; every figure stands in `bench/training_lab.json`. The seven-job",
        f"schedule, scaled in time, on {figures['nodes']} kubelets of {figures['node_cpu']} CPU each (one machine of",
        f"{figures['machine']['cpus']} CPUs), with real trainers, and in simulation with what",
        f"`foresail measure training --on kube --part {figures['part']:g}` measured there right before, seed",
        f"{figures['seed']}. What starts and moves cost was set beforehand; controllers' settings and sizes were",
        "chosen in simulation and after rehearsals. The lab's control group comes before other work of the machine,",
        "up to the nodes' caps.",
        *([figures["note"]] if figures["note"] else []),
        "[How to do it](guides/training-jobs.md#the-same-jobs-on-a-cluster).",
        "",
        "## Simulated against real completion",
        "",
        *_agreement(runs),
        "",
        _verdict(jobs),
        _beyond(runs),
        _changes(runs),
        "Where a strategy is off by more, its controller moved other jobs, or at other times, than in simulation, and",
        "a job that is moved stands still meanwhile.",
        "",
        "![completion of every job](images/training-lab-completion.svg)",
        "",
        "| strategy | job | what | model | real | simulated | error |",
        "|---|---|---|---|--:|--:|--:|",
        *(_job_line(run, one) for run in runs for one in run["jobs"]),
        "",
        "## What happened",
        "",
        "| strategy | jobs that finished | moves | resizes | steps lost | losses as in the default run |",
        "|---|--:|---|--:|--:|--:|",
        *map(_happened, runs),
        "",
        "Losses are compared step by step with the run in which nobody is moved: the same to the last bit means that a",
        "moved job went on where it was.",
        "",
        *_moves(runs),
        "## How long a resize takes",
        "",
        *_resizes(resizes_s),
        "",
        "## What was measured first",
        "",
        "| model | steps | CPU of a step | CPU of a start |",
        "|---|--:|--:|--:|",
        *(
            f"| {name} | {one['steps']} | {1000 * one['step_cpu_s']:.1f} ms | {one['start_cpu_s']:.2f} s |"
            for name, one in figures["models"].items()
        ),
    ]
    (docs / "training-lab.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def error_pct(job: Mapping[str, Any]) -> float:
    return 100 * (float(job["simulated_s"]) / float(job["real_s"]) - 1)


def _signed(value: float) -> str:
    return f"{value:+.1f} %".replace("-", "−")


def _agreement(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| strategy | mean completion, real | simulated | error of the mean | mean error of a job | makespan error |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for run in runs:
        jobs = run["jobs"]
        real_s, simulated_s = (fmean(one[key] for one in jobs) for key in ("real_s", "simulated_s"))
        name = run["strategy"] if run["planned"] else f"{run['strategy']} (added afterwards)"
        longest = [max(one[key] for one in jobs) for key in ("simulated_s", "real_s")]
        lines.append(
            f"| {name} | {real_s:.1f} s | {simulated_s:.1f} s | {_signed(100 * (simulated_s / real_s - 1))} "
            f"| {fmean(abs(error_pct(one)) for one in jobs):.1f} % | {_signed(100 * (longest[0] / longest[1] - 1))} |"
        )
    return lines


def _verdict(jobs: Sequence[Mapping[str, Any]]) -> str:
    off_pct = fmean(abs(error_pct(one)) for one in jobs)
    mean_pct = 100 * (fmean(one["simulated_s"] for one in jobs) / fmean(one["real_s"] for one in jobs) - 1)
    said = "within" if off_pct <= GOAL_PCT else "beyond"
    return (
        f"Over the {len(jobs)} jobs of the strategies that were planned the simulated completion is off by\n"
        f"{off_pct:.1f} % of the real one on average, whichever way ({said} the "
        f"goal of {GOAL_PCT} %); of the mean completion by {_signed(mean_pct)}."
    )


def _beyond(runs: Sequence[Mapping[str, Any]]) -> str:
    off = {run["strategy"].partition(":")[0]: fmean(abs(error_pct(one)) for one in run["jobs"]) for run in runs}
    missed = [f"`{name}` alone misses it with {pct:.1f} %" for name, pct in off.items() if pct > GOAL_PCT]
    return f"{', '.join(missed) or 'Each strategy meets it by itself'}."


def _changes(runs: Sequence[Mapping[str, Any]]) -> str:
    """By how much each strategy changes the mean completion, in both worlds."""
    means = [[fmean(one[key] for one in run["jobs"]) for key in ("real_s", "simulated_s")] for run in runs]
    said = []
    for run, mean in zip(runs[1:], means[1:], strict=True):
        real, simulated = (_signed(100 * (after / before - 1)) for after, before in zip(mean, means[0], strict=True))
        said.append(f"`{run['strategy'].partition(':')[0]}` {real} on the lab and {simulated} in simulation")
    return f"Mean completion against default: {'; '.join(said)}."


def _job_line(run: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    strategy = run["strategy"].partition(":")[0]
    return (
        f"| {strategy} | {one['job']} | {one['owner']} | {one['model']} | {one['real_s']:.1f} s "
        f"| {one['simulated_s']:.1f} s | {_signed(error_pct(one))} |"
    )


def _kinds(moves: Sequence[Mapping[str, Any]]) -> str:
    counted = Counter(one["owner"] for one in moves)
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(counted.items())) or "0"


def _happened(run: Mapping[str, Any]) -> str:
    lost = sum(sum(steps) for steps in run["steps_lost"].values())
    losses = f"{run['losses_same']} of {run['losses_compared']}" if run["losses_compared"] else ""
    return (
        f"| {run['strategy']} | {len(run['jobs'])} of {run['submitted']} | {_kinds(run['moves'])} "
        f"| {len(run['resizes'])} | {lost} | {losses} |"
    )


def _moves(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    moves = [(run, one) for run in runs for one in run["moves"]]
    if not moves:
        return []
    lines = ["| strategy | at | job | what | took | steps lost |", "|---|--:|---|---|--:|--:|"]
    for run, one in moves:
        took = "" if one["took_s"] is None else f"{one['took_s']:.1f} s"
        lost = "" if one["steps_lost"] is None else one["steps_lost"]
        strategy = run["strategy"].partition(":")[0]
        lines.append(f"| {strategy} | {one['time_s']:.0f} s | {one['job']} | {one['owner']} | {took} | {lost} |")
    simulated = "; ".join(f"{run['strategy'].partition(':')[0]} {_kinds(run['moves_simulated'])}" for run in runs[1:])
    return [*lines, "", f"In simulation: {simulated}.", ""]


def _resizes(took_s: Sequence[float]) -> list[str]:
    if not took_s:
        return ["No resize was seen."]
    at_95 = took_s[min(len(took_s) - 1, int(0.95 * len(took_s)))]
    return [
        f"{len(took_s)} resizes, from the pod's spec that asks to its status that has it, as a watch saw both: median",
        f"{median(took_s):.2f} s, 95 % within {at_95:.2f} s, the longest {took_s[-1]:.2f} s.",
        "",
        "![histogram of the time that resizes took](images/training-lab-resizes.svg)",
    ]


# --- plots -----------------------------------------------------------------------------------------------------------


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, white, "<style>text {font-size: 12px}</style>", *parts, "</svg>"]) + "\n"


def _completions(runs: Sequence[Mapping[str, Any]]) -> str:
    """A row for each job, with a mark for each world and a line between them."""
    jobs = [(run["strategy"].partition(":")[0], one) for run in runs for one in run["jobs"]]
    most_s = max(max(one["real_s"], one["simulated_s"]) for _, one in jobs)
    height = TOP + ROW * (len(jobs) + len(runs)) + 40

    def x(value_s: float) -> float:
        return LEFT + value_s / most_s * (WIDTH - LEFT - 30)

    parts = [
        f'<text x="{LEFT}" y="20">from submission to end:</text>',
        f'<circle cx="{LEFT + 150}" cy="16" r="5" fill="{REAL}"/><text x="{LEFT + 160}" y="20">on the lab</text>',
        f'<circle cx="{LEFT + 250}" cy="16" r="5" fill="none" stroke="{SIMULATED}" stroke-width="2"/>',
        f'<text x="{LEFT + 260}" y="20">simulated</text>',
    ]
    y, before = TOP, ""
    for strategy, one in jobs:
        y += ROW if before in ("", strategy) else 2 * ROW
        before = strategy
        real, simulated = x(one["real_s"]), x(one["simulated_s"])
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{strategy}, {one["job"]}, {one["owner"]}</text>',
            f'<path d="M{real:.1f} {y} L{simulated:.1f} {y}" stroke="#999999"/>',
            f'<circle cx="{real:.1f}" cy="{y}" r="5" fill="{REAL}"/>',
            f'<circle cx="{simulated:.1f}" cy="{y}" r="5" fill="none" stroke="{SIMULATED}" stroke-width="2"/>',
        ]
    parts += [
        f'<text x="{x(tick):.1f}" y="{height - 10}" text-anchor="middle">{tick} s</text>'
        for tick in range(0, int(most_s) + 1, 20 if most_s < 200 else 50)
    ]
    return _svg(WIDTH, height, parts)


def _histogram(took_s: Sequence[float]) -> str:
    if not took_s:
        return _svg(WIDTH, HISTOGRAM_HEIGHT, ['<text x="40" y="40">no resize was seen</text>'])
    widths = (0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0)
    width_s = next((one for one in widths if took_s[-1] / one <= BARS), took_s[-1] / BARS)
    counts = Counter(int(one / width_s) for one in took_s)
    bars, most = max(counts) + 1, max(counts.values())
    left, bottom = 50, HISTOGRAM_HEIGHT - 40
    across = (WIDTH - left - 20) / bars

    parts = [f'<text x="{left}" y="18">resizes by the time that they took</text>']
    for bar in range(bars):
        x, tall = left + bar * across, counts[bar] / most * (bottom - 40)
        parts.append(
            f'<rect x="{x:.1f}" y="{bottom - tall:.1f}" width="{across - 2:.1f}" height="{tall:.1f}" fill="{REAL}"/>'
        )
        if counts[bar]:
            middle = x + across / 2
            parts.append(
                f'<text x="{middle:.1f}" y="{bottom - tall - 4:.1f}" text-anchor="middle">{counts[bar]}</text>'
            )
    for edge in range(0, bars + 1, max(1, bars // 8)):
        x = left + edge * across
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{edge * width_s:g} s</text>')
    return _svg(WIDTH, HISTOGRAM_HEIGHT, parts)
