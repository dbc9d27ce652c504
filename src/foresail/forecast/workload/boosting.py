"""Gradient boosting of what ridge regression leaves over; LightGBM grows the trees, and a kernel here walks them."""

from __future__ import annotations

from typing import Any, Self

import numba
import numpy as np
import numpy.typing as npt

from foresail.forecast.workload.extras import needed
from foresail.forecast.workload.features import COUNT, LEVEL
from foresail.forecast.workload.member import Arrays
from foresail.forecast.workload.prepared import Prepared
from foresail.forecast.workload.ridge import Ridge, apply, rows_of_group
from foresail.forecast.workload.track import Track

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TREES = 100
_SETTINGS = {
    "objective": "regression",
    "num_leaves": 15,
    "learning_rate": 0.05,
    "min_data_in_leaf": 200,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "lambda_l2": 10.0,
    "max_bin": 63,
    # The same model from the same rows, whatever machine it is.
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}
_AHEAD, _RIDGE = 0, LEVEL
"""Places in a tree's row: instead of the constant how far ahead, and instead of the level what ridge says above it.

Trees are not told the level, for they cannot say anything of levels that they have not seen.
"""


class Boosting:
    """ẑ(t+h) = ridge + σ_h · trees(features, h): trees see errors of all rows ahead on one scale."""

    def __init__(self, ridge: Ridge, spreads: Floats, trees: list[dict[str, npt.NDArray[Any]]]) -> None:
        """`spreads` are groups × horizon; `trees` has the arrays of each group."""
        self.ridge, self.spreads, self.trees = ridge, spreads, trees

    @classmethod
    def fit(cls, data: Prepared, horizon: int, seed: int) -> Self:
        ridge = Ridge.fit(data, horizon, seed)
        spreads = np.ones((data.groups, horizon))
        trees = []
        for group in range(data.groups):
            features, targets = rows_of_group(data, group, horizon)
            said = apply(features, ridge.weights[group])
            left = targets - said
            if len(left):
                spreads[group] = np.maximum(left.std(axis=0), 1e-9)
            trees.append(_grow(_rows(features, said), left / spreads[group], seed))
        return cls(ridge, spreads, trees)

    def arrays(self) -> Arrays:
        arrays: dict[str, npt.NDArray[Any]] = {f"ridge.{key}": value for key, value in self.ridge.arrays().items()}
        arrays["spreads"] = self.spreads
        for group, one in enumerate(self.trees):
            arrays |= {f"trees.{group}.{key}": value for key, value in one.items()}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        ridge = Ridge.from_arrays({key: arrays[f"ridge.{key}"] for key in ("weights", "groups")})
        spreads = arrays["spreads"]
        trees = [{key: arrays[f"trees.{group}.{key}"] for key in _KEYS} for group in range(len(spreads))]
        return cls(ridge, spreads, trees)

    def start(self, track: Track) -> _BoostingOnline:
        group = int(self.ridge.groups[track.number])
        return _BoostingOnline(track, self.ridge.weights[group], self.spreads[group], self.trees[group])


class _BoostingOnline:
    def __init__(self, track: Track, weights: Floats, spreads: Floats, trees: dict[str, npt.NDArray[Any]]) -> None:
        self._track, self._weights, self._spreads = track, weights, spreads
        self._trees = tuple(trees[key] for key in _KEYS)

    def observe(self) -> None:
        pass

    def forecast(self) -> Floats:
        features = self._track.features()
        said = apply(features, self._weights)
        forecast: Floats = said + self._spreads * walk(_rows(features[None], said[None])[0], *self._trees)
        return forecast


_KEYS = ("roots", "features", "thresholds", "left", "right", "values")


def _rows(features: Floats, said: Floats) -> Floats:
    """What trees look at: origins × horizon × COUNT."""
    rows = features.copy()
    rows[..., _AHEAD] = np.arange(features.shape[-2])
    rows[..., _RIDGE] = said - features[..., LEVEL]
    return rows


def _grow(rows: Floats, left: Floats, seed: int) -> dict[str, npt.NDArray[Any]]:
    if rows.shape[0] * rows.shape[1] < 2 * int(_SETTINGS["min_data_in_leaf"]):  # type: ignore[call-overload]
        return _flat([])
    lightgbm = needed("lightgbm", "boosting")
    learnt = lightgbm.Dataset(rows.reshape(-1, COUNT), left.reshape(-1), params={"verbose": -1})
    grown = lightgbm.train({**_SETTINGS, "seed": seed}, learnt, TREES)
    return _flat([tree["tree_structure"] for tree in grown.dump_model()["tree_info"]])


def _flat(trees: list[dict[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """Trees as columns over nodes; a leaf has feature −1."""
    nodes: list[list[float]] = []

    def add(node: dict[str, Any]) -> int:
        at = len(nodes)
        if "split_feature" not in node:
            nodes.append([-1, 0.0, -1, -1, node["leaf_value"]])
            return at
        if node["decision_type"] != "<=":
            raise ValueError(f"a tree splits by {node['decision_type']}, which is not known here")
        nodes.append([])
        nodes[at] = [node["split_feature"], node["threshold"], add(node["left_child"]), add(node["right_child"]), 0.0]
        return at

    roots = [add(tree) for tree in trees]
    table = np.array(nodes, dtype=np.float64).reshape(-1, 5)
    whole = table[:, [0, 2, 3]].astype(np.int64)
    return {
        "roots": np.array(roots, dtype=np.int64),
        "features": whole[:, 0].copy(),
        "thresholds": table[:, 1].copy(),
        "left": whole[:, 1].copy(),
        "right": whole[:, 2].copy(),
        "values": table[:, 4].copy(),
    }


@numba.njit(cache=True)
def walk(
    rows: Floats, roots: Ints, features: Ints, thresholds: Floats, left: Ints, right: Ints, values: Floats
) -> Floats:
    """The sum over all trees, for each row."""
    total = np.zeros(rows.shape[0])
    # A tree after the other, so that its nodes stay near while all rows go through it.
    for root in roots:
        for row in range(rows.shape[0]):
            node = root
            while features[node] >= 0:
                node = left[node] if rows[row, features[node]] <= thresholds[node] else right[node]
            total[row] += values[node]
    return total
