"""Ridge regression on lags and calendar: one set of weights for each group of series and each row ahead."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.features import CONSTANT, COUNT, LEVEL, fill_all
from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]

PENALTY = 0.03
"""Of squared weights on features of unit variance, a row."""


class Ridge:
    """ẑ(t+h) = level(t) + w_h · features(t, h), pooled over the series of a group."""

    def __init__(self, weights: Floats, groups: Floats) -> None:
        """`weights` are groups × horizon × features; `groups` says the group of each series."""
        self.weights, self.groups = weights, groups

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:  # noqa: ARG003 - nothing is drawn
        weights = np.stack([solve(*rows_of_group(data, group, horizon)) for group in range(data.groups)])
        return cls(weights, np.array([kind.group for kind in data.kinds]))

    def arrays(self) -> Arrays:
        return {"weights": self.weights, "groups": self.groups}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        return cls(arrays["weights"], arrays["groups"])

    def start(self, track: Track) -> _RidgeOnline:
        return _RidgeOnline(track, self.weights[int(self.groups[track.number])])


class _RidgeOnline:
    def __init__(self, track: Track, weights: Floats) -> None:
        self._track, self._weights = track, weights

    def observe(self) -> None:
        pass

    def forecast(self) -> Floats:
        features = self._track.features()
        return apply(features, self._weights)


def apply(features: Floats, weights: Floats) -> Floats:
    """Forecasts of … × horizon × features, as z."""
    forecast: Floats = np.einsum("...hf,hf->...h", features, weights) + features[..., LEVEL]
    return forecast


def rows_of_group(data: Prepared, group: int, horizon: int) -> tuple[Floats, Floats]:
    """Features (origins × horizon × COUNT) and targets (origins × horizon) of all series of a group."""
    features, targets = [], []
    for number in data.of_group(group):
        z, kind = data.z[number], data.kinds[number]
        # The first season has nothing to be compared with; a short series starts at its half at the latest.
        first = min(kind.period, len(z) // 2)
        count = max(len(z) - horizon - first, 0)
        x, y = np.zeros((count, horizon, COUNT)), np.zeros((count, horizon))
        fill_all(z, data.times_s[number], kind.step_s, kind.period, data.days, first, x, y)
        features.append(x)
        targets.append(y)
    return np.concatenate(features), np.concatenate(targets)


def solve(features: Floats, targets: Floats, penalty_a_row: float = PENALTY) -> Floats:
    """Weights of least squares with a penalty, horizon × features."""
    count, horizon, width = features.shape
    weights = np.zeros((horizon, width))
    if not count:
        return weights
    for ahead in range(horizon):
        x = features[:, ahead]
        scale = x.std(axis=0)
        # What never varied in the rows to learn from says nothing, whatever it is later.
        varies = scale > 1e-9
        varies[CONSTANT] = True
        scale = np.where(varies, scale, 1.0)
        scale[CONSTANT] = 1.0
        scaled = np.where(varies, x / scale, 0.0)
        penalty = np.where(varies, penalty_a_row * count, 1.0)
        penalty[CONSTANT] = 0.0
        gram = scaled.T @ scaled + np.diag(penalty)
        weights[ahead] = np.linalg.solve(gram, scaled.T @ (targets[:, ahead] - x[:, LEVEL])) / scale
    return weights
