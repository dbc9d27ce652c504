"""Simulated jobs as a table for people, on the screen and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from foresail.experiments.supersteps.run import JobResult
from foresail.report.supersteps import DrawnJob, write_superstep_page

_ASKED = ("strategy", "window", "forecast", "start", "length", "penalty_s", "grid_milli", "tasks", "seed")
"""What is shown of a request: the first three always, the others where rows differ."""
_ALWAYS = 3
_TOLD = ("total", "work", "waiting", "changing", "changes")


def jobs_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """A row a job: what was asked for where rows differ, then where time went."""
    asked, rows = _cells(figures)
    table = Table(
        title=f"bulk-synchronous jobs on {figures[0]['data']}",
        caption="seconds; work and waiting: mean task",
        box=SIMPLE_HEAD,
    )
    for name in asked:
        table.add_column(name, no_wrap=True)
    for name in _TOLD:
        table.add_column(name, justify="right", no_wrap=True, min_width=max(6, len(name)))
    for row in rows:
        table.add_row(*row)
    return table


def write_jobs_page(path: Path, results: Sequence[JobResult]) -> None:
    """Write the page of jobs: the table, and the plots of the first ones."""
    figures = [result.figures for result in results]
    asked, rows = _cells(figures)
    jobs = [
        DrawnJob(
            " ".join(row[: len(asked)]),
            result.tasks,
            result.figures,
            result.grid.least_milli + result.grid.step_milli * result.run.splits.astype(float),
            result.run.seconds,
        )
        for row, result in zip(rows, results, strict=True)
    ]
    subtitle = f"{results[0].source.name}: {len(results)} jobs; seconds, work and waiting of the mean task"
    write_superstep_page(path, subtitle, [*asked, *_TOLD], rows, jobs)


def _cells(figures: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The names of what was asked for, and a row a job."""
    shown = [key for at, key in enumerate(_ASKED) if at < _ALWAYS or len({one[key] for one in figures}) > 1]
    rows = []
    for one in figures:
        asked = (
            "–" if one[key] is None else f"{one[key]:g}" if isinstance(one[key], float) else str(one[key])
            for key in shown
        )
        times = (f"{one[key]:.0f}" for key in ("total_s", "work_s", "waiting_s", "reconfiguration_s"))
        rows.append([*asked, *times, str(one["reconfigurations"])])
    return [key.removesuffix("_s").removesuffix("_milli") for key in shown], rows
