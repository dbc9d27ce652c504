"""A fitted forecaster, and the object that it makes of it for one job: told a value a superstep, asked what is next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError, OptionError, did_you_mean
from foresail.forecast.workload.calendar import day_table
from foresail.forecast.workload.member import Member
from foresail.forecast.workload.prepared import SeriesKind
from foresail.forecast.workload.residuals import Residuals
from foresail.forecast.workload.track import Track
from foresail.traces.series import Series

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Units:
    """What one unit of workload is: workload = low + (high − low) · (value − least) / (most − least).

    A way to write numbers down and nothing more: forecasts are made of z, so that a forecast in one unit is the
    forecast in another, converted.
    """

    least: float = 0.0
    most: float = 1.0
    low: float = 0.0
    high: float = 1.0

    @property
    def size(self) -> float:
        """Units of workload in one of the series' own units."""
        return (self.high - self.low) / (self.most - self.least)

    def workload(self, values: Floats) -> Floats:
        converted: Floats = self.low + (values - self.least) * self.size
        return converted

    def value(self, workload: float) -> float:
        return self.least + (workload - self.low) / self.size


@dataclass(frozen=True, eq=False, slots=True)
class TaskSeries:
    """One task of a job: which series it has, and what is known of it when the job begins."""

    so_far: Series
    """Its name is one that the forecaster was fitted to; its values are those before the first superstep."""
    units: Units = Units()
    """Of the values that are observed and forecast; `so_far` stays in the series' own."""
    coming_s: Ints | None = None
    """The times of the values to come, if they do not lie one step apart; each is looked at with its value."""


@dataclass(frozen=True, eq=False, slots=True)
class FittedForecaster:
    """All that was learnt: members with their weights, and how wrong they were. Arrays and numbers alone."""

    name: str
    horizon: int
    holidays: str
    kinds: tuple[SeriesKind, ...]
    members: Mapping[str, Member]
    weights: Floats
    """Groups × members × horizon; they add up to 1."""
    residuals: Residuals
    fitted_to: str = ""
    """Stands for the rows that were learnt from and for the settings; see `fingerprint`."""

    def start(self, tasks: Sequence[TaskSeries]) -> OnlineForecaster:
        """The forecaster of one job."""
        return OnlineForecaster(self, tasks)

    def number_of(self, series: str) -> int:
        names = [kind.name for kind in self.kinds]
        if series not in names:
            near = did_you_mean(series, names) or ";"
            raise OptionError(
                f'forecaster {self.name} does not know series "{series}"{near} it knows {", ".join(names)}'
            )
        return names.index(series)


class _TaskForecast:
    """One task: its track, and each member's view of it."""

    def __init__(self, fitted: FittedForecaster, task: TaskSeries) -> None:
        self.number = fitted.number_of(task.so_far.name)
        self.kind, self.units = fitted.kinds[self.number], task.units
        self.track = Track(self.number, self.kind, day_table(fitted.holidays), fitted.horizon)
        self._members = [member.start(self.track) for member in fitted.members.values()]
        self._weights = fitted.weights[self.kind.group]
        self._coming_s, self._seen = task.coming_s, 0
        if not len(task.so_far):
            raise InputError(f"series {task.so_far.name} has no values before the first superstep; give at least one")
        for value, time_s in zip(task.so_far.values.tolist(), task.so_far.times_s.tolist(), strict=True):
            self._add(value, time_s)

    def observe(self, workload: float) -> None:
        value = self.units.value(workload)
        if not np.isfinite(value):
            raise InputError(f"series {self.kind.name}: {workload} was observed; a workload is a finite number")
        time_s = None if self._coming_s is None else int(self._coming_s[self._seen])
        self._seen += 1
        self._add(value, time_s)

    def _add(self, value: float, time_s: int | None) -> None:
        self.track.add((value - self.kind.mean) / self.kind.std, time_s)
        for member in self._members:
            member.observe()

    def forecast(self) -> Floats:
        """As z."""
        said: Floats = self._weights[0] * self._members[0].forecast()
        for weights, member in zip(self._weights[1:], self._members[1:], strict=True):
            said = said + weights * member.forecast()
        return said

    def written(self, z: Floats) -> Floats:
        """In units of workload."""
        return self.units.workload(self.kind.mean + self.kind.std * z)


class OnlineForecaster:
    """The forecaster of one job: rows are its tasks. Keeps to `WorkloadForecaster`."""

    def __init__(self, fitted: FittedForecaster, tasks: Sequence[TaskSeries]) -> None:
        self.fitted = fitted
        self._tasks = [_TaskForecast(fitted, task) for task in tasks]
        self._said: list[Floats] | None = None

    def observe(self, values: Sequence[float]) -> None:
        """Take in one new value a task, in units of workload."""
        if len(values) != len(self._tasks):
            raise InputError(f"{len(values)} values were observed; the job has {len(self._tasks)} tasks")
        for task, value in zip(self._tasks, values, strict=True):
            task.observe(float(value))
        self._said = None

    def forecast(self, horizon: int) -> Floats:
        """The values expected next, tasks × horizon."""
        self._check(horizon)
        rows = [task.written(z) for task, z in zip(self._tasks, self._z(), strict=True)]
        return np.stack(rows)[:, :horizon]

    def scenarios(self, horizon: int, count: int, rng: np.random.Generator) -> Floats:
        """Values that may come next, count × tasks × horizon: the forecast and errors like those of the past."""
        self._check(horizon)
        slots = [task.track.slot() for task in self._tasks]
        numbers = [task.number for task in self._tasks]
        drawn = self.fitted.residuals.draw(self.fitted.kinds, numbers, slots, count, rng)
        for at, (task, z) in enumerate(zip(self._tasks, self._z(), strict=True)):
            drawn[:, at] = task.written(z + drawn[:, at])
        return drawn[:, :, :horizon]

    def quantiles(self, horizon: int, levels: Sequence[float]) -> Floats:
        """Bounds below which a value lies with these probabilities, levels × tasks × horizon."""
        self._check(horizon)
        found = [
            task.written(z + self.fitted.residuals.quantiles(self.fitted.kinds, task.number, task.track.slot(), levels))
            for task, z in zip(self._tasks, self._z(), strict=True)
        ]
        return np.stack(found, axis=1)[:, :, :horizon]

    def _z(self) -> list[Floats]:
        if self._said is None:
            self._said = [task.forecast() for task in self._tasks]
        return self._said

    def _check(self, horizon: int) -> None:
        if not 1 <= horizon <= self.fitted.horizon:
            raise OptionError(
                f"{horizon} supersteps ahead are asked for; forecaster {self.fitted.name} was fitted for 1 to "
                f"{self.fitted.horizon}"
            )
