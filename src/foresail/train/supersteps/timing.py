"""Our recipe: when to change the split that planning over scenarios proposes, by the cross-entropy method.

Networks are drawn around a mean; the next mean is that of those under which jobs took least, and so on. Every network
runs through the same jobs with the same scenarios. The first mean says 0 of everything, which is planning over
scenarios as it is: what validates best, that one among them, is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np

from foresail.controllers.supersteps.learned.model import PlannerModel
from foresail.controllers.supersteps.learned.network import Layer
from foresail.controllers.supersteps.learned.observation import FIGURES, slowest_s
from foresail.controllers.supersteps.learned.timing import WINDOW, PlacedPaths, Places, slowest_of_paths, weigh
from foresail.controllers.supersteps.planner import Floats, SplitOutlook, Units
from foresail.controllers.supersteps.scenario import Scenario
from foresail.errors import OptionError
from foresail.train.supersteps.checkpoint import read_checkpoint, write_checkpoint
from foresail.train.supersteps.data import ForecastRows

OnStep = Callable[[int, int], None]
OnEvaluated = Callable[[int, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSettings:
    """What decides a run, beside the rows."""

    generations: int = 30
    population: int = 32
    """Networks in a generation."""
    best_part: float = 0.25
    """So many of them make the next mean."""
    hidden: int = 8
    spread: float = 0.3
    """How far networks of the first generation are drawn from the mean; later ones as far as the best were."""
    least_spread: float = 0.03
    jobs: int = 8
    """Orders of the series over the tasks."""
    validation_jobs: int = 8
    patience: int = 10
    """Training ends after so many generations without a better one on validation jobs."""
    penalty_s: float = 15.0
    scenarios: int = 64
    seed: int = 1

    def __post_init__(self) -> None:
        for option, value, least in (
            ("--generations", self.generations, 1),
            ("--population", self.population, 4),
            ("--jobs", self.jobs, 1),
            ("--patience", self.patience, 1),
            ("--scenarios", self.scenarios, 2),
            ("--seed", self.seed, 0),
        ):
            if value < least:
                raise OptionError(f"{option} is {value}; it is {least} or more")
        if self.scenarios % 2:
            raise OptionError(f"--scenarios is {self.scenarios}; it is even, since half of them are mirror images")
        if not 0 <= self.penalty_s < 1e9:
            raise OptionError(f"--penalty is {self.penalty_s:g}; it is a number of seconds, 0 or more")


@dataclass(frozen=True, eq=False, slots=True)
class _WeighedJob:
    """A job with all that planning over scenarios says of its rows, whatever the split is."""

    workloads: Floats
    """Rows × tasks × 1."""
    piece: Places
    """Rows × scenarios × tasks × supersteps, as the next one; see `PlacedPaths`."""
    x: Floats
    cheapest_s: Floats
    splits: Units
    new_s: Floats
    """Rows × scenarios × supersteps: seconds with the split that is proposed."""


class TimingTraining:
    """One run: `run()` goes on to the end, or from where a checkpoint was left."""

    def __init__(
        self,
        rows: ForecastRows,
        settings: TimingSettings,
        checkpoint: Path | None = None,
        on_prepared: OnStep | None = None,
    ) -> None:
        if rows.scenarios is None or rows.scenarios.shape[1] * 2 != settings.scenarios:
            raise ValueError(f"rows with {settings.scenarios // 2} scenarios are needed")
        self.settings, self._checkpoint, self._rows = settings, checkpoint, rows
        train = rows.orders(settings.jobs, settings.seed)
        # In the same orders for all seeds: their totals can be compared.
        judged = rows.orders(settings.validation_jobs, 0)
        asked = [(order, False) for order in train] + [(order, True) for order in judged]
        made = []
        for order, validates in asked:
            made.append(self._weighed(order, validates=validates))
            if on_prepared is not None:
                on_prepared(len(made), len(asked))
        self._jobs, self._validation = made[: len(train)], made[len(train) :]
        self._rng = np.random.default_rng(settings.seed)
        figures, hidden = len(FIGURES), settings.hidden
        self._mean: Floats = np.zeros(figures * hidden + hidden + hidden + 1)
        self._mean[: figures * hidden] = self._rng.normal(0, 1 / np.sqrt(figures), figures * hidden)
        self._spreads: Floats = np.full(len(self._mean), settings.spread)
        self._best, self._generation, self._since_best = self._mean, 0, 0
        self.history: list[tuple[int, float]] = []

    def run(self, on_step: OnStep | None = None, on_evaluated: OnEvaluated | None = None) -> PlannerModel:
        """Train to the end; the model has the weights that did best on validation jobs."""
        settings = self.settings
        self._resume()
        if not self.history:
            self._evaluate(on_evaluated)
        while self._generation < settings.generations and self._since_best < settings.patience:
            self._next_mean()
            self._generation += 1
            self._evaluate(on_evaluated)
            self._keep()
            if on_step is not None:
                on_step(self._generation, settings.generations)
        best = min(self.history, key=lambda one: one[1])
        results = {
            "steps": self._generation,
            "best_step": best[0],
            "validation_s": best[1],
            "scenario_validation_s": self.history[0][1],
            "validation": [[step, round(total_s, 3)] for step, total_s in self.history],
        }
        told = {"settings": asdict(settings), "rows_sha256": self._rows.digest, "results": results}
        return PlannerModel("learned", (len(FIGURES), WINDOW), self.layers(self._best), told)

    def validate(self, weights: Floats) -> float:
        """Seconds that a validation job takes on average under a network."""
        return float(np.mean([self._total_s(job, weights) for job in self._validation]))

    def layers(self, weights: Floats) -> tuple[Layer, ...]:
        """A network as planners have it."""
        figures, hidden = len(FIGURES), self.settings.hidden
        first, rest = weights[: figures * hidden].reshape(figures, hidden), weights[figures * hidden :]
        made = ((first, rest[:hidden]), (rest[hidden : 2 * hidden, None], rest[2 * hidden :]))
        return tuple((one.astype(np.float32), biases.astype(np.float32)) for one, biases in made)

    def _weighed(self, order: list[int], *, validates: bool) -> _WeighedJob:
        rows, drawn = self._rows, self._rows.scenarios
        job = rows.job(order, validates=validates)
        planner = Scenario(
            rows.curves,
            rows.grid,
            window=WINDOW,
            penalty_s=self.settings.penalty_s,
            scenarios=self.settings.scenarios,
        )
        first = rows.split if validates else 0
        piece, x, cheapest_s, splits, new_s = [], [], [], [], []
        for row, ahead in enumerate(job.forecasts):
            may_come = None if drawn is None else drawn[first + row][:, order]
            spans = planner.spans(SplitOutlook(0, WINDOW, None, ahead, may_come))
            paths = PlacedPaths(rows.curves, spans.paths)
            piece.append(paths.piece)
            x.append(paths.x)
            cheapest_s.append(spans.cheapest_s)
            splits.append(spans.split)
            new_s.append(paths.seconds(spans.split))
        workloads = np.ascontiguousarray(job.workloads[:, :, None])
        return _WeighedJob(
            workloads, np.stack(piece), np.stack(x), np.stack(cheapest_s), np.stack(splits), np.stack(new_s)
        )

    def _total_s(self, job: _WeighedJob, weights: Floats) -> float:
        curves = self._rows.curves
        (first, first_biases), (last, last_bias) = self.layers(weights)
        total_s: float = _job_s(
            *(curves.breaks, curves.pieces, job.workloads, job.piece, job.x, job.cheapest_s, job.splits, job.new_s),
            *(self.settings.penalty_s, first, first_biases, last[:, 0], last_bias[0]),
        )
        return total_s

    def _next_mean(self) -> None:
        settings = self.settings
        half = self._rng.normal(size=(settings.population // 2, len(self._mean)))
        # Each with its mirror image: the mean of all is the mean they are drawn around.
        drawn = self._mean + self._spreads * np.concatenate([half, -half])
        totals_s = [sum(self._total_s(job, one) for job in self._jobs) for one in drawn]
        best = drawn[np.argsort(totals_s, kind="stable")[: max(2, int(len(drawn) * settings.best_part))]]
        self._mean = best.mean(axis=0)
        self._spreads = np.maximum(best.std(axis=0), settings.least_spread)

    def _evaluate(self, on_evaluated: OnEvaluated | None) -> None:
        total_s = self.validate(self._mean)
        if self.history and total_s >= min(before for _, before in self.history):
            self._since_best += 1
        else:
            self._best, self._since_best = self._mean, 0
        self.history.append((self._generation, total_s))
        if on_evaluated is not None:
            on_evaluated(*self.history[-1])

    def _identity(self) -> dict[str, Any]:
        return asdict(self.settings) | {"rows_sha256": self._rows.digest}

    def _keep(self) -> None:
        if self._checkpoint is None:
            return
        state = {
            "generation": self._generation,
            "since_best": self._since_best,
            "rng": self._rng.bit_generator.state,
            "history": self.history,
        }
        arrays = {"mean": self._mean, "spreads": self._spreads, "best": self._best}
        write_checkpoint(self._checkpoint, self._identity(), state, arrays)

    def _resume(self) -> None:
        found = None if self._checkpoint is None else read_checkpoint(self._checkpoint, self._identity())
        if found is None:
            return
        state, arrays = found
        self._generation, self._since_best = state["generation"], state["since_best"]
        self._rng.bit_generator.state = state["rng"]
        self.history = [(step, total_s) for step, total_s in state["history"]]
        self._mean, self._spreads, self._best = arrays["mean"], arrays["spreads"], arrays["best"]


@numba.njit(cache=True)
def _job_s(  # type: ignore[no-untyped-def]
    breaks, pieces, workloads, piece, x, cheapest_s, splits, new_s, penalty_s, first, first_biases, last, last_bias
):
    """Seconds of a whole job, with the penalties of its changes."""
    figures, now = np.empty(first.shape[0]), np.empty(1)
    now_s = np.empty(new_s.shape[1:])
    current, changed_at, total = splits[0], 0, 0.0
    for row in range(len(splits)):
        if row > 0 and (splits[row] != current).any():
            slowest_of_paths(pieces, piece[row], x[row], current, now_s)
            weigh(now_s, new_s[row], cheapest_s[row], penalty_s, row - changed_at, figures)
            said = figures[0] + last_bias
            for unit in range(len(last)):
                value = first_biases[unit]
                for at in range(len(figures)):
                    value += figures[at] * first[at, unit]
                said += max(value, 0.0) * last[unit]
            if said > 0:
                current, changed_at = splits[row], row
                total += penalty_s
        slowest_s(breaks, pieces, workloads[row], current, now)
        total += now[0]
    return total
