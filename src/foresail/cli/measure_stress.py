"""`foresail measure stress`: how long stress-ng's tasks take with so much work and so much CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.errors import OptionError
from foresail.workloads.stress import OPS

if TYPE_CHECKING:
    from foresail.measure.stress.results import StressFile
    from foresail.measure.stress.run import StressPlan, StressProgress, StressRunner

EPILOG = """
Examples:

  foresail measure stress --out profile.csv

  foresail measure stress cap zero --aim 20 --try-for 1 --cpus 200:1500:100 --out profile.csv

  foresail measure stress --on kube --lab lab --full --workloads 10,20,30,40 --cpus 250,500,750,1000 --out profile.csv

  foresail bsp simulate --profile profile.csv
"""


def stress(
    tasks: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help=f"Of stress-ng; else {', '.join(OPS)}.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.csv", help="What is measured is added to this file.")],
    on: Annotated[
        str, typer.Option("--on", metavar="local|kube", help="local: in a control group here; kube: in pods.")
    ] = "local",
    workloads: Annotated[
        str, typer.Option(metavar="VALUES", help="Amounts of work: 10,20,30,40 or FIRST:LAST:STEP.")
    ] = "10:49:3",
    cpus: Annotated[
        str | None,
        typer.Option(
            metavar="VALUES", help="Limits in milli, as above; else 14 from a tenth to three quarters of what is there."
        ),
    ] = None,
    ops: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK=N", help="Operations that a unit of a task's workload counts; else the published."),
    ] = None,
    aim: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            metavar="SECONDS",
            help="Choose operations so that the middle workload takes so long with the most CPU.",
        ),
    ] = None,
    try_for: Annotated[
        float,
        typer.Option(
            min=0.05,
            metavar="SECONDS",
            help="Do as much of the work as takes about so long, and tell seconds of all from it.",
        ),
    ] = 2.0,
    whole: Annotated[bool, typer.Option("--whole", help="Do all of the work at every try.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Processes that share the work; else a core's worth for the most CPU. 0: every core."),
    ] = None,
    tries: Annotated[int, typer.Option(min=1, help="At every point.")] = 1,
    full: Annotated[bool, typer.Option("--full", help="Measure every point, not only those that tell most.")] = False,
    target: Annotated[
        float,
        typer.Option(min=0.001, max=1.0, help="Stop once seconds are off by so much on average, as a part of them."),
    ] = 0.03,
    points: Annotated[int | None, typer.Option(min=5, help="Points of a task at most.")] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="With --on kube: its image; by default the one of a lab's nodes.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="With --on kube: where; by default the node with the most CPU.")
    ] = None,
    lab: Annotated[str | None, typer.Option("--lab", metavar="NAME", help="With --on kube: a lab's cluster.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
) -> None:
    """Run stress-ng with so much work and so much CPU, and write down how long it takes: a profile for foresail bsp.

    By default only those points are measured that make the runtime model surest of all others, until it is sure enough.
    Every try is kept at once; the same command goes on where an interrupted one stopped. On the machine itself root is
    needed, for control groups.
    """
    import json

    from foresail.measure.stress.grid import StressGrid, read_range
    from foresail.measure.stress.results import StressFile
    from foresail.measure.stress.run import StressPlan, default_cpus, default_workers

    if on not in ("local", "kube"):
        raise OptionError(f'--on is "{on}"; it is local or kube')
    for option, value in (("--image", image), ("--node", node), ("--lab", lab)):
        if on == "local" and value is not None:
            raise OptionError(f"{option} is {value}, which goes with --on kube")
    amounts = read_range(workloads, "--workloads")
    limits = None if cpus is None else tuple(round(value) for value in read_range(cpus, "--cpus"))
    counted = _ops(ops or [])
    with _runner(on, image, node, _kubeconfig(lab, kubeconfig), context) as runner:
        grid = StressGrid(tuple(dict.fromkeys(tasks or OPS)), amounts, limits or default_cpus(runner.most_milli))
        plan = StressPlan(
            grid=grid,
            workers=default_workers(grid) if workers is None else workers,
            tries=tries,
            try_s=None if whole else try_for,
            target=None if full else target,
            most=points,
            ops_a_unit=counted,
            aim_s=aim,
        )
        file = StressFile(out, {**plan.how(), **runner.where})
        progress = _measure(plan, file, runner)
    figures = {
        "out": str(out),
        "points": progress.points,
        "grid_points": len(grid.points),
        "tries": len(file.rows),
        "expected_error": progress.expected_error,
        "ops_a_unit": file.ops_a_unit,
    }
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
        return
    error = progress.expected_error
    sure = "" if error is None else f"; seconds are expected to be off by {error:.1%} on average"
    typer.echo(f"{progress.points} of {len(grid.points)} points are measured{sure}")
    typer.echo(f"wrote {out}; foresail bsp simulate --profile {out} uses it")


def _measure(plan: StressPlan, file: StressFile, runner: StressRunner) -> StressProgress:
    from foresail.cli.progress import progress_bar
    from foresail.measure.stress.run import measure_stress

    with progress_bar("points") as shown:

        def show(progress: StressProgress) -> None:
            if shown is not None:
                shown(progress.points, progress.most)

        try:
            return measure_stress(plan, file, runner, show)
        except KeyboardInterrupt:
            kept = f"{len(file.rows)} tries are in {file.path}, and the same command goes on from there"
            raise KeyboardInterrupt(f"interrupted; {kept}") from None


@contextmanager
def _runner(
    on: str, image: str | None, node: str | None, kubeconfig: Path | None, context: str | None
) -> Iterator[StressRunner]:
    if on == "local":
        from foresail.measure.stress.local import StressHere

        yield StressHere()
        return
    from foresail.kube.api.connect import find_connection
    from foresail.lab.workload_image import WORKLOAD_IMAGE
    from foresail.measure.stress.on_kube import StressOnKube

    with StressOnKube.connected(find_connection(kubeconfig, context), image or WORKLOAD_IMAGE, node) as runner:
        yield runner


def _kubeconfig(lab: str | None, kubeconfig: Path | None) -> Path | None:
    if lab is None:
        return kubeconfig
    if kubeconfig is not None:
        raise OptionError(f"both --lab {lab} and --kubeconfig {kubeconfig} are given; leave one out")
    from foresail.lab import Lab

    return Lab(lab).kubeconfig


def _ops(stated: list[str]) -> dict[str, float]:
    found = {}
    for text in stated:
        task, equals, number = text.partition("=")
        try:
            found[task] = float(number)
        except ValueError:
            found[task] = 0.0
        if not equals or not 0 < found[task] < 1e15:
            raise OptionError(f'--ops is "{text}"; write TASK=N with a number above 0, as cap=2000000')
    return found
