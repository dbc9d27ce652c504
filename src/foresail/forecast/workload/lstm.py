"""The published LSTM: differences in, one at a time, and the next differences out; it remembers what came before.

Trained with JAX (`lstm_training`); a trained one is a few arrays and needs numpy alone.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.extras import needed
from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]

UNITS = 4
EPOCHS = 100
KEYS = ("kernel", "recurrent", "bias", "dense", "dense_bias")


class WorkloadLstm:
    """One network a series: first differences, scaled to −1…1 by the rows to learn from, LSTM(4), Dense(horizon)."""

    def __init__(self, networks: list[dict[str, Floats]], ranges: Floats) -> None:
        """`ranges` holds the least and the greatest difference of each series."""
        self.networks, self.ranges = networks, ranges

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int, epochs: int | None = None) -> Self:
        training = needed("foresail.forecast.workload.lstm_training", "lstm", "lstm")
        networks, ranges = [], []
        for number, z in enumerate(data.z):
            steps = np.diff(z)
            least, most = float(steps.min()), float(steps.max())
            most = most if most > least else least + 1.0
            scaled = -1.0 + 2.0 * (steps - least) / (most - least)
            networks.append(training.train(scaled, horizon, UNITS, epochs or EPOCHS, seed + number))
            ranges.append((least, most))
        return cls(networks, np.array(ranges))

    def arrays(self) -> Arrays:
        named = {f"{key}.{number}": one[key] for number, one in enumerate(self.networks) for key in KEYS}
        return {**named, "ranges": self.ranges}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        ranges = arrays["ranges"]
        return cls([{key: arrays[f"{key}.{number}"] for key in KEYS} for number in range(len(ranges))], ranges)

    def start(self, track: Track) -> _LstmOnline:
        least, most = self.ranges[track.number].tolist()
        return _LstmOnline(track, self.networks[track.number], least, most)


class _LstmOnline:
    def __init__(self, track: Track, network: dict[str, Floats], least: float, most: float) -> None:
        self._track, self._network, self._least, self._most = track, network, least, most
        self._out, self._memory = np.zeros(UNITS), np.zeros(UNITS)

    def observe(self) -> None:
        if self._track.count < 2:
            return
        step = self._track.ago(0) - self._track.ago(1)
        scaled = -1.0 + 2.0 * (step - self._least) / (self._most - self._least)
        net = self._network
        # In the order of Keras: input, forget, candidate, output.
        gates = scaled * net["kernel"] + self._out @ net["recurrent"] + net["bias"]
        enter, forget, candidate, leave = gates.reshape(4, UNITS)
        self._memory = _sigmoid(forget) * self._memory + _sigmoid(enter) * np.tanh(candidate)
        self._out = _sigmoid(leave) * np.tanh(self._memory)

    def forecast(self) -> Floats:
        scaled = self._out @ self._network["dense"] + self._network["dense_bias"]
        steps = self._least + (scaled + 1.0) * (self._most - self._least) / 2.0
        forecast: Floats = self._track.ago(0) + np.cumsum(steps)
        return forecast


def _sigmoid(x: Floats) -> Floats:
    y: Floats = 0.5 + 0.5 * np.tanh(0.5 * x)  # the logistic function, which overflows for no x
    return y
