"""What a way of forecasting is: fitted to the rows to learn from, kept as arrays, and told one value after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]
Arrays = Mapping[str, npt.NDArray[Any]]


class MemberOnline(Protocol):
    """One way of forecasting one task."""

    def observe(self) -> None:
        """The track has one more value."""

    def forecast(self) -> Floats:
        """What comes next, as z, for the whole horizon."""


class Member(Protocol):
    """A fitted way of forecasting, for all series that it was fitted to."""

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:
        """Learn from all rows of the data."""

    def arrays(self) -> Arrays:
        """All that was learnt."""

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """The same again."""

    def start(self, track: Track) -> MemberOnline:
        """Begin with a track that has no values yet."""
