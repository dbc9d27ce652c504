"""Changes against the baseline as a table for people, as CSV, and as data for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foresail.experiments.changes import FIGURES, Change, Changes
from foresail.experiments.plan import Plan
from foresail.experiments.statistics import ComparisonRow

_HEADINGS = {
    "mean_pct": "mean",
    "makespan_pct": "makespan",
    "best_pct": "best",
    "worst_pct": "worst",
    "slower_pct": "slower",
    "target_pct": "target",
}


def change_table(plan: Plan, changes: Sequence[Changes]) -> RenderableType:
    """For the terminal: one row a strategy, then the bounds."""
    seeds = len(plan.experiment.seeds)
    heading = f"{plan.traces[0]}: {seeds} seed{'s' if seeds > 1 else ''}, change against {plan.baseline}"
    caption = (
        "in %, the mean over seeds ± half of its 95 % interval by bootstrap\n"
        "mean: of completion times, from submission to end; best, worst: the job of a seed that gains or loses most\n"
        "slower: share of jobs that end later; target: mean time to 90 % of the way to the lowest loss"
    )
    table = Table(
        caption=Text(caption),
        header_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("", min_width=14)
    for name in FIGURES:
        table.add_column(_HEADINGS[name], justify="right", no_wrap=True)
    for at, one in enumerate(changes):
        if one.kind == "bound" and at and changes[at - 1].kind != "bound":
            table.add_section()
        cells = [_cell(one.figures.get(name), share=name == "slower_pct") for name in FIGURES]
        # Next to one policy alone, a controller says enough.
        label = one.strategy.removeprefix(f"{plan.baseline} with ")
        table.add_row(Text(label), *cells)
    told = [
        Text(f"{one.strategy}: {one.unpinned} jobs of all seeds could not start where they do without it")
        for one in changes
        if one.unpinned
    ]
    return Group(Text(heading, style="italic"), table, *told)


def _cell(change: Change | None, *, share: bool) -> str:
    if change is None:
        return ""
    form = ".1f" if share else "+.1f"
    mean = f"{change.mean:{form}}"
    return mean if change.low is None or change.high is None else f"{mean} ±{(change.high - change.low) / 2:.1f}"


def change_lines(changes: Sequence[Changes]) -> tuple[list[str], list[list[Any]]]:
    """Header and lines of `changes.csv`: one line a strategy and figure."""
    header = ["strategy", "kind", "figure", "seeds", "mean", "low", "high"]
    lines = [
        [one.strategy, one.kind, name, one.seeds, change.mean, change.low, change.high]
        for one in changes
        for name, change in one.figures.items()
    ]
    return header, lines


def as_data(plan: Plan, rows: Sequence[ComparisonRow], changes: Sequence[Changes]) -> dict[str, Any]:
    """The comparison for other programs."""
    controllers = [controller for _ in plan.profiles for controller in plan.experiment.strategies]
    controller_of = dict(zip(plan.policies, controllers, strict=True))
    return {
        "title": plan.experiment.title,
        "traces": plan.traces,
        "baseline": plan.baseline,
        "seeds": list(plan.experiment.seeds),
        "changes": [
            {
                "strategy": one.strategy,
                "kind": one.kind,
                **({"controller": controller_of[one.strategy]} if one.kind == "run" else {}),
                "seeds": one.seeds,
                **({"jobs_not_pinned": one.unpinned} if one.kind == "run" else {}),
                **{name: asdict(change) for name, change in one.figures.items()},
            }
            for one in changes
        ],
        "comparison": [asdict(row) for row in rows],
    }
