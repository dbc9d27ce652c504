"""What a comparison leaves behind: two tables as CSV, an HTML report, and a table for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from foresail.experiments.change_table import change_lines
from foresail.experiments.changes import Changes, changes_of
from foresail.experiments.experiment import ALL_TRACES
from foresail.experiments.plan import Plan, PlannedRun
from foresail.experiments.runner import RUNS, ExperimentOutcome, write_whole
from foresail.experiments.statistics import ComparisonRow, Values, compare
from foresail.report.html import write_report
from foresail.report.tables import signed
from foresail.results.folder import StoredRun, read_run
from foresail.results.metrics import measure

MOST_RUNS_DRAWN = 24
"""The report draws at most about this many runs; the statistics count them all."""


def write_comparison(plan: Plan, out: Path, carried: ExperimentOutcome) -> list[ComparisonRow]:
    """Measure every run in the folder and write `runs.csv`, `comparison.csv` and `report.html`."""
    values: dict[tuple[str, str, int], dict[str, float | None]] = {}
    lines = []
    for planned in plan.runs:
        if planned.folder in carried.there:
            measured = measure(read_run(out / RUNS / planned.folder), plan.metrics)
            values[planned.trace, planned.policy, planned.seed] = measured
            place = (Path(RUNS) / planned.folder).as_posix()
            lines.append([planned.trace, planned.policy, planned.seed, place, *measured.values()])
    rows = compare(values, traces=plan.traces, policies=plan.policies, baseline=plan.baseline, metrics=plan.metrics)
    header = ["trace", "policy", "seed", "folder", *(metric.name for metric in plan.metrics)]
    write_whole(out / "runs.csv", csv_bytes(header, lines))
    columns = [column.name for column in fields(ComparisonRow)]
    write_whole(out / "comparison.csv", csv_bytes(columns, (asdict(row).values() for row in rows)))
    drawn = _drawn(plan, out, values)
    write_report(out / "report.html", drawn, title=_title(plan, drawn), comparison=_report_rows(plan, rows) or None)
    return rows


def write_changes(plan: Plan, out: Path, carried: ExperimentOutcome) -> list[Changes]:
    """Compare jobs one by one with those of the baseline and write `changes.csv`, if there are training jobs."""
    changes = changes_of(plan, out, carried)
    if changes:
        write_whole(out / "changes.csv", csv_bytes(*change_lines(changes)))
    return changes


def csv_bytes(header: Sequence[str], lines: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return text.getvalue().encode()


def _drawn(plan: Plan, out: Path, values: Values) -> list[StoredRun]:
    """The runs that the report draws: of each policy and trace the first seed, for as many traces as fit."""
    drawn: list[StoredRun] = []
    for trace in plan.traces:
        firsts: dict[str, PlannedRun] = {}
        for planned in plan.runs:
            if planned.trace == trace and (trace, planned.policy, planned.seed) in values:
                firsts.setdefault(planned.policy, planned)
        if drawn and len(drawn) + len(firsts) > MOST_RUNS_DRAWN:
            break
        for planned in firsts.values():
            run = read_run(out / RUNS / planned.folder)
            # Two traces may share a pod list; the experiment's names tell them apart.
            drawn.append(replace(run, manifest={**run.manifest, "trace": trace}))
    return drawn


def _title(plan: Plan, drawn: Sequence[StoredRun]) -> str:
    seeds, traces = plan.experiment.seeds, plan.traces
    shown = list(dict.fromkeys(run.trace for run in drawn))
    title = plan.experiment.title or f"{_listed(plan.policies)} on {_listed(traces)}"
    notes = [f"{len(seeds)} seeds, plots show seed {drawn[0].seed}"] if len(seeds) > 1 else []
    if len(shown) < len(traces):
        notes.append(f"and {len(shown)} of {len(traces)} traces")
    return f"{title} ({' '.join(notes)})" if notes else title


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def _report_rows(plan: Plan, rows: Sequence[ComparisonRow]) -> list[dict[str, Any]]:
    """Differences for the report: every metric over all traces, and the first metric by trace."""
    whole = ALL_TRACES if len(plan.traces) > 1 else plan.traces[0]
    chosen = []
    for metric in plan.metrics:
        by_trace = metric is plan.metrics[0]
        chosen += [
            row
            for row in rows
            # One pair has no interval, and a dot without one would look surer than it is.
            if row.metric == metric.name and row.diff_low is not None and (by_trace or row.trace == whole)
        ]
    several = len(plan.traces) > 1
    units = {metric.name: metric.difference_unit for metric in plan.metrics}
    return [
        {
            "policy": f"{row.trace}: {row.policy}" if several else row.policy,
            "baseline": row.baseline,
            "metric": row.metric,
            "unit": units[row.metric],
            "mean": row.diff_mean,
            "low": row.diff_low,
            "high": row.diff_high,
            "better": row.better,
            "pairs": row.pairs,
            "won": row.wins,
            "policy mean": row.mean,
        }
        for row in chosen
    ]


def comparison_tables(plan: Plan, rows: Sequence[ComparisonRow]) -> RenderableType:
    """For the terminal: every metric over all traces, and the first metric by trace."""
    several = len(plan.traces) > 1
    whole = [row for row in rows if row.trace == (ALL_TRACES if several else plan.traces[0])]
    seeds = len(plan.experiment.seeds)
    heading = f"{_listed(plan.traces)}: {seeds} seed{'s' if seeds > 1 else ''}"
    # Lines of their own, since a table breaks its title at its own width.
    parts: list[RenderableType] = [Text(heading, style="italic"), _by_metric(plan, whole)]
    if several:
        parts += [Text(f"{plan.metrics[0].name}: means by trace", style="italic"), _by_trace(plan, rows)]
    return Group(*parts)


def _by_metric(plan: Plan, rows: Sequence[ComparisonRow]) -> Table:
    caption = (
        "↑ more is better, ↓ less is better\n"
        f"diff: policy − {plan.baseline}, mean over pairs of equal trace and seed\n"
        "interval: 95 %, by bootstrap; won: pairs in which the policy is better"
    )
    table = Table(
        caption=Text(caption),
        header_style="bold",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("")
    for name in ("mean", "sd", "diff", "interval", "won"):
        table.add_column(name, justify="right", no_wrap=True)
    for metric in plan.metrics:
        table.add_row(Text(f"{'↑' if metric.higher_is_better else '↓'} {metric.name}", style="bold"))
        for row in rows:
            if row.metric == metric.name:
                table.add_row(Text(f"  {row.policy}"), _number(row.mean), _number(row.sd), *_difference_cells(row))
    return table


def _difference_cells(row: ComparisonRow) -> tuple[str, str, str]:
    if row.pairs is None:
        return ("base", "", "")
    if not row.pairs:
        return ("no pair", "", "")
    interval = "none: one pair" if row.pairs == 1 else f"{signed(row.diff_low)}…{signed(row.diff_high)}"
    return (signed(row.diff_mean), interval, f"{row.wins}/{row.pairs}")


def _by_trace(plan: Plan, rows: Sequence[ComparisonRow]) -> Table:
    metric = plan.metrics[0].name
    table = Table(
        header_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("trace")
    cells: dict[str, Mapping[str, float | None]] = {
        trace: {row.policy: row.mean for row in rows if row.trace == trace and row.metric == metric}
        for trace in plan.traces
    }
    for policy in plan.policies:
        table.add_column(Text(policy), justify="right")
    for trace, means in cells.items():
        table.add_row(Text(trace), *[_number(means[policy]) for policy in plan.policies])
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"
