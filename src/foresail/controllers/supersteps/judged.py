"""Forecasts of a matrix, judged as the job goes on: what came is held against what was said, and the next is mended."""

from __future__ import annotations

import numpy as np

from foresail.controllers.supersteps.feeds import Floats, MatrixFeed

FEWEST = 16
"""With fewer forecasts judged they are passed on as they are."""
_DOUBT = 10.0
"""Forecasts count as good as they are until so many have spoken against it."""
_LAGS = 8
"""So many of the last changes of the workload are looked at."""
_UNIT = 10.0
"""Workloads are reckoned in tens, so that doubt weighs alike on all that errors are told from."""


class JudgedMatrixFeed(MatrixFeed):
    """Forecasts that were made before, with the errors that they have shown in the supersteps done.

    For planners that ask for scenarios alone; others are told what the matrix says. The error of each task at each
    distance is told, by least squares, from the forecast, the last error and how the workload went of late. What is
    left of errors so far, as whole paths of all tasks, may come again.
    """

    def __init__(self, matrices: Floats, rng: np.random.Generator) -> None:
        super().__init__(matrices)
        self._seen: list[Floats] = []
        self._rng = rng

    def observe(self, workloads: Floats) -> None:
        self._seen.append(np.array(workloads, dtype=np.float64))

    def look(self, step: int, horizon: int, scenarios: int) -> tuple[Floats, Floats | None]:
        said, _ = super().look(step, horizon, scenarios)
        # A forecast is judged when all that it speaks of has come; the first has no error before it to be told from.
        origins = np.arange(1, step - horizon + 1)
        if not scenarios or len(origins) < FEWEST:
            return said, None
        seen = np.array(self._seen[:step]).T
        came = seen[:, origins[:, None] + np.arange(horizon)]
        known = self._known(seen, origins, horizon)
        errors = came - self._matrices[:, origins, :horizon]
        told = _least_squares(known, errors)
        expected = said + (self._known(seen, np.array([step]), horizon)[:, 0] * told).sum(axis=2)
        left = errors - (known * told[:, None]).sum(axis=3)
        drawn = left[:, self._rng.integers(len(origins), size=scenarios)]
        return expected, expected + drawn.transpose(1, 0, 2)

    def _known(self, seen: Floats, origins: np.ndarray[tuple[int], np.dtype[np.int64]], horizon: int) -> Floats:
        """What errors are told from: tasks × origins × horizon × things."""
        said, last = self._matrices[:, origins, :horizon], seen[:, origins - 1, None]
        missed = last - self._matrices[:, origins - 1, :1]
        ago = seen[:, np.maximum(origins[:, None] - 1 - np.arange(_LAGS + 1), 0)]
        same = [missed, *np.moveaxis(ago[:, :, :-1] - ago[:, :, 1:], 2, 0)[..., None]]
        parts = [np.full_like(said, _UNIT), said - seen.mean(), said - last]
        return np.stack(parts + [np.broadcast_to(one, said.shape) for one in same], axis=3) / _UNIT


def _least_squares(known: Floats, errors: Floats) -> Floats:
    """For each task and distance how much of each thing known the error is: tasks × horizon × things."""
    by_distance = known.transpose(0, 2, 3, 1)
    squares = by_distance @ by_distance.transpose(0, 1, 3, 2) + _DOUBT * np.eye(known.shape[3])
    told = np.linalg.solve(squares, by_distance @ errors.transpose(0, 2, 1)[..., None])
    return told[..., 0].astype(np.float64, copy=False)
