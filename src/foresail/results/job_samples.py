"""Looks at running training jobs now and then, in any world, and writes down how they get on."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import numpy as np

from foresail.core.control import (
    ACCURACY,
    CPU_USED_MILLI,
    LOSS,
    STEPS_DONE,
    STEPS_TOTAL,
    RunningPod,
    Telemetry,
    View,
)
from foresail.results.tables import Columns

_READINGS = {
    "cpu_used_milli": CPU_USED_MILLI,
    "step": STEPS_DONE,
    "total_steps": STEPS_TOTAL,
    "loss": LOSS,
    "accuracy": ACCURACY,
}


class JobSamples:
    """Rows of the table `jobs`: what each running pod had, used and reported when it was looked at."""

    def __init__(
        self, every_s: float, start_s: float = 0.0, name_of: Callable[[RunningPod], str] | None = None
    ) -> None:
        """A look is taken every `every_s`, the first at `start_s`; one that comes late is not made up for. `name_of`
        says what a job goes by, where that is not its pod's name.
        """
        self._name_of = name_of or (lambda one: one.pod.name)
        self._every_s = every_s
        self.next_s = start_s
        """When the next look is due."""
        self._seen: list[tuple[float, str, RunningPod]] = []
        self._readings: dict[str, list[float]] = {column: [] for column in _READINGS}

    def take(self, view: View) -> None:
        """Look at every running pod, if the time for it has come."""
        if view.now_s < self.next_s:
            return
        self.next_s = view.now_s + self._every_s
        for uid, one in view.running.items():
            self._seen.append((view.now_s, self._name_of(one), one))
            self._note(uid, view.telemetry)

    def _note(self, uid: Hashable, telemetry: Telemetry) -> None:
        for column, name in _READINGS.items():
            value = telemetry.reading(uid, name)
            self._readings[column].append(math.nan if value is None else value)

    def columns(self) -> Columns:
        return {
            "time_s": np.array([time_s for time_s, _, _ in self._seen]),
            "job": [name for _, name, _ in self._seen],
            "node": [one.node for *_, one in self._seen],
            "cpu_milli": np.array([one.cpu_milli for *_, one in self._seen], dtype=np.int64),
            "cpu_limit_milli": np.array([one.cpu_limit_milli for *_, one in self._seen], dtype=np.int64),
            **{column: np.array(values) for column, values in self._readings.items()},
        }
