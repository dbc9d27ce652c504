"""`foresail bsp run`: a bulk-synchronous job on a real cluster, or the same experiment in simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.compiling import compiling_is_announced
from foresail.cli.which_cluster import Context, Kubeconfig

if TYPE_CHECKING:
    from foresail.experiments.supersteps.experiment import SuperstepsExperiment
    from foresail.kube.api.connect import Connection

EPILOG = """
Examples:

  foresail bsp run stress.toml --lab mine

  foresail bsp run stress.toml --simulate --strategy even --json

  foresail bsp run stress.toml --delete
"""


def run(
    experiment: Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="Tasks, CPU, series, strategy.")],
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Run the experiment in virtual time; no cluster is needed.")
    ] = False,
    strategy: Annotated[str | None, typer.Option(help="Instead of the file's.")] = None,
    name: Annotated[str | None, typer.Option(help="Of the job, instead of the file's.")] = None,
    length: Annotated[int | None, typer.Option(help="How many supersteps, instead of the file's.")] = None,
    barrier: Annotated[str | None, typer.Option(help="lease or zookeeper://HOST:PORT, instead of the file's.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where rows and report go. \\[default: results/NAME]")
    ] = None,
    lab: Annotated[str | None, typer.Option(metavar="NAME", help="The cluster is this lab.")] = None,
    lab_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of all labs.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the job of this name from the cluster, and run nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print figures as JSON.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
) -> None:
    """Run a bulk-synchronous job on a cluster: tasks as pods of one gang, their CPU split anew by the controller.

    Whoever is interrupted or killed goes on with the same command: the step stands on the board, sizes on the pods. At
    the end a report tells how far the cluster was from the simulation.
    """
    from foresail.experiments.supersteps.experiment import load_supersteps_experiment
    from foresail.logs import configure

    configure(log_level)
    asked = load_supersteps_experiment(experiment, strategy=strategy, name=name, length=length, barrier=barrier)
    folder = out or Path("results") / asked.name
    if simulate:
        _simulate(asked, as_json=as_json)
        return
    asked, connection = _on_cluster(asked, lab, lab_dir, kubeconfig, context)
    if delete:
        from foresail.experiments.supersteps.on_kube import delete_experiment

        delete_experiment(asked, connection)
        typer.echo(f"{asked.name} is removed", err=True)
        return
    from foresail.cli.progress import progress_bar
    from foresail.experiments.supersteps.on_kube import run_experiment
    from foresail.experiments.supersteps.overlay import overlay_of, write_overlay

    with compiling_is_announced(), progress_bar(f"supersteps of {asked.name}") as shown:
        rows = run_experiment(
            *(asked, connection, folder), announce=lambda what: typer.echo(what, err=True), on_progress=shown
        )
    overlay = overlay_of(asked, rows)
    _show(overlay.figures, as_json=as_json)
    for path in write_overlay(overlay, folder):
        typer.echo(f"wrote {path}", err=True)


def _on_cluster(
    asked: SuperstepsExperiment, lab: str | None, labs: Path | None, kubeconfig: Path | None, context: str | None
) -> tuple[SuperstepsExperiment, Connection]:
    """The cluster, and the experiment with what it needs to know there."""
    from dataclasses import replace

    from foresail.errors import OptionError
    from foresail.experiments.supersteps.experiment import ZOOKEEPER
    from foresail.kube.api.connect import find_connection
    from foresail.lab.workload_image import WORKLOAD_IMAGE

    cluster = asked.cluster if asked.cluster.image else replace(asked.cluster, image=WORKLOAD_IMAGE)
    if lab is not None:
        from foresail.lab import Lab

        there = Lab(lab, base=labs)
        kubeconfig = kubeconfig or there.kubeconfig
        # A lab's API server listens on this machine alone, which is all nodes' host.
        cluster = replace(cluster, host_network=True, api_server=cluster.api_server or there.url)
        if asked.barrier == ZOOKEEPER and there.zookeeper:
            asked = replace(asked, barrier=f"{ZOOKEEPER}://{there.zookeeper}")
    if asked.barrier == ZOOKEEPER:
        raise OptionError(
            f"--barrier is {ZOOKEEPER}; name its address, {ZOOKEEPER}://HOST:PORT, or a --lab that was started with "
            "--zookeeper"
        )
    return replace(asked, cluster=cluster), find_connection(kubeconfig, context)


def _simulate(asked: SuperstepsExperiment, *, as_json: bool) -> None:
    from foresail.experiments.supersteps.overlay import simulate_experiment

    with compiling_is_announced():
        found = simulate_experiment(asked)
    figures = {
        "total_s": found.total_s,
        "reconfigurations": found.reconfigurations,
        "work_s": found.work_s,
        "waiting_s": found.waiting_s,
        "reconfiguration_s": found.reconfiguration_s,
    }
    if as_json:
        import json

        typer.echo(json.dumps({**figures, "name": asked.name, "strategy": asked.strategy}, indent=2))
        return
    for key, value in figures.items():
        typer.echo(f"{key:18} {value:.2f}" if isinstance(value, float) else f"{key:18} {value}")


def _show(figures: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        import json

        typer.echo(json.dumps(figures, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    from foresail.report.superstep_overlay import in_words

    table = Table(title="cluster and simulation")
    table.add_column("")
    table.add_column("", justify="right")
    for word, value in in_words(figures):
        table.add_row(word, value)
    Console().print(table)
