"""Series as forecasters learn from them: on one scale, with their periods, and grouped with those that are alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError, OptionError, did_you_mean
from foresail.forecast.workload.calendar import DAY_S, HOLIDAYS, day_table
from foresail.forecast.workload.season import find_period, usual_step_s
from foresail.traces.series import Series

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FEWEST_ROWS = 40


@dataclass(frozen=True, slots=True)
class SeriesKind:
    """What is known of one series before it is forecast; all of it comes from the rows to learn from."""

    name: str
    mean: float
    std: float
    """Values are forecast as z = (value − mean) / std, so that no forecast depends on the unit."""
    step_s: int
    period: int
    group: int
    """Series of one group, those of the same step and period, are learnt from together."""


@dataclass(frozen=True, eq=False, slots=True)
class Prepared:
    """The rows to learn from, of all series."""

    kinds: tuple[SeriesKind, ...]
    z: tuple[Floats, ...]
    times_s: tuple[Ints, ...]
    holidays: str

    @property
    def days(self) -> npt.NDArray[np.int8]:
        return day_table(self.holidays)

    @property
    def groups(self) -> int:
        return 1 + max(kind.group for kind in self.kinds)

    def of_group(self, group: int) -> list[int]:
        return [number for number, kind in enumerate(self.kinds) if kind.group == group]

    def until(self, part: float) -> Prepared:
        """The first part of the rows of each series."""
        cuts = [rows_of(len(z), part) for z in self.z]
        return replace(
            self,
            z=tuple(z[:cut].copy() for z, cut in zip(self.z, cuts, strict=True)),
            times_s=tuple(times_s[:cut].copy() for times_s, cut in zip(self.times_s, cuts, strict=True)),
        )


def rows_of(rows: int, part: float) -> int:
    """How many rows the first part has."""
    return int(rows * part)


def prepare(training: Sequence[Series], holidays: str = "us") -> Prepared:
    """Bring series to one scale and group them; they hold nothing but the rows to learn from."""
    if holidays not in HOLIDAYS:
        near = did_you_mean(holidays, HOLIDAYS) or ";"
        raise OptionError(f'no holidays "{holidays}"{near} there are {", ".join(HOLIDAYS)}')
    if not training:
        raise InputError("there are no series to learn from")
    groups: dict[tuple[int, int], int] = {}
    kinds: list[SeriesKind] = []
    for series in training:
        if len(series) < FEWEST_ROWS:
            raise InputError(
                f"series {series.name} has {len(series)} rows to learn from; a forecaster needs {FEWEST_ROWS} or more"
            )
        if series.times_s[0] < DAY_S or series.times_s[-1] >= (len(day_table(holidays)) - 400) * DAY_S:
            raise InputError(f"series {series.name} has times outside of the years 1970 to 2099")
        step_s = usual_step_s(series.times_s)
        std = float(series.values.std())
        mean = float(series.values.mean())
        period = find_period(series.values, step_s)
        group = groups.setdefault((step_s, period), len(groups))
        kinds.append(SeriesKind(series.name, mean, std if std > 0 else 1.0, step_s, period, group))
    names = [kind.name for kind in kinds]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f'two series are called "{name}"; names differ')
    z = tuple((series.values - kind.mean) / kind.std for series, kind in zip(training, kinds, strict=True))
    return Prepared(tuple(kinds), z, tuple(series.times_s for series in training), holidays)
