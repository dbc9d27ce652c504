"""The published learned strategy: before each superstep a network keeps the split, or changes it for some window."""

from __future__ import annotations

import numpy as np

from foresail.controllers.supersteps.learned.model import PlannerModel
from foresail.controllers.supersteps.learned.network import answer
from foresail.controllers.supersteps.learned.observation import expected_s, seen, window_splits
from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook, Units
from foresail.forecast.runtime.curves import RuntimeCurves


class LearnedWindows:
    """Of keeping the split and of the published splits for 1, 2, … supersteps, what a network values most."""

    scenarios = 0

    def __init__(self, curves: RuntimeCurves, grid: ShareGrid, model: PlannerModel) -> None:
        self._actions, self._window = model.shape
        self.horizon = max(self._window, self._actions - 1)
        self._curves, self._grid, self._layers = curves, grid, model.layers

    def plan(self, outlook: SplitOutlook) -> Units | None:
        splits = window_splits(self._curves, self._grid.units, outlook.workloads, self._actions - 1)
        # A job begins with the split for the longest window, as in training; a better one costs nothing then.
        current = splits[-1] if outlook.current is None else outlook.current
        workloads = np.ascontiguousarray(outlook.workloads[:, : self._window])
        seconds = expected_s(self._curves, workloads, np.concatenate([current[None], splits]))
        action = int(np.argmax(answer(self._layers, seen(seconds))))
        if action:
            chosen: Units = splits[action - 1]
            return chosen
        return current if outlook.current is None else None
