"""`foresail explain`: why a pod got its node, and why it was moved or resized."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from foresail.core.explain import Explanation, ScoredNode
    from foresail.experiments.explain import Explained
    from foresail.live.scheduler.explain import LiveExplained

EPILOG = """
Examples:

  foresail explain results/fgd openb-pod-0255

  foresail explain results/fgd '#10865' --top 10 --json

  foresail explain team-a/train-7 --live --policy fgd
"""


def explain(
    results: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS", help="A results folder that foresail simulate or compare wrote; left out with --live."
        ),
    ],
    pod: Annotated[
        str | None,
        typer.Argument(
            metavar="POD",
            help="The pod's name, or #N for row N of placements.csv. With --live: its name, or namespace/name.",
            show_default=False,
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Explain a pod of a real cluster: what would be decided about it now.")
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="With --live: a policy, a mix or a profile. [default: kubernetes]"),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many of the best nodes to show.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the explanation as JSON.")] = False,
) -> None:
    """Show why a pod got its node: what each filter refused, and the best nodes with each score.

    The run is repeated up to that decision, so its inputs must still be where they were. Of a run with controllers all
    that happened to the pod is told, with what moved or resized it, and why. With --live the pod is one of
    a real cluster; one that has a node already is explained as if it did not hold its room there.
    """
    import json
    from dataclasses import asdict

    explained: Explained | LiveExplained
    if live:
        if pod is not None:
            raise OptionError(f"--live takes a pod alone, as in: foresail explain {pod} --live")
        explained = _look(results, policy or "kubernetes", kubeconfig, context, top)
    else:
        for option, value in (("--policy", policy), ("--kubeconfig", kubeconfig), ("--context", context)):
            if value is not None:
                raise OptionError(f"{option} needs --live; a stored run has its own policy")
        if pod is None:
            raise OptionError(f'which pod of "{results}"? Name it behind the folder, or say --live for a real cluster')
        from foresail.experiments.explain import explain_stored
        from foresail.results.folder import read_run

        explained = explain_stored(read_run(Path(results)), pod, top=top)
    if as_json:
        typer.echo(json.dumps(asdict(explained), indent=2))
    else:
        _show(explained)


def _look(pod: str, policy: str, kubeconfig: Path | None, context: str | None, top: int) -> LiveExplained:
    import asyncio

    from foresail.cli.compiling import compiling_is_announced
    from foresail.cli.progress import progress_bar
    from foresail.kube.api.client import Client
    from foresail.kube.api.connect import find_connection
    from foresail.live.cache.listing import listed
    from foresail.live.scheduler.explain import explain_live
    from foresail.live.scheduler.run import profile_for

    profile = profile_for(policy)
    connection = find_connection(kubeconfig, context)

    async def look() -> LiveExplained:
        with progress_bar(connection.url) as on_progress:
            async with Client(connection) as api:
                cache = await listed(api, profile.devices, on_progress=on_progress)
        with compiling_is_announced():
            return explain_live(cache, pod, profile, namespace=connection.namespace, top=top)

    return asyncio.run(look())


def _show(explained: Explained | LiveExplained) -> None:
    from rich.console import Console

    from foresail.experiments.explain import Explained

    console = Console()
    heads = _stored_head(explained) if isinstance(explained, Explained) else _live_head(explained)
    for head in heads:
        console.print(head, markup=False)
    _show_decision(console, explained.decision)
    if isinstance(explained, Explained) and explained.story:
        console.print(_story(explained.story))


def _stored_head(explained: Explained) -> list[str]:
    from foresail.core.model import NoFit

    decision = explained.decision
    where = f"#{explained.order} {decision.pod}"
    looks = f" (look {explained.attempts})" if explained.attempts > 1 else ""
    if isinstance(decision.outcome, NoFit):
        return [f"{where}{looks}: {decision.outcome}"]
    return [f"{where}{looks} went to {explained.recorded_node}{_on_devices(decision.outcome.devices)}"]


def _live_head(explained: LiveExplained) -> list[str]:
    from foresail.core.model import NoFit

    decision = explained.decision
    heads = []
    if explained.stands_on:
        stands = f"{decision.pod} stands on {explained.stands_on}"
        if explained.rank is not None:
            heads.append(f"{stands}, number {explained.rank} of {decision.feasible:,} feasible nodes now")
        else:
            heads.append(f"{stands}, which would refuse it now: {', '.join(explained.refused) or 'it is not known'}")
    there = "without its room there, " if explained.stands_on else ""
    if isinstance(decision.outcome, NoFit):
        heads.append(str(decision.outcome))
    else:
        devices = _on_devices(decision.outcome.devices)
        heads.append(f"{there}{decision.pod} would go to {decision.outcome.node}{devices}")
    return [*heads, *[f"note: {note}" for note in explained.notes]]


def _on_devices(devices: tuple[int, ...]) -> str:
    return f", device {', '.join(map(str, devices))}" if devices else ""


def _show_decision(console: Console, decision: Explanation) -> None:
    from rich.table import Table

    console.print(f"asks {decision.request}", markup=False)
    filters = Table("filter", "asked", "refused", "why", title=f"{decision.node_count} nodes", title_justify="left")
    for step in decision.filters:
        why = ", ".join(f"{count} {reason}" for reason, count in step.refused.items())
        filters.add_row(step.name, f"{step.asked:,}", f"{sum(step.refused.values()):,}", why)
    console.print(filters)
    if decision.candidates:
        console.print(_candidates(decision.candidates, decision.feasible, decision.tied))


def _story(story: list[dict[str, Any]]) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table("time", "what", "node", "why", title="what happened to it", title_justify="left")
    for one in story:
        # Text, not str: a reason may be anybody's and must not be read as markup.
        why = f"{one['by']}: {one['detail']}" if one["by"] else one["detail"]
        table.add_row(f"{one['time_s']:,.10g} s", one["what"], Text(one["node"]), Text(why))
    return table


def _candidates(candidates: list[ScoredNode], feasible: int, tied: int) -> object:
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
