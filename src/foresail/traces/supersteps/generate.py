"""A job that is made up by seed, for those who have no data: tasks, each with a series of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foresail.traces.generated_series import generate_series
from foresail.traces.series import Series
from foresail.traces.supersteps.matrices import JobData

TASKS = tuple(f"task-{number}" for number in range(1, 9))
ROWS, HORIZON = 1000, 20
_BEFORE = 1000
"""Values before the first superstep, to learn from."""


def generate_job(seed: int = 1, tasks: Sequence[str] = TASKS) -> tuple[JobData, list[Series]]:
    """What the tasks have to do, and the whole series that it is taken from."""
    series = generate_series(len(tasks), _BEFORE + ROWS + HORIZON - 1, seed=seed)
    at = _BEFORE + np.arange(ROWS)[:, None] + np.arange(HORIZON)
    actual = np.stack([one.values[at] for one in series])
    names = tuple(one.name for one in series)
    return JobData(tuple(tasks), names, actual, None), series
