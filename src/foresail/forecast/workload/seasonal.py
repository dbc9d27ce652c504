"""Seasonal naive: as at the same time of the last season, and as far from it as now, less with each row."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]

_DECAYS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)


class SeasonalNaive:
    """ẑ(t+h) = z(t+h−P) + d^h · (z(t) − z(t−P)), the decay d by least squares for each series."""

    def __init__(self, decays: Floats, horizon: int) -> None:
        self.decays, self.horizon = decays, horizon

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:  # noqa: ARG003 - nothing is drawn
        decays = [_best_decay(z, kind.period, horizon) for z, kind in zip(data.z, data.kinds, strict=True)]
        return cls(np.array(decays), horizon)

    def arrays(self) -> Arrays:
        return {"decays": self.decays, "horizon": np.array(self.horizon)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        return cls(arrays["decays"], int(arrays["horizon"]))

    def start(self, track: Track) -> _SeasonalOnline:
        return _SeasonalOnline(track, float(self.decays[track.number]), self.horizon)


class _SeasonalOnline:
    def __init__(self, track: Track, decay: float, horizon: int) -> None:
        self._track = track
        self._fades = decay ** np.arange(1, horizon + 1)
        ahead = np.arange(1, horizon + 1)
        # Of a horizon beyond one season, the last season there is.
        self._back = -(-ahead // track.kind.period) * track.kind.period - ahead

    def observe(self) -> None:
        pass

    def forecast(self) -> Floats:
        track = self._track
        last = track.count - 1
        before = track.z[np.maximum(last - self._back, 0)]
        season_ago = track.ago(track.kind.period) if track.count > track.kind.period else track.ago(0)
        forecast: Floats = before + self._fades * (track.ago(0) - season_ago)
        return forecast


def _best_decay(z: Floats, period: int, horizon: int) -> float:
    """The decay of least squared error over all origins and horizons."""
    origins = np.arange(period, len(z) - horizon)
    if not len(origins):
        return 0.8
    now = z[origins] - z[origins - period]
    errors = np.zeros(len(_DECAYS))
    for ahead in range(1, horizon + 1):
        back = -(-ahead // period) * period
        wanted = z[origins + ahead] - z[origins + ahead - back]
        for number, decay in enumerate(_DECAYS):
            errors[number] += float(((wanted - decay**ahead * now) ** 2).sum())
    return _DECAYS[int(errors.argmin())]
