"""Trains the published LSTM with JAX and optax: one value in, one step of Adam, the state carried on, 100 times over.

Two things differ from what was published, since a single run of single values ends where chance left it: weights are
the mean over the last epoch, and of a few beginnings the one is kept that forecasts the rows to learn from best.

The only module that imports JAX.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax

Floats = npt.NDArray[np.float64]

_RATE = 1e-3
BEGINNINGS = 4


def train(scaled: Floats, horizon: int, units: int, epochs: int, seed: int) -> dict[str, Floats]:
    """Train on one series of differences in −1…1; give the arrays that `WorkloadLstm` goes on with.

    As published: batches of one value, the state carried from value to value and set to zero before each epoch,
    gradients through one value alone, mean squared error of all that is to come, weights begun as Keras begins them.
    """
    count = max(len(scaled) - horizon, 0)
    inputs = jnp.asarray(scaled[:count], dtype=jnp.float32)
    rows = np.arange(count)[:, None] + np.arange(1, horizon + 1)
    targets = jnp.asarray(scaled[rows], dtype=jnp.float32)
    keys = jax.random.split(jax.random.PRNGKey(seed), BEGINNINGS)
    weights = jax.vmap(partial(_begin, horizon=horizon, units=units))(keys)
    best = 0
    if count:
        weights, wrong = _epochs(weights, inputs, targets, units, epochs)
        best = int(np.argmin(wrong))
    return {key: np.asarray(value[best], dtype=np.float64) for key, value in weights.items()}


def _begin(key: Any, horizon: int, units: int) -> dict[str, Any]:
    kernel, recurrent, dense = jax.random.split(key, 3)
    glorot, orthogonal = jax.nn.initializers.glorot_uniform(), jax.nn.initializers.orthogonal()
    # The forget gates begin open.
    bias = jnp.zeros(4 * units).at[units : 2 * units].set(1.0)
    return {
        "kernel": glorot(kernel, (1, 4 * units))[0],
        "recurrent": orthogonal(recurrent, (units, 4 * units)),
        "bias": bias,
        "dense": glorot(dense, (units, horizon)),
        "dense_bias": jnp.zeros(horizon),
    }


def _cell(weights: dict[str, Any], state: Any, value: Any) -> Any:
    out, memory = state
    gates = value * weights["kernel"] + out @ weights["recurrent"] + weights["bias"]
    enter, forget, candidate, leave = jnp.split(gates, 4)
    memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
    out = jax.nn.sigmoid(leave) * jnp.tanh(memory)
    return out, memory


@partial(jax.jit, static_argnames=("units", "epochs"))
@partial(jax.vmap, in_axes=(0, None, None, None, None))
def _epochs(weights: Any, inputs: Any, targets: Any, units: int, epochs: int) -> Any:
    adam = optax.adam(_RATE)

    def loss(weights: Any, state: Any, value: Any, wanted: Any) -> Any:
        after = _cell(weights, state, value)
        said = after[0] @ weights["dense"] + weights["dense_bias"]
        return jnp.mean((said - wanted) ** 2), after

    def learn(carried: Any, row: Any) -> Any:
        weights, moments, total, state = carried
        gradients, after = jax.grad(loss, has_aux=True)(weights, state, *row)
        changes, moments = adam.update(gradients, moments, weights)
        weights = optax.apply_updates(weights, changes)
        return (weights, moments, jax.tree.map(jnp.add, total, weights), after), None

    def epoch(carried: Any, _: Any) -> Any:
        weights, moments, _ = carried
        zero = jnp.zeros(units)
        none = jax.tree.map(jnp.zeros_like, weights)
        begun = (weights, moments, none, (zero, zero))
        (weights, moments, total, _), _ = jax.lax.scan(learn, begun, (inputs, targets))
        return (weights, moments, total), None

    begun = (weights, adam.init(weights), weights)
    (_, _, total), _ = jax.lax.scan(epoch, begun, None, length=epochs)
    mean = jax.tree.map(lambda one: one / len(inputs), total)

    def judge(state: Any, row: Any) -> Any:
        value, wanted = row
        after = _cell(mean, state, value)
        said = after[0] @ mean["dense"] + mean["dense_bias"]
        # What is forecast are values, the sums of differences.
        return after, jnp.mean(jnp.cumsum(said - wanted) ** 2)

    _, wrong = jax.lax.scan(judge, (jnp.zeros(units), jnp.zeros(units)), (inputs, targets))
    return mean, wrong.mean()
