"""What models are made of, each with its derivative: dense layers, pictures' filters, losses, Adam.

A `forward` returns what its `backward` needs; a `backward` takes the loss's derivative by the output and gives those by
the inputs and by the parameters. All keep the kind of floating-point number they are given.
"""

from __future__ import annotations

import math

import numpy as np

from foresail.workloads.trainers.data import Floats, Ints

Parameters = dict[str, Floats]
"""By name; gradients have the same names."""


def glorot(chance: np.random.Generator, *shape: int) -> Floats:
    """First weights whose outputs are about as large as their inputs; the last axis is the output."""
    inputs, outputs = int(np.prod(shape[:-1])), shape[-1]
    limit = np.sqrt(6.0 / (inputs + outputs))
    return chance.uniform(-limit, limit, size=shape)


def dense_forward(x: Floats, weights: Floats, bias: Floats) -> Floats:
    """Map (examples, inputs) to (examples, outputs)."""
    return x @ weights + bias


def dense_backward(by_output: Floats, x: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Derivatives by x, weights and bias."""
    return by_output @ weights.T, x.T @ by_output, by_output.sum(axis=0)


def filter_forward(x: Floats, weights: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """Filter pictures (examples, height, width, channels), without a border; weights are (k, k, channels, filters).

    Returns the output and the pictures' patches, one a row.
    """
    k, _, channels, filters = weights.shape
    patches = np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(1, 2))  # (..., channels, k, k)
    count, height, width = patches.shape[:3]
    rows = patches.transpose(0, 1, 2, 4, 5, 3).reshape(count * height * width, k * k * channels)
    output = rows @ weights.reshape(-1, filters) + bias
    return output.reshape(count, height, width, filters), rows


def filter_backward(by_output: Floats, rows: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Derivatives by the pictures, the weights and the bias."""
    k, _, channels, filters = weights.shape
    count, height, width, _ = by_output.shape
    flat = by_output.reshape(-1, filters)
    by_rows = (flat @ weights.reshape(-1, filters).T).reshape(count, height, width, k, k, channels)
    by_x = np.zeros((count, height + k - 1, width + k - 1, channels), dtype=by_output.dtype)
    for down in range(k):
        for right in range(k):
            by_x[:, down : down + height, right : right + width] += by_rows[:, :, :, down, right]
    return by_x, (rows.T @ flat).reshape(weights.shape), flat.sum(axis=0)


def halve_forward(x: Floats) -> Floats:
    """The mean of every 2 by 2 dots of pictures (examples, height, width, channels), both even."""
    count, height, width, channels = x.shape
    halved: Floats = x.reshape(count, height // 2, 2, width // 2, 2, channels).mean(axis=(2, 4))
    return halved


def halve_backward(by_output: Floats) -> Floats:
    return (by_output / 4).repeat(2, axis=1).repeat(2, axis=2)


def classify(scores: Floats, labels: Ints) -> tuple[float, float, Floats]:
    """Cross-entropy of the classes' scores (examples, classes), share of right answers, derivative by the scores."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    every = np.arange(len(labels))
    by_scores = np.exp(logs)
    by_scores[every, labels] -= 1
    right = float((scores.argmax(axis=1) == labels).mean())
    return float(-logs[every, labels].mean()), right, by_scores / len(labels)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), by way of tanh, which cannot overflow."""
    return (np.tanh(x / 2) + 1) / 2


class Adam:
    """The optimiser: a step along the mean of past gradients, shorter where they vary."""

    def __init__(self, parameters: Parameters, rate: float = 1e-3) -> None:
        self.rate = rate
        self.means = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.squares = {name: np.zeros_like(value) for name, value in parameters.items()}

    def update(self, parameters: Parameters, gradients: Parameters, step: int) -> None:
        """Change the parameters in place; steps count from 1."""
        # A plain number, so that the arrays keep their kind.
        length = self.rate * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        for name, value in parameters.items():
            gradient, mean, square = gradients[name], self.means[name], self.squares[name]
            mean *= 0.9
            mean += 0.1 * gradient
            square *= 0.999
            square += 0.001 * gradient * gradient
            np.subtract(value, length * mean / (np.sqrt(square) + 1e-8), out=value)
