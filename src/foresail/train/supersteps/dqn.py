"""The published recipe: deep Q-learning of when to change the split, and for which window.

A network values each action by what it will earn; most of the time the best one is taken. It is trained with what was
done before, drawn anew, towards what a copy of it that is renewed now and then says of the next superstep. Published
settings are the defaults. Ours are three things: other rows than those that jobs are judged on, the series in many
orders over the tasks, and the weights that do best on rows kept for validation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from foresail.controllers.supersteps.learned.model import PlannerModel
from foresail.controllers.supersteps.learned.network import Layer, answer
from foresail.errors import OptionError
from foresail.train.supersteps.checkpoint import Arrays, read_checkpoint, write_checkpoint
from foresail.train.supersteps.data import ForecastRows
from foresail.train.supersteps.environment import SuperstepEnvironment
from foresail.train.supersteps.replay import Batch, Replay

OnStep = Callable[[int, int], None]
OnEvaluated = Callable[[int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DqnSettings:
    """What decides a run, beside the rows; published unless said otherwise."""

    actions: int = 4
    """Keeping, and windows of 1, 2, … supersteps."""
    window: int = 6
    """Supersteps that are seen ahead."""
    steps: int = 1_000_000
    """Supersteps of training."""
    length: int = 200
    """Supersteps of an episode; published 400, more than there are rows to train on."""
    penalty_s: float = 15.0
    seed: int = 1
    jobs: int = 64
    """Ours: so many orders of the series over the tasks."""
    validation_jobs: int = 16
    hidden: tuple[int, ...] = (64, 64)
    rate: float = 1e-4
    buffer: int = 1_000_000
    learning_starts: int = 50_000
    batch: int = 32
    discount: float = 0.99
    train_every: int = 4
    target_every: int = 10_000
    explore_part: float = 0.1
    """Random actions become rarer over this part of the steps."""
    explore_least: float = 0.05
    clip: float = 10.0
    """The most that all gradients together are long."""
    evaluate_every: int = 25_000
    patience: int = 20
    """Training ends after so many looks at validation jobs without a better one."""

    def __post_init__(self) -> None:
        for option, value, least in (
            ("--actions", self.actions, 2),
            ("--window", self.window, 1),
            ("--steps", self.steps, 1),
            ("--length", self.length, 1),
            ("--jobs", self.jobs, 1),
            ("--seed", self.seed, 0),
            ("--evaluate-every", self.evaluate_every, 1),
            ("--patience", self.patience, 1),
            ("--learning-starts", self.learning_starts, 2),
        ):
            if value < least:
                raise OptionError(f"{option} is {value}; it is {least} or more")
        if not 0 <= self.penalty_s < 1e9:
            raise OptionError(f"--penalty is {self.penalty_s:g}; it is a number of seconds, 0 or more")


@dataclass(slots=True)
class _HowFar:
    """How far a run is."""

    step: int = 0
    best_s: float = float("inf")
    best_step: int = 0
    since_best: int = 0
    evaluated_at: int = 0


class DqnTraining:
    """One run: `run()` goes on to the end, or from where a checkpoint was left."""

    def __init__(self, rows: ForecastRows, settings: DqnSettings, checkpoint: Path | None = None) -> None:
        self.settings, self._checkpoint = settings, checkpoint
        self._digest = rows.digest
        horizon = rows.forecasts.shape[2]
        if max(settings.window, settings.actions - 1) > horizon:
            raise OptionError(f"--window and --actions look further ahead than forecasts, which have {horizon}")
        length = min(settings.length, rows.split)
        train = [rows.job(order, validates=False) for order in rows.orders(settings.jobs, settings.seed)]
        # Others than those that are trained on, in the same orders for all seeds: their totals can be compared.
        judged = [rows.job(order, validates=True) for order in rows.orders(settings.validation_jobs, 0)]
        made = partial(
            SuperstepEnvironment, actions=settings.actions, window=settings.window, penalty_s=settings.penalty_s
        )
        self._env = made(train, length=length)
        self._validation = made(judged, length=len(judged[0].workloads))
        self._validation_jobs = len(judged)
        self._rng = np.random.default_rng(settings.seed)
        self._replay = Replay(min(settings.buffer, settings.steps + length), settings.actions * settings.window)
        self._optimizer = optax.chain(optax.clip_by_global_norm(settings.clip), optax.adam(settings.rate))
        self._update = jax.jit(partial(_update, self._optimizer, settings.discount))
        self._weights: Any = _begin(settings, self._rng)
        self._target = self._weights
        self._moments = self._optimizer.init(self._weights)
        self._best = _layers(self._weights)
        self._at = _HowFar()
        self.history: list[tuple[int, float]] = []

    def run(self, on_step: OnStep | None = None, on_evaluated: OnEvaluated | None = None) -> PlannerModel:
        """Train to the end; the model has the weights that did best on validation jobs."""
        settings, at = self.settings, self._at
        self._resume()
        while at.step < settings.steps and at.since_best < settings.patience:
            self._episode()
            if at.step - at.evaluated_at >= settings.evaluate_every or at.step >= settings.steps:
                self._evaluate()
                if on_evaluated is not None:
                    on_evaluated(*self.history[-1])
                self._keep()
            if on_step is not None:
                on_step(min(at.step, settings.steps), settings.steps)
        results = {
            "steps": at.step,
            "best_step": at.best_step,
            "validation_s": at.best_s,
            "validation": [[step, round(total_s, 3)] for step, total_s in self.history],
        }
        told = {"settings": asdict(settings), "rows_sha256": self._digest, "results": results}
        return PlannerModel("dqn", (settings.actions, settings.window), self._best, told)

    def validate(self, layers: Sequence[Layer]) -> float:
        """Seconds that a validation job takes on average under a network."""
        total_s = 0.0
        for job in range(self._validation_jobs):
            seen, _ = self._validation.reset(options={"job": job, "row": 0})
            ended, first = False, True
            while not ended:
                action = int(np.argmax(answer(layers, seen)))
                seen, _, ended, _, info = self._validation.step(action)
                total_s += info["seconds"] + (self.settings.penalty_s if action and not first else 0.0)
                first = False
        return total_s / self._validation_jobs

    def _episode(self) -> None:
        settings, at, rng = self.settings, self._at, self._rng
        # Episodes are drawn here, so that a run that goes on from a checkpoint draws the same ones.
        seen, _ = self._env.reset(seed=int(rng.integers(2**31)))
        layers, ended = _layers(self._weights), False
        explore_until = max(1.0, settings.explore_part * settings.steps)
        while not ended:
            part = min(1.0, at.step / explore_until)
            if at.step < settings.learning_starts or rng.random() < 1.0 + part * (settings.explore_least - 1.0):
                action = int(rng.integers(settings.actions))
            else:
                action = int(np.argmax(answer(layers, seen)))
            after, reward, ended, _, _ = self._env.step(action)
            self._replay.add(seen, action, reward, ended=ended)
            seen = after
            at.step += 1
            if at.step >= settings.learning_starts and at.step % settings.train_every == 0:
                batch = self._replay.draw(settings.batch, rng)
                self._weights, self._moments = self._update(self._weights, self._target, self._moments, batch)
                layers = _layers(self._weights)
            if at.step % settings.target_every == 0:
                self._target = self._weights

    def _evaluate(self) -> None:
        at, layers = self._at, _layers(self._weights)
        at.evaluated_at = at.step
        total_s = self.validate(layers)
        self.history.append((at.step, total_s))
        # Before training begins there is nothing to be patient about.
        at.since_best += at.step > self.settings.learning_starts
        if total_s < at.best_s:
            at.best_s, at.best_step, at.since_best, self._best = total_s, at.step, 0, layers

    def _identity(self) -> dict[str, Any]:
        told = asdict(self.settings)
        return told | {"hidden": list(self.settings.hidden), "rows_sha256": self._digest}

    def _keep(self) -> None:
        if self._checkpoint is None:
            return
        state = {"at": asdict(self._at), "rng": self._rng.bit_generator.state, "history": self.history}
        arrays: Arrays = {f"replay/{key}": value for key, value in self._replay.arrays().items()}
        for name, tree in self._trees().items():
            arrays |= {f"{name}/{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}
        write_checkpoint(self._checkpoint, self._identity(), state, arrays)

    def _trees(self) -> dict[str, Any]:
        best = [tuple(layer) for layer in self._best]
        return {"weights": self._weights, "target": self._target, "moments": self._moments, "best": best}

    def _resume(self) -> None:
        found = None if self._checkpoint is None else read_checkpoint(self._checkpoint, self._identity())
        if found is None:
            return
        state, arrays = found
        for key, value in state["at"].items():
            setattr(self._at, key, value)
        self._rng.bit_generator.state = state["rng"]
        self.history = [(step, total_s) for step, total_s in state["history"]]
        self._replay.restore({key.removeprefix("replay/"): value for key, value in arrays.items()})
        trees = {}
        for name, tree in self._trees().items():
            leaves, shape = jax.tree.flatten(tree)
            trees[name] = jax.tree.unflatten(
                shape, [jnp.asarray(arrays[f"{name}/{number}"]) for number in range(len(leaves))]
            )
        self._weights, self._target, self._moments = trees["weights"], trees["target"], trees["moments"]
        self._best = _layers(trees["best"])


def _begin(settings: DqnSettings, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Weights and biases within one over the root of the inputs, as PyTorch begins them."""
    sizes = (settings.actions * settings.window, *settings.hidden, settings.actions)
    layers = []
    for inputs, outputs in pairwise(sizes):
        bound = 1.0 / np.sqrt(inputs)
        weights, biases = rng.uniform(-bound, bound, (inputs, outputs)), rng.uniform(-bound, bound, outputs)
        layers.append((jnp.asarray(weights, jnp.float32), jnp.asarray(biases, jnp.float32)))
    return layers


def _layers(weights: Any) -> tuple[Layer, ...]:
    return tuple((np.asarray(one), np.asarray(biases)) for one, biases in weights)


def _values(layers: Any, seen: Any) -> Any:
    for weights, biases in layers[:-1]:
        seen = jax.nn.relu(seen @ weights + biases)
    weights, biases = layers[-1]
    return seen @ weights + biases


def _update(optimizer: Any, discount: float, weights: Any, target: Any, moments: Any, batch: Batch) -> Any:
    """One step towards reward plus what the older copy says of the next superstep."""
    seen, actions, rewards, after, ended = batch
    wanted = rewards + discount * (1.0 - ended) * _values(target, after).max(axis=1)

    def loss(weights: Any) -> Any:
        said = jnp.take_along_axis(_values(weights, seen), actions[:, None], axis=1)[:, 0]
        return optax.huber_loss(said, wanted).mean()

    changes, moments = optimizer.update(jax.grad(loss)(weights), moments, weights)
    return optax.apply_updates(weights, changes), moments
