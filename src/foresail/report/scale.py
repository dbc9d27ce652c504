"""Numbers as plots write them, and the unit that a time axis has."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl


def time_unit(timelines: Sequence[pl.DataFrame]) -> tuple[float, str]:
    """Seconds in the unit in which these timelines are shown, and its name."""
    longest_s = max(float(timeline["time_s"].to_numpy().max()) for timeline in timelines)
    for per_unit_s, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if longest_s >= 3 * per_unit_s:
            return per_unit_s, unit
    return 1.0, "s"


def numbers(values: npt.NDArray[np.float64]) -> list[float | None]:
    """Values as plain data; None for those that are no numbers."""
    # Six digits are finer than any screen, and half the size of the page.
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
