"""What training jobs report of their progress, as far as their work has got them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from foresail.core.control import ACCURACY, LOSS, STEPS_DONE, STEPS_TOTAL
from foresail.core.spec import Training, Workload
from foresail.sim.work.work import Work


class Reports:
    """The last row that each running job has written."""

    def __init__(self, workload: Workload, work: Work, error: Sequence[float] = ()) -> None:
        """`error` misleads whoever forecasts from reports, one number a pod: work left, taken from CPU used and steps
        done, comes out e^error times as large as it is. Without it reports are true.
        """
        self._work = work
        self._trainings = workload.trainings
        self._training_of: list[int] = workload.training_of.tolist()
        self._factor = [math.exp(one) for one in error] or [1.0] * len(workload)

    def reading(self, index: int, name: str) -> float | None:
        """None for a pod that reports nothing, or has not yet."""
        at = self._training_of[index]
        if at < 0:
            return None
        training = self._trainings[at]
        step = self._step(index, training)
        if step == 0:
            return None
        if name == STEPS_DONE:
            return float(step)
        if name == STEPS_TOTAL:
            return float(training.steps)
        curve = {LOSS: training.loss, ACCURACY: training.accuracy}.get(name)
        return _at(curve, step / training.steps) if curve else None

    def _step(self, index: int, training: Training) -> int:
        done, left = self._work.done_cpu_s(index), self._work.left_cpu_s(index)
        if not done > 0 or left == math.inf:
            return 0
        fraction = done / (done + left * self._factor[index])
        # A step that is finished to within rounding is finished.
        return math.floor(fraction * training.steps / training.report_every + 1e-9) * training.report_every


def _at(curve: tuple[float, ...], fraction: float) -> float:
    return float(np.interp(fraction * (len(curve) - 1), range(len(curve)), curve))
