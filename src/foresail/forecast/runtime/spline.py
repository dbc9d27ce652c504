"""The interpolating bicubic spline: smooth, through every measured point, and not monotone between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from foresail.forecast.runtime.curves import RuntimeCurves
from foresail.forecast.runtime.profile import RuntimeProfile

Floats = npt.NDArray[np.float64]


class SplineRuntime:
    """Cubic splines along both axes of a profile, whose third derivative is also continuous at the second point from
    either end. A workload or an amount of CPU that lies outside counts as the nearest measured one.
    """

    def __init__(self, profile: RuntimeProfile) -> None:
        self.tasks = profile.tasks
        self._profile = profile
        self._along_workloads = _slopes(profile.workloads)
        self._along_shares = _slopes(profile.shares_milli)

    def curves(self, shares_milli: Floats) -> RuntimeCurves:
        """A spline of two variables is one along shares, taken at these, and then one along workloads."""
        profile = self._profile
        at = _weights(profile.shares_milli, self._along_shares, np.asarray(shares_milli, dtype=np.float64))
        values = np.swapaxes(profile.seconds @ at.T, 1, 2)  # tasks × shares × workloads
        slopes = values @ self._along_workloads.T
        return RuntimeCurves(profile.workloads, cubic_pieces(profile.workloads, values, slopes))


def cubic_pieces(x: Floats, values: Floats, slopes: Floats) -> Floats:
    """The cubics between neighbours that have these values and slopes; the last axis runs along x."""
    step = np.diff(x)
    rise = np.diff(values) / step
    first, second = slopes[..., :-1], slopes[..., 1:]
    return np.stack(
        [values[..., :-1], first, (3 * rise - 2 * first - second) / step, (first + second - 2 * rise) / step**2],
        axis=-1,
    )


def _slopes(x: Floats) -> Floats:
    """The matrix that makes of values at x the slopes of their spline."""
    count, step = len(x), np.diff(x)
    rise = np.zeros((count - 1, count))
    for at in range(count - 1):
        rise[at, at], rise[at, at + 1] = -1 / step[at], 1 / step[at]
    left, right = np.zeros((count, count)), np.zeros((count, count))
    for at in range(1, count - 1):
        before, after = step[at - 1], step[at]
        left[at, at - 1 : at + 2] = after, 2 * (before + after), before
        right[at] = 3 * (after * rise[at - 1] + before * rise[at])
    for end, near, far, one, other in ((0, step[0], step[1], 0, 1), (-1, step[-1], step[-2], -1, -2)):
        both = near + far
        left[end, end] = far
        left[end, 1 if end == 0 else -2] = both
        right[end] = ((near + 2 * both) * far * rise[one] + near**2 * rise[other]) / both
    return np.asarray(np.linalg.solve(left, right), dtype=np.float64)


def _weights(x: Floats, slopes: Floats, at: Floats) -> Floats:
    """What each value at x counts in the spline's value at each of `at`: at × x."""
    inside = np.clip(at, x[0], x[-1])
    piece = np.clip(np.searchsorted(x, inside, side="right") - 1, 0, len(x) - 2)
    step = np.diff(x)[piece]
    t = (inside - x[piece]) / step
    rows = np.arange(len(inside))
    weights = (t * (1 - t) ** 2 * step)[:, None] * slopes[piece] + (t**2 * (t - 1) * step)[:, None] * slopes[piece + 1]
    weights[rows, piece] += (1 + 2 * t) * (1 - t) ** 2
    weights[rows, piece + 1] += t**2 * (3 - 2 * t)
    return weights
