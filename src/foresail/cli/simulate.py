"""`foresail simulate`: one policy, one trace, one seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from foresail.cli.clock_options import Backoff, Faults, KeepImpossible, Preemption, SnapshotEvery, Until
from foresail.cli.compiling import compiling_is_announced
from foresail.errors import OptionError

EPILOG = """
Examples:

  foresail simulate --nodes nodes.csv --pods pods.csv --policy fgd --out results/fgd

  foresail simulate --nodes nodes.csv --pods pods.csv --policy power:100+fgd:900 --load 1.0 --seed 7

  foresail simulate --protocol clock --nodes nodes.yaml --pods pods.yaml --policy my-profile.toml --faults faults.csv

  foresail simulate --from-snapshot cluster.yaml --pods new.yaml --replicas 20 --policy fgd
"""
_WITH_SNAPSHOT = frozenset(
    {"from_snapshot", "pods", "replicas", "waiting", "evict_all", "policy", "seed", "skip_bad_rows", "out", "overwrite"}
)
_ONLY_WITH_SNAPSHOT = ("replicas", "waiting", "evict_all")


def simulate(
    context: typer.Context,
    nodes: Annotated[
        Path | None, typer.Option("--nodes", help="Node list: .csv, .parquet, .yaml or .json.", show_default=False)
    ] = None,
    pods: Annotated[
        Path | None, typer.Option("--pods", help="Pod list: .csv, .parquet, .yaml or .json.", show_default=False)
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            help="A policy, a mix such as power:100+fgd:900, or a profile: TOML, or kube-scheduler's YAML. "
            "[default: fgd; with --from-snapshot: kubernetes]",
            show_default=False,
        ),
    ] = None,
    from_snapshot: Annotated[
        Path | None,
        typer.Option(
            "--from-snapshot",
            help="Start from a cluster in a file of foresail trace snapshot: would its waiting pods, and those of "
            "--pods, fit now, and where?",
        ),
    ] = None,
    replicas: Annotated[
        int, typer.Option("--replicas", help="With --from-snapshot: try so many copies of the pods in --pods.")
    ] = 1,
    waiting: Annotated[
        bool,
        typer.Option(
            "--waiting/--no-waiting", help="With --from-snapshot: whether pods that wait in it have their turn, too."
        ),
    ] = True,
    evict_all: Annotated[
        bool, typer.Option("--evict-all", help="With --from-snapshot: place all pods anew, those on nodes too.")
    ] = False,
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
    faults: Faults = None,
    until: Until = None,
    snapshot_every: SnapshotEvery = None,
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
    keep_impossible: KeepImpossible = False,
    backoff: Backoff = None,
    preemption: Preemption = False,
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

    A clock run that is interrupted goes on where it stopped when the same command is given again. With --from-snapshot
    no time passes: pods are placed by priority and then by time on a cluster as it stood, and each is told its node or
    why it fits nowhere.
    """
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    if from_snapshot is not None:
        _refuse(context, given - _WITH_SNAPSHOT, "does not go with --from-snapshot; no time passes there")
        _what_if(
            from_snapshot,
            pods,
            policy or "kubernetes",
            replicas=replicas,
            waiting=waiting,
            evict_all=evict_all,
            seed=seed,
            skip_bad_rows=skip_bad_rows,
            out=out,
            overwrite=overwrite,
        )
        return
    _refuse(context, given.intersection(_ONLY_WITH_SNAPSHOT), "needs --from-snapshot: the cluster to start from")
    if nodes is None or pods is None:
        lacks = " and ".join(name for name, path in (("--nodes", nodes), ("--pods", pods)) if path is None)
        raise OptionError(f"{lacks} is missing; name a node list and a pod list, or a cluster with --from-snapshot")
    policy = policy or "fgd"
    from rich.console import Console

    from foresail.cli.progress import progress_bar
    from foresail.experiments.run import RunRequest, load_inputs, parse_backoff, run
    from foresail.experiments.store import checkpoint_for, store_run
    from foresail.report.tables import run_table
    from foresail.results.folder import check_target
    from foresail.sim.protocols.clock_settings import ClockSettings

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
            preemption=preemption,
            slowdown_threshold_s=slowdown_threshold,
        ),
    )
    if out is not None:
        check_target(out, overwrite=overwrite)
    trace, _ = load_inputs(request)
    if trace.dropped_rows:
        typer.echo(f"dropped {trace.dropped_rows} bad rows", err=True)
    checkpoint = checkpoint_for(out, request)
    try:
        with compiling_is_announced(), progress_bar(f"{policy} on {trace.name}") as on_progress:
            result = run(request, on_progress=on_progress, checkpoint=checkpoint)
    except KeyboardInterrupt:
        kept = "nothing was written" if checkpoint is None else "the same command goes on from there"
        raise KeyboardInterrupt(f"interrupted; {kept}") from None
    Console().print(run_table(result))
    if out is not None:
        for path in store_run(out, request, result, overwrite=overwrite, html=html):
            typer.echo(f"wrote {path}")


def _refuse(context: typer.Context, names: set[str], why: str) -> None:
    option_of = {one.name: one.opts[0] for one in context.command.params}
    for name in sorted(names):
        raise OptionError(f"{option_of[name]} {why}")


def _what_if(
    snapshot: Path,
    pods: Path | None,
    policy: str,
    *,
    replicas: int,
    waiting: bool,
    evict_all: bool,
    seed: int,
    skip_bad_rows: bool,
    out: Path | None,
    overwrite: bool,
) -> None:
    from rich.console import Console

    from foresail.cli.progress import progress_bar
    from foresail.experiments.what_if import WhatIfRequest, store_what_if, what_if, what_if_table
    from foresail.results.folder import check_target

    request = WhatIfRequest(
        snapshot=str(snapshot),
        policy=policy,
        pods=None if pods is None else str(pods),
        replicas=replicas,
        waiting=waiting,
        evict_all=evict_all,
        seed=seed,
        skip_bad_rows=skip_bad_rows,
    )
    if out is not None:
        check_target(out, overwrite=overwrite)
    with compiling_is_announced(), progress_bar(f"{policy} on {snapshot.name}") as on_progress:
        answer = what_if(request, measure=out is not None, on_progress=on_progress)
    if answer.dropped_rows:
        typer.echo(f"dropped {answer.dropped_rows} bad rows", err=True)
    Console().print(what_if_table(answer))
    typer.echo(answer.summary)
    if out is not None:
        store_what_if(out, answer, overwrite=overwrite)
        typer.echo(f"wrote {out}")
