"""When which training jobs are submitted: the published schedules, and random ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foresail.traces.training.models import Models
from foresail.traces.training.settings import TrainingSettings

DEFAULT_OVER_S = 300.0
SEVEN_S = (25, 43, 50, 65, 86, 142, 192)
SEVEN_MODELS = ("birnn", "drnn", "lstm", "lenet", "vae", "identity-rnn", "birnn")
TWENTY_FIVE_S = (
    *(75, 359, 2, 273, 23, 300, 134, 447, 281, 432, 36, 23, 248),
    *(28, 279, 31, 314, 324, 427, 354, 435, 118, 296, 264, 224),
)
TWENTY_FIVE_MODELS = (
    *("drnn", "lenet", "drnn", "birnn", "drnn", "rnn", "drnn", "rnn", "rnn", "lenet", "drnn", "vae", "vae"),
    *("lenet", "birnn", "vae", "birnn", "drnn", "birnn", "rnn", "vae", "drnn", "vae", "drnn", "drnn"),
)


class ScheduledJob(NamedTuple):
    """One job of a schedule, in the order in which the schedule lists it."""

    model: str
    at_s: float


def submissions(settings: TrainingSettings, models: Models, random: np.random.Generator) -> list[ScheduledJob]:
    """The jobs of a schedule. Models that a schedule does not name are drawn, each as likely as the others."""
    drawn = [model.name for model in models.all]
    if settings.schedule == "7":
        return _pairs(SEVEN_MODELS, SEVEN_S)
    if settings.schedule == "25":
        return _pairs(TWENTY_FIVE_MODELS, TWENTY_FIVE_S)
    if settings.schedule == "20":
        return _pairs(_draw(drawn, 20, random), range(30, 30 * 21, 30))
    count = settings.jobs or int(settings.schedule)
    over_s = DEFAULT_OVER_S if settings.over_s is None else settings.over_s
    chosen = _draw(drawn, count, random)
    # Whole seconds, as the published generator draws them.
    return _pairs(chosen, random.integers(0, int(over_s), size=count, endpoint=True).tolist())


def _pairs(models: Sequence[str], times_s: Sequence[int]) -> list[ScheduledJob]:
    return [ScheduledJob(model, float(at_s)) for model, at_s in zip(models, times_s, strict=True)]


def _draw(names: list[str], count: int, random: np.random.Generator) -> list[str]:
    return [names[at] for at in random.integers(len(names), size=count).tolist()]
