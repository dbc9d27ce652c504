"""What a planner is told before each superstep: rows of a matrix, or what a forecaster says after the values so far."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.interface import WorkloadForecaster

Floats = npt.NDArray[np.float64]


class Feed(Protocol):
    """Forecasts, superstep by superstep."""

    def look(self, step: int, horizon: int, scenarios: int) -> tuple[Floats, Floats | None]:
        """What is expected from this superstep on, tasks × horizon, and what may come, scenarios × tasks × horizon."""

    def observe(self, workloads: Floats) -> None:
        """What a superstep had to do, told when it is done."""


class MatrixFeed:
    """Forecasts that were made before: tasks × rows × horizon."""

    def __init__(self, matrices: Floats) -> None:
        self._matrices = matrices

    def look(self, step: int, horizon: int, scenarios: int) -> tuple[Floats, Floats | None]:  # noqa: ARG002 - see Feed
        return self._matrices[:, step, :horizon], None

    def observe(self, workloads: Floats) -> None:
        """Nothing is learnt: all has been said."""


class ForecasterFeed:
    """A forecaster that has seen what came before the first superstep."""

    def __init__(self, forecaster: WorkloadForecaster, rng: np.random.Generator) -> None:
        self._forecaster, self._rng = forecaster, rng

    def look(self, step: int, horizon: int, scenarios: int) -> tuple[Floats, Floats | None]:  # noqa: ARG002 - see Feed
        expected = self._forecaster.forecast(horizon)
        return expected, self._forecaster.scenarios(horizon, scenarios, self._rng) if scenarios else None

    def observe(self, workloads: Floats) -> None:
        self._forecaster.observe(workloads.tolist())


class LastValueFeed:
    """Work stays as it was last; before the first superstep every task counts alike."""

    def __init__(self, tasks: int) -> None:
        self._last: Floats = np.ones(tasks)

    def look(self, step: int, horizon: int, scenarios: int) -> tuple[Floats, Floats | None]:  # noqa: ARG002 - see Feed
        return np.repeat(self._last[:, None], horizon, axis=1), None

    def observe(self, workloads: Floats) -> None:
        self._last = workloads
