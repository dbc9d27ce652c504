"""Exponential smoothing and ARIMA of how far a series is from what is usual at that time; statsmodels fits them.

Both are recursions with few numbers, which are carried on here, one value at a time.
"""

from __future__ import annotations

import warnings
from typing import Self

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.extras import needed
from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.profile import places, usual
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]

ORDERS = ((1, 0), (2, 0), (3, 0), (1, 1), (2, 1))
"""Of ARIMA's autoregression and moving average; the best by Akaike's criterion is taken, for each series."""
_MOST = 3


class _Anomalies:
    """Ways of forecasting that see each series less its profile, and are a few numbers for each series."""

    def __init__(self, profiles: list[Floats], numbers: Floats, horizon: int) -> None:
        self.profiles, self.numbers, self.horizon = profiles, numbers, horizon

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:  # noqa: ARG003 - nothing is drawn
        profiles, numbers = [], []
        for z, times_s, kind in zip(data.z, data.times_s, data.kinds, strict=True):
            profile = usual(z, times_s, kind, data.days)
            slots, off = places(times_s, kind, data.days)
            profiles.append(profile)
            numbers.append(cls.learn(z - profile[off, slots]))
        return cls(profiles, np.array(numbers), horizon)

    @classmethod
    def learn(cls, anomalies: Floats) -> list[float]:
        raise NotImplementedError

    def arrays(self) -> Arrays:
        profiles = {f"profile.{number}": profile for number, profile in enumerate(self.profiles)}
        return {**profiles, "numbers": self.numbers, "horizon": np.array(self.horizon)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        numbers = arrays["numbers"]
        profiles = [arrays[f"profile.{number}"] for number in range(len(numbers))]
        return cls(profiles, numbers, int(arrays["horizon"]))


class _AnomaliesOnline:
    def __init__(self, track: Track, profile: Floats, horizon: int) -> None:
        self._track, self._profile = track, profile
        self._ahead_s = np.arange(1, horizon + 1) * track.kind.step_s

    def _anomaly(self) -> float:
        track = self._track
        return track.ago(0) - float(self._profile[int(track.is_off()), track.slot()])

    def _usual_next(self) -> Floats:
        slots, off = places(self._track.time_s + self._ahead_s, self._track.kind, self._track.days)
        usual_next: Floats = self._profile[off, slots]
        return usual_next


class ExponentialSmoothing(_Anomalies):
    """ETS(A, Ad, N): a level and a damped trend."""

    @classmethod
    def learn(cls, anomalies: Floats) -> list[float]:
        """α, β and φ by greatest likelihood."""
        module = needed("statsmodels.tsa.exponential_smoothing.ets", "ets")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fits that stop at a bound: they are as good as they get
            fitted = module.ETSModel(anomalies, error="add", trend="add", damped_trend=True).fit(disp=False)
        found = dict(zip(fitted.param_names, fitted.params, strict=True))
        return [float(found[name]) for name in ("smoothing_level", "smoothing_trend", "damping_trend")]

    def start(self, track: Track) -> _EtsOnline:
        alpha, beta, phi = self.numbers[track.number].tolist()
        return _EtsOnline(track, self.profiles[track.number], self.horizon, alpha, beta, phi)


class _EtsOnline(_AnomaliesOnline):
    def __init__(self, track: Track, profile: Floats, horizon: int, alpha: float, beta: float, phi: float) -> None:
        super().__init__(track, profile, horizon)
        self._alpha, self._beta, self._phi = alpha, beta, phi
        self._level = self._trend = 0.0
        self._damped = np.cumsum(phi ** np.arange(1, horizon + 1))

    def observe(self) -> None:
        said = self._level + self._phi * self._trend
        error = self._anomaly() - said
        self._level = said + self._alpha * error
        self._trend = self._phi * self._trend + self._beta * error

    def forecast(self) -> Floats:
        forecast: Floats = self._usual_next() + self._level + self._damped * self._trend
        return forecast


class Arima(_Anomalies):
    """ARIMA(p, 0, q), with orders by Akaike's criterion; estimated as Hannan and Rissanen do."""

    @classmethod
    def learn(cls, anomalies: Floats) -> list[float]:
        """p, q, then the coefficients, with zeros where there are fewer."""
        module = needed("statsmodels.tsa.arima.estimators.hannan_rissanen", "arima")
        best, best_criterion = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], np.inf
        if anomalies.std() == 0:
            return best
        for p, q in ORDERS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of coefficients outside of the region, which are passed over here
                found, _ = module.hannan_rissanen(anomalies, ar_order=p, ma_order=q, demean=False)
            if not (found.is_stationary and found.is_invertible):
                continue
            ar, ma = np.zeros(_MOST), np.zeros(_MOST)
            ar[:p], ma[:q] = found.ar_params, found.ma_params
            criterion = len(anomalies) * np.log(_mean_square(anomalies, ar, ma)) + 2 * (p + q)
            if criterion < best_criterion:
                best, best_criterion = [p, q, *ar.tolist(), *ma.tolist()], criterion
        return best

    def start(self, track: Track) -> _ArimaOnline:
        numbers = self.numbers[track.number]
        profile = self.profiles[track.number]
        return _ArimaOnline(track, profile, self.horizon, numbers[2 : 2 + _MOST], numbers[2 + _MOST :])


class _ArimaOnline(_AnomaliesOnline):
    def __init__(self, track: Track, profile: Floats, horizon: int, ar: Floats, ma: Floats) -> None:
        super().__init__(track, profile, horizon)
        self._recent = np.zeros(2 * _MOST)
        """The last anomalies, then the last errors, the latest first."""
        self._coefficients = np.concatenate((ar, ma))
        # Forecasts are linear in what is recent, so each number's part in them is worked out once.
        self._parts = np.stack([_ahead(unit, ar, ma, horizon) for unit in np.eye(2 * _MOST)], axis=1)

    def observe(self) -> None:
        anomaly, recent = self._anomaly(), self._recent
        error = anomaly - float(self._coefficients @ recent)
        recent[1:_MOST], recent[_MOST + 1 :] = recent[: _MOST - 1].copy(), recent[_MOST:-1].copy()
        recent[0], recent[_MOST] = anomaly, error

    def forecast(self) -> Floats:
        forecast: Floats = self._usual_next() + self._parts @ self._recent
        return forecast


def _ahead(recent: Floats, ar: Floats, ma: Floats, horizon: int) -> Floats:
    """What follows where errors to come are 0."""
    values, errors = recent[:_MOST].tolist(), recent[_MOST:].tolist()
    said = []
    for _ in range(horizon):
        said.append(float(ar @ values + ma @ errors))
        values, errors = [said[-1], *values[:-1]], [0.0, *errors[:-1]]
    return np.array(said)


def _mean_square(anomalies: Floats, ar: Floats, ma: Floats) -> float:
    """Of errors one row ahead."""
    values, errors, total = [0.0] * _MOST, [0.0] * _MOST, 0.0
    a, m = ar.tolist(), ma.tolist()
    for value in anomalies.tolist():
        said = sum(x * y for x, y in zip(a, values, strict=True)) + sum(x * y for x, y in zip(m, errors, strict=True))
        values, errors = [value, *values[:-1]], [value - said, *errors[:-1]]
        total += errors[0] ** 2
    return max(total / len(anomalies), 1e-300)
