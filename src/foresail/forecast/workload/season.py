"""Which period a series has, and which series are alike: found in the rows to learn from, by autocorrelation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.calendar import DAY_S

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SHORTEST = 4
_LEAST = 0.2
"""Autocorrelation below this is no season."""
_NEARLY = 0.85
"""A day is taken for the period where it is this close to the best lag: a flat peak says little of its own middle."""


def usual_step_s(times_s: Ints) -> int:
    """Seconds between two rows: what most rows keep to."""
    found, counts = np.unique(np.diff(times_s), return_counts=True)
    return int(found[counts.argmax()])


def autocorrelation(values: Floats, longest: int) -> Floats:
    """Of lags 0 to `longest`; zeros where nothing ever changes."""
    centred = values - values.mean()
    power = float(centred @ centred)
    if power <= 0:
        return np.zeros(longest + 1)
    return np.array([centred[lag:] @ centred[: len(centred) - lag] for lag in range(longest + 1)]) / power


def find_period(values: Floats, step_s: int) -> int:
    """The rows after which a series repeats; 1 if it does not.

    The highest peak of the autocorrelation among lags of which there are three, or a day if it is nearly as high.
    """
    longest = len(values) // 3
    if longest <= _SHORTEST:
        return 1
    found = autocorrelation(values, longest)
    inner = np.arange(_SHORTEST, longest)
    peaks = inner[(found[inner] >= found[inner - 1]) & (found[inner] > found[inner + 1]) & (found[inner] > _LEAST)]
    if not len(peaks):
        return 1
    best = int(peaks[found[peaks].argmax()])
    day = DAY_S // step_s
    is_day = _SHORTEST <= day <= longest and day * step_s == DAY_S and found[day] >= _NEARLY * found[best]
    return day if is_day else best
