"""`python -m foresail.workloads.trainers NAME`: train a model, alone or moved about."""

from __future__ import annotations

import argparse
import os
import sys

NAMES = {
    "birnn": "two LSTMs that read digits forwards and backwards",
    "drnn": "an LSTM over sequences of differing length",
    "identity-rnn": "an identity RNN on the adding problem",
    "lenet": "filters over digits",
    "lstm": "an LSTM that reads digits row by row",
    "vae": "a variational auto-encoder of digits",
}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _scale(text: str) -> float:
    number = float(text)
    if not 0 < number <= 64:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 64")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m foresail.workloads.trainers",
        description="Train a small model on data that it generates. SIGTERM: checkpoint, then exit code 143; "
        "0 means that training is complete, 75 that the job belongs to another process now.",
        epilog="models: "
        + "; ".join(f"{name}, {what}" for name, what in NAMES.items())
        + ". Environment: FORESAIL_JOB, "
        "FORESAIL_PROGRESS_DIR, FORESAIL_PROGRESS_URL, FORESAIL_CHECKPOINT_DIR and FORESAIL_POD_UID, see the guide "
        "on training jobs.",
    )
    parser.add_argument("model", choices=NAMES, metavar="NAME", help="one of " + ", ".join(NAMES))
    parser.add_argument("--steps", type=_positive, help="batches to learn (default: the model's own)")
    parser.add_argument("--scale", type=_scale, default=1.0, help="units and filters, as a multiple (default: 1)")
    parser.add_argument("--batch", type=_positive, default=128, help="examples a step (default: 128)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (default: 1)")
    parser.add_argument(
        "--threads", type=_positive, default=1, help="parts of a batch learnt side by side (default: 1)"
    )
    parser.add_argument("--report-every", type=_positive, default=10, help="steps between rows (default: 10)")
    parser.add_argument("--save-every", type=_positive, default=100, help="steps between checkpoints (default: 100)")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Train as the command line says."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.seed < 0:
        parser.error(f"argument --seed: {given.seed} is less than 0")
    # Threads of the matrix library would make sums depend on how much CPU there happens to be. Before numpy is loaded.
    for library in ("OPENBLAS", "OMP", "MKL", "BLIS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    from foresail.workloads.trainers.models import MODELS  # noqa: PLC0415 - see above
    from foresail.workloads.trainers.training import OtherTraining, Recipe, train  # noqa: PLC0415 - see above

    recipe = Recipe(given.model, given.scale, given.batch, given.seed, given.threads)
    try:
        train(recipe, given.steps or MODELS[given.model].steps, given.report_every, given.save_every)
    except OtherTraining as found:
        parser.exit(2, f"the checkpoint is {found}; name another job (FORESAIL_JOB) or remove its folder\n")


if __name__ == "__main__":
    main(sys.argv[1:])
