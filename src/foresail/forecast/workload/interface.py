"""What a forecaster of workloads is: it is told each new value, and says what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class WorkloadForecaster(Protocol):
    """Looks at the values of the tasks' series so far and says what comes next. One object a job: rows are tasks."""

    def observe(self, values: Sequence[float]) -> None:
        """Take in one new value a task, in workload units."""

    def forecast(self, horizon: int) -> Floats:
        """The values expected next, tasks × horizon: the first column is the very next value."""

    def scenarios(self, horizon: int, count: int, rng: np.random.Generator) -> Floats:
        """Values that may come next, count × tasks × horizon: each one way in which all tasks may go on."""
