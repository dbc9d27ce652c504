"""`foresail policies`: which policies there are, what they compute and which options they have."""

from __future__ import annotations

from typing import Annotated

import typer

from foresail.cli.plugin_list import AsJson, Explain, show


def policies(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Explain only the policy of this name.")] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """List the policies, filters and device rules, built-in and from installed packages.

    [bold]Examples[/bold]

      foresail policies

      foresail policies fgd

      foresail policies --explain

      foresail policies --json
    """
    from foresail.policies import REGISTRY

    show(REGISTRY, name, explain=explain, as_json=as_json)
