"""`foresail parity`: recorded decisions of kube-scheduler, computed again and compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foresail.parity.compare import Comparison

EPILOG = """
Examples:

  foresail parity decisions.jsonl

  foresail parity decisions-1.36.jsonl decisions-1.37.jsonl --show 20

  foresail parity old.jsonl --kubernetes-version 1.35 --json
"""


def parity(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE.jsonl...", help="Recorded decisions, one JSON object a line.")
    ],
    kubernetes_version: Annotated[
        str, typer.Option("--kubernetes-version", help="The release whose rules and formulas are computed.")
    ] = "1.36",
    show: Annotated[int, typer.Option("--show", min=0, help="How many differences to print in full.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Decide again what a kube-scheduler decided, with Foresail's own filters and scores, and list what differs.

    Compared are the feasible nodes, the number of nodes for each reason, every plug-in's weighted score on every
    node, the totals, and the node that is chosen (any of those that tie). Exit code 1 if anything differs.
    """
    from foresail.cli.progress import progress_bar
    from foresail.parity.compare import compare_file
    from foresail.policies.profiles import load_profile
    from foresail.traces.documents import read_text

    total = sum(read_text(path).count("\n") for path in files)
    with progress_bar("deciding again") as shown:
        tick = None if shown is None else _counter(shown, total)
        profile = f"kubernetes(version={kubernetes_version})"
        results = [compare_file(path, load_profile(profile), tick) for path in files]
    if as_json:
        _print_json(results)
    else:
        _print_tables(results, show)
    if any(result.differences for result in results):
        raise typer.Exit(1)


def _counter(shown: Callable[[int, int], None], total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        shown(done, total)

    return tick


def _print_json(results: list[Comparison]) -> None:
    import json
    from dataclasses import asdict

    typer.echo(
        json.dumps(
            [
                {
                    "file": str(result.path),
                    "cases": result.cases,
                    "scores": result.scores,
                    "differences_by_plugin": result.by_plugin,
                    "differences": [asdict(difference) for difference in result.differences],
                }
                for result in results
            ],
            indent=2,
        )
    )


def _print_tables(results: list[Comparison], show: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "cases", "scores", "differences")
    for result in results:
        table.add_row(result.path.name, f"{result.cases:,}", f"{result.scores:,}", f"{len(result.differences):,}")
    Console(highlight=False, markup=False).print(table)
    for result in results:
        for what, count in result.by_plugin.items():
            typer.echo(f"{result.path.name}: {count:,} × {what}")
    told = [difference for result in results for difference in result.differences]
    for difference in told[:show]:
        typer.echo(str(difference))
    if len(told) > show:
        typer.echo(f"… and {len(told) - show:,} more; --show prints more of them, --json all")
