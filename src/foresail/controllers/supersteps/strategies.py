"""The strategies by name: one place that makes a planner of settings, for simulations and for clusters."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from foresail.controllers.supersteps.even import EvenSplit
from foresail.controllers.supersteps.learned.model import VERBS, PlannerModel, load_model
from foresail.controllers.supersteps.learned.timing import LearnedTiming
from foresail.controllers.supersteps.learned.windows import LearnedWindows
from foresail.controllers.supersteps.planner import ShareGrid, SplitPlanner
from foresail.controllers.supersteps.published import DynamicMpc, DynamicWindow, Exppo, Static
from foresail.controllers.supersteps.scenario import Scenario
from foresail.errors import OptionError, did_you_mean
from foresail.forecast.runtime.curves import RuntimeCurves

PLANNERS = ("even", "exppo", "static", "dynamic-mpc", "dynamic-window", "scenario", "dqn", "learned")


def planner_of(
    strategy: str,
    curves: RuntimeCurves,
    grid: ShareGrid,
    *,
    window: int | None,
    penalty_s: float,
    punishment: float = 1.02,
    scenarios: int = 64,
    model: Path | None = None,
) -> SplitPlanner:
    """A fresh planner of a strategy; `model` is the file of one that was trained, which has its own window."""
    if strategy in VERBS:
        trained = _model(strategy, model, window)
        timed = partial(LearnedTiming, penalty_s=penalty_s, scenarios=scenarios)
        return (LearnedWindows if strategy == "dqn" else timed)(curves, grid, trained)
    window = 1 if window is None else window
    if strategy == "even":
        return EvenSplit(grid)
    if strategy == "exppo":
        return Exppo(curves, grid)
    if strategy == "static":
        return Static(curves, grid, window=window)
    if strategy == "scenario":
        return Scenario(curves, grid, window=window, penalty_s=penalty_s, scenarios=scenarios)
    if strategy in {"dynamic-mpc", "dynamic-window"}:
        kind = DynamicMpc if strategy == "dynamic-mpc" else DynamicWindow
        return kind(curves, grid, window=window, penalty_s=penalty_s, punishment=punishment)
    hint = did_you_mean(strategy, PLANNERS) or ";"
    raise OptionError(f'no strategy "{strategy}"{hint} strategies are {", ".join(PLANNERS)}')


def _model(strategy: str, path: Path | None, window: int | None) -> PlannerModel:
    if path is None:
        raise OptionError(f"strategy {strategy} needs a trained model: --model FILE (foresail train makes one)")
    model = load_model(path, strategy)
    if window not in {None, model.shape[1]}:
        raise OptionError(f"--window is {window}; {path} was trained to look {model.shape[1]} supersteps ahead")
    return model
