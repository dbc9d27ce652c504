"""How much work a training job has behind it once most of its loss has gone."""

from __future__ import annotations

import math

import numpy as np

from foresail.core.spec import Training, Workload
from foresail.sim.work.work import Floats

SHARE_OF_DROP = 0.9
"""Of the way from its first loss to its lowest, as far as the target is."""


def target_fraction(training: Training) -> float:
    """The part of its work after which a job's loss has first come down to the target; not a number without a loss."""
    loss = training.loss
    if not loss or min(loss) >= loss[0]:
        return math.nan
    target = loss[0] - SHARE_OF_DROP * (loss[0] - min(loss))
    at = next(place for place, value in enumerate(loss) if value <= target)
    before, there = loss[at - 1], loss[at]
    return (at - 1 + (before - target) / (before - there)) / (len(loss) - 1)


def target_fractions(workload: Workload) -> Floats:
    """The same for every pod; shape (pods,)."""
    by_training = np.array([*(target_fraction(training) for training in workload.trainings), math.nan])
    return by_training[workload.training_of]  # no training is -1, the last place
