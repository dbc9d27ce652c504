"""A small network of plain arrays: dense layers with rectifiers between them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Layer = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""Weights, inputs × outputs, and biases."""


def answer(layers: Sequence[Layer], seen: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """What the network says of one observation, whatever its shape."""
    values = seen.reshape(-1)
    for weights, biases in layers[:-1]:
        values = np.maximum(values @ weights + biases, 0.0)
    weights, biases = layers[-1]
    said: npt.NDArray[np.float32] = values @ weights + biases
    return said
