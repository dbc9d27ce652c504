"""`foresail explain`: why a pod got its node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foresail.core.explain import Candidate
    from foresail.report.explain import Explained

EPILOG = """
Examples:

  foresail explain results/fgd openb-pod-0255

  foresail explain results/fgd '#10865' --top 10 --json
"""


def explain(
    results: Annotated[Path, typer.Argument(help="A results folder that foresail simulate or compare wrote.")],
    pod: Annotated[str, typer.Argument(help="The pod's name, or #N for row N of placements.csv.")],
    top: Annotated[int, typer.Option("--top", min=1, help="How many of the best nodes to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Show why a pod got its node: what each filter refused, and the best nodes with each score.

    The run is repeated up to that decision, so its inputs must still be where they were.
    """
    from foresail.report.explain import explain_stored
    from foresail.report.results import read_run

    explained = explain_stored(read_run(results), pod, top=top)
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps(asdict(explained), indent=2))
    else:
        _show(explained)


def _show(explained: Explained) -> None:
    from rich.console import Console
    from rich.table import Table

    from foresail.core.model import NoFit

    decision, console = explained.decision, Console()
    where = f"#{explained.order} {decision.pod}"
    looks = f" (look {explained.attempts})" if explained.attempts > 1 else ""
    if isinstance(decision.outcome, NoFit):
        console.print(f"{where}{looks}: {decision.outcome}", markup=False)
    else:
        devices = ", ".join(map(str, decision.outcome.devices))
        on_devices = f", device {devices}" if devices else ""
        console.print(f"{where}{looks} went to {explained.recorded_node}{on_devices}", markup=False)
    console.print(f"asks {decision.asks}", markup=False)
    filters = Table("filter", "asked", "refused", "why", title=f"{decision.node_count} nodes", title_justify="left")
    for step in decision.filters:
        why = ", ".join(f"{count} {reason}" for reason, count in step.refused.items())
        filters.add_row(step.name, f"{step.asked:,}", f"{sum(step.refused.values()):,}", why)
    console.print(filters)
    if decision.candidates:
        console.print(_candidates(decision.candidates, decision.feasible, decision.tied))


def _candidates(candidates: list[Candidate], feasible: int, tied: int) -> object:
    from rich.table import Table

    best = f"{tied} share the best total; the lowest rank of them wins" if tied > 1 else "the best total wins"
    table = Table("node", "rank", "total", title=f"best of {feasible:,} feasible nodes ({best})", title_justify="left")
    for line in candidates[0].scores:
        table.add_column(f"{line.name} × {line.weight:g}", justify="right")
    for candidate in candidates:
        shown = [
            f"{line.normalized:g}" if line.raw == line.normalized else f"{line.normalized:g} (raw {line.raw:g})"
            for line in candidate.scores
        ]
        table.add_row(candidate.node, str(candidate.rank), f"{candidate.total:g}", *shown)
    return table
