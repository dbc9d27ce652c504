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
        self._known = [(-1.0, 0)] * len(workload)
        """Work done and the step that is reported of it, as of the last look at each job."""
        self._curves = [_Curves(training) for training in workload.trainings]

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
        return self._curves[at].at(name, step)

    def _step(self, index: int, training: Training) -> int:
        done = self._work.done_cpu_s(index)
        seen, step = self._known[index]
        if done != seen:
            step = _step_of(done, self._work.left_cpu_s(index) * self._factor[index], training)
            self._known[index] = (done, step)
        return step


def _step_of(done: float, left: float, training: Training) -> int:
    if not done > 0 or left == math.inf:
        return 0
    # A step that is finished to within rounding is finished.
    return math.floor(done / (done + left) * training.steps / training.report_every + 1e-9) * training.report_every


class _Curves:
    """What a training reports at its steps; each value is worked out once."""

    def __init__(self, training: Training) -> None:
        self._steps = training.steps
        self._curves = {LOSS: training.loss, ACCURACY: training.accuracy}
        self._known: dict[tuple[str, int], float | None] = {}

    def at(self, name: str, step: int) -> float | None:
        key = (name, step)
        if key not in self._known:
            curve = self._curves.get(name, ())
            place = step / self._steps * (len(curve) - 1)
            self._known[key] = float(np.interp(place, range(len(curve)), curve)) if curve else None
        return self._known[key]
