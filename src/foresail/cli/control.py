"""`foresail control`: controllers on a real cluster, beside any scheduler."""

from __future__ import annotations

from typing import Annotated

import typer

from foresail.cli.options import Given, OptionSource, takes_options
from foresail.cli.program_options import (
    Address,
    JournalPath,
    LeaderElect,
    LeaseNamespace,
    LogLevel,
    TlsCert,
    TlsKey,
    TokenFile,
)
from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.settings import make

EPILOG = """
Examples:

  foresail control equal-shares --dry-run

  foresail control equal-shares:every_s=30 --scheduler-name default-scheduler --journal journal.jsonl

  foresail control check job/train-7      (what the Job lacks so that its pods can be moved)
"""


@takes_options(OptionSource(TelemetrySettings), OptionSource(ResizeSettings), after=True)
def control(
    given: Given,
    controllers: Annotated[
        list[str], typer.Argument(metavar="NAME[:key=value,…]...", help="Controllers, in the order of their turns.")
    ],
    scheduler_name: Annotated[
        str, typer.Option("--scheduler-name", help="Look after pods with this spec.schedulerName, and no others.")
    ] = "foresail",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write down what would be moved and resized; do none of it.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    leader_elect: LeaderElect = True,
    lease_namespace: LeaseNamespace = "kube-system",
    lease_name: Annotated[str, typer.Option("--lease-name", help="Name of the Lease.")] = "foresail-control",
    address: Address = "127.0.0.1:10360",
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    token_file: TokenFile = None,
    journal: JournalPath = None,
    log_level: LogLevel = "info",
) -> None:
    """Let controllers change running pods on a real cluster, beside the scheduler that places them.

    They see and change the pods of one scheduler name. SIGTERM and Ctrl-C finish what is under way and give the Lease
    back.
    """
    import uvloop

    from foresail.kube.api.lease import LeaderSettings
    from foresail.live.control.program import ControlSettings, run_control
    from foresail.live.serving.server import ServerSettings, parse_address
    from foresail.logs import configure

    configure(log_level)
    host, port = parse_address(address)
    settings = ControlSettings(
        controllers=tuple(controllers),
        scheduler_name=scheduler_name,
        kubeconfig=kubeconfig,
        context=context,
        leader_elect=leader_elect,
        lease=LeaderSettings(namespace=lease_namespace, name=lease_name),
        dry_run=dry_run,
        telemetry=make(TelemetrySettings, given.of(TelemetrySettings)),
        resizes=make(ResizeSettings, given.of(ResizeSettings)),
        server=ServerSettings(host=host, port=port, certificate=tls_cert, key=tls_key),
        token_file=token_file,
        journal=journal,
    )
    try:
        uvloop.run(run_control(settings, announce=lambda what: typer.echo(what, err=True)))
    except KeyboardInterrupt:
        # Once it works, it ends in order by itself.
        raise KeyboardInterrupt("interrupted before it had started; nothing was changed") from None
