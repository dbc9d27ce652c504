"""The strategies by name: one place that makes a planner of settings, for simulations and for clusters."""

from __future__ import annotations

from pathlib import Path

from foresail.controllers.supersteps.even import EvenSplit
from foresail.controllers.supersteps.learned.model import load_model
from foresail.controllers.supersteps.learned.windows import LearnedWindows
from foresail.controllers.supersteps.planner import ShareGrid, SplitPlanner
from foresail.controllers.supersteps.published import DynamicMpc, DynamicWindow, Exppo, Static
from foresail.controllers.supersteps.scenario import Scenario
from foresail.errors import OptionError, did_you_mean
from foresail.forecast.runtime.curves import RuntimeCurves

PLANNERS = ("even", "exppo", "static", "dynamic-mpc", "dynamic-window", "scenario", "dqn")


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
    if strategy == "dqn":
        return _learned(strategy, curves, grid, window=window, model=model)
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


def _learned(
    strategy: str, curves: RuntimeCurves, grid: ShareGrid, *, window: int | None, model: Path | None
) -> SplitPlanner:
    if model is None:
        raise OptionError(f"strategy {strategy} needs a trained model: --model FILE (foresail train makes one)")
    loaded = load_model(model, strategy)
    if window not in {None, loaded.shape[1]}:
        raise OptionError(f"--window is {window}; {model} was trained to look {loaded.shape[1]} supersteps ahead")
    return LearnedWindows(curves, grid, loaded)
