"""What is usual in that hour of the season, of all series of a group and all days: for what never strays from it."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.profile import usual_hours
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Hourly:
    """ẑ(t+h) = the mean of all values in that hour; rows of one hour are taken together, since few days are known."""

    def __init__(self, hours: list[Floats], groups: Ints, horizon: int) -> None:
        """`hours` has a value for each row of the season, those of one hour alike; a table for each group."""
        self.hours, self.groups, self.horizon = hours, groups, horizon

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:  # noqa: ARG003 - nothing is drawn
        hours = [usual_hours(data, group) for group in range(data.groups)]
        return cls(hours, np.array([kind.group for kind in data.kinds]), horizon)

    def arrays(self) -> Arrays:
        hours = {f"hours.{group}": one for group, one in enumerate(self.hours)}
        return {**hours, "groups": self.groups, "horizon": np.array(self.horizon)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        groups = arrays["groups"]
        hours = [arrays[f"hours.{group}"] for group in range(1 + int(groups.max()))]
        return cls(hours, groups, int(arrays["horizon"]))

    def start(self, track: Track) -> _HourlyOnline:
        return _HourlyOnline(track, self.hours[int(self.groups[track.number])], self.horizon)


class _HourlyOnline:
    def __init__(self, track: Track, hours: Floats, horizon: int) -> None:
        self._track, self._hours = track, hours
        self._ahead = np.arange(1, horizon + 1)

    def observe(self) -> None:
        pass

    def forecast(self) -> Floats:
        forecast: Floats = self._hours[(self._track.slot() + self._ahead) % len(self._hours)]
        return forecast
