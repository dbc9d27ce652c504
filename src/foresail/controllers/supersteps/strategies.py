"""The strategies by name: one place that makes a planner of settings, for simulations and for clusters."""

from __future__ import annotations

from foresail.controllers.supersteps.even import EvenSplit
from foresail.controllers.supersteps.planner import ShareGrid, SplitPlanner
from foresail.controllers.supersteps.published import DynamicMpc, DynamicWindow, Exppo, Static
from foresail.controllers.supersteps.scenario import Scenario
from foresail.errors import OptionError, did_you_mean
from foresail.forecast.runtime.curves import RuntimeCurves

PLANNERS = ("even", "exppo", "static", "dynamic-mpc", "dynamic-window", "scenario")


def planner_of(
    strategy: str,
    curves: RuntimeCurves,
    grid: ShareGrid,
    *,
    window: int,
    penalty_s: float,
    punishment: float = 1.02,
    scenarios: int = 64,
) -> SplitPlanner:
    """A fresh planner of a strategy."""
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
