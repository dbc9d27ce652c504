"""Judge forecasters on rows that they have not learnt from: they are told one value after another, as in a job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from foresail.atomic import replacing
from foresail.errors import OptionError, did_you_mean
from foresail.experiments.workload.data import ForecastData
from foresail.forecast.workload.fitted import FittedForecaster
from foresail.forecast.workload.fitting import FORECASTERS, RULES, fingerprint
from foresail.forecast.workload.store import load_or_fit

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]

PUBLISHED = "published"
"""Forecasts that came with the data."""
LEVELS = (0.1, 0.25, 0.75, 0.9)
SHOWN_AHEAD = (1, 5, 10)
"""Of these rows ahead single forecasts are kept, for the plots."""
_SHOWN_ROWS = 240
_FIT = 0.6
"""The part of the progress that fitting is."""


@dataclass(frozen=True, slots=True)
class SeriesErrors:
    """How wrong one forecaster was on one series, in units of workload; lists are by rows ahead, from 1 on."""

    series: str
    rmse: list[float]
    bias: list[float]
    """Mean of forecast − value."""
    coverage_50: list[float] | None
    """Part of the values between the quantiles 0.25 and 0.75; None for forecasts without quantiles."""
    coverage_80: list[float] | None
    width_80: list[float] | None
    """Mean distance of the quantiles 0.1 and 0.9."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One forecaster on all series."""

    forecaster: str
    stands_for: str
    """The fitted model, and the rows that it was judged on."""
    errors: list[SeriesErrors]
    shown: dict[str, dict[str, list[float]]]
    """By series, for plots: the last values, and what was said of them some rows ahead."""

    def mean(self, ahead: int) -> float:
        """The mean over series of the error so many rows ahead."""
        return float(np.mean([one.rmse[ahead - 1] for one in self.errors]))

    def mean_coverage(self) -> float | None:
        """Over all series and rows ahead, of the middle 80 %."""
        found = [one.coverage_80 for one in self.errors if one.coverage_80 is not None]
        return float(np.mean(found)) if found else None


def evaluate(
    data: ForecastData,
    forecasters: Sequence[str],
    *,
    models: Sequence[FittedForecaster] = (),
    seed: int = 1,
    holidays: str = "us",
    folder: Path | None = None,
    on_progress: Progress | None = None,
) -> list[Judged]:
    """Fit and judge each forecaster; in `folder`, what is finished is kept and not done again."""
    for name in forecasters:
        if name not in FORECASTERS:
            near = did_you_mean(name, FORECASTERS) or ";"
            raise OptionError(f'no forecaster "{name}"{near} there are {", ".join(FORECASTERS)}')
    for model in models:
        if model.horizon < data.horizon:
            raise OptionError(
                f"the model of {model.name} looks {model.horizon} rows ahead; --horizon is {data.horizon}"
            )
    judged = [] if data.published is None else [judge_matrix(PUBLISHED, data, data.published)]
    total = 100 * (len(forecasters) + len(models))
    for at, name in enumerate(forecasters):
        part = _part(on_progress, 100 * at, total)
        wanted = f"{fingerprint(name, data.training(), data.horizon, seed, holidays)} {_rows_digest(data)}"
        found = None if folder is None else _read(folder / f"{name}.json", wanted)
        if found is None:
            fitted = load_or_fit(
                name,
                data.training(),
                horizon=data.horizon,
                seed=seed,
                holidays=holidays,
                folder=None if folder is None else folder / "models",
                on_progress=_fitting(part),
            )
            found = judge(fitted, data, wanted, part)
            if folder is not None:
                _write(folder / f"{name}.json", found)
        judged.append(found)
        if part is not None:
            part(1.0)
    for at, model in enumerate(models, start=len(forecasters)):
        wanted = f"{model.fitted_to} {_rows_digest(data)}"
        judged.append(judge(model, data, wanted, _part(on_progress, 100 * at, total)))
    return judged


def _fitting(part: Callable[[float], None] | None) -> Progress | None:
    return None if part is None else lambda done, of: part(_FIT * done / of)


def judge(
    fitted: FittedForecaster, data: ForecastData, stands_for: str, part: Callable[[float], None] | None = None
) -> Judged:
    """Go through the test rows with an object that sees each value when its turn has come."""
    units, targets = data.units(), data.targets()
    workloads = np.stack([unit.workload(one) for unit, one in zip(units, targets, strict=True)])
    online = fitted.start(data.tasks())
    count = len(data.series)
    said = np.zeros((count, data.test_rows, data.horizon))
    bounds = np.zeros((len(LEVELS), count, data.test_rows, data.horizon))
    for row in range(data.test_rows):
        said[:, row] = online.forecast(data.horizon)
        bounds[:, :, row] = online.quantiles(data.horizon, LEVELS)
        online.observe(workloads[:, row, 0].tolist())
        if part is not None and row % 50 == 0:
            part(_FIT + (1 - _FIT) * row / data.test_rows)
    return _judged(fitted.name, stands_for, data, workloads, said, bounds)


def judge_matrix(name: str, data: ForecastData, matrix: Floats) -> Judged:
    """Judge forecasts that somebody made before, on the same scale: that of what comes to pass."""
    units, targets = data.units(), data.targets()
    workloads = np.stack([unit.workload(one) for unit, one in zip(units, targets, strict=True)])
    said = np.stack([unit.workload(one) for unit, one in zip(units, matrix, strict=True)])
    return _judged(name, "", data, workloads, said, None)


def _judged(
    name: str, stands_for: str, data: ForecastData, workloads: Floats, said: Floats, bounds: Floats | None
) -> Judged:
    errors, shown = [], {}
    for number, series in enumerate(data.names):
        wrong, value = said[number] - workloads[number], workloads[number]
        quantiles: dict[str, list[float] | None] = dict.fromkeys(("coverage_50", "coverage_80", "width_80"))
        if bounds is not None:
            low, lower, upper, high = bounds[:, number]
            quantiles = {
                "coverage_50": ((value >= lower) & (value <= upper)).mean(axis=0).tolist(),
                "coverage_80": ((value >= low) & (value <= high)).mean(axis=0).tolist(),
                "width_80": (high - low).mean(axis=0).tolist(),
            }
        rmse, bias = np.sqrt((wrong**2).mean(axis=0)).tolist(), wrong.mean(axis=0).tolist()
        errors.append(SeriesErrors(series, rmse, bias, **quantiles))
        last = slice(max(data.test_rows - _SHOWN_ROWS, 0), data.test_rows)
        shown[series] = {"value": value[last, 0].round(4).tolist()}
        for ahead in SHOWN_AHEAD:
            if ahead <= data.horizon and data.test_rows > _SHOWN_ROWS + ahead:
                # What was said so many rows before the value came.
                then = slice(last.start - ahead + 1, last.stop - ahead + 1)
                shown[series][f"t+{ahead}"] = said[number, then, ahead - 1].round(4).tolist()
                if bounds is not None:
                    shown[series][f"t+{ahead} low"] = bounds[0, number, then, ahead - 1].round(4).tolist()
                    shown[series][f"t+{ahead} high"] = bounds[-1, number, then, ahead - 1].round(4).tolist()
    return Judged(name, stands_for, errors, shown)


def error_rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """A row for each forecaster, series and number of rows ahead."""
    rows = []
    for one in judged:
        for errors in one.errors:
            for at, rmse in enumerate(errors.rmse):
                more = {
                    key: None if values is None else values[at]
                    for key, values in (
                        ("coverage_50", errors.coverage_50),
                        ("coverage_80", errors.coverage_80),
                        ("width_80", errors.width_80),
                    )
                }
                about: Mapping[str, Any] = {
                    "forecaster": one.forecaster,
                    "series": errors.series,
                    "ahead": at + 1,
                    "rmse": rmse,
                    "bias": errors.bias[at],
                }
                rows.append({**about, **more})
    return rows


def _rows_digest(data: ForecastData) -> str:
    summed = hashlib.sha256(json.dumps([RULES, data.test_rows, data.horizon, data.names]).encode())
    for series in data.series:
        summed.update(np.ascontiguousarray(series.values, dtype="<f8").tobytes())
        summed.update(np.ascontiguousarray(series.times_s, dtype="<i8").tobytes())
    return summed.hexdigest()


def _part(on_progress: Progress | None, begun: int, total: int) -> Callable[[float], None] | None:
    return None if on_progress is None else lambda share: on_progress(begun + round(100 * share), total)


def _read(path: Path, stands_for: str) -> Judged | None:
    """What was judged before, if it is of the same model and rows."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Judged)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.stands_for == stands_for else None


def _write(path: Path, judged: Judged) -> None:
    with replacing(path) as part:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(asdict(judged)) + "\n", encoding="utf-8")
