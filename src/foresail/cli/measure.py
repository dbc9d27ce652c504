"""`foresail measure`: run real work, and write down what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foresail.cli.measure_stress import EPILOG as STRESS_EXAMPLES
from foresail.cli.measure_stress import stress
from foresail.cli.which_cluster import Context, Kubeconfig
from foresail.errors import OptionError

app = typer.Typer(
    name="measure",
    help="Run real work and write down what it takes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
app.command(epilog=STRESS_EXAMPLES)(stress)


@app.command()
def training(
    models: Annotated[list[str] | None, typer.Argument(metavar="[MODEL]...", help="Trainers; all if left out.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.json", help="The file of models to write.")],
    steps: Annotated[int | None, typer.Option(min=2, help="Steps of each; by default its own number.")] = None,
    part: Annotated[float, typer.Option(min=0.001, max=10.0, help="Part of its own steps that each takes.")] = 1.0,
    scale: Annotated[float, typer.Option(min=0.01, max=64.0, help="Units and filters, as a multiple.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and data.")] = 1,
    on: Annotated[
        str, typer.Option("--on", metavar="here|kube", help="kube: in pods, where jobs of a cluster will train.")
    ] = "here",
    image: Annotated[
        str | None, typer.Option("--image", help="With --on kube: their image; by default the one of a lab's nodes.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Train our own models for real and write a file of models: CPU time, loss and accuracy on the way.

    Each runs to its end in one thread. CPU time counts, not the time on the clock, so other work on the machine
    disturbs little. Here they run one after the other, on a cluster all at once, spread over its nodes. An interrupted
    measurement goes on with the models that are not in the file yet.

    For example:

        foresail measure training --out models.json

        foresail measure training lstm vae --steps 100 --out models.json

        foresail measure training --on kube --part 0.3 --out lab-models.json
    """
    from foresail.cli.progress import progress_bar
    from foresail.measure.training import Measurer, measure_training

    if on not in ("here", "kube"):
        raise OptionError(f'--on is "{on}"; it is here or kube')
    where: Measurer | None = None
    if on == "kube":
        from foresail.kube.api.connect import find_connection
        from foresail.lab.workload_image import WORKLOAD_IMAGE
        from foresail.measure.on_kube import TrainersOnKube

        where = TrainersOnKube(find_connection(kubeconfig, context), image or WORKLOAD_IMAGE)
    elif image is not None:
        raise OptionError(f"--image is {image}, which goes with --on kube")
    with progress_bar("training") as shown:
        path = measure_training(
            out, models or (), steps=steps, part=part, scale=scale, seed=seed, on=where, on_progress=shown
        )
    typer.echo(f"wrote {path}")
