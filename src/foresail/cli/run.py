"""`foresail run`: the scheduler on a real cluster, or in the shadow of another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from foresail.cli.options import Given, OptionSource, takes_options
from foresail.cli.program_options import (
    Address,
    Controllers,
    JournalPath,
    LeaderElect,
    LeaseNamespace,
    LogLevel,
    Seed,
    TlsCert,
    TlsKey,
    TokenFile,
)
from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.errors import OptionError
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.scheduler.gang_settings import GangWaitSettings
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.settings import make

EPILOG = """
Examples:

  foresail run --policy fgd

  foresail run --policy my-profile.toml --scheduler-name gpu-scheduler --context staging

  foresail run --policy power:100+fgd:900 --expect pods.yaml

  foresail run --controller equal-shares --dry-run --journal journal.jsonl

  foresail run --shadow --policy kubernetes --out choices.jsonl
"""


@takes_options(
    OptionSource(TelemetrySettings), OptionSource(ResizeSettings), OptionSource(GangWaitSettings), after=True
)
def run(
    given: Given,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="A policy, a mix such as power:100+fgd:900, or a profile: by name, in TOML, or a "
            "KubeSchedulerConfiguration. Kubernetes' filters always hold unless a profile names its own.",
        ),
    ] = "kubernetes",
    scheduler_name: Annotated[
        str | None,
        typer.Option(
            "--scheduler-name",
            help="Place pods with this spec.schedulerName. [default: foresail; with --shadow: default-scheduler]",
            show_default=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    shadow: Annotated[
        bool,
        typer.Option(
            "--shadow", help="Bind nothing; decide about every pod that the other scheduler binds, and compare."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --shadow: write one JSON line for each pod here.")
    ] = None,
    pods: Annotated[
        int | None, typer.Option("--pods", min=1, help="With --shadow: stop after so many pods.", show_default=False)
    ] = None,
    leader_elect: LeaderElect = True,
    lease_namespace: LeaseNamespace = "kube-system",
    lease_name: Annotated[
        str | None,
        typer.Option("--lease-name", help="Name of the Lease. [default: the scheduler's name]", show_default=False),
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect", help="Pod list that policies learn from, such as fgd; without it, the cluster's pods."
        ),
    ] = None,
    seed: Seed = 42,
    address: Address = "127.0.0.1:10359",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: TokenFile = None,
    controller: Controllers = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Decide and write down what would be bound, moved and resized; do none of it."),
    ] = False,
    journal: JournalPath = None,
    log_level: LogLevel = "info",
) -> None:
    """Place pods on a real cluster, as a second scheduler beside the default one.

    Pods choose it with spec.schedulerName: foresail. A profile file that is edited is loaded anew while running
    (SIGHUP: at once). SIGTERM and Ctrl-C finish the binds under way and give the Lease back.
    """
    import uvloop

    from foresail.kube.api.lease import LeaderSettings
    from foresail.live.scheduler.run import RunSettings, run_scheduler
    from foresail.live.scheduler.shadow import run_shadow
    from foresail.live.serving.server import ServerSettings, parse_address
    from foresail.logs import configure

    configure(log_level)
    if shadow:
        served = {
            "--tls-cert": tls_cert,
            "--tls-key": tls_key,
            "--token-file": token_file,
            "--lease-name": lease_name,
            "--journal": journal,
            "--controller": controller,
            "--dry-run": dry_run or None,
            **given.values,
        }
        _refuse(served, "does not go with --shadow, which serves nothing, takes no Lease and changes nothing")
    else:
        why = "needs --shadow; without it pods are placed until you stop, and nothing is written"
        _refuse({"--out": out, "--pods": pods}, why)
    host, port = parse_address(address)
    name = scheduler_name or ("default-scheduler" if shadow else "foresail")
    settings = RunSettings(
        policy=policy,
        scheduler_name=name,
        kubeconfig=kubeconfig,
        context=context,
        leader_elect=leader_elect,
        lease=LeaderSettings(namespace=lease_namespace, name=lease_name or name),
        expect=expect,
        seed=seed,
        server=ServerSettings(host=host, port=port, certificate=tls_cert, key=tls_key),
        token_file=token_file,
        journal=journal,
        controllers=tuple(controller or ()),
        dry_run=dry_run,
        telemetry=make(TelemetrySettings, given.of(TelemetrySettings)),
        resizes=make(ResizeSettings, given.of(ResizeSettings)),
        gangs=make(GangWaitSettings, given.of(GangWaitSettings)),
        log_in_full=log_level == "debug",
    )
    try:
        if shadow:
            typer.echo(str(uvloop.run(run_shadow(settings, out=out, stop_after=pods, announce=_say))))
        else:
            uvloop.run(run_scheduler(settings, announce=_say))
    except KeyboardInterrupt:
        # Once it works, it ends in order by itself.
        raise KeyboardInterrupt("interrupted before it had started; nothing was placed or written") from None


def _refuse(options: Mapping[str, object], why: str) -> None:
    for option, value in options.items():
        if value is not None:
            raise OptionError(f"{option} {why}")


def _say(what: str) -> None:
    typer.echo(what, err=True)
