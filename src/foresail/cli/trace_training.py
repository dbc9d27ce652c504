"""`foresail trace training`: a schedule of training jobs as a trace."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from foresail.cli.options import Given, OptionSource, takes_options
from foresail.cli.trace_generate import refuse_overwriting
from foresail.errors import OptionError
from foresail.settings import make
from foresail.traces.training.settings import TrainingSettings

EPILOG = (
    "Examples: [bold]foresail trace training --schedule 25 --out jobs[/bold]; "
    "[bold]foresail trace training --schedule random --training-jobs 100 --submit-over 600 --seed 7 --out jobs[/bold]"
)


@takes_options(OptionSource(TrainingSettings))
def training(
    given: Given,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the files; made if it is missing.")],
    seed: Annotated[int, typer.Option(help="The same seed and options give the same bytes.")] = 42,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
) -> None:
    """Make a cluster and training jobs as Kubernetes objects, as simulate and compare make them of --schedule.

    Writes nodes.yaml and pods.yaml into the folder --out, and pins.csv where the start says on which nodes jobs begin:
    simulate takes it with --pin-to.
    """
    if "--schedule" not in given.values:
        raise OptionError("--schedule is missing; write 7, 20, 25, 50 or random")
    if seed < 0:
        raise OptionError(f"--seed is {seed}; a seed is 0 or more")
    settings = make(TrainingSettings, given.of(TrainingSettings))

    # numpy is loaded only now, so that --help stays quick.
    from foresail.traces.training.world import make_world
    from foresail.traces.write import write

    world = make_world(settings, seed)
    nodes_path, pods_path, pins_path = (out / name for name in ("nodes.yaml", "pods.yaml", "pins.csv"))
    refuse_overwriting([nodes_path, pods_path, *([pins_path] if world.first_node else [])], force=force)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--out {out} cannot be made: {error.strerror or error}; name another folder") from error
    write(nodes_path, pods_path, world.nodes, world.workload)
    typer.echo(f"wrote {nodes_path}: {len(world.nodes)} nodes with {settings.cores:g} CPUs")
    last_s = world.workload.arrival_s.max()
    typer.echo(f"wrote {pods_path}: {len(world.workload)} training jobs submitted until {last_s:.0f} s")
    if world.first_node:
        with pins_path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([("pod", "node"), *world.first_node.items()])
        typer.echo(f"wrote {pins_path}: where {len(world.first_node)} jobs start; simulate --pin-to {pins_path}")
    if settings.start == "cold-images":
        typer.echo(f"nodes pull images as pods start: simulate --pulled-image-mib {settings.image_mib}")
