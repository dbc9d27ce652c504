"""Recurrent cells over whole sequences, each with its derivative through time.

Sequences are (time steps, examples, values); the state before the first step is zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foresail.workloads.trainers.data import Floats
from foresail.workloads.trainers.layers import sigmoid


class LstmPast(NamedTuple):
    """What the derivative of an LSTM needs, for every time step."""

    x: Floats
    gates: Floats
    """(steps, examples, 4 · units): in, forget and out, after the sigmoid, and the candidate, after tanh."""
    cells: Floats
    """(steps + 1, examples, units), the first of them zero."""
    states: Floats
    """Likewise."""
    alive: Floats | None


def lstm_forward(
    x: Floats, weights: Floats, recurrent: Floats, bias: Floats, alive: Floats | None = None
) -> tuple[Floats, LstmPast]:
    """The last state, (examples, units). `alive` is (steps, examples, 1): 1, and 0 after a sequence's end.

    weights are (values, 4 · units), recurrent (units, 4 · units), bias (4 · units,).
    """
    steps, examples, _ = x.shape
    units = recurrent.shape[0]
    gates = x @ weights + bias
    cells = np.zeros((steps + 1, examples, units), dtype=x.dtype)
    states = np.zeros_like(cells)
    for at in range(steps):
        gate = gates[at]
        gate += states[at] @ recurrent
        gate[:, : 3 * units] = sigmoid(gate[:, : 3 * units])
        gate[:, 3 * units :] = np.tanh(gate[:, 3 * units :])
        taken, kept, shown, candidate = np.split(gate, 4, axis=1)
        cells[at + 1] = kept * cells[at] + taken * candidate
        states[at + 1] = shown * np.tanh(cells[at + 1])
        if alive is not None:
            # After its end a sequence keeps what it had.
            cells[at + 1] = np.where(alive[at] > 0, cells[at + 1], cells[at])
            states[at + 1] = np.where(alive[at] > 0, states[at + 1], states[at])
    return states[-1], LstmPast(x, gates, cells, states, alive)


def lstm_backward(by_state: Floats, past: LstmPast, recurrent: Floats) -> tuple[Floats, Floats, Floats]:
    """Derivatives by weights, recurrent weights and bias, from the one by the last state."""
    x, gates, cells, states, alive = past
    by_gates = np.empty_like(gates)
    by_cell = np.zeros_like(by_state)
    for at in reversed(range(len(x))):
        taken, kept, shown, candidate = np.split(gates[at], 4, axis=1)
        # The part that goes through this step; for sequences that had ended before, all of it goes past.
        through, through_cell = by_state, by_cell
        if alive is not None:
            through, through_cell = by_state * alive[at], by_cell * alive[at]
        squashed = np.tanh(cells[at + 1])
        through_cell = through_cell + through * shown * (1 - squashed * squashed)
        by_gates[at] = np.concatenate(
            [
                through_cell * candidate * taken * (1 - taken),
                through_cell * cells[at] * kept * (1 - kept),
                through * squashed * shown * (1 - shown),
                through_cell * taken * (1 - candidate * candidate),
            ],
            axis=1,
        )
        before, before_cell = by_gates[at] @ recurrent.T, through_cell * kept
        if alive is not None:
            before += by_state * (1 - alive[at])
            before_cell += by_cell * (1 - alive[at])
        by_state, by_cell = before, before_cell
    flat = by_gates.reshape(-1, by_gates.shape[2])
    by_recurrent = states[:-1].reshape(-1, states.shape[2]).T @ flat
    return x.reshape(-1, x.shape[2]).T @ flat, by_recurrent, flat.sum(axis=0)


def relu_forward(x: Floats, weights: Floats, recurrent: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """The last state of a network that keeps what is above zero, and all its states (steps + 1, examples, units)."""
    driven = x @ weights + bias
    states = np.zeros((len(x) + 1, x.shape[1], recurrent.shape[0]), dtype=x.dtype)
    for at in range(len(x)):
        np.maximum(driven[at] + states[at] @ recurrent, 0, out=states[at + 1])
    return states[-1], states


def relu_backward(by_state: Floats, x: Floats, states: Floats, recurrent: Floats) -> tuple[Floats, Floats, Floats]:
    """Derivatives by weights, recurrent weights and bias, from the one by the last state."""
    by_driven = np.empty_like(states[1:])
    for at in reversed(range(len(x))):
        by_driven[at] = by_state * (states[at + 1] > 0)
        by_state = by_driven[at] @ recurrent.T
    flat = by_driven.reshape(-1, by_driven.shape[2])
    by_recurrent = states[:-1].reshape(-1, states.shape[2]).T @ flat
    return x.reshape(-1, x.shape[2]).T @ flat, by_recurrent, flat.sum(axis=0)
