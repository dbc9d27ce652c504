"""The models that training jobs train: how long they take, and what they report on the way."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.core.spec import Training
from foresail.errors import InputError, did_you_mean

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FORMAT = "foresail-training-models"
FORMAT_VERSION = 1
SHIPPED = Path(__file__).with_name("models.json")
_KEYS = ("steps", "report_every", "cpu_s", "start_cpu_s", "image", "loss", "accuracy", "aliases")


@dataclass(frozen=True, slots=True)
class Model:
    """One kind of training job."""

    training: Training
    cpu_s: float
    """CPU-seconds of one run."""
    image: str
    aliases: tuple[str, ...] = ()
    """Other names that schedules call it by."""

    @property
    def name(self) -> str:
        return self.training.name


class Models:
    """Models by name and alias, in the order of their file."""

    def __init__(self, models: list[Model]) -> None:
        self.all = models
        self._by_name = {name: model for model in models for name in (model.name, *model.aliases)}

    def find(self, name: str) -> Model | None:
        return self._by_name.get(name)

    def unknown(self, name: str) -> str:
        """What to say of a name that no model has."""
        near = did_you_mean(name, self._by_name) or ";"
        return f'training is "{name}", which is no model{near} there are {", ".join(self._by_name)}'

    def resolve(
        self, names: Sequence[str], work_cpu_s: Floats, duration_s: Floats
    ) -> tuple[list[Training], Ints, Floats]:
        """What pods train, by name, empty for nothing: the trainings, which of them each pod has, and its work.

        A pod that states neither its work nor its duration has its model's work. Every name is one of a model.
        """
        numbers: dict[Training, int] = {}
        training_of = np.full(len(names), -1, dtype=np.int64)
        work_cpu_s = work_cpu_s.copy()
        for index, name in enumerate(names):
            if name:
                model = self._by_name[name]
                training_of[index] = numbers.setdefault(model.training, len(numbers))
                if np.isnan(work_cpu_s[index]) and np.isinf(duration_s[index]):
                    work_cpu_s[index] = model.cpu_s
        return list(numbers), training_of, work_cpu_s


@lru_cache(maxsize=1)
def shipped_models() -> Models:
    """Those that come with Foresail, measured by its own trainers."""
    return read_models(SHIPPED)


def read_models(path: Path) -> Models:
    """Read a file of models; a mistake is an error that names the model and the key."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON: {error}", path=path) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("format_version") != FORMAT_VERSION:
        raise InputError(f'does not say "format": "{FORMAT}", "format_version": {FORMAT_VERSION}', path=path)
    listed = data.get("models")
    if not isinstance(listed, dict) or not listed:
        raise InputError("models is missing; write an object of models by name", path=path)
    models = [_model(name, value, path) for name, value in listed.items()]
    names = [name for model in models for name in (model.name, *model.aliases)]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f'two models are called "{name}"; names and aliases differ', path=path)
    return Models(models)


def _model(name: str, value: Any, path: Path) -> Model:
    def refuse(key: str, needed: str) -> InputError:
        given = value.get(key) if isinstance(value, dict) else value
        return InputError(f"model {name}: {key} is {given!r}; {needed}", path=path)

    if not isinstance(value, dict):
        raise refuse("it", f"write an object with {', '.join(_KEYS)}")
    for key in value:
        if key not in _KEYS:
            near = did_you_mean(key, _KEYS) or ";"
            raise InputError(f'model {name}: unknown key "{key}"{near} keys are {", ".join(_KEYS)}', path=path)
    steps: Any = value.get("steps")
    report_every: Any = value.get("report_every")
    if not _is_whole(steps):
        raise refuse("steps", "it is a whole number above 0")
    if not _is_whole(report_every) or report_every > steps:
        raise refuse("report_every", f"it is a whole number from 1 to the {steps} steps")
    if not _is_number(value.get("cpu_s")) or value["cpu_s"] <= 0:
        raise refuse("cpu_s", "it is a number of CPU-seconds above 0")
    start_cpu_s = value.get("start_cpu_s", 0.0)
    if not _is_number(start_cpu_s) or start_cpu_s < 0:
        raise refuse("start_cpu_s", "it is a number of CPU-seconds, 0 or more")
    if not isinstance(value.get("image"), str) or not value["image"]:
        raise refuse("image", "it is the name of an image")
    aliases = value.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) and alias for alias in aliases):
        raise refuse("aliases", "it is a list of names")
    curves = {key: _curve(value, key, refuse) for key in ("loss", "accuracy")}
    training = Training(name, steps, report_every, curves["loss"], curves["accuracy"], float(start_cpu_s))
    return Model(training, float(value["cpu_s"]), value["image"], tuple(aliases))


def _curve(value: Mapping[str, Any], key: str, refuse: Any) -> tuple[float, ...]:
    curve = value.get(key, [])
    if not isinstance(curve, list) or len(curve) == 1 or not all(_is_number(one) for one in curve):
        raise refuse(key, "it is a list of two or more numbers, the first before the work begins; empty for none")
    return tuple(float(one) for one in curve)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
