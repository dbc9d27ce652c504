"""`foresail parity`: recorded decisions of kube-scheduler, computed again and compared."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from foresail.parity.cluster_run import Recording
    from foresail.parity.compare import Comparison

EPILOG = """
Examples:

  foresail parity decisions.jsonl

  foresail parity decisions-1.36.jsonl decisions-1.37.jsonl --show 20

  foresail parity old.jsonl --kubernetes-version 1.35 --json

  foresail parity --lab --pods 2000 --clusters 40 --seed 1 --out decisions.jsonl
"""
_PODS, _CLUSTERS, _SEED = 2000, 40, 1


def parity(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE.jsonl...", help="Recorded decisions, one JSON object a line.")
    ] = None,
    kubernetes_version: Annotated[
        str, typer.Option("--kubernetes-version", help="The release whose rules and formulas are computed.")
    ] = "1.36",
    lab: Annotated[
        bool, typer.Option("--lab", help="Record random pods on random clusters in a lab first: see foresail lab.")
    ] = False,
    pods: Annotated[
        int | None, typer.Option("--pods", min=1, help="With --lab: pods in all.", show_default=str(_PODS))
    ] = None,
    clusters: Annotated[
        int | None, typer.Option("--clusters", min=1, help="With --lab: clusters.", show_default=str(_CLUSTERS))
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="With --lab: seed of all that is random.", show_default=str(_SEED)),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.jsonl", help="With --lab: keep the recording here.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --lab: leave the lab up, to look at its logs and objects.")
    ] = False,
    show: Annotated[int, typer.Option("--show", min=0, help="How many differences to print in full.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
) -> None:
    """Decide again what a kube-scheduler decided, with Foresail's own filters and scores, and list what differs.

    Compared are the feasible nodes, the number of nodes for each reason, every plug-in's weighted score on every
    node, the totals, and the node that is chosen (any of those that tie). Exit code 1 if anything differs.

    With --lab the decisions are not read but made: a lab is started, its real kube-scheduler decides about random pods
    on random clusters, and the lab is removed again. The same seed gives the same clusters and pods.
    """
    from foresail.errors import OptionError

    if lab and files:
        raise OptionError(f"--lab makes its own recording; leave {files[0]} out, or leave --lab out to compare it")
    if not lab:
        given = {"--pods": pods, "--clusters": clusters, "--seed": seed, "--out": out, "--keep": keep or None}
        useless = [name for name, value in given.items() if value is not None]
        if useless:
            raise OptionError(f"{', '.join(useless)} means nothing without --lab")
        if not files:
            raise OptionError("no recording; name its file, or give --lab to make one")
        _tell(_compare(files, kubernetes_version), show, as_json=as_json)
        return
    with ExitStack() as closing:
        if out is None:
            out = Path(closing.enter_context(TemporaryDirectory(prefix="foresail-parity-"))) / "lab.jsonl"
        recording = _record(
            out,
            pods=_PODS if pods is None else pods,
            clusters=_CLUSTERS if clusters is None else clusters,
            seed=_SEED if seed is None else seed,
            keep=keep,
        )
        _tell(_compare([out], kubernetes_version), show, as_json=as_json, recording=recording)


def _record(out: Path, *, pods: int, clusters: int, seed: int, keep: bool) -> Recording:
    """Record in a lab; an interrupt removes the lab and keeps what is recorded."""
    from foresail.cli.progress import progress_bar
    from foresail.lab import Lab
    from foresail.parity.lab import record

    lab = Lab()
    # Asking the system to end us must not leave a cluster behind.
    with progress_bar("deciding in a lab") as shown:
        found = record(out, pods=pods, clusters=clusters, seed=seed, lab=lab, keep=keep, progress=shown)
    if keep:
        typer.echo(f"lab {lab.name} is still up; remove it with: foresail lab down --name {lab.name}", err=True)
    return found


def _compare(files: list[Path], kubernetes_version: str) -> list[Comparison]:
    from foresail.cli.progress import progress_bar
    from foresail.kube.objects.documents import read_text
    from foresail.parity.compare import compare_file
    from foresail.policies.profiles.load import load_profile

    total = sum(read_text(path).count("\n") for path in files)
    with progress_bar("deciding again") as shown:
        tick = None if shown is None else _counter(shown, total)
        profile = f"kubernetes(version={kubernetes_version})"
        return [compare_file(path, load_profile(profile), tick) for path in files]


def _tell(results: list[Comparison], show: int, *, as_json: bool, recording: Recording | None = None) -> None:
    if as_json:
        _print_json(results, recording)
    else:
        if recording is not None:
            _print_coverage(results[0], recording)
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


def _print_json(results: list[Comparison], recording: Recording | None) -> None:
    import json
    from dataclasses import asdict

    typer.echo(
        json.dumps(
            [
                {
                    "file": str(result.path),
                    "cases": result.cases,
                    "clusters": result.clusters,
                    "schedulable": result.schedulable,
                    "scores": result.scores,
                    "scores_by_plugin": dict(result.scores_by_plugin),
                    "refused_by_filter": dict(result.refused_by_filter),
                    **({} if recording is None else {"refused_by_api_server": recording.refused}),
                    "differences_by_plugin": result.by_plugin,
                    "differences": [asdict(difference) for difference in result.differences],
                }
                for result in results
            ],
            indent=2,
        )
    )


def _print_coverage(result: Comparison, recording: Recording) -> None:
    """What was exercised: a rule that never came up was not checked."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    unschedulable = result.cases - result.schedulable
    typer.echo(
        f"{recording.clusters} clusters, {result.cases:,} pods: "
        f"{result.schedulable:,} schedulable, {unschedulable:,} unschedulable"
    )
    filters, scores = Table("filter", "nodes refused"), Table("plug-in", "scores compared")
    for name, count in result.refused_by_filter.items():
        filters.add_row(name, f"{count:,}")
    for name, count in result.scores_by_plugin.items():
        scores.add_row(name, f"{count:,}")
    console.print(filters)
    console.print(scores)
    if recording.refused:
        typer.echo(f"left out {len(recording.refused):,} objects that the API server refused, such as:")
        typer.echo(f"  {recording.refused[0]}")


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
