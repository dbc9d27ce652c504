"""The options that programs on a cluster share: the lead, what is served, controllers, what is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

LeaderElect = Annotated[
    bool,
    typer.Option("--leader-elect/--no-leader-elect", help="Take a Lease first, so that several replicas are safe."),
]
LeaseNamespace = Annotated[str, typer.Option("--lease-namespace", help="Where the Lease stands.")]
Address = Annotated[
    str, typer.Option("--address", help="Where /healthz, /readyz and /metrics are served; port 0 for any free one.")
]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert", help="PEM file; needed beyond loopback.")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="PEM file of the certificate's key.")]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="Who reads /metrics must show this token; needed beyond loopback."),
]
Controllers = Annotated[
    list[str] | None,
    typer.Option(
        "--controller",
        metavar="NAME[:key=value,…]",
        help="Let this controller change pods while they run; may be given several times. (foresail controllers)",
        show_default=False,
    ),
]
JournalPath = Annotated[
    Path | None,
    typer.Option("--journal", help="Append all that happens to this file, one JSON object a line."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of policies that draw random numbers.")]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
