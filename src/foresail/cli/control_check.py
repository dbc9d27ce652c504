"""`foresail control check`: what objects lack so that their pods can be moved without harm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.errors import OptionError

if TYPE_CHECKING:
    from foresail.live.moves.checking import Checked
    from foresail.live.moves.subjects import Lack

EPILOG = """
Examples:

  foresail control check job/train-7

  foresail control check deployment/digits pod/solo -n team-a

  foresail control check --all -n team-a --json
"""


def control_check(
    objects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND/NAME...",
            help="Jobs, Deployments, StatefulSets or pods: job/NAME, pod/NAME.",
            show_default=False,
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", "-n", help="Their namespace; that of the kubeconfig if not given.", show_default=False
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Check every Job of the namespace that has not ended.")] = False,
    scheduler_name: Annotated[
        str, typer.Option("--scheduler-name", help="The controllers look after pods with this spec.schedulerName.")
    ] = "foresail",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Say what jobs lack so that controllers may move their pods without harm, and the patch that mends it.

    The rules are those that moves themselves go by: what stops a move, then what a move would cost. Nothing is changed.
    Exit code 1 if anything is lacking.
    """
    if every == bool(objects):
        raise OptionError("name objects, as in job/train, or give --all for every Job of the namespace (not both)")
    found = _look(list(objects or ()), namespace, scheduler_name, kubeconfig, context)
    if as_json:
        _print_json(found)
    else:
        _print(found)
    if any(one.lacks for one in found):
        raise typer.Exit(1)


def _look(
    objects: list[str], namespace: str | None, scheduler_name: str, kubeconfig: Path | None, context: str | None
) -> list[Checked]:
    import asyncio

    from foresail.kube.api.client import Client
    from foresail.kube.api.connect import find_connection
    from foresail.live.moves.checking import all_jobs, check, parse_object

    wanted = [parse_object(one) for one in objects]
    connection = find_connection(kubeconfig, context)
    within = namespace or connection.namespace

    async def look() -> list[Checked]:
        async with Client(connection) as api:
            return await check(api, within, wanted or await all_jobs(api, within), scheduler_name=scheduler_name)

    return asyncio.run(look())


def _print_json(found: list[Checked]) -> None:
    import json

    shown = [
        {
            "namespace": one.namespace,
            "object": one.name,
            "pods": one.pods,
            "movable": not any(lack.stops for lack in one.lacks),
            "lacks": [
                {
                    "problem": lack.problem,
                    "stops": lack.stops,
                    "remedy": lack.remedy,
                    "command": lack.command(one.namespace),
                    "patch_of": lack.of,
                    "patch": lack.patch,
                    "manifest": lack.manifest,
                }
                for lack in one.lacks
            ],
        }
        for one in found
    ]
    typer.echo(json.dumps(shown, indent=2))


def _print(found: list[Checked]) -> None:
    if not found:
        typer.echo("there is no Job that has not ended")
    for one in found:
        pods = f"{len(one.pods)} pods" if len(one.pods) > 1 else f"pod {one.pods[0]}" if one.pods else "no pod yet"
        stopped = any(lack.stops for lack in one.lacks)
        verdict = "is not moved" if stopped else "can be moved, but" if one.lacks else "lacks nothing"
        typer.echo(f"{one.namespace} {one.name} ({pods}): {verdict}")
        for lack in one.lacks:
            _print_lack(lack, one.namespace)


def _print_lack(lack: Lack, namespace: str) -> None:
    import textwrap

    import yaml

    typer.echo(f"  {'✗' if lack.stops else '!'} {lack.problem}")
    command = lack.command(namespace)
    if command:
        typer.echo(f"      {command}")
    if lack.remedy:
        typer.echo(f"      {'or ' if command and lack.manifest is not None else ''}{lack.remedy}")
    if lack.manifest is not None:
        typer.echo(textwrap.indent(yaml.safe_dump(lack.manifest, sort_keys=False).rstrip(), " " * 8))
