"""`foresail lab`: a real Kubernetes on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.errors import OptionError, did_you_mean

if TYPE_CHECKING:
    from foresail.lab import Lab, LabStatus

app = typer.Typer(
    name="lab",
    help="A real Kubernetes on this machine, without Docker: for trying policies out and for tests.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

Name = Annotated[str, typer.Option(help="Which lab; several can be up at the same time.")]
Base = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Folder of all labs.", show_default="~/.local/state/foresail/lab"),
]
_LAST_LINES = 40


@app.command()
def build(
    *,
    kubelets: Annotated[bool, typer.Option(help="Whether labs with real kubelets will be started.")] = True,
    helm: Annotated[bool, typer.Option("--helm", help="Compile Helm too, which renders the chart in deploy/.")] = False,
    zookeeper: Annotated[
        bool, typer.Option("--zookeeper", help="Whether labs with ZooKeeper will be started; its package brings Java.")
    ] = False,
    install: Annotated[bool, typer.Option("--install", help="Install missing Debian packages; needs root.")] = False,
) -> None:
    """Compile Kubernetes and KWOK from their published Go modules, once a version.

    Takes about ten minutes on two cores the first time and seconds afterwards; an interrupted build goes on where it
    stopped. Programs in $KUBEBUILDER_ASSETS or on PATH are used as they are.

    For example:

        foresail lab build

        foresail lab build --install
    """
    from foresail.lab import packages

    # What only measuring needs is installed along, and not missed by those who install nothing.
    lacking = packages.missing(kubelets=kubelets, measuring=kubelets and install, zookeeper=zookeeper)
    if lacking and install:
        typer.echo(f"running: {packages.install_command(lacking)}", err=True)
        packages.install(lacking)
        lacking = packages.missing(kubelets=kubelets, zookeeper=zookeeper)
    for program, path in _build_with_bar(helm=helm).items():
        typer.echo(f"{program}: {path}")
    if lacking:
        typer.echo(f"still missing; run as root: apt-get update && {packages.install_command(lacking)}")
        raise typer.Exit(2)


@app.command()
def image(
    *, renew: Annotated[bool, typer.Option("--renew", help="Make it anew, of the packages there are now.")] = False
) -> None:
    """Make an image with Python, numpy, stress-ng and iperf3 of Debian packages, and our trainers, once.

    Pods of a lab that is up with --workload-image use it as localhost/foresail/workload:4, imagePullPolicy: Never.
    Takes some seconds and no root; it is kept between labs.

    For example:

        foresail lab image
    """
    from foresail.lab import workload_image

    with _bar("making the image") as show:
        path = workload_image.make(show, renew=renew)
    typer.echo(f"{workload_image.WORKLOAD_IMAGE}: {path} ({path.stat().st_size / 1e6:.0f} MB)")


@app.command()
def up(
    *,
    name: Name = "lab",
    fake_nodes: Annotated[int, typer.Option(help="Nodes that exist in the API only; KWOK plays their pods.")] = 0,
    fake_cpu: Annotated[str, typer.Option(help="CPU of a fake node.")] = "32",
    fake_memory: Annotated[str, typer.Option(help="Memory of a fake node.")] = "256Gi",
    kubelets: Annotated[int, typer.Option(help="Real kubelets with containerd; needs root.")] = 0,
    node_cpu: Annotated[str, typer.Option(help="CPU of a kubelet's node, such as 500m or 2.")] = "500m",
    workload_image: Annotated[
        bool, typer.Option("--workload-image", help="Give kubelets the image of: foresail lab image.")
    ] = False,
    zookeeper: Annotated[
        bool, typer.Option("--zookeeper", help="Start a ZooKeeper beside, for jobs whose tasks meet there.")
    ] = False,
    scheduler: Annotated[bool, typer.Option(help="Whether kube-scheduler runs.")] = True,
    wait: Annotated[bool, typer.Option(help="Whether to wait until all nodes are ready.")] = True,
    base: Base = None,
) -> None:
    """Start a cluster: etcd, API server, controller manager, scheduler, fake nodes and real ones.

    What runs already stays as it is, so the same command can be given twice. An interrupted start removes what it had
    made; foresail lab down removes all of it, also after a crash.

    For example:

        foresail lab up --fake-nodes 100

        foresail lab up --name mine --kubelets 2 --node-cpu 500m --no-scheduler

        foresail lab up --kubelets 2 --workload-image --zookeeper
    """
    from foresail.lab import Lab, LabSettings

    settings = LabSettings(
        fake_nodes=fake_nodes,
        fake_cpu=fake_cpu,
        fake_memory=fake_memory,
        kubelets=kubelets,
        node_cpu=node_cpu,
        workload_image=workload_image,
        zookeeper=zookeeper,
        scheduler=scheduler,
    )
    lab = Lab(name, settings, base=base)
    try:
        lab.up(_say if sys.stderr.isatty() else None, wait=wait)
    except KeyboardInterrupt:
        what = "what was there before is still there" if lab.folder.exists() else "what it had made is removed"
        raise KeyboardInterrupt(f"lab {name} is not up: interrupted, {what}") from None
    typer.echo(f"lab {name} is up: {lab.url}, {fake_nodes} fake nodes, {kubelets} kubelets")
    typer.echo(f"kubeconfig: {lab.kubeconfig}")
    if lab.zookeeper:
        typer.echo(f"zookeeper: {lab.zookeeper}")


@app.command()
def down(*, name: Name = "lab", base: Base = None) -> None:
    """Remove every trace of a lab: processes, mounts, control groups, bridges, files.

    Works whatever state the lab is in. For example:

        foresail lab down --name mine
    """
    there = _lab(name, base).down()
    typer.echo(f"lab {name} is gone" if there else f"there is no lab {name}")


@app.command()
def status(
    *, name: Name = "lab", base: Base = None, as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False
) -> None:
    """Say what of a lab runs. Ends with 0 if all of it does, with 1 if not.

    For example:

        foresail lab status --json
    """
    found = _lab(name, base).status()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, default=str))
    else:
        _print_status(found)
    if not found.is_whole:
        raise typer.Exit(1)


@app.command()
def kubeconfig(*, name: Name = "lab", base: Base = None) -> None:
    """Print a kubeconfig for the lab's administrator, with the keys inside.

    For example:

        foresail lab kubeconfig > lab.kubeconfig
    """
    typer.echo(_lab(name, base).kubeconfig.read_text(encoding="utf-8"), nl=False)


@app.command()
def logs(
    component: Annotated[str | None, typer.Argument(help="Such as kube-apiserver; lists all if left out.")] = None,
    *,
    name: Name = "lab",
    base: Base = None,
    lines: Annotated[int, typer.Option(help="How many of the last lines.", min=1)] = _LAST_LINES,
) -> None:
    """Print the end of a component's log.

    For example:

        foresail lab logs kube-scheduler --lines 100
    """
    lab = _lab(name, base)
    found = lab.logs() if lab.state else {}
    if component is None:
        for known, path in found.items():
            typer.echo(f"{known}: {path}")
        return
    if component not in found:
        near = did_you_mean(component, found)
        raise OptionError(f'no component "{component}" in lab {name}{near} (there: {", ".join(found)})')
    typer.echo("\n".join(found[component].read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]))


def _lab(name: str, base: Path | None) -> Lab:
    from foresail.lab import Lab

    return Lab(name, base=base)


def _say(step: str) -> None:
    typer.echo(step, err=True)


def _build_with_bar(*, helm: bool) -> dict[str, Path]:
    from foresail.lab.build import build as build_programs
    from foresail.lab.components import HELM, MODULES

    with _bar("looking for programs") as show:
        return build_programs((*MODULES, HELM) if helm else MODULES, show=show)


@contextmanager
def _bar(first: str) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on a terminal; told what is going on, how much is done and how much there is."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(first, total=None)

        def show(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total or None)

        yield show


def _print_status(found: LabStatus) -> None:
    typer.echo(f"lab {found.name} ({'up' if found.ready else 'not up yet'}) at {found.url}, in {found.folder}")
    for component, pid in found.components.items():
        typer.echo(f"  {component:26} {f'pid {pid}' if pid is not None else 'has ended'}")
    if found.zookeeper:
        typer.echo(f"  ZooKeeper at {found.zookeeper}")
    if not found.answers:
        typer.echo("  the API server does not answer; see: foresail lab logs kube-apiserver")
        return
    ready = sum(found.nodes.values())
    typer.echo(f"  {ready} of {len(found.nodes)} nodes ready")
    for node in [node for node, is_ready in found.nodes.items() if not is_ready][:10]:
        typer.echo(f"  {node} is not ready")
