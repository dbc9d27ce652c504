"""Fit a forecaster by name: each member to all rows, weights and errors by rolling validation inside them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from foresail.errors import OptionError, did_you_mean
from foresail.forecast.workload.boosting import Boosting
from foresail.forecast.workload.fitted import FittedForecaster
from foresail.forecast.workload.hourly import Hourly
from foresail.forecast.workload.lstm import WorkloadLstm
from foresail.forecast.workload.member import Member
from foresail.forecast.workload.prepared import Prepared, prepare, rows_of
from foresail.forecast.workload.residuals import Residuals
from foresail.forecast.workload.ridge import Ridge
from foresail.forecast.workload.seasonal import SeasonalNaive
from foresail.forecast.workload.smoothing import Arima, ExponentialSmoothing
from foresail.forecast.workload.track import Track
from foresail.forecast.workload.weekly import Weekly
from foresail.traces.series import Series

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int], None]

MEMBERS: Mapping[str, type[Member]] = MappingProxyType(
    {
        "seasonal-naive": SeasonalNaive,
        "ets": ExponentialSmoothing,
        "arima": Arima,
        "ridge": Ridge,
        "boosting": Boosting,
        "weekly": Weekly,
        "hourly": Hourly,
        "lstm": WorkloadLstm,
    }
)
"""Every way of forecasting."""

FORECASTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "seasonal-naive": ("seasonal-naive",),
        "ets": ("ets",),
        "arima": ("arima",),
        "ridge": ("ridge",),
        "boosting": ("boosting",),
        "weekly": ("weekly",),
        "hourly": ("hourly",),
        "lstm": ("lstm",),
        "ensemble": ("seasonal-naive", "ets", "arima", "ridge", "boosting", "weekly", "hourly"),
    }
)
"""Forecasters by name, with the members that they are made of."""

RULES = 3
"""Goes up whenever the same rows give another model, so that models kept from before are not taken for it."""
DEFAULT = "ensemble"
HORIZON = 20
FOLDS = (0.55, 0.7, 0.85)
"""Rolling validation: fitted to this part of the rows, and judged on those up to the next part."""
_EQUAL = 0.02
"""What squared weights cost, as a part of the best member's squared error: of equals, all are taken."""


def fit(
    name: str,
    training: Sequence[Series],
    *,
    horizon: int = HORIZON,
    seed: int = 1,
    holidays: str = "us",
    on_progress: Progress | None = None,
) -> FittedForecaster:
    """Fit a forecaster to series that hold the rows to learn from and nothing else."""
    if name not in FORECASTERS:
        near = did_you_mean(name, FORECASTERS) or ";"
        raise OptionError(f'no forecaster "{name}"{near} there are {", ".join(FORECASTERS)}')
    if horizon < 1:
        raise OptionError(f"the horizon is {horizon}; a forecast looks at least 1 value ahead")
    data = prepare(training, holidays)
    wanted = FORECASTERS[name]
    total = len(wanted) * (len(FOLDS) + 1)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, total)

    said: list[list[list[Floats]]] = [[[] for _ in data.kinds] for _ in wanted]
    for part, until in zip(FOLDS, (*FOLDS[1:], 1.0), strict=True):
        for number, member in enumerate(wanted):
            fitted = MEMBERS[member].fit(data.until(part), horizon, seed)
            for series in range(len(data.kinds)):
                said[number][series].append(_roll(fitted, data, series, part, until, horizon))
            step()
    forecasts = [[np.concatenate(folds) for folds in one] for one in said]
    origins = [
        np.concatenate(
            [_origins(len(z), part, until, horizon) for part, until in zip(FOLDS, (*FOLDS[1:], 1.0), strict=True)]
        )
        for z in data.z
    ]
    targets = [z[rows[:, None] + np.arange(1, horizon + 1)] for z, rows in zip(data.z, origins, strict=True)]
    weights = np.stack([_weights(data, group, forecasts, targets) for group in range(data.groups)])
    errors = [
        targets[number] - sum(weights[kind.group, m] * forecasts[m][number] for m in range(len(wanted)))
        for number, kind in enumerate(data.kinds)
    ]
    times_s = [times[rows] for times, rows in zip(data.times_s, origins, strict=True)]
    members: dict[str, Member] = {}
    for member in wanted:
        members[member] = MEMBERS[member].fit(data, horizon, seed)
        step()
    residuals = Residuals.of(errors, times_s, data.kinds)
    stands_for = fingerprint(name, training, horizon, seed, holidays)
    return FittedForecaster(name, horizon, holidays, data.kinds, members, weights, residuals, stands_for)


def fingerprint(name: str, training: Sequence[Series], horizon: int, seed: int, holidays: str) -> str:
    """Stands for all that a fit depends on: the rows to learn from and the settings, not how they were read."""
    summed = hashlib.sha256(json.dumps([RULES, name, horizon, seed, holidays]).encode())
    for series in training:
        summed.update(f"\n{series.name} {len(series)}\n".encode())
        summed.update(np.ascontiguousarray(series.times_s, dtype="<i8").tobytes())
        summed.update(np.ascontiguousarray(series.values, dtype="<f8").tobytes())
    return summed.hexdigest()


def _origins(rows: int, part: float, until: float, horizon: int) -> Ints:
    """Rows from which a fold looks ahead, no further than its end."""
    return np.arange(rows_of(rows, part) - 1, max(rows_of(rows, until) - horizon, rows_of(rows, part) - 1))


def _roll(member: Member, data: Prepared, series: int, part: float, until: float, horizon: int) -> Floats:
    """What a member says of one series from each origin of a fold, as z: origins × horizon."""
    z, times_s = data.z[series], data.times_s[series]
    track = Track(series, data.kinds[series], data.days, horizon)
    online = member.start(track)
    origins = _origins(len(z), part, until, horizon)
    said = np.zeros((len(origins), horizon))
    first = rows_of(len(z), part) - 1
    for row in range(first + len(origins)):
        track.add(float(z[row]), int(times_s[row]))
        online.observe()
        if row >= first:
            said[row - first] = online.forecast()
    return said


def _weights(data: Prepared, group: int, forecasts: list[list[Floats]], targets: list[Floats]) -> Floats:
    """Weights of the members for each row ahead, members × horizon: least squared error, none below 0, sum 1."""
    members, horizon = len(forecasts), targets[0].shape[1]
    if members == 1:
        return np.ones((1, horizon))
    # Products of errors of two members; every series counts the same, however many rows it has.
    products = np.zeros((horizon, members, members))
    for number in data.of_group(group):
        wrong = np.stack([one[number] - targets[number] for one in forecasts])
        if wrong.shape[1]:
            products += np.einsum("aoh,boh->hab", wrong, wrong) / wrong.shape[1]
    found = np.zeros((members, horizon))
    for ahead in range(horizon):
        # Each row ahead with its neighbours, all on the scale of the best member: single rows say too little.
        near = products[max(ahead - 1, 0) : ahead + 2]
        best = np.maximum(near.diagonal(axis1=1, axis2=2).min(axis=1), 1e-300)
        found[:, ahead] = _simplex((near / best[:, None, None]).mean(axis=0))
    return found


def _simplex(products: Floats) -> Floats:
    """Weights w ≥ 0 of sum 1 with the least w·C·w: the best over all choices of members that have any weight."""
    members = len(products)
    matrix = products + max(_EQUAL * products.diagonal().min(), 1e-12) * np.eye(members)
    best, least = np.full(members, 1.0 / members), np.inf
    for choice in range(1, 1 << members):
        chosen = [member for member in range(members) if choice >> member & 1]
        weights = np.linalg.solve(matrix[np.ix_(chosen, chosen)], np.ones(len(chosen)))
        weights /= weights.sum()
        if weights.min() < 0:
            continue
        cost = float(weights @ matrix[np.ix_(chosen, chosen)] @ weights)
        if cost < least:
            best, least = np.zeros(members), cost
            best[chosen] = weights
    return best
