"""Numbers that plug-ins keep for each node, beside what the node table itself knows: growth, used CPU, link use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.model import Rows


class SideColumn:
    """One number a node. It follows its node when rows move; a node that comes gets the column's `fill`.

    Written with `write` alone: that touches the rows, so that scores remembered for them are asked for again.
    """

    __slots__ = ("_touch", "_values", "fill", "name")

    def __init__(self, name: str, count: int, fill: float, dtype: npt.DTypeLike, touch: Callable[[int], None]) -> None:
        self.name = name
        self.fill = fill
        self._values: npt.NDArray[Any] = np.full(count, fill, dtype=dtype)
        self._touch = touch

    @property
    def values(self) -> npt.NDArray[Any]:
        """One number a row of the table, to look at; shape (nodes,)."""
        values = self._values.view()
        values.flags.writeable = False
        return values

    def write(self, rows: npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Give rows their numbers, one each or one for all of them; rows whose number stays are not touched."""
        at: Rows = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        before = self._values[at]
        self._values[at] = values
        now = self._values[at]
        same = (now == before) | (np.isnan(now) & np.isnan(before))
        for row in at[~same].tolist():
            self._touch(row)

    def append(self, more: int) -> None:
        """Rows after the last, for nodes that come."""
        self._values = np.concatenate([self._values, np.full(more, self.fill, dtype=self._values.dtype)])

    def keep(self, source: Rows) -> None:
        """Only the rows of `source` are left, in that order."""
        self._values = self._values[source]

    def is_made_of(self, fill: float, dtype: npt.DTypeLike) -> bool:
        filled = np.array([self.fill, fill], dtype=np.float64)
        return self._values.dtype == np.dtype(dtype) and np.array_equal(filled[:1], filled[1:], equal_nan=True)
