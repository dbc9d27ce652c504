"""Made-up series of two kinds, short enough to fit every forecaster to."""

import numpy as np
import pytest

from foresail.forecast.workload import lstm
from foresail.traces.generated_series import generate_series
from foresail.traces.series import Series

HORIZON = 6
ROWS = 260
TEST = 60


@pytest.fixture(scope="session")
def whole() -> list[Series]:
    """Two hourly series with a day of 24 rows, and two whose day has 12."""
    hourly = generate_series(2, ROWS + TEST, step_s=3600, seed=5)
    other = generate_series(2, ROWS + TEST, step_s=7200, seed=6)
    return [*hourly, *(Series(f"slow_{n}", one.times_s, one.values) for n, one in enumerate(other))]


@pytest.fixture
def quick_lstm(monkeypatch):
    monkeypatch.setattr(lstm, "EPOCHS", 2)


def corrupted(series: Series, row: int) -> Series:
    """The same up to a row; from there on values and times are something else."""
    values, times_s = series.values.copy(), series.times_s.copy()
    values[row:] = np.random.default_rng(9).normal(scale=1e6, size=len(values) - row)
    times_s[row:] += 12_345_600
    return Series(series.name, times_s, values)
