"""Series that are made up by seed, for those who have none: days, weekends, slow drift, shifts of level, noise."""

from __future__ import annotations

import datetime as dt

import numpy as np
import numpy.typing as npt

from foresail.traces.series import Series

Floats = npt.NDArray[np.float64]

_DAY_S = 86_400
_BEGIN = dt.datetime(2024, 3, 4, tzinfo=dt.UTC)
"""A Monday."""


def generate_series(count: int, rows: int, *, step_s: int = 1800, seed: int = 1) -> list[Series]:
    """Series `load_1`, `load_2`, … of the same times; a part of their noise is common to all.

    Each is a level of 100 with a day of two waves whose size and time are its own, less of it on weekends, a drift that
    forgets half of itself in a day, now and then a shift of level that stays for half a day or more, and noise.
    """
    random = np.random.default_rng(seed)
    times_s = int(_BEGIN.timestamp()) + step_s * np.arange(rows, dtype=np.int64)
    day = 2.0 * np.pi * (times_s % _DAY_S) / _DAY_S
    weekend = (times_s // _DAY_S + 3) % 7 >= 5
    forget = 0.5 ** (step_s / _DAY_S)
    common = _drift(random.normal(size=rows), forget)
    made = []
    for number in range(count):
        size, second, late = random.uniform(15, 30), random.uniform(0.2, 0.5), random.uniform(0, 2 * np.pi)
        waves = size * (np.sin(day - late) + second * np.sin(2 * (day - late)))
        drift = 6.0 * (0.6 * common + 0.8 * _drift(random.normal(size=rows), forget))
        shifts = _shifts(rows, _DAY_S // step_s, random)
        noise = random.normal(scale=1.5, size=rows)
        values = 100.0 + waves * np.where(weekend, 0.5, 1.0) + drift + shifts + noise
        made.append(Series(f"load_{number + 1}", times_s.copy(), values.round(4)))
    return made


def _drift(noise: Floats, forget: float) -> Floats:
    """Noise summed up with what is left of the sum before, of unit variance."""
    drift = np.zeros(len(noise))
    kept = (1.0 - forget**2) ** 0.5
    for row in range(1, len(noise)):
        drift[row] = forget * drift[row - 1] + kept * noise[row]
    return drift


def _shifts(rows: int, day: int, random: np.random.Generator) -> Floats:
    """Levels that hold for a while, about one in five days."""
    shifts = np.zeros(rows)
    for begin in np.nonzero(random.random(rows) < 0.2 / day)[0].tolist():
        shifts[begin : begin + int(random.integers(day // 2, 2 * day, endpoint=True))] += random.normal(scale=8.0)
    return shifts
