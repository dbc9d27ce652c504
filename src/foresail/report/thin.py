"""Fewer points for a plot without losing a peak: of every stretch, keep where each line is lowest and highest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MOST_POINTS = 2000
"""The most points one line of a plot has; a screen shows no more."""


def thin(lines: Sequence[npt.NDArray[np.float64]], most: int = MOST_POINTS) -> npt.NDArray[np.int64]:
    """Choose the rows to draw for lines that share their x values; all of equal length.

    First and last row and every line's lowest and highest row of each stretch are kept, so no line loses an extreme.
    Lines that share x share the chosen rows too: stacked areas only add up where all of them have a point.
    """
    count = len(lines[0])
    if count <= most:
        return np.arange(count)
    stretches = max(1, (most - 2) // (2 * len(lines)))
    edges = np.linspace(0, count, stretches + 1).astype(np.int64)
    kept = {0, count - 1}
    for line in lines:
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            stretch = line[first:end]
            kept.add(first + int(stretch.argmin()))
            kept.add(first + int(stretch.argmax()))
    return np.array(sorted(kept), dtype=np.int64)


def evenly(count: int) -> npt.NDArray[np.int64]:
    """Choose rows to draw out of so many, as far apart as each other, the first and the last among them."""
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.int64))
