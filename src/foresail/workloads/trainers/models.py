"""The models: what they learn from, what they begin with, and the gradient of their loss."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from foresail.workloads.trainers import data
from foresail.workloads.trainers.cells import lstm_backward, lstm_forward, relu_backward, relu_forward
from foresail.workloads.trainers.data import CLASSES, SIDE, Floats, Ints
from foresail.workloads.trainers.layers import (
    Parameters,
    classify,
    dense_backward,
    dense_forward,
    filter_backward,
    filter_forward,
    glorot,
    halve_backward,
    halve_forward,
    sigmoid,
)


class Learnt(NamedTuple):
    """What a batch says about the parameters."""

    loss: float
    """Mean over the examples."""
    accuracy: float | None
    """Share of right answers; None where there is no right or wrong."""
    gradients: Parameters


class TrainedModel(Protocol):
    """One of the trainers' models."""

    steps: int
    """Of a whole training, unless told otherwise."""
    rate: float
    """Of the optimiser."""

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        """Parameters to begin with; `scale` times as many units as usual."""

    def batch(self, chance: np.random.Generator, count: int) -> tuple[Any, ...]:
        """So many examples, along the first axis of every array."""

    def learn(self, parameters: Parameters, batch: Any) -> Learnt: ...


def scaled(units: int, scale: float) -> int:
    return max(1, round(units * scale))


def _first_lstm(chance: np.random.Generator, prefix: str, values: int, units: int) -> Parameters:
    bias = np.zeros(4 * units)
    # A cell that begins by keeping what it knows learns sooner.
    bias[units : 2 * units] = 1.0
    return {
        f"{prefix}weights": glorot(chance, values, 4 * units),
        f"{prefix}recurrent": glorot(chance, units, 4 * units),
        f"{prefix}bias": bias,
    }


def _first_answer(chance: np.random.Generator, units: int, classes: int) -> Parameters:
    return {"answer": glorot(chance, units, classes), "answer_bias": np.zeros(classes)}


def _in_time(x: Floats) -> Floats:
    """From (examples, steps, values) to (steps, examples, values); a picture is read row by row."""
    return np.ascontiguousarray(x.transpose(1, 0, 2))


def _learn_lstm(p: Parameters, x: Floats, labels: Ints, alive: Floats | None = None) -> Learnt:
    """One LSTM whose last state answers."""
    state, past = lstm_forward(x, p["weights"], p["recurrent"], p["bias"], alive)
    loss, accuracy, by_scores = classify(dense_forward(state, p["answer"], p["answer_bias"]), labels)
    g: Parameters = {}
    by_state, g["answer"], g["answer_bias"] = dense_backward(by_scores, state, p["answer"])
    g["weights"], g["recurrent"], g["bias"] = lstm_backward(by_state, past, p["recurrent"])
    return Learnt(loss, accuracy, g)


class Lstm:
    """An LSTM of 128 units that reads digits row by row."""

    steps = 1000
    rate = 1e-3

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        units = scaled(128, scale)
        return {**_first_lstm(chance, "", SIDE, units), **_first_answer(chance, units, CLASSES)}

    def batch(self, chance: np.random.Generator, count: int) -> data.Digits:
        return data.digits(chance, count)

    def learn(self, parameters: Parameters, batch: data.Digits) -> Learnt:
        return _learn_lstm(parameters, _in_time(batch.images), batch.labels)


class BidirectionalRnn:
    """Two LSTMs of 128 units, one of which reads digits from the last row to the first."""

    steps = 1000
    rate = 1e-3

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        units = scaled(128, scale)
        return {
            **_first_lstm(chance, "down_", SIDE, units),
            **_first_lstm(chance, "up_", SIDE, units),
            **_first_answer(chance, 2 * units, CLASSES),
        }

    def batch(self, chance: np.random.Generator, count: int) -> data.Digits:
        return data.digits(chance, count)

    def learn(self, parameters: Parameters, batch: data.Digits) -> Learnt:
        p = parameters
        rows = _in_time(batch.images)
        down, down_past = lstm_forward(rows, p["down_weights"], p["down_recurrent"], p["down_bias"])
        up, up_past = lstm_forward(rows[::-1], p["up_weights"], p["up_recurrent"], p["up_bias"])
        both = np.concatenate([down, up], axis=1)
        loss, accuracy, by_scores = classify(dense_forward(both, p["answer"], p["answer_bias"]), batch.labels)
        g: Parameters = {}
        by_both, g["answer"], g["answer_bias"] = dense_backward(by_scores, both, p["answer"])
        by_down, by_up = np.split(by_both, 2, axis=1)
        g["down_weights"], g["down_recurrent"], g["down_bias"] = lstm_backward(by_down, down_past, p["down_recurrent"])
        g["up_weights"], g["up_recurrent"], g["up_bias"] = lstm_backward(by_up, up_past, p["up_recurrent"])
        return Learnt(loss, accuracy, g)


class DynamicRnn:
    """An LSTM of 64 units over sequences of differing length, which tells even rises from random numbers."""

    steps = 1000
    rate = 1e-2

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        units = scaled(64, scale)
        return {**_first_lstm(chance, "", 1, units), **_first_answer(chance, units, 2)}

    def batch(self, chance: np.random.Generator, count: int) -> data.Sequences:
        return data.sequences(chance, count)

    def learn(self, parameters: Parameters, batch: data.Sequences) -> Learnt:
        values = _in_time(batch.values)
        alive = (np.arange(data.LONGEST)[:, None] < batch.lengths)[:, :, None].astype(values.dtype)
        return _learn_lstm(parameters, values, batch.labels, alive)


class IdentityRnn:
    """A network of 100 units that keep what is above zero and begin by remembering all, on the adding problem."""

    steps = 2000
    rate = 1e-3
    right_within = 0.1

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        units = scaled(100, scale)
        return {
            "weights": 0.1 * chance.standard_normal((2, units)),
            "recurrent": np.eye(units),
            "bias": np.zeros(units),
            **_first_answer(chance, units, 1),
        }

    def batch(self, chance: np.random.Generator, count: int) -> data.Sums:
        return data.sums(chance, count)

    def learn(self, parameters: Parameters, batch: data.Sums) -> Learnt:
        p = parameters
        inputs = _in_time(batch.inputs)
        state, states = relu_forward(inputs, p["weights"], p["recurrent"], p["bias"])
        off = dense_forward(state, p["answer"], p["answer_bias"])[:, 0] - batch.sums
        g: Parameters = {}
        by_state, g["answer"], g["answer_bias"] = dense_backward((2 / len(off) * off)[:, None], state, p["answer"])
        g["weights"], g["recurrent"], g["bias"] = relu_backward(by_state, inputs, states, p["recurrent"])
        return Learnt(float((off * off).mean()), float((np.abs(off) < self.right_within).mean()), g)


class LeNet:
    """Two layers of 5 by 5 filters, each halved, then two dense layers; as many steps as 5 times 55 000 digits take."""

    steps = 2150
    rate = 1e-3

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        one, two, dense = scaled(6, scale), scaled(16, scale), scaled(84, scale)
        return {
            "one": glorot(chance, 5, 5, 1, one),
            "one_bias": np.zeros(one),
            "two": glorot(chance, 5, 5, one, two),
            "two_bias": np.zeros(two),
            "dense": glorot(chance, 4 * 4 * two, dense),
            "dense_bias": np.zeros(dense),
            **_first_answer(chance, dense, CLASSES),
        }

    def batch(self, chance: np.random.Generator, count: int) -> data.Digits:
        return data.digits(chance, count)

    def learn(self, parameters: Parameters, batch: data.Digits) -> Learnt:
        p = parameters
        one, one_rows = filter_forward(batch.images[:, :, :, None], p["one"], p["one_bias"])
        one = np.tanh(one)
        two, two_rows = filter_forward(halve_forward(one), p["two"], p["two_bias"])
        two = np.tanh(two)
        small = halve_forward(two)
        flat = small.reshape(len(small), -1)
        dense = np.tanh(dense_forward(flat, p["dense"], p["dense_bias"]))
        loss, accuracy, by_scores = classify(dense_forward(dense, p["answer"], p["answer_bias"]), batch.labels)
        g: Parameters = {}
        by_dense, g["answer"], g["answer_bias"] = dense_backward(by_scores, dense, p["answer"])
        by_flat, g["dense"], g["dense_bias"] = dense_backward(by_dense * (1 - dense * dense), flat, p["dense"])
        by_two = halve_backward(by_flat.reshape(small.shape)) * (1 - two * two)
        by_half, g["two"], g["two_bias"] = filter_backward(by_two, two_rows, p["two"])
        by_one = halve_backward(by_half) * (1 - one * one)
        _, g["one"], g["one_bias"] = filter_backward(by_one, one_rows, p["one"])
        return Learnt(loss, accuracy, g)


class Vae:
    """A variational auto-encoder: digits told by 8 values of chance; as many steps as 15 times 55 000 digits take."""

    steps = 6450
    rate = 1e-3
    latent = 8

    def first(self, chance: np.random.Generator, scale: float) -> Parameters:
        units, pixels = scaled(256, scale), SIDE * SIDE
        return {
            "see": glorot(chance, pixels, units),
            "see_bias": np.zeros(units),
            "mean": glorot(chance, units, self.latent),
            "mean_bias": np.zeros(self.latent),
            "spread": glorot(chance, units, self.latent),
            "spread_bias": np.zeros(self.latent),
            "think": glorot(chance, self.latent, units),
            "think_bias": np.zeros(units),
            "draw": glorot(chance, units, pixels),
            "draw_bias": np.zeros(pixels),
        }

    def batch(self, chance: np.random.Generator, count: int) -> data.Pictures:
        return data.pictures(chance, count, self.latent)

    def learn(self, parameters: Parameters, batch: data.Pictures) -> Learnt:
        """The loss is, in nats a picture, what the drawing misses plus how far its telling is from pure chance."""
        p, pixels, count = parameters, batch.pixels, len(batch.pixels)
        seen = np.tanh(dense_forward(pixels, p["see"], p["see_bias"]))
        mean = dense_forward(seen, p["mean"], p["mean_bias"])
        # The logarithm of the variance.
        spread = dense_forward(seen, p["spread"], p["spread_bias"])
        wide = np.exp(spread / 2)
        told = mean + wide * batch.chance
        thought = np.tanh(dense_forward(told, p["think"], p["think_bias"]))
        scores = dense_forward(thought, p["draw"], p["draw_bias"])
        missed = (np.maximum(scores, 0) - scores * pixels + np.log1p(np.exp(-np.abs(scores)))).sum() / count
        far = (0.5 * (np.exp(spread) + mean * mean - 1 - spread)).sum() / count
        g: Parameters = {}
        by_scores = (sigmoid(scores) - pixels) / count
        by_thought, g["draw"], g["draw_bias"] = dense_backward(by_scores, thought, p["draw"])
        by_told, g["think"], g["think_bias"] = dense_backward(by_thought * (1 - thought * thought), told, p["think"])
        by_mean = by_told + mean / count
        by_spread = by_told * batch.chance * wide / 2 + 0.5 * (np.exp(spread) - 1) / count
        seen_by_mean, g["mean"], g["mean_bias"] = dense_backward(by_mean, seen, p["mean"])
        seen_by_spread, g["spread"], g["spread_bias"] = dense_backward(by_spread, seen, p["spread"])
        by_seen = (seen_by_mean + seen_by_spread) * (1 - seen * seen)
        _, g["see"], g["see_bias"] = dense_backward(by_seen, pixels, p["see"])
        return Learnt(float(missed + far), None, g)


MODELS: dict[str, TrainedModel] = {
    "birnn": BidirectionalRnn(),
    "drnn": DynamicRnn(),
    "identity-rnn": IdentityRnn(),
    "lenet": LeNet(),
    "lstm": Lstm(),
    "vae": Vae(),
}
