"""Series to forecast: the rows to learn from, those to be judged on, and what others have forecast for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError, OptionError
from foresail.forecast.workload.fitted import TaskSeries, Units
from foresail.traces.generated_series import generate_series
from foresail.traces.series import Series, read_series_folder, training_rows
from foresail.traces.supersteps.matrices import LEAST_WORKLOAD, MOST_WORKLOAD, TASKS, read_job

Floats = npt.NDArray[np.float64]

GENERATED = "generated"
_SERIES, _LEARN = 8, 1000
"""What is made up where there is no data: this many series, with this many rows before the test."""


@dataclass(frozen=True, eq=False, slots=True)
class ForecastData:
    """Whole series, with the place where the test begins in each."""

    name: str
    series: tuple[Series, ...]
    test_rows: int
    """Origins that forecasts are judged from."""
    horizon: int
    published: Floats | None = None
    """Forecasts that came with the data, series × test rows × horizon, in the series' own units."""

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.series]

    def training(self) -> list[Series]:
        """The rows before the test, copied: nothing of the test can be reached from them."""
        return [one.head(training_rows(one, self.test_rows, self.horizon)) for one in self.series]

    def targets(self) -> Floats:
        """What comes to pass, series × test rows × horizon, in the series' own units."""
        rows = np.arange(self.test_rows)[:, None] + np.arange(self.horizon)
        return np.stack([one.values[training_rows(one, self.test_rows, self.horizon) :][rows] for one in self.series])

    def units(self) -> list[Units]:
        """Of each series: 10 to 50 over the values that come to pass, as published workloads have it.

        They come from the test and are no part of any forecast: errors are counted in them.
        """
        found = []
        for name, first in zip(self.names, self.targets()[:, :, 0], strict=True):
            least, most = float(first.min()), float(first.max())
            if most <= least:
                raise InputError(f"series {name} has one value only in its test rows, which has no scale")
            found.append(Units(least, most, LEAST_WORKLOAD, MOST_WORKLOAD))
        return found

    def tasks(self) -> list[TaskSeries]:
        """Where a forecaster begins: at the end of the rows to learn from."""
        training = self.training()
        return [
            TaskSeries(known, units, whole.times_s[len(known) :])
            for known, whole, units in zip(training, self.series, self.units(), strict=True)
        ]


def find_series(
    folder: Path | None, names: Sequence[str] = (), *, test_rows: int = 1000, horizon: int = 20, seed: int = 1
) -> ForecastData:
    """The series of a folder, else of bsp in $FORESAIL_DATA, else made up by seed.

    A folder holds CSV files, or a folder `series` with them; where it is laid out as the published data is, the series
    are those of the published job, and its forecasts are there to be compared with.
    """
    if test_rows < 1 or horizon < 1:
        raise OptionError(f"--test-rows is {test_rows} and --horizon {horizon}; both are 1 or more")
    stated = os.environ.get("FORESAIL_DATA")
    if folder is None and stated and (Path(stated) / "bsp").is_dir():
        folder = Path(stated) / "bsp"
    if folder is None:
        made = generate_series(_SERIES, _LEARN + test_rows + horizon - 1, seed=seed)
        known = {one.name: one for one in made}
        for name in names:
            if name not in known:
                raise OptionError(f'no series "{name}" is made up; there are {", ".join(known)}')
        return ForecastData(GENERATED, tuple(known[name] for name in names or known), test_rows, horizon)
    if not folder.is_dir():
        raise InputError("no such folder; --data names one with CSV files of series", path=folder)
    inside = folder / "series" if (folder / "series").is_dir() else folder
    is_published = (folder / "actual").is_dir()
    wanted = tuple(names) or (tuple(TASKS.values()) if is_published else ())
    series = tuple(read_series_folder(inside, wanted))
    published = _published(folder, series, test_rows, horizon) if is_published else None
    return ForecastData(folder.resolve().name, series, test_rows, horizon, published)


def _published(folder: Path, series: Sequence[Series], test_rows: int, horizon: int) -> Floats | None:
    """Published forecasts, if they are there for all these series and of the same size."""
    if not (folder / "forecasts").is_dir() or not {one.name for one in series} <= set(TASKS.values()):
        return None
    job = read_job(folder)
    if job.forecasts is None or job.forecasts.shape[1:] != (test_rows, horizon):
        return None
    return job.forecasts[[job.series.index(one.name) for one in series]]
