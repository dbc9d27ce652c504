"""The split that knows nothing: equal parts, for the whole job."""

from __future__ import annotations

from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook, Units


class EvenSplit:
    """The same CPU for every task."""

    horizon = 1
    scenarios = 0

    def __init__(self, grid: ShareGrid) -> None:
        self._split = grid.even()

    def plan(self, outlook: SplitOutlook) -> Units | None:
        return self._split if outlook.current is None else None
