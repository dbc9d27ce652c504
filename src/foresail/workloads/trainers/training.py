"""The trainers' loop: begin or resume, learn a batch a step, report, checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

import numpy as np

from foresail.workloads.checkpoint import CheckpointFolder
from foresail.workloads.progress import TrainingProgress
from foresail.workloads.trainers.layers import Adam, Parameters
from foresail.workloads.trainers.models import MODELS, Learnt

Arrays = dict[str, np.ndarray[Any, Any]]


class OtherTraining(Exception):  # noqa: N818 - says what was found
    """The checkpoint is one of a training that was asked for otherwise."""


@dataclass(frozen=True)
class Recipe:
    """What decides every number of a training: two with the same recipe have the same losses, bit by bit."""

    model: str
    scale: float = 1.0
    """Units and filters, as a multiple of the usual."""
    batch: int = 128
    """Examples a step."""
    seed: int = 1
    threads: int = 1
    """Parts of a batch that are learnt side by side; sums over parts round as they are cut, so it counts."""


class TrainingRun:
    """A model in training."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.model = MODELS[recipe.model]
        # Steps count from 1, so that 0 is free for the beginning.
        first = self.model.first(self._chance(0), recipe.scale)
        self.parameters: Parameters = {name: value.astype(np.float32) for name, value in first.items()}
        self.optimiser = Adam(self.parameters, self.model.rate)
        self._pool = ThreadPoolExecutor(recipe.threads) if recipe.threads > 1 else None

    def step(self, step: int) -> Learnt:
        """Learn from the batch of this step; loss and accuracy are those before it."""
        learnt = self._learn(self.model.batch(self._chance(step), self.recipe.batch))
        self.optimiser.update(self.parameters, learnt.gradients, step)
        return learnt

    def _chance(self, step: int) -> np.random.Generator:
        return np.random.default_rng([self.recipe.seed, step])

    def _learn(self, batch: tuple[Any, ...]) -> Learnt:
        if self._pool is None:
            return self.model.learn(self.parameters, batch)
        parts = [
            type(batch)(*part)
            for part in zip(*(np.array_split(array, self.recipe.threads) for array in batch), strict=True)
            if len(part[0])
        ]
        # In the order of the parts, whoever was first: the sum is the same each time.
        found = list(self._pool.map(lambda part: self.model.learn(self.parameters, part), parts))
        shares = [len(part[0]) / self.recipe.batch for part in parts]
        return _together(found, shares)

    def write(self, file: BinaryIO) -> None:
        """All that the next step depends on, as npz."""
        arrays: Arrays = {f"recipe.{name}": np.array(value) for name, value in asdict(self.recipe).items()}
        for kind, values in self._kinds().items():
            arrays |= {f"{kind}.{name}": value for name, value in values.items()}
        np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy has options of its own beside the arrays

    def read(self, file: BinaryIO) -> None:
        """Go on from what was written."""
        # Arrays alone: a file on a shared volume must not be able to run anything.
        with np.load(file, allow_pickle=False) as arrays:
            for name, own in asdict(self.recipe).items():
                stored = arrays[f"recipe.{name}"].item()
                if stored != own:
                    raise OtherTraining(f"of a training with {name} {stored}, not {own}")
            for kind, values in self._kinds().items():
                for name, value in values.items():
                    value[...] = arrays[f"{kind}.{name}"]

    def _kinds(self) -> dict[str, Parameters]:
        return {"parameter": self.parameters, "mean": self.optimiser.means, "square": self.optimiser.squares}


def _together(found: list[Learnt], shares: list[float]) -> Learnt:
    """What parts of a batch say together; each counts by its share of the examples."""

    def sum_up(of: Callable[[Learnt], Any]) -> Any:
        return sum(share * of(one) for one, share in zip(found, shares, strict=True))

    gradients = {name: sum_up(lambda one, name=name: one.gradients[name]) for name in found[0].gradients}  # type: ignore[misc]  # mypy cannot type a lambda's default
    accuracy = None if found[0].accuracy is None else sum_up(lambda one: one.accuracy)
    return Learnt(sum_up(lambda one: one.loss), accuracy, gradients)


def train(recipe: Recipe, steps: int, report_every: int = 10, save_every: int = 100) -> None:
    """Train to the end, or until SIGTERM; where the environment names a folder for checkpoints, from the last one."""
    training = TrainingRun(recipe)
    checkpoints = CheckpointFolder.from_environment()
    start = 0
    if checkpoints is not None:
        found = checkpoints.newest(training.read)
        start = 0 if found is None else found[0]
    progress = TrainingProgress(
        steps,
        None if checkpoints is None else lambda step: checkpoints.save(step, training.write),
        start=start,
        every=report_every,
        save_every=save_every,
    )
    for step in range(start + 1, steps + 1):
        learnt = training.step(step)
        progress.step(step, learnt.loss, learnt.accuracy)
    progress.done()
