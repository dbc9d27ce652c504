"""The report: one HTML file with key figures and plots that opens anywhere and fetches nothing."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from foresail.errors import ResultsError
from foresail.report import plots, training
from foresail.report.actions import actions_over_time
from foresail.report.agreement import agreement_cells, errors_by_job, overlaid_completions
from foresail.report.heatmap import node_map
from foresail.report.page import html_table, render_page, write_page
from foresail.report.style import Figure
from foresail.report.tables import comparison_cells, figure_rows
from foresail.results.actions import ACTIONS, actions_of, counted, first
from foresail.results.folder import Run, StoredRun
from foresail.results.key_figures import run_labels

MOST_RUNS_IN_DETAIL = 8
"""Plots that show a single run are drawn for this many runs; the others are in the shared plots."""

MOST_ACTIONS_LISTED = 50
"""Actions of controllers that are listed; the journal has them all."""


def report_figures(
    runs: Sequence[Run],
    comparison: Sequence[Mapping[str, Any]] | None = None,
    agreement: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Figure]:
    """Draw every plot that these runs have data for, by a name that serves as file name and anchor."""
    shared = {
        "paired-differences": plots.paired_differences(comparison or []),
        "agreement": overlaid_completions(agreement or []),
        "agreement-errors": errors_by_job(agreement or []),
        "completions": training.completions(runs),
        "allocation-by-load": plots.allocation_by_load(runs),
        "fragmentation-by-load": plots.fragmentation_by_load(runs),
        "utilisation": plots.utilisation(runs),
        "waiting-pods": plots.waiting_pods(runs),
        "wait-distribution": plots.wait_distribution(runs),
    }
    labels = run_labels(runs)
    single: dict[str, Figure | None] = {}
    for number, (run, label) in enumerate(list(zip(runs, labels, strict=True))[:MOST_RUNS_IN_DETAIL], start=1):
        ending = f"-{number}" if len(runs) > 1 else ""
        single[f"fragment-classes{ending}"] = plots.fragment_classes(run, label)
        single[f"nodes{ending}"] = node_map(run, label)
        single[f"gantt{ending}"] = training.gantt(run, label)
        single[f"growth{ending}"] = training.growth_curves(run, label)
        single[f"cpu-use{ending}"] = training.cpu_use(run, label)
        single[f"actions{ending}"] = actions_over_time(run, label)
    return {name: figure for name, figure in (shared | single).items() if figure is not None}


def render_report(
    runs: Sequence[Run],
    *,
    title: str,
    comparison: Sequence[Mapping[str, Any]] | None = None,
    agreement: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """Write the whole page as text; the same runs give the same text.

    `comparison` are differences between policies, `agreement` are jobs in two worlds, both as rows of their CSV files.
    """
    figures = report_figures(runs, comparison, agreement)
    sections = [_key_figure_section(runs)]
    if comparison:
        sections.append(_comparison_section(comparison))
    if agreement:
        table = html_table(*agreement_cells(agreement), "differences")
        sections.append(f'<section class="card"><h2>Simulated against real completion</h2>{table}</section>')
    sections += _action_sections(runs)
    notes = []
    if len(runs) > MOST_RUNS_IN_DETAIL:
        notes.append(
            f'<p class="note">What concerns a single run is shown for the first {MOST_RUNS_IN_DETAIL} '
            f"of {len(runs)} runs.</p>"
        )
    notes += [_details(run, label) for run, label in zip(runs, run_labels(runs), strict=True)]
    return render_page(title, _subtitle(runs), sections, figures, notes)


def write_report(
    path: Path,
    runs: Sequence[Run],
    *,
    title: str,
    comparison: Sequence[Mapping[str, Any]] | None = None,
    agreement: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Write the page to a file, whole or not at all."""
    page = render_report(runs, title=title, comparison=comparison, agreement=agreement)

    def failed(why: str) -> ResultsError:
        return ResultsError(f"{path}: cannot be written ({why}); choose another file with --out")

    write_page(path, page, failed)


def _subtitle(runs: Sequence[Run]) -> str:
    def listed(name: str, values: Sequence[object]) -> str:
        unique = list(dict.fromkeys(str(value) for value in values))
        shown = ", ".join(unique[:6]) + (f" and {len(unique) - 6} more" if len(unique) > 6 else "")
        return html.escape(f"{name if len(unique) == 1 else name + 's'} {shown}")

    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    facts = [listed("trace", [run.trace for run in runs]), listed("protocol", [run.protocol for run in runs])]
    facts.append(listed("seed", [run.seed for run in runs]))
    gpus = listed("GPU total", [f"{run.total_gpus:,}" for run in runs])
    return " · ".join([count, *facts, gpus])


def _key_figure_section(runs: Sequence[Run]) -> str:
    head = "".join(f'<th scope="col">{html.escape(label)}</th>' for label in run_labels(runs))
    body = "".join(
        f'<tr><th scope="row">{html.escape(label)}</th>'
        + "".join(f"<td>{'' if cell is None else html.escape(cell.text)}</td>" for cell in cells)
        + "</tr>"
        for label, cells in figure_rows(runs)
    )
    return (
        '<section class="card"><h2>Key figures</h2><div class="scroll"><table>'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _comparison_section(comparison: Sequence[Mapping[str, Any]]) -> str:
    table = html_table(*comparison_cells(comparison), "differences")
    return f'<section class="card"><h2>Differences</h2>{table}</section>'


def _action_sections(runs: Sequence[Run]) -> list[str]:
    """What controllers did, for each of the runs that are shown in detail and have any."""
    found = []
    for run, label in list(zip(runs, run_labels(runs), strict=True))[:MOST_RUNS_IN_DETAIL]:
        actions = actions_of(run)
        if actions is not None:
            found.append(_action_section(actions, label if len(runs) > 1 else ""))
    return found


def _action_section(actions: pl.DataFrame, label: str) -> str:
    heading = f"What controllers did: {label}" if label else "What controllers did"
    if actions.is_empty():
        return f'<section class="card"><h2>{html.escape(heading)}</h2><p class="note">Nothing.</p></section>'
    counts = html_table(
        ["controller", *ACTIONS.values()],
        [[by, *[f"{count:,}" for count in times]] for by, times in counted(actions)],
        "counts",
    )
    listed = first(actions, MOST_ACTIONS_LISTED)
    several = actions["by"].n_unique() > 1
    rows = [
        [f"{one.time_s:,.10g}", one.what, one.pod, one.node, one.detail, *([one.by] if several else [])]
        for one in listed
    ]
    head = ["time (s)", "what", "pod", "node", "how much and why", *(["controller"] if several else [])]
    more = f"The first {len(listed)} of {actions.height:,}; journal.parquet has them all."
    note = f'<p class="note">{more}</p>' if len(listed) < actions.height else ""
    table = html_table(head, rows, "actions")
    return f'<section class="card"><h2>{html.escape(heading)}</h2>{counts}{table}{note}</section>'


def _details(run: Run, label: str) -> str:
    if isinstance(run, StoredRun):
        facts: dict[str, Any] = {"folder": str(run.folder), "manifest": run.manifest, "summary": run.summary}
    else:
        facts = {"profile": run.profile, "summary": run.summary}
    text = json.dumps(facts, sort_keys=True, indent=2, ensure_ascii=False, default=str)
    return f"<details><summary>How {html.escape(label)} was run</summary><pre>{html.escape(text)}</pre></details>"
