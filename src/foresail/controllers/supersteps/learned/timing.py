"""Planning over scenarios, with a network that has a say in when the split is changed.

The planner over scenarios says what keeping costs, what changing costs, and the split to change to. The network sees
these figures and a few more, and adds to what a change gains, or takes off it. One that always says 0 is the planner
over scenarios itself.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from foresail.controllers.supersteps.learned.model import PlannerModel
from foresail.controllers.supersteps.learned.network import answer
from foresail.controllers.supersteps.learned.observation import FIGURES
from foresail.controllers.supersteps.planner import Floats, ShareGrid, SplitOutlook, Units
from foresail.controllers.supersteps.scenario import Scenario
from foresail.forecast.runtime.curves import RuntimeCurves

WINDOW = 6
Places = npt.NDArray[np.uint8]
_FAR = 10.0
"""No figure counts for more than this."""


class LearnedTiming:
    """The planner over scenarios; a network corrects what a change seems to gain."""

    def __init__(
        self,
        curves: RuntimeCurves,
        grid: ShareGrid,
        model: PlannerModel,
        *,
        penalty_s: float = 15.0,
        scenarios: int = 64,
    ) -> None:
        self._scenario = Scenario(curves, grid, window=model.shape[1], penalty_s=penalty_s, scenarios=scenarios)
        self.horizon, self.scenarios = self._scenario.horizon, self._scenario.scenarios
        self._curves, self._layers = curves, model.layers
        self._changed_at = 0

    @property
    def penalty_s(self) -> float:
        """What a change of the split takes."""
        return self._scenario.penalty_s

    @penalty_s.setter
    def penalty_s(self, penalty_s: float) -> None:
        self._scenario.penalty_s = penalty_s

    def plan(self, outlook: SplitOutlook) -> Units | None:
        spans = self._scenario.spans(outlook)
        if outlook.current is not None:
            if np.array_equal(spans.split, outlook.current):
                return None
            figures = np.empty(len(FIGURES))
            paths = PlacedPaths(self._curves, spans.paths)
            weigh(
                paths.seconds(outlook.current),
                paths.seconds(spans.split),
                *(spans.cheapest_s, self.penalty_s, outlook.step - self._changed_at, figures),
            )
            if figures[0] + answer(self._layers, figures.astype(np.float32))[0] <= 0:
                return None
        self._changed_at = outlook.step
        return spans.split


class PlacedPaths:
    """Scenarios with the place of each workload on the curves: found once, whatever splits are looked up for them."""

    def __init__(self, curves: RuntimeCurves, paths: Floats) -> None:
        self._pieces = curves.pieces
        within = np.clip(paths, curves.breaks[0], curves.breaks[-1])
        found = np.searchsorted(curves.breaks, within, side="right") - 1
        self.piece: Places = np.clip(found, 0, curves.pieces.shape[2] - 1).astype(np.uint8)
        """Scenarios × tasks × supersteps."""
        self.x: Floats = within - curves.breaks[self.piece]

    def seconds(self, split: Units) -> Floats:
        """Seconds of every superstep of every scenario with a split: scenarios × supersteps."""
        found = np.empty((len(self.x), self.x.shape[2]))
        slowest_of_paths(self._pieces, self.piece, self.x, split, found)
        return found


@numba.njit(cache=True)
def slowest_of_paths(pieces, piece, x, split, found):  # type: ignore[no-untyped-def]
    """As `PlacedPaths.seconds`, written to `found`."""
    for task in range(len(split)):
        a = pieces[task, split[task]]
        for path in range(len(found)):
            for step in range(found.shape[1]):
                at, by = piece[path, task, step], x[path, task, step]
                seconds = a[at, 0] + by * (a[at, 1] + by * (a[at, 2] + by * a[at, 3]))
                if task == 0 or seconds > found[path, step]:
                    found[path, step] = seconds


@numba.njit(cache=True)
def weigh(now_s, new_s, cheapest_s, penalty_s, since, figures):  # type: ignore[no-untyped-def]
    """Write the figures that a network sees; `now_s` is with the split as it is, `new_s` with the one proposed."""
    paths, ahead = now_s.shape
    unit = max(penalty_s, 1.0)
    kept, kept_for, total = np.inf, 1, 0.0
    first, gained, squares = 0.0, 0.0, 0.0
    for step in range(ahead):
        for path in range(paths):
            total += now_s[path, step] / paths
        after = cheapest_s[step + 1] + penalty_s if step + 1 < ahead else 0.0
        if total + after < kept:
            kept, kept_for = total + after, step + 1
    for path in range(paths):
        gain = 0.0
        for step in range(ahead):
            gain += now_s[path, step] - new_s[path, step]
        first += (now_s[path, 0] - new_s[path, 0]) / paths
        gained += gain / paths
        squares += gain * gain / paths
    figures[0] = (kept - cheapest_s[0] - penalty_s) / unit
    figures[1] = first / unit
    figures[2] = gained / unit
    figures[3] = np.sqrt(max(squares - gained * gained, 0.0)) / unit
    figures[4] = np.log1p(since)
    figures[5] = kept_for / ahead
    for at in range(len(figures)):
        figures[at] = min(max(figures[at], -_FAR), _FAR)
