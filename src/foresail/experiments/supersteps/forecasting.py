"""Forecasts of a simulated job: those of matrices, or of a forecaster that has seen what came before and no more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from foresail.controllers.supersteps.feeds import Feed, ForecasterFeed, MatrixFeed
from foresail.controllers.supersteps.judged import JudgedMatrixFeed
from foresail.errors import InputError, OptionError, did_you_mean
from foresail.experiments.supersteps.request import PERFECT, PUBLISHED, JobRequest
from foresail.experiments.supersteps.source import JobSource
from foresail.forecast.workload.fitted import TaskSeries, Units
from foresail.forecast.workload.fitting import FORECASTERS
from foresail.forecast.workload.store import load_or_fit
from foresail.traces.series import Series, training_rows
from foresail.traces.supersteps.matrices import LEAST_WORKLOAD, MOST_WORKLOAD, JobData, scaled


def make_feed(
    request: JobRequest, source: JobSource, data: JobData, on_fitting: Callable[[int, int], None] | None = None
) -> Feed:
    """Where the forecasts of a request come from. `data` has the tasks of the job, in their order."""
    if request.forecast == PERFECT:
        return MatrixFeed(scaled(data.actual)[:, request.start :])
    if request.forecast == PUBLISHED:
        if data.forecasts is None:
            raise OptionError("--forecast published: this data has no forecasts; take perfect or a forecaster")
        return JudgedMatrixFeed(scaled(data.forecasts)[:, request.start :], np.random.default_rng(request.seed))
    if request.forecast not in FORECASTERS:
        known = (PUBLISHED, PERFECT, *FORECASTERS)
        hint = did_you_mean(request.forecast, known) or ";"
        raise OptionError(f'no forecast "{request.forecast}"{hint} there are {", ".join(known)}')
    if not source.series:
        raise OptionError(f"--forecast {request.forecast} needs series to learn from, and the data has none")
    horizon = data.actual.shape[2]
    known_rows = {name: training_rows(source.series[name], data.rows, horizon) for name in source.data.series}
    _check(source, known_rows)
    # Nothing of the rows that jobs run through is learnt from, wherever a job starts.
    training = [source.series[name].head(rows) for name, rows in known_rows.items()]
    fitted = load_or_fit(request.forecast, training, horizon=horizon, on_progress=on_fitting)
    tasks = []
    for task, name in enumerate(data.series):
        before, scale = known_rows[name] + request.start, data.scale(task)
        series: Series = source.series[name]
        units = Units(scale.low, scale.high, LEAST_WORKLOAD, MOST_WORKLOAD)
        tasks.append(TaskSeries(series.head(before), units, series.times_s[before:]))
    return ForecasterFeed(fitted.start(tasks), np.random.default_rng(request.seed))


def _check(source: JobSource, known_rows: dict[str, int]) -> None:
    """Refuse series that do not end with the rows of the matrices."""
    for task, name in enumerate(source.data.series):
        rows = known_rows[name]
        values = source.series[name].values[rows : rows + source.data.rows]
        if not np.allclose(values, source.data.actual[task, :, 0], rtol=1e-5, atol=1e-3):
            raise InputError(f"series {name} does not end with the values of its matrix; both are to be of one origin")
