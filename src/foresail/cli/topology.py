"""`foresail topology`: give nodes a place in racks."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Give nodes a place in racks.", no_args_is_help=True)


@app.callback()
def _verbs() -> None:
    """Give nodes a place in racks."""


@app.command(
    epilog=(
        "Examples: [bold]foresail topology label nodes.csv[/bold] writes nodes-hier.csv; "
        "[bold]foresail topology label traces/ --servers-per-rack 8[/bold] labels every node file of a folder"
    )
)
def label(
    files: Annotated[
        list[str], typer.Argument(help="Node files (CSV, YAML, JSON), folders or quoted patterns.", metavar="FILE...")
    ],
    servers_per_rack: Annotated[int, typer.Option(help="Nodes in one rack.")] = 4,
) -> None:
    """Label node i of each file with rack=rack-⌊i/n⌋ and server=srv-(i mod n), n being the servers per rack.

    The result stands beside the input with -hier at the end of its name. Labels that a node has are kept. Counting
    starts anew in every file, and files that end in -hier are not read.
    """
    # yaml is loaded only now, so that --help stays quick.
    from foresail.traces.topology import label_files

    for done in label_files(files, servers_per_rack):
        racks = -(-done.nodes // servers_per_rack)
        typer.echo(f"wrote {done.target}: {done.nodes} nodes in {racks} rack{'s' if racks != 1 else ''}")
