"""`foresail bsp`: bulk-synchronous jobs, whose supersteps are as slow as their slowest task."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.bsp_run import EPILOG as RUN_EXAMPLES
from foresail.cli.bsp_run import run
from foresail.cli.compiling import compiling_is_announced
from foresail.experiments.supersteps.request import MODEL_STRATEGIES, STRATEGIES, JobRequest

if TYPE_CHECKING:
    from foresail.experiments.supersteps.run import JobResult

app = typer.Typer(
    name="bsp",
    help="Plan the CPU of bulk-synchronous jobs, whose supersteps are as slow as their slowest task.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command(epilog=RUN_EXAMPLES)(run)

EPILOG = """
Examples:

  foresail bsp simulate --data bsp --strategy dynamic-mpc --window 10 --forecast published --json

  foresail bsp simulate --strategy exppo --strategy scenario --seed 1 --seed 2 --seed 3

  foresail bsp simulate --strategy scenario --forecast perfect --grid 50 --penalty 5 --penalty 95 --out results/bsp

  foresail bsp simulate --data bsp --strategy dqn --model dqn.npz --forecast published
"""
_DEFAULT = JobRequest()
_STRATEGIES = "; ".join(f"{name}: {what}" for name, what in STRATEGIES.items())


@app.command(epilog=EPILOG)
def simulate(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with actual, forecasts, series and workload_profiling.csv; else bsp in $FORESAIL_DATA, "
            "else a made-up job.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Seconds by work and CPU, as foresail measure stress writes them; else the data's own.",
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help=f"{_STRATEGIES}. \\[default: {_DEFAULT.strategy}]", show_default=False)
    ] = None,
    window: Annotated[
        list[int] | None, typer.Option(help="Supersteps that are looked ahead, or held; else the strategy's own.")
    ] = None,
    forecast: Annotated[
        list[str] | None,
        typer.Option(
            help=f"published, perfect, or a forecaster. \\[default: {_DEFAULT.forecast}]",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        list[int] | None, typer.Option(help="Row of the data that is the first superstep. \\[default: 0]")
    ] = None,
    length: Annotated[list[int] | None, typer.Option(help="How many supersteps. \\[default: 400]")] = None,
    penalty: Annotated[
        list[float] | None,
        typer.Option(metavar="SECONDS", help="What a change of the split takes; the first is free. \\[default: 15]"),
    ] = None,
    grid: Annotated[
        list[int] | None,
        typer.Option(
            metavar="MILLI", help="CPU is given out in steps of so much; else a tenth of the least of a task."
        ),
    ] = None,
    tasks: Annotated[
        list[int] | None,
        typer.Option(help="How many tasks, each with 3 times what it has at least; else as many as the data has."),
    ] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Of the scenarios. \\[default: 1]")] = None,
    cap: Annotated[
        int | None, typer.Option(metavar="MILLI", help="The most that a task may have; else there is no cap.")
    ] = None,
    punishment: Annotated[
        float,
        typer.Option(help="dynamic-mpc, dynamic-window: a window of n supersteps counts this to the power of n."),
    ] = _DEFAULT.punishment,
    scenarios: Annotated[
        int, typer.Option(help="scenario, learned: how many ways in which the work may go on are looked at.")
    ] = _DEFAULT.scenarios,
    runtime: Annotated[
        str, typer.Option(help="How seconds are told between measured points: spline or monotone.")
    ] = _DEFAULT.runtime,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write jobs.csv, supersteps.csv and report.html; jobs that are finished there are not run again.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"{', '.join(MODEL_STRATEGIES)}: the model, made by foresail train."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print figures as JSON; a list if there are several.")
    ] = False,
) -> None:
    """Run a bulk-synchronous job in virtual time and say how long it takes, and where the time goes.

    Options that are written as lists in the help may be repeated: every combination is run.
    """
    from foresail.errors import OptionError

    windows: list[int | None] = list(window) if window else [None]
    steps: list[int | None] = list(grid) if grid else [None]
    counts: list[int | None] = list(tasks) if tasks else [None]
    requests = [
        JobRequest(
            strategy=each[0],
            window=each[1],
            forecast=each[2],
            start=each[3],
            length=each[4],
            penalty_s=each[5],
            grid_milli=each[6],
            tasks=each[7],
            seed=each[8],
            cap_milli=cap,
            punishment=punishment,
            scenarios=scenarios,
            runtime=runtime,
            model=None if model is None or each[0] not in MODEL_STRATEGIES else str(model),
        )
        for each in itertools.product(
            strategy or [_DEFAULT.strategy],
            windows,
            forecast or [_DEFAULT.forecast],
            start or [_DEFAULT.start],
            length or [_DEFAULT.length],
            penalty or [_DEFAULT.penalty_s],
            steps,
            counts,
            seed or [_DEFAULT.seed],
        )
    ]
    if model is not None and not any(request.model for request in requests):
        raise OptionError(f"--model goes with --strategy {' or '.join(MODEL_STRATEGIES)}")
    _show(_simulate(requests, data, profile, out), out, as_json=as_json)


def _simulate(requests: list[JobRequest], data: Path | None, profile: Path | None, out: Path | None) -> list[JobResult]:
    from foresail.cli.progress import progress_bar
    from foresail.experiments.supersteps.folder import JobFolder
    from foresail.experiments.supersteps.run import simulate_job
    from foresail.experiments.supersteps.source import find_source

    source = find_source(data, profile)
    folder = None if out is None else JobFolder(out, source)
    results = []
    try:
        with compiling_is_announced(), progress_bar(f"{len(requests)} jobs on {source.name}") as shown:
            for at, request in enumerate(requests):
                result = None if folder is None else folder.find(request)
                if result is None:
                    result = simulate_job(source, request)
                    if folder is not None:
                        folder.keep(result)
                results.append(result)
                if shown is not None:
                    shown(at + 1, len(requests))
    except KeyboardInterrupt:
        kept = f"finished jobs are in {out}" if out else "with --out finished jobs are kept"
        raise KeyboardInterrupt(f"interrupted; {kept}, and the same command goes on from there") from None
    if folder is not None:
        folder.write_tables(results)
    return results


def _show(results: list[JobResult], out: Path | None, *, as_json: bool) -> None:
    import json

    from foresail.experiments.supersteps.table import jobs_table, write_jobs_page

    if out is not None:
        write_jobs_page(out / "report.html", results)
    figures = [result.figures for result in results]
    if as_json:
        typer.echo(json.dumps(figures[0] if len(figures) == 1 else figures, indent=2))
        return
    from rich.console import Console

    Console().print(jobs_table(figures))
    if out is not None:
        typer.echo(f"wrote jobs.csv, supersteps.csv and report.html to {out}")
