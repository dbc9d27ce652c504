"""`foresail simulate`: one policy, one trace, one seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from foresail.cli.compiling import compiling_is_announced

EPILOG = """
Examples:

  foresail simulate --nodes nodes.csv --pods pods.csv --policy fgd --out results/fgd

  foresail simulate --nodes nodes.csv --pods pods.csv --policy power:100+fgd:900 --load 1.0 --seed 7

  foresail simulate --protocol clock --nodes nodes.yaml --pods pods.yaml --policy my-profile.toml --faults faults.csv
"""


def simulate(
    nodes: Annotated[Path, typer.Option("--nodes", help="Node list: .csv, .parquet, .yaml or .json.")],
    pods: Annotated[Path, typer.Option("--pods", help="Pod list: .csv, .parquet, .yaml or .json.")],
    policy: Annotated[
        str, typer.Option("--policy", help="A policy, a mix such as power:100+fgd:900, or a profile in TOML.")
    ] = "fgd",
    protocol: Annotated[
        str,
        typer.Option(
            "--protocol", help="openb: the published experiment, by load. clock: arrivals and departures of the trace."
        ),
    ] = "openb",
    load: Annotated[
        float, typer.Option("--load", help="Protocol openb: GPUs asked for in all, as a multiple of the cluster's.")
    ] = 1.3,
    seed: Annotated[int, typer.Option("--seed", help="Seed of everything random in the run.")] = 42,
    faults: Annotated[
        Path | None, typer.Option("--faults", help="Protocol clock: CSV of node failures and repairs.")
    ] = None,
    until: Annotated[
        float | None, typer.Option("--until", metavar="SECONDS", help="Protocol clock: stop at this time.")
    ] = None,
    snapshot_every: Annotated[
        float | None,
        typer.Option("--snapshot-every", metavar="SECONDS", help="Protocol clock: time between timeline rows."),
    ] = None,
    arrival_scale: Annotated[
        float, typer.Option("--arrival-scale", help="Protocol clock: multiplies arrival times; 0.5 is twice as fast.")
    ] = 1.0,
    after_failure: Annotated[
        Literal["restart", "resume"],
        typer.Option("--after-failure", help="Protocol clock: pods of a failed node restart, or resume."),
    ] = "restart",
    gang_restart: Annotated[
        Literal["member", "all"],
        typer.Option("--gang-restart", help="Protocol clock: when a gang loses a member, restart member or all."),
    ] = "member",
    keep_impossible: Annotated[
        bool, typer.Option("--keep-impossible", help="Protocol clock: let pods that can never fit wait, not fail.")
    ] = False,
    backoff: Annotated[
        str | None,
        typer.Option("--backoff", metavar="FIRST:MOST", help="Protocol clock: pause after a refusal, in seconds."),
    ] = None,
    slowdown_threshold: Annotated[
        float,
        typer.Option(
            "--slowdown-threshold", metavar="SECONDS", help="Protocol clock: shorter pods count as this long."
        ),
    ] = 10.0,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Drop and count rows that cannot be used, instead of stopping.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Results folder to write; without it only the table is shown.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier results folder.")] = False,
    html: Annotated[bool, typer.Option("--html/--no-html", help="Also write report.html into the folder.")] = True,
) -> None:
    """Replay a trace through one policy: a table, a results folder, an HTML report.

    A clock run that is interrupted goes on where it stopped when the same command is given again.
    """
    from rich.console import Console

    from foresail.cli.progress import progress_bar
    from foresail.report.results import check_target
    from foresail.report.store import checkpoint_for, store_run
    from foresail.report.tables import run_table
    from foresail.sim.clock import ClockSettings
    from foresail.sim.run import RunRequest, load_inputs, parse_backoff, run

    request = RunRequest(
        nodes=str(nodes),
        pods=str(pods),
        policy=policy,
        protocol=protocol,
        load=load,
        seed=seed,
        skip_bad_rows=skip_bad_rows,
        faults=None if faults is None else str(faults),
        clock=ClockSettings(
            until_s=until,
            snapshot_every_s=snapshot_every,
            arrival_scale=arrival_scale,
            after_failure=after_failure,
            gang_restart=gang_restart,
            fail_impossible=not keep_impossible,
            backoff=parse_backoff(backoff),
            slowdown_threshold_s=slowdown_threshold,
        ),
    )
    if out is not None:
        check_target(out, overwrite=overwrite)
    trace, _ = load_inputs(request)
    if trace.dropped_rows:
        typer.echo(f"dropped {trace.dropped_rows} bad rows", err=True)
    with compiling_is_announced(), progress_bar(f"{policy} on {trace.name}") as on_progress:
        result = run(request, on_progress=on_progress, checkpoint=checkpoint_for(out, request))
    Console().print(run_table(result))
    if out is not None:
        for path in store_run(out, request, result, overwrite=overwrite, html=html):
            typer.echo(f"wrote {path}")
