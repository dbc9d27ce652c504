"""`foresail controllers`: which controllers there are, what they change and which options they have."""

from __future__ import annotations

from typing import Annotated

import typer

from foresail.cli.plugin_list import AsJson, Explain, show


def controllers(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Explain only the controller of this name.")
    ] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """List the controllers, built-in and from installed packages.

    Where an option takes a controller, it is written NAME, or NAME:key=value,key=value with options.

    [bold]Examples[/bold]

      foresail controllers

      foresail controllers equal-shares

      foresail controllers --explain

      foresail controllers --json
    """
    from foresail.controllers import REGISTRY

    show(REGISTRY, name, explain=explain, as_json=as_json)
