"""`foresail simulate`: one policy, one trace, one seed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.compiling import compiling_is_announced
from foresail.cli.options import Given, OptionSource, takes_options
from foresail.errors import OptionError
from foresail.experiments.request import RunRequest, WhatIfRequest
from foresail.settings import make

if TYPE_CHECKING:
    from foresail.results.result import RunResult
    from foresail.sim.checkpoint import Checkpoint

EPILOG = """
Examples:

  foresail simulate --nodes nodes.csv --pods pods.csv --policy fgd --out results/fgd

  foresail simulate --nodes nodes.csv --pods pods.csv --policy power:100+fgd:900 --load 1.0 --seed 7

  foresail simulate --protocol clock --nodes nodes.yaml --pods pods.yaml --policy my-profile.toml --faults faults.csv

  foresail simulate --from-snapshot cluster.yaml --pods new.yaml --replicas 20 --policy fgd
"""
FROM_SNAPSHOT = "--from-snapshot"


@takes_options(OptionSource(RunRequest), OptionSource(WhatIfRequest, f"with {FROM_SNAPSHOT}"))
def simulate(
    given: Given,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder to write; without it only the table is shown.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier results folder.")] = False,
    html: Annotated[
        bool | None,
        typer.Option("--html/--no-html", help="Also write report.html into the folder. \\[default: html]"),
    ] = None,
) -> None:
    """Replay a trace through one policy: a table, a results folder, an HTML report.

    A clock run that is interrupted goes on where it stopped when the same command is given again. With --from-snapshot
    no time passes: pods are placed by priority and then by time on a cluster as it stood, and each is told its node or
    why it fits nowhere.
    """
    if FROM_SNAPSHOT in given.values:
        for option in [*given.besides(WhatIfRequest), *(["--html"] if html is not None else [])]:
            raise OptionError(f"{option} does not go with {FROM_SNAPSHOT}; no time passes there")
        _what_if(make(WhatIfRequest, given.of(WhatIfRequest)), out, overwrite=overwrite)
        return
    for option in given.besides(RunRequest):
        raise OptionError(f"{option} needs {FROM_SNAPSHOT}: the cluster to start from")
    lacks = [option for option in ("--nodes", "--pods") if option not in given.values]
    if lacks and "--schedule" not in given.values:
        said = " and ".join(lacks)
        raise OptionError(f"{said} is missing; name a node list and a pod list, or a cluster with {FROM_SNAPSHOT}")
    _run(make(RunRequest, given.of(RunRequest)), out, overwrite=overwrite, html=html is not False)


def _run(request: RunRequest, out: Path | None, *, overwrite: bool, html: bool) -> None:
    from rich.console import Console

    from foresail.experiments.run import load_inputs
    from foresail.experiments.store import checkpoint_for, store_run
    from foresail.report.tables import run_table
    from foresail.results.folder import check_target

    if out is not None:
        check_target(out, overwrite=overwrite)
    trace, _ = load_inputs(request)
    if trace.dropped_rows:
        typer.echo(f"dropped {trace.dropped_rows} bad rows", err=True)
    result = _with_a_bar(request, trace.name, checkpoint_for(out, request))
    # Stored first: whoever reads may be gone, and what was found must not go with them.
    written = [] if out is None else store_run(out, request, result, overwrite=overwrite, html=html)
    Console().print(run_table(result))
    for pin in result.summary.get("pins_not_kept", ()):
        typer.echo(f"{pin['pod']} could not start on {pin['pinned_to']}; it started on {pin['node']}", err=True)
    for path in written:
        typer.echo(f"wrote {path}")


def _with_a_bar(request: RunRequest, trace: str, checkpoint: Checkpoint | None) -> RunResult:
    from foresail.cli.progress import progress_bar
    from foresail.experiments.run import run

    try:
        with compiling_is_announced(), progress_bar(f"{request.policy} on {trace}") as on_progress:
            return run(request, on_progress=on_progress, checkpoint=checkpoint)
    except KeyboardInterrupt:
        kept = "nothing was written" if checkpoint is None else "the same command goes on from there"
        raise KeyboardInterrupt(f"interrupted; {kept}") from None


def _what_if(request: WhatIfRequest, out: Path | None, *, overwrite: bool) -> None:
    from rich.console import Console

    from foresail.cli.progress import progress_bar
    from foresail.experiments.what_if import store_what_if, what_if, what_if_table
    from foresail.results.folder import check_target

    if out is not None:
        check_target(out, overwrite=overwrite)
    with compiling_is_announced(), progress_bar(f"{request.policy} on {Path(request.snapshot).name}") as on_progress:
        answer = what_if(request, measure=out is not None, on_progress=on_progress)
    if answer.dropped_rows:
        typer.echo(f"dropped {answer.dropped_rows} bad rows", err=True)
    if out is not None:
        store_what_if(out, answer, overwrite=overwrite)
    Console().print(what_if_table(answer))
    typer.echo(answer.summary)
    if out is not None:
        typer.echo(f"wrote {out}")
