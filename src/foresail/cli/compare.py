"""`foresail compare`: policies × traces × seeds, with paired statistics."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foresail.cli.options import Given, OptionSource, takes_options
from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.errors import OptionError, PolicyError
from foresail.experiments.experiment import Experiment
from foresail.experiments.kube.settings import KubeOptions

if TYPE_CHECKING:
    from foresail.experiments.plan import Plan, PlannedRun
    from foresail.experiments.runner import ExperimentOutcome

EPILOG = """
Examples:

  foresail compare --nodes nodes.csv --pods pods.csv --policy fgd --policy best-fit --seeds 42-46

  foresail compare experiment.toml --jobs 8 --out results/fgd-or-best-fit

  foresail compare examples/experiments/training-7.toml --on kube --shared-folder /srv/foresail

  foresail compare experiment.toml --seeds 42-51 --baseline best-fit --ray 10.0.0.1:6379
"""
_FAILURES_SHOWN = 10


@takes_options(OptionSource(Experiment), OptionSource(KubeOptions, "with --on kube"))
def compare(
    given: Given,
    experiment: Annotated[
        Path | None, typer.Argument(metavar="EXPERIMENT.toml", help="Experiment file; options override its keys.")
    ] = None,
    nodes: Annotated[Path | None, typer.Option("--nodes", help="Node list, for every trace.")] = None,
    pods: Annotated[list[Path] | None, typer.Option("--pods", help="Pod list. Repeat it for more traces.")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Runs at a time, each in a process of its own; 1.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Run on this Ray cluster; local starts one on this machine."),
    ] = None,
    on: Annotated[
        str,
        typer.Option(
            "--on",
            metavar="sim|kube",
            help="kube: submit the same pods to a real cluster as well, and say how far the simulation is from it.",
        ),
    ] = "sim",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the runs, the tables and the report.")] = Path(
        "comparison"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Run everything again and replace earlier runs.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON, alone on standard output.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say on standard error what became of each run.")
    ] = False,
) -> None:
    """Run policies × traces × seeds and say by how much the policies differ.

    Policies are compared pair by pair under the same trace and seed, with 95 % bootstrap intervals. Finished runs are
    kept: the same command goes on where it was interrupted, and more seeds or policies cost only their own runs.
    """
    if jobs is not None and jobs < 1:
        raise OptionError(f"--jobs is {jobs}; at least 1 run goes at a time")
    if ray is not None and not ray.strip():
        raise OptionError("--ray is empty; give the address of a Ray cluster, or local")
    if on not in ("sim", "kube"):
        raise OptionError(f'--on is "{on}"; it is sim or kube')

    from rich.console import Console

    from foresail.experiments.change_table import as_data, change_table
    from foresail.experiments.executors import executor_for
    from foresail.experiments.experiment_file import load_experiment
    from foresail.experiments.output import comparison_tables, write_changes, write_comparison
    from foresail.experiments.plan import plan_of
    from foresail.experiments.runner import DERIVED, carry_out_plan, check_folder

    options = {
        **given.of(Experiment),
        "nodes": None if nodes is None else str(nodes),
        "pods": [str(path) for path in pods or ()],
    }
    wanted = load_experiment(experiment, options)
    check_folder(out)
    plan = plan_of(wanted)
    for trace, dropped in plan.dropped_rows.items():
        if dropped:
            typer.echo(f"trace {trace}: dropped {dropped} bad rows", err=True)
    try:
        with (
            _progress(len(plan.runs), verbose=verbose) as (on_progress, on_run),
            executor_for(ray, jobs, on_progress) as executor,
        ):
            carried = carry_out_plan(plan, out, executor, overwrite=overwrite, on_run=on_run)
    except KeyboardInterrupt:
        again = "the same command without --overwrite" if overwrite else "the same command"
        raise KeyboardInterrupt(f"interrupted; finished runs are kept in {out}, {again} goes on from there") from None
    if carried.there:
        rows = write_comparison(plan, out, carried)
        changes = write_changes(plan, out, carried)
        if as_json:
            typer.echo(json.dumps(as_data(plan, rows, changes), indent=2, ensure_ascii=False, allow_nan=False))
        else:
            Console().print(change_table(plan, changes) if changes else comparison_tables(plan, rows))
        written = [out / name for name in DERIVED if (out / name).exists()]
        kept = f" ({len(carried.kept)} of them from before)" if carried.kept else ""
        typer.echo(f"{len(carried.there)} runs{kept} in {out / 'runs'}", err=as_json)
        typer.echo(f"wrote {', '.join(map(str, written[:-1]))} and {written[-1]}", err=as_json)
    if carried.failed:
        raise PolicyError(_failures(carried, len(plan.runs)))
    if on == "kube":
        _on_kube(plan, out, given, (kubeconfig, context), overwrite=overwrite, verbose=verbose, quiet=as_json)


def _on_kube(
    plan: Plan,
    out: Path,
    given: Given,
    cluster: tuple[Path | None, str | None],
    *,
    overwrite: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Carry the plan out on a cluster, below `kube`, and lay both worlds over each other."""
    from rich.console import Console

    from foresail.experiments.kube.agreement import agreement_of, agreement_table, write_agreement
    from foresail.experiments.kube.executor import OnKube, plan_on_kube
    from foresail.experiments.output import write_changes, write_comparison
    from foresail.experiments.runner import carry_out_plan
    from foresail.kube.api.connect import find_connection
    from foresail.lab.workload_image import WORKLOAD_IMAGE
    from foresail.settings import make

    options = make(KubeOptions, given.of(KubeOptions))
    real_plan, real = plan_on_kube(plan), out / "kube"
    with _progress(len(plan.runs), verbose=verbose) as (on_progress, on_run):
        executor = OnKube(
            find_connection(*cluster), options, folder=real, default_image=WORKLOAD_IMAGE, on_progress=on_progress
        )
        try:
            carried = carry_out_plan(real_plan, real, executor, overwrite=overwrite, on_run=on_run)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted; finished runs are kept in {real}, and nothing is left of this one on the cluster; the "
                "same command without --overwrite goes on from there"
            ) from None
    if carried.there:
        write_comparison(real_plan, real, carried)
        write_changes(real_plan, real, carried)
        rows = agreement_of(plan, out, real)
        write_agreement(plan, out, real, rows)
        Console(stderr=quiet).print(agreement_table(rows))
        typer.echo(f"wrote {real / 'report.html'}, {out / 'agreement.csv'} and {out / 'agreement.html'}", err=quiet)
    if carried.failed:
        raise PolicyError(_failures(carried, len(plan.runs)))


def _failures(carried: ExperimentOutcome, total: int) -> str:
    lines = [f"{planned}: {why}" for planned, why in carried.failed[:_FAILURES_SHOWN]]
    if len(carried.failed) > _FAILURES_SHOWN:
        lines.append(f"and {len(carried.failed) - _FAILURES_SHOWN} more")
    others = "the others are kept; " if carried.there else ""
    return (
        f"{len(carried.failed)} of {total} runs failed; {others}mend the cause and give the same command again\n  "
        + "\n  ".join(lines)
    )


_Watching = tuple[Callable[[int, int], None] | None, Callable[["PlannedRun", str], None]]


@contextmanager
def _progress(total: int, *, verbose: bool) -> Iterator[_Watching]:
    """A bar over the runs on a terminal, and a line a run where asked for."""
    if not sys.stderr.isatty():
        yield None, (lambda planned, what: typer.echo(f"{planned}: {what}", err=True)) if verbose else (lambda *_: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[done]}/{task.total:.0f} runs"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=total, done=0)
        state: dict[str, Any] = {"done": 0}

        def inside(done: int, whole: int) -> None:
            progress.update(task, completed=state["done"] + (done / whole if whole else 0))

        def over(planned: PlannedRun, what: str) -> None:
            state["done"] += 1
            progress.update(task, completed=state["done"], done=state["done"])
            if verbose:
                progress.console.print(f"{planned}: {what}", markup=False, highlight=False)

        yield inside, over
