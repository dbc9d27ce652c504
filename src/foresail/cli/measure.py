"""`foresail measure`: run real work here, and write down what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="measure",
    help="Run real work on this machine and write down what it takes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command()
def training(
    models: Annotated[list[str] | None, typer.Argument(metavar="[MODEL]...", help="Trainers; all if left out.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.json", help="The file of models to write.")],
    steps: Annotated[int | None, typer.Option(min=2, help="Steps of each; by default its own number.")] = None,
    scale: Annotated[float, typer.Option(min=0.01, max=64.0, help="Units and filters, as a multiple.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and data.")] = 1,
) -> None:
    """Train our own models for real and write a file of models: CPU time, loss and accuracy on the way.

    Each runs to its end in one thread, one after the other. CPU time counts, not the time on the clock, so other work
    on the machine disturbs little. An interrupted measurement goes on with the models that are not in the file yet.

    For example:

        foresail measure training --out models.json

        foresail measure training lstm vae --steps 100 --out models.json
    """
    from foresail.cli.progress import progress_bar
    from foresail.measure.training import measure_training

    with progress_bar("training") as shown:
        path = measure_training(out, models or (), steps=steps, scale=scale, seed=seed, on_progress=shown)
    typer.echo(f"wrote {path}")
