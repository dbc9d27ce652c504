"""Trained planners as files: one .npz of plain arrays and a manifest in JSON; nothing is ever unpickled."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.atomic import replacing
from foresail.controllers.supersteps.learned.network import Layer
from foresail.controllers.supersteps.learned.observation import FIGURES, OBSERVATION
from foresail.errors import InputError

FORMAT = "foresail-superstep-planner"
FORMAT_VERSION = 1
VERBS = {"dqn": "supersteps-dqn", "learned": "supersteps-timing"}
"""Strategies that need a model, each with the recipe of `foresail train` that makes it."""


@dataclass(frozen=True, eq=False, slots=True)
class PlannerModel:
    """A network, and what it was trained for."""

    strategy: str
    """dqn or learned."""
    shape: tuple[int, ...]
    """For dqn actions × window, which it all sees; for learned figures × window, of which it sees the figures."""
    layers: tuple[Layer, ...]
    about: Mapping[str, Any]
    """How it came to be: command, hashes of the data, settings, results."""


def save_model(model: PlannerModel, path: Path) -> Path:
    """Write a model; the same one is the same bytes."""
    about = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "strategy": model.strategy,
        "observation": OBSERVATION,
        "shape": list(model.shape),
        "layers": len(model.layers),
        "about": dict(model.about),
    }
    arrays: dict[str, npt.NDArray[Any]] = {"manifest": np.array(json.dumps(about, sort_keys=True))}
    for number, (weights, biases) in enumerate(model.layers):
        arrays |= {f"weights/{number}": weights, f"biases/{number}": biases}
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def load_model(path: Path, strategy: str) -> PlannerModel:
    """Read the model of a strategy; one that is damaged, or of another kind, is refused with the way to a new one."""
    remedy = f"make one with foresail train {VERBS[strategy]}"
    try:
        # Opened here: numpy leaves a file open that turns out to be damaged.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        manifest = json.loads(str(arrays["manifest"]))
    except FileNotFoundError:
        raise InputError(f"no such file; {remedy}", path=path) from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"is no trained planner, or damaged ({error}); {remedy}", path=path) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"is no trained planner; {remedy}", path=path)
    for key, wanted in (("format_version", FORMAT_VERSION), ("observation", OBSERVATION)):
        if manifest.get(key) != wanted:
            raise InputError(f"is of {key} {manifest.get(key)}, and this version reads {wanted}; {remedy}", path=path)
    if manifest.get("strategy") != strategy:
        raise InputError(
            f"was trained for --strategy {manifest.get('strategy')}, and --strategy {strategy} is asked for; {remedy}",
            path=path,
        )
    try:
        shape = tuple(int(size) for size in manifest["shape"])
        layers = tuple(
            (arrays[f"weights/{number}"].astype(np.float32), arrays[f"biases/{number}"].astype(np.float32))
            for number in range(int(manifest["layers"]))
        )
        about = dict(manifest["about"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"lacks a part of a trained planner: {error}; {remedy}", path=path) from error
    _check(layers, shape, strategy, path, remedy)
    return PlannerModel(strategy, shape, layers, about)


def _check(layers: tuple[Layer, ...], shape: tuple[int, ...], strategy: str, path: Path, remedy: str) -> None:
    """Refuse layers that do not go with each other or with what they look at, and numbers that are none."""
    if len(shape) != 2 or min(shape) < 1 or (strategy == "learned" and shape[0] != len(FIGURES)):
        raise InputError(f"is of shape {list(shape)}, which no model of --strategy {strategy} has; {remedy}", path=path)
    inputs, outputs = (shape[0] * shape[1], shape[0]) if strategy == "dqn" else (shape[0], 1)
    for number, (weights, biases) in enumerate(layers):
        if weights.ndim != 2 or biases.shape != weights.shape[1:] or len(weights) != inputs:
            sizes = f"{weights.shape} and {biases.shape}, after {inputs} values"
            raise InputError(f"layer {number + 1} has arrays of {sizes}; {remedy}", path=path)
        if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
            raise InputError(f"layer {number + 1} has numbers that are not finite; {remedy}", path=path)
        inputs = weights.shape[1]
    if not layers or inputs != outputs:
        raise InputError(f"answers with {inputs} values, and {outputs} are needed; {remedy}", path=path)
