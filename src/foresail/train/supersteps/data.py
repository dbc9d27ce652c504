"""Jobs to train on, made of rows before those that jobs are judged on, and of no others.

The first rows of each series are what a forecaster is fitted to; it then forecasts the others, which it has not seen,
one after another. The earlier part of these is trained on, the later part validates. A job gives each task one of the
series, in an order of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foresail.controllers.supersteps.planner import Floats, ShareGrid
from foresail.errors import OptionError
from foresail.experiments.supersteps.request import PUBLISHED, JobRequest
from foresail.experiments.supersteps.run import grid_of
from foresail.experiments.supersteps.source import JobSource
from foresail.forecast.runtime.curves import RuntimeCurves
from foresail.forecast.runtime.spline import SplineRuntime
from foresail.forecast.workload.fitted import TaskSeries
from foresail.forecast.workload.store import load_or_fit
from foresail.traces.series import Series, training_rows
from foresail.traces.supersteps.matrices import Scale, scaled
from foresail.train.supersteps.environment import RowsOfJob

FITTED_PART = 0.4
"""Of the rows to learn from a forecaster is fitted to so many; the others are forecast."""
VALIDATION_PART = 1 / 3
"""Of the rows that are forecast so many, the last ones, validate."""
_LEAST_ROWS = 40


@dataclass(frozen=True, eq=False, slots=True)
class ForecastRows:
    """Rows to train on and to validate with, of all series, as workloads."""

    curves: RuntimeCurves
    grid: ShareGrid
    workloads: Floats
    """Rows × series."""
    forecasts: Floats
    """Rows × series × horizon."""
    scenarios: Floats | None
    """Rows × scenarios × series × horizon, where they are asked for."""
    split: int
    """So many rows are trained on; the others validate."""
    digest: str
    """Stands for all that was learnt from: series, profile, and the forecaster with its rules and settings."""

    def orders(self, count: int, seed: int) -> list[list[int]]:
        """The series of each task for so many jobs: first as the data has them, then in other orders, by seed."""
        tasks = self.grid.tasks
        rng = np.random.default_rng([seed, tasks])
        return [list(range(tasks)), *(rng.permutation(tasks).tolist() for _ in range(count - 1))][:count]

    def job(self, order: Sequence[int], *, validates: bool) -> RowsOfJob:
        """A job whose tasks have the series of this order."""
        rows = slice(self.split, None) if validates else slice(0, self.split)
        series = list(order)
        return RowsOfJob(self.curves, self.grid, self.workloads[rows][:, series], self.forecasts[rows][:, series])


def forecast_rows(
    source: JobSource,
    forecast: str,
    *,
    scenarios: int = 0,
    ahead: int | None = None,
    seed: int = 1,
    on_fitting: Callable[[int, int], None] | None = None,
) -> ForecastRows:
    """Rows before the first row of the data, with forecasts of a forecaster that was fitted to those before them.

    `published` is the published LSTM, trained here, and its forecasts scaled column by column as published: of the
    published matrices there are none but those of the rows that jobs are judged on.
    """
    if not source.series:
        raise OptionError("training needs the series before the first superstep, and the data has none")
    tests, horizon = source.data.rows, source.data.actual.shape[2]
    # From here on there is nothing but rows before the first one that jobs are judged on.
    known = [
        source.series[name].head(training_rows(source.series[name], tests, horizon)) for name in source.data.series
    ]
    count = min(len(one) - int(len(one) * FITTED_PART) for one in known)
    if count < _LEAST_ROWS:
        raise OptionError(f"{count} rows are there to train on; {_LEAST_ROWS} or more are needed")
    fitted_to = [one.head(len(one) - count) for one in known]
    name = "lstm" if forecast == PUBLISHED else forecast
    fitted = load_or_fit(name, fitted_to, horizon=horizon, on_progress=on_fitting)
    online = fitted.start(
        [
            TaskSeries(before, coming_s=series.times_s[len(before) :])
            for before, series in zip(fitted_to, known, strict=True)
        ]
    )
    actual = np.stack([one.values[-count:] for one in known])
    said = np.empty((count, len(known), horizon))
    ahead = horizon if ahead is None else ahead
    drawn = np.empty((count, scenarios, len(known), ahead)) if scenarios else None
    rng = np.random.default_rng(seed)
    for row in range(count):
        said[row] = online.forecast(horizon)
        if drawn is not None:
            drawn[row] = online.scenarios(ahead, scenarios, rng)
        online.observe(actual[:, row].tolist())
    workloads, forecasts, drawn = as_workloads(actual, said, drawn, as_published=forecast == PUBLISHED)
    grid = grid_of(JobRequest(), source, len(source.data.tasks))
    curves = SplineRuntime(source.profile.of(source.data.tasks)).curves(grid.shares_milli)
    return ForecastRows(
        curves,
        grid,
        np.ascontiguousarray(workloads),
        np.ascontiguousarray(forecasts),
        drawn,
        count - int(count * VALIDATION_PART),
        _digest(known, curves, [forecast, fitted.fitted_to, str(scenarios), str(seed)]),
    )


def as_workloads(
    actual: Floats, said: Floats, drawn: Floats | None, *, as_published: bool
) -> tuple[Floats, Floats, Floats | None]:
    """Values (series × rows), forecasts and scenarios as workloads; values are rows × series then.

    As published every column of the forecasts is scaled by itself; else all go by the scale of the values.
    """
    if as_published:
        forecasts = scaled(said.transpose(1, 0, 2)).transpose(1, 0, 2)
        return scaled(actual[:, :, None])[:, :, 0].T, forecasts, None
    scales = [Scale(float(one.min()), float(one.max())) for one in actual]
    workloads = np.stack([scale.workloads(one) for scale, one in zip(scales, actual, strict=True)], axis=1)
    forecasts = np.stack([scale.workloads(said[:, at]) for at, scale in enumerate(scales)], axis=1)
    if drawn is not None:
        drawn = np.stack([scale.workloads(drawn[:, :, at]) for at, scale in enumerate(scales)], axis=2)
    return workloads, forecasts, drawn


def _digest(known: Sequence[Series], curves: RuntimeCurves, settings: Sequence[str]) -> str:
    summed = hashlib.sha256("\n".join(settings).encode())
    for series in known:
        summed.update(f"\n{series.name} {len(series)}\n".encode())
        summed.update(np.ascontiguousarray(series.times_s, dtype="<i8").tobytes())
        summed.update(np.ascontiguousarray(series.values, dtype="<f8").tobytes())
    summed.update(np.ascontiguousarray(curves.breaks, dtype="<f8").tobytes())
    summed.update(np.ascontiguousarray(curves.pieces, dtype="<f8").tobytes())
    return summed.hexdigest()
