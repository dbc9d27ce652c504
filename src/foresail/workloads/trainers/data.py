"""Data that trainers generate: the same seed and step give the same batch, whoever resumes there.

Batches are float32 or whole numbers, the examples along the first axis.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Ints = npt.NDArray[np.int64]

SIDE = 28
CLASSES = 10
LONGEST = 20
"""Time steps of the sequences below, the shorter ones filled up with zeros."""
ADDED_STEPS = 50
_FONT = (
    *("01110100011001110101110011000101110", "00100011000010000100001000010001110"),
    *("01110100010000100010001000100011111", "11111000100010000010000011000101110"),
    *("00010001100101010010111110001000010", "11111100001111000001000011000101110"),
    *("00110010001000011110100011000101110", "11111000010001000100010000100001000"),
    *("01110100011000101110100011000101110", "01110100011000101111000010001001100"),
)
"""The digits 0 to 9 as 5 by 7 dots, row by row."""
_DOT = 3
_NOISE = 0.3


class Digits(NamedTuple):
    """Grey pictures of digits, at a random place, of random contrast, in noise."""

    images: Floats
    """(examples, 28, 28), about 0 to 1."""
    labels: Ints
    """(examples,)."""


class Sequences(NamedTuple):
    """Sequences of differing length: those that rise evenly (class 0) and those of random numbers (class 1)."""

    values: Floats
    """(examples, LONGEST, 1), zeros after the end."""
    lengths: Ints
    """(examples,)."""
    labels: Ints


class Sums(NamedTuple):
    """The adding problem: two of many numbers are marked, and their sum is asked for."""

    inputs: Floats
    """(examples, ADDED_STEPS, 2): the numbers, 0 to 1, and the marks, 0 or 1."""
    sums: Floats
    """(examples,)."""


class Pictures(NamedTuple):
    """Pictures to be told again, with the chance that goes into telling them."""

    pixels: Floats
    """(examples, 784), 0 to 1."""
    chance: Floats
    """(examples, latent values), standard normal."""


@cache
def _placed_digits() -> npt.NDArray[np.float32]:
    """Every digit at every place: (digits, places, 784)."""
    dots = np.array([[int(dot) for dot in digit] for digit in _FONT], dtype=np.float32).reshape(CLASSES, 7, 5)
    drawn = dots.repeat(_DOT, axis=1).repeat(_DOT, axis=2)
    height, width = drawn.shape[1:]
    downs, rights = SIDE - height + 1, SIDE - width + 1
    placed = np.zeros((CLASSES, downs, rights, SIDE, SIDE), dtype=np.float32)
    for down in range(downs):
        for right in range(rights):
            placed[:, down, right, down : down + height, right : right + width] = drawn
    return placed.reshape(CLASSES, downs * rights, SIDE * SIDE)


def digits(chance: np.random.Generator, count: int, noise: float = _NOISE) -> Digits:
    placed = _placed_digits()
    labels = chance.integers(CLASSES, size=count)
    images = placed[labels, chance.integers(placed.shape[1], size=count)]
    images *= chance.uniform(0.5, 1.0, size=(count, 1)).astype(np.float32)
    images += np.float32(noise) * chance.standard_normal(images.shape, dtype=np.float32)
    return Digits(images.reshape(count, SIDE, SIDE), labels)


def sequences(chance: np.random.Generator, count: int) -> Sequences:
    lengths = chance.integers(3, LONGEST + 1, size=count)
    labels = chance.integers(2, size=count)
    starts, rises = chance.uniform(0.0, 0.5, size=(2, count, 1))
    even = starts + rises * np.arange(LONGEST) / LONGEST
    values = np.where(labels[:, None] == 0, even, chance.uniform(0.0, 1.0, size=(count, LONGEST)))
    values[np.arange(LONGEST) >= lengths[:, None]] = 0.0
    return Sequences(values[:, :, None].astype(np.float32), lengths, labels)


def sums(chance: np.random.Generator, count: int) -> Sums:
    numbers = chance.uniform(0.0, 1.0, size=(count, ADDED_STEPS)).astype(np.float32)
    half = ADDED_STEPS // 2
    marked = np.stack([chance.integers(half, size=count), half + chance.integers(half, size=count)], axis=1)
    marks = np.zeros_like(numbers)
    np.put_along_axis(marks, marked, 1.0, axis=1)
    return Sums(np.stack([numbers, marks], axis=2), (numbers * marks).sum(axis=1))


def pictures(chance: np.random.Generator, count: int, latent: int) -> Pictures:
    pixels = digits(chance, count, noise=0.1).images.reshape(count, SIDE * SIDE)
    return Pictures(np.clip(pixels, 0.0, 1.0), chance.standard_normal((count, latent), dtype=np.float32))
