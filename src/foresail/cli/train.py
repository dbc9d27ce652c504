"""`foresail train`: models of learned planners, one verb a recipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foresail.cli.compiling import compiling_is_announced

if TYPE_CHECKING:
    from foresail.controllers.supersteps.learned.model import PlannerModel

app = typer.Typer(
    name="train",
    help="Train models of learned planners, on rows before those that jobs are judged on.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

DQN_EXAMPLES = """
Examples:

  foresail train supersteps-dqn --data bsp --out dqn.npz

  foresail train supersteps-dqn --data bsp --actions 3 --window 10 --seed 2 --out dqn-3x10.npz --json

  foresail bsp simulate --data bsp --strategy dqn --model dqn.npz --forecast published
"""

TIMING_EXAMPLES = """
Examples:

  foresail train supersteps-timing --data bsp --out timing.npz

  foresail bsp simulate --data bsp --strategy scenario --strategy learned --model timing.npz --seed 1 --seed 2
"""

_Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder as bsp simulate takes it; else bsp in $FORESAIL_DATA, else a made-up job.",
    ),
]
_Out = Annotated[Path, typer.Option("--out", metavar="MODEL.npz", help="The file to write.")]
_Seed = Annotated[int, typer.Option(help="Of all that is drawn.")]
_Penalty = Annotated[float, typer.Option(metavar="SECONDS", help="What a change of the split takes.")]
_Json = Annotated[bool, typer.Option("--json", help="Print settings and results as JSON.")]


@app.callback()
def _recipes() -> None:
    pass


@app.command("supersteps-dqn", epilog=DQN_EXAMPLES)
def supersteps_dqn(
    *,
    data: _Data = None,
    out: _Out,
    actions: Annotated[int, typer.Option(help="Keeping, and windows of 1, 2, … supersteps.")] = 4,
    window: Annotated[int, typer.Option(help="Supersteps that are seen ahead.")] = 6,
    forecast: Annotated[
        str,
        typer.Option(
            help="Of the rows to train on: a forecaster, or published: the published LSTM, trained here, and its "
            "forecasts scaled as published."
        ),
    ] = "published",
    steps: Annotated[int, typer.Option(help="Supersteps of training.")] = 1_000_000,
    length: Annotated[int, typer.Option(help="Supersteps of an episode.")] = 200,
    jobs: Annotated[int, typer.Option(help="Orders of the series over the tasks.")] = 64,
    learning_starts: Annotated[int, typer.Option(help="Supersteps at random before the network is trained.")] = 50_000,
    evaluate_every: Annotated[int, typer.Option(help="Supersteps between two looks at validation jobs.")] = 25_000,
    patience: Annotated[int, typer.Option(help="End after so many looks without a better one.")] = 20,
    penalty: _Penalty = 15.0,
    seed: _Seed = 1,
    as_json: _Json = False,
) -> None:
    """Train the published deep Q-network for bsp simulate --strategy dqn.

    It learns from rows before the first row of the data, which jobs are judged on, and is validated on later ones of
    these; the weights that did best there are written. An interrupted run is kept beside the model, and the same
    command goes on from there.
    """
    _needs("jax", "optax", "gymnasium")
    from foresail.cli.progress import progress_bar
    from foresail.controllers.supersteps.learned.model import save_model
    from foresail.experiments.supersteps.source import find_source
    from foresail.train.supersteps.checkpoint import checkpoint_of
    from foresail.train.supersteps.data import forecast_rows
    from foresail.train.supersteps.dqn import DqnSettings, DqnTraining

    _check_out(out)
    settings = DqnSettings(
        actions=actions,
        window=window,
        steps=steps,
        length=length,
        jobs=jobs,
        learning_starts=learning_starts,
        evaluate_every=evaluate_every,
        patience=patience,
        penalty_s=penalty,
        seed=seed,
    )
    source = find_source(data)
    checkpoint = checkpoint_of(out)
    with compiling_is_announced():
        with progress_bar(f"fitting {forecast}") as fitting:
            rows = forecast_rows(source, forecast, on_fitting=fitting)
        kept = f"{checkpoint} has the run up to its last look at validation jobs"
        with (
            _going_on(checkpoint, kept, "nothing is kept before the first look at validation jobs"),
            progress_bar("training") as shown,
        ):
            training = DqnTraining(rows, settings, checkpoint)
            model = training.run(on_step=shown, on_evaluated=_line(steps))
    _finish(model, {"forecast": forecast, "data": source.name}, out, save_model, as_json=as_json)
    checkpoint.unlink(missing_ok=True)


@app.command("supersteps-timing", epilog=TIMING_EXAMPLES)
def supersteps_timing(
    *,
    data: _Data = None,
    out: _Out,
    forecast: Annotated[str, typer.Option(help="The forecaster of the rows to train on.")] = "ensemble",
    generations: Annotated[int, typer.Option(help="Rounds of training.")] = 30,
    population: Annotated[int, typer.Option(help="Networks in a round.")] = 32,
    jobs: Annotated[int, typer.Option(help="Orders of the series over the tasks.")] = 8,
    patience: Annotated[int, typer.Option(help="End after so many rounds without a better one.")] = 10,
    scenarios: Annotated[int, typer.Option(help="Ways in which the work may go on.")] = 64,
    penalty: _Penalty = 15.0,
    seed: _Seed = 1,
    as_json: _Json = False,
) -> None:
    """Train a network that corrects when bsp simulate --strategy scenario changes the split, for --strategy learned.

    It learns from rows before the first row of the data and is validated on later ones of these, as supersteps-dqn.
    Training begins with planning over scenarios as it is; if nothing validates better, that is what is written. The
    same command goes on where it was interrupted.
    """
    _needs("gymnasium")
    from foresail.cli.progress import progress_bar
    from foresail.controllers.supersteps.learned.model import save_model
    from foresail.controllers.supersteps.learned.timing import WINDOW
    from foresail.errors import OptionError
    from foresail.experiments.supersteps.request import PUBLISHED
    from foresail.experiments.supersteps.source import find_source
    from foresail.train.supersteps.checkpoint import checkpoint_of
    from foresail.train.supersteps.data import forecast_rows
    from foresail.train.supersteps.timing import TimingSettings, TimingTraining

    _check_out(out)
    if forecast == PUBLISHED:
        raise OptionError("--forecast published has no scenarios; take a forecaster")
    settings = TimingSettings(
        generations=generations,
        population=population,
        jobs=jobs,
        patience=patience,
        scenarios=scenarios,
        penalty_s=penalty,
        seed=seed,
    )
    source = find_source(data)
    checkpoint = checkpoint_of(out)
    with compiling_is_announced():
        with progress_bar(f"fitting {forecast}") as fitting:
            rows = forecast_rows(
                source, forecast, scenarios=scenarios // 2, ahead=WINDOW, seed=seed, on_fitting=fitting
            )
        kept = f"{checkpoint} has the rounds that were finished"
        with _going_on(checkpoint, kept, "no round was finished"):
            with progress_bar("planning over scenarios") as planned:
                training = TimingTraining(rows, settings, checkpoint, planned)
            with progress_bar("training") as shown:
                model = training.run(on_step=shown, on_evaluated=_line(generations))
    _finish(model, {"forecast": forecast, "data": source.name}, out, save_model, as_json=as_json)
    checkpoint.unlink(missing_ok=True)


@contextmanager
def _going_on(checkpoint: Path, kept: str, otherwise: str) -> Iterator[None]:
    """Say what an interrupted run has kept: `kept` if there is a checkpoint, else `otherwise`."""
    try:
        yield
    except KeyboardInterrupt:
        said = kept if checkpoint.exists() else otherwise
        raise KeyboardInterrupt(f"interrupted; {said}; the same command goes on") from None


def _line(steps: int) -> Callable[[int, float], None]:
    """Says now and then how far a run is, where no bar does."""

    def line(step: int, validation_s: float) -> None:
        if not sys.stderr.isatty():
            typer.echo(f"step {min(step, steps)} of {steps}: validation jobs take {validation_s:.1f} s", err=True)

    return line


def _check_out(out: Path) -> None:
    from foresail.errors import OptionError

    if out.suffix != ".npz":
        raise OptionError(f"--out is {out}; a model is a file that ends in .npz")


def _needs(*modules: str) -> None:
    from importlib.util import find_spec

    from foresail.errors import OptionError

    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise OptionError(f"training needs {', '.join(missing)}: pip install 'foresail[learn]'")


def _finish(
    model: PlannerModel,
    told: dict[str, str],
    out: Path,
    save: Callable[[PlannerModel, Path], Path],
    *,
    as_json: bool,
) -> None:
    """Write a model with the command that made it, and say what came of it."""
    from dataclasses import replace

    from foresail import __version__

    command = " ".join(["foresail", *sys.argv[1:]])
    about = {**model.about, **told, "command": command, "foresail": __version__}
    path = save(replace(model, about=about), out)
    results = about["results"]
    if as_json:
        typer.echo(json.dumps({"model": str(path), **about}, indent=2))
        return
    typer.echo(
        f"best after {results['best_step']} of {results['steps']} steps: a validation job takes "
        f"{results['validation_s']:.1f} s"
    )
    typer.echo(f"wrote {path}")
