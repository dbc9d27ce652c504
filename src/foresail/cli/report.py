"""`foresail report`: key figures, plots and pictures from results folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foresail.results.folder import Run


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS_FOLDER...", help="Folders that foresail simulate or compare wrote; one a run."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file to write.")] = Path("report.html"),
    png: Annotated[
        Path | None,
        typer.Option("--png", metavar="DIR", help="Also write each plot as a PNG file into this folder."),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", help="The heading; by default the policies and the trace.")
    ] = None,
) -> None:
    """Write one HTML file with the key figures and plots of one or more runs.

    The file holds everything it shows and loads nothing, so it can be mailed or archived.

    [bold]Examples[/bold]

      foresail report results/fgd

      foresail report results/fgd results/best-fit --out compare.html --title "fgd or best-fit"

      foresail report results/* --png pictures
    """
    from rich.console import Console

    from foresail.report.html import report_figures, write_report
    from foresail.report.tables import run_table
    from foresail.results.folder import read_run

    runs = [read_run(folder) for folder in folders]
    # Pictures first: if they cannot be drawn, no half of what was asked for is left behind.
    pictures = []
    if png is not None:
        from foresail.report.png import write_pngs

        pictures = write_pngs(png, report_figures(runs))
    write_report(out, runs, title=title or _title(runs))
    Console().print(run_table(*runs))
    typer.echo(f"wrote {out}")
    if pictures:
        typer.echo(f"wrote {len(pictures)} pictures to {png}")


def _title(runs: Sequence[Run]) -> str:
    from foresail.results.key_figures import run_name

    def listed(names: list[str]) -> str:
        unique = list(dict.fromkeys(names))
        return ", ".join(unique) if len(unique) <= 4 else f"{', '.join(unique[:3])} and {len(unique) - 3} more"

    policies = listed([run_name(run.policy, run.controllers) for run in runs])
    return f"{policies} on {listed([run.trace for run in runs])}"
