"""`foresail trace snapshot`: a real cluster as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from foresail.cli.which_cluster import Context, Kubeconfig

if TYPE_CHECKING:
    from foresail.kube.api.errors import Forbidden
    from foresail.kube.api.kinds import Kind

EPILOG = """
Examples:

  foresail trace snapshot --out cluster.yaml

  foresail trace snapshot --out cluster.json --context staging --namespace team-a --namespace team-b
"""


def snapshot(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .yaml, .json or .jsonl.")],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            help="Take waiting pods of this namespace alone; may be given again. Pods on nodes are taken from all.",
        ),
    ] = None,
    pods: Annotated[
        Literal["all", "waiting"],
        typer.Option("--pods", help="all: those on nodes and those that wait. waiting: nodes then look empty."),
    ] = "all",
) -> None:
    """Write the cluster as it is now: nodes, pods, and the other objects that placing pods looks at.

    Nothing else is written: no commands, environments, configurations or foreign annotations. The file is one for
    simulate --from-snapshot, and a node list and pod list as any other. An account that may not list PriorityClasses
    gets a file without them, and a note that says which rule to add.
    """
    import asyncio

    from foresail.cli.progress import progress_bar
    from foresail.errors import OptionError, did_you_mean
    from foresail.formats import OBJECT_ENDINGS, refuse_other_endings
    from foresail.kube.api.client import Client
    from foresail.kube.api.connect import find_connection
    from foresail.live.snapshot import PodChoice, take_snapshot
    from foresail.traces.snapshot import counts, write_snapshot

    refuse_other_endings(out, OBJECT_ENDINGS)
    connection = find_connection(kubeconfig, context)
    choice = PodChoice(placed=pods == "all", namespaces=frozenset(namespace or ()))

    without: list[str] = []

    def note(kind: Kind, error: Forbidden) -> None:
        without.append(f"note: no {kind.kind} in {out}, for we may not list them: {error.missing}")

    async def take() -> list[dict[str, object]]:
        with progress_bar(connection.url) as on_progress:
            async with Client(connection) as api:
                return await take_snapshot(api, choice, on_progress=on_progress, on_refused=note)

    found = asyncio.run(take())
    known = [value["metadata"]["name"] for value in found if value["kind"] == "Namespace"]  # type: ignore[index]  # objects of an API server have names
    for name in namespace or ():
        if name not in known:
            raise OptionError(f'no namespace "{name}" in {connection.url}{did_you_mean(name, known)}')
    write_snapshot(out, found)
    for line in without:
        typer.echo(line, err=True)
    typer.echo(", ".join(f"{number} {kind}" for kind, number in counts(found)))
    typer.echo(f"wrote {out}")
