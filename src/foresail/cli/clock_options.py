"""The options of protocol clock that `simulate` and `compare` take alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Faults = Annotated[Path | None, typer.Option("--faults", help="Protocol clock: CSV of node failures and repairs.")]
Until = Annotated[float | None, typer.Option("--until", metavar="SECONDS", help="Protocol clock: stop at this time.")]
SnapshotEvery = Annotated[
    float | None,
    typer.Option("--snapshot-every", metavar="SECONDS", help="Protocol clock: time between timeline rows."),
]
KeepImpossible = Annotated[
    bool, typer.Option("--keep-impossible", help="Protocol clock: let pods that can never fit wait, not fail.")
]
Backoff = Annotated[
    str | None,
    typer.Option("--backoff", metavar="FIRST:MOST", help="Protocol clock: pause after a refusal, in seconds."),
]
Preemption = Annotated[
    bool, typer.Option("--preemption", help="Protocol clock: pods may take the place of those of less priority.")
]
