"""The options by which every verb that talks to a cluster finds it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="Without it: $KUBECONFIG, ~/.kube/config, or the pod's service account."),
]
Context = Annotated[str | None, typer.Option("--context", help="The kubeconfig's context to use.")]
