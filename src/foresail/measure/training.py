"""Measure our own trainers: CPU time of a step, curves, memory, checkpoints; written as a file of models."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from foresail import __version__
from foresail.atomic import replacing
from foresail.errors import ForesailError, InputError, OptionError, did_you_mean
from foresail.measure.machine import processor
from foresail.traces.training.models import FORMAT, FORMAT_VERSION, shipped_models
from foresail.workloads.trainers.__main__ import NAMES

_WORKER = "foresail.workloads.trainers.measuring"
_REPORT_EVERY = 10


class Measurer(Protocol):
    """Where trainers are measured."""

    @property
    def where(self) -> dict[str, str]:
        """What digits and seconds depend on."""

    def measure(
        self, models: Sequence[str], arguments: Sequence[str], on_progress: Callable[[int, int], None] | None = None
    ) -> Generator[tuple[str, dict[str, Any]]]:
        """What each model took, as soon as that is known; `arguments` are those of `measuring`."""


def measure_training(
    out: Path,
    models: Sequence[str] = (),
    *,
    steps: int | None = None,
    part: float = 1.0,
    scale: float = 1.0,
    seed: int = 1,
    on: Measurer | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Train every model for real, so many steps or a part of its own, and write what they took.

    The file is written after each model: an interrupted measurement goes on with those that are not in it yet, if they
    are to be measured in the same way.
    """
    wanted = list(models or NAMES)
    for name in wanted:
        if name not in NAMES:
            raise OptionError(f'no trainer "{name}"{did_you_mean(name, NAMES) or ";"} there are {", ".join(NAMES)}')
    if steps is not None and part != 1:
        raise OptionError(f"both steps, {steps}, and a part of them, {part:g}, are given; leave one out")
    on = on or TrainersHere()
    how = {"steps": steps, "scale": scale, "seed": seed, "foresail": __version__, **on.where}
    how |= {"part": part} if part != 1 else {}
    measured: dict[str, Any] = _measured_before(out, how)
    left = [name for name in wanted if name not in measured]
    arguments = ["--scale", str(scale), "--seed", str(seed)]
    arguments += ["--part", str(part)] if steps is None else ["--steps", str(steps)]
    with closing(on.measure(left, arguments, on_progress)) as found:
        for name, took in found:
            measured[name] = took
            _write(out, how, measured)
    if not left:
        _write(out, how, measured)
    return out


class TrainersHere:
    """On this machine, one after the other, each in a process of its own."""

    @property
    def where(self) -> dict[str, str]:
        return _machine()

    def measure(
        self, models: Sequence[str], arguments: Sequence[str], on_progress: Callable[[int, int], None] | None = None
    ) -> Generator[tuple[str, dict[str, Any]]]:
        for at, name in enumerate(models):
            share = None if on_progress is None else _share(on_progress, at, len(models))
            yield name, _measure(name, arguments, share)


def _machine() -> dict[str, str]:
    """What digits and seconds depend on."""
    return {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "processor": processor(),
    }


def _measured_before(out: Path, how: dict[str, Any]) -> dict[str, Any]:
    if not out.exists():
        return {}
    try:
        found = json.loads(out.read_text(encoding="utf-8"))["measured"]
        before, models = found["how"], found["models"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError("is no file of measured models; name another with --out, or remove it", path=out) from error
    if before != how:
        differ = ", ".join(f"{key} {before.get(key)}, not {how[key]}" for key in how if before.get(key) != how[key])
        raise InputError(f"was measured otherwise ({differ}); name another file with --out, or remove it", path=out)
    return dict(models)


def _measure(name: str, arguments: Sequence[str], share: Callable[[float], None] | None) -> dict[str, Any]:
    command = [sys.executable, "-m", _WORKER, name, *arguments]
    told: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603 - as written here
        assert process.stderr is not None  # noqa: S101 - they are pipes, which the types do not say
        assert process.stdout is not None  # noqa: S101 - see above
        try:
            for line in process.stderr:
                done, slash, total = line.strip().partition("/")
                if slash and done.isdecimal() and total.isdecimal():
                    if share is not None:
                        share(int(done) / int(total))
                else:
                    told.append(line.strip())
            printed = process.stdout.read()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise ForesailError(f"trainer {name} ended with {process.returncode}: {' '.join(told[-3:])}")
    found: dict[str, Any] = json.loads(printed)
    return found


def _share(on_progress: Callable[[int, int], None], at: int, count: int) -> Callable[[float], None]:
    return lambda part: on_progress(round(100 * (at + part)), 100 * count)


def _write(out: Path, how: dict[str, Any], measured: dict[str, Any]) -> None:
    known = shipped_models()
    # In the order of the shipped file, since schedules draw models by their place in it.
    names = dict.fromkeys([*(model.name for model in known.all), *NAMES])
    ordered = {name: measured[name] for name in names if name in measured}
    models: dict[str, Any] = {}
    for name, one in ordered.items():
        shipped = known.find(name)
        models[name] = {
            "steps": one["steps"],
            "report_every": min(_REPORT_EVERY, one["steps"]),
            "cpu_s": float(f"{one['cpu_s']:.4g}"),
            "start_cpu_s": float(f"{one['start_cpu_s']:.4g}"),
            "image": shipped.image if shipped else f"foresail.dev/trainer-{name}:1",
            **({"aliases": list(shipped.aliases)} if shipped and shipped.aliases else {}),
            "loss": one["loss"],
            **({"accuracy": one["accuracy"]} if one["accuracy"] else {}),
        }
    data = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "measured": {"command": "foresail measure training", "how": how, "models": ordered},
        "models": models,
    }
    with replacing(out) as part:
        # A curve is a line.
        text = re.sub(r"\[[^][{}]*\]", lambda found: " ".join(found[0].split()), json.dumps(data, indent=1))
        part.write_text(text + "\n", encoding="utf-8")
