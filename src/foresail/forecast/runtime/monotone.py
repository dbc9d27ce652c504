"""A runtime model that never says that more CPU or less work takes longer, and is safe beyond what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foresail.forecast.runtime.curves import RuntimeCurves, RuntimeModel
from foresail.forecast.runtime.profile import LEAST, RuntimeProfile

Floats = npt.NDArray[np.float64]

_ROUNDS = 200
_CLOSE_S = 1e-9


class MonotoneRuntime:
    """The nearest monotone grid to what was measured, straight in the workload and in 1/CPU between its points.

    Measured seconds are noisy; the nearest grid by squares on which they rise with work and fall with CPU takes their
    place. Work divided by CPU is straight in both, so a task that only computes is told exactly. Beyond the largest
    workload seconds go on as they rise last, below the least one as they rise first, but not below 0. With more CPU
    than measured nothing is gained, since nobody has seen it; with less, seconds grow as CPU shrinks.
    """

    def __init__(self, profile: RuntimeProfile) -> None:
        self.tasks = profile.tasks
        self._shares_milli = profile.shares_milli
        self._workloads = np.concatenate([[0.0], profile.workloads])
        measured = np.stack([monotone_grid(seconds) for seconds in profile.seconds])
        slopes = np.diff(measured, axis=1) / np.diff(profile.workloads)[:, None]
        # No line may cross one of less CPU where both go on, so none is steeper, or ends lower, than one of more CPU.
        without_work = _falling(np.maximum(measured[:, 0] - slopes[:, 0] * profile.workloads[0], 0.0))
        self._seconds = np.concatenate([without_work[:, None], measured], axis=1)
        self._last_slopes = _falling(slopes[:, -1])

    def curves(self, shares_milli: Floats) -> RuntimeCurves:
        wanted = np.asarray(shares_milli, dtype=np.float64)
        shares, x = self._shares_milli, self._workloads
        inside = 1.0 / np.clip(wanted, shares[0], shares[-1])
        piece = np.clip(np.searchsorted(-1.0 / shares, -inside, side="right") - 1, 0, len(shares) - 2)
        part = (1.0 / shares[piece] - inside) / (1.0 / shares[piece] - 1.0 / shares[piece + 1])

        def at(grid: Floats) -> Floats:
            between = grid[..., piece] * (1 - part) + grid[..., piece + 1] * part
            grown: Floats = between * np.maximum(shares[0] / wanted, 1.0)
            return grown

        values = np.swapaxes(at(self._seconds), 1, 2)  # tasks × shares × workloads
        pieces = np.zeros((*values.shape, 4))
        pieces[..., 0] = values
        pieces[..., :-1, 1] = np.diff(values) / np.diff(x)
        pieces[..., -1, 1] = at(self._last_slopes)
        return RuntimeCurves(np.concatenate([x, [np.inf]]), pieces)


def _falling(values: Floats) -> Floats:
    """The least values that are no less than these and fall along the last axis."""
    return np.maximum.accumulate(values[..., ::-1], axis=-1)[..., ::-1]


def monotone_grid(seconds: Floats) -> Floats:
    """The nearest values that rise along the first axis and fall along the second (Dykstra's projections)."""
    found = seconds.copy()
    owed_rising, owed_falling = np.zeros_like(found), np.zeros_like(found)
    for _ in range(_ROUNDS):
        before = found
        rising = np.apply_along_axis(rising_fit, 0, found + owed_rising)
        owed_rising += found - rising
        falling = -np.apply_along_axis(rising_fit, 1, -(rising + owed_falling))
        owed_falling += rising - falling
        found = falling
        if np.abs(found - before).max() < _CLOSE_S:
            break
    # What is left of the last round's rounding goes: the answer is monotone to the last bit.
    found = np.maximum.accumulate(found, axis=0)
    return np.minimum.accumulate(found, axis=1)


def rising_fit(values: Floats) -> Floats:
    """The nearest values by squares that do not fall: neighbours in the wrong order share their mean."""
    means: list[float] = []
    counts: list[int] = []
    for value in values:
        means.append(float(value))
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            count = counts[-2] + counts[-1]
            means[-2:] = [(means[-2] * counts[-2] + means[-1] * counts[-1]) / count]
            counts[-2:] = [count]
    return np.repeat(means, counts)


@dataclass(frozen=True, slots=True)
class HeldOutError:
    """How far a model is off at points that it was not shown, as a part of what was measured."""

    task: str
    mean: float
    p95: float
    largest: float


def held_out_errors(profile: RuntimeProfile, make: Callable[[RuntimeProfile], RuntimeModel]) -> list[HeldOutError]:
    """Leave out one workload, or one amount of CPU, after the other and tell it from the rest; per task.

    The first and the last of each are not left out: between measured points is where a model is used.
    """
    parts: list[list[float]] = [[] for _ in profile.tasks]
    if len(profile.workloads) <= LEAST or len(profile.shares_milli) <= LEAST:
        raise ValueError(f"a profile with {LEAST} workloads or amounts of CPU has none to leave out")
    for axis, count in ((1, len(profile.workloads)), (2, len(profile.shares_milli))):
        for out in range(1, count - 1):
            rest = profile.without(workload=out) if axis == 1 else profile.without(share=out)
            shares = profile.shares_milli if axis == 1 else profile.shares_milli[out : out + 1]
            curves = make(rest).curves(shares)
            rows = profile.workloads[out : out + 1] if axis == 1 else profile.workloads
            told = curves.seconds(np.repeat(rows[:, None], len(profile.tasks), axis=1))  # workloads × tasks × shares
            measured = np.swapaxes(np.take(profile.seconds, [out], axis=axis), 0, 1)
            for task, off in enumerate(np.swapaxes(np.abs(told - measured) / measured, 0, 1)):
                parts[task] += off.ravel().tolist()
    return [
        HeldOutError(task, float(np.mean(off)), float(np.quantile(off, 0.95)), max(off))
        for task, off in zip(profile.tasks, parts, strict=True)
    ]
