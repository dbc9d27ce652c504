"""How far a training run is, as a file: the same command goes on from there, to the same end."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.atomic import replacing
from foresail.errors import InputError

Arrays = dict[str, npt.NDArray[Any]]


def checkpoint_of(out: Path) -> Path:
    """The file beside a model in which an unfinished run is kept."""
    return out.with_name(f"{out.stem}.checkpoint.npz")


def write_checkpoint(path: Path, run: Mapping[str, Any], state: Mapping[str, Any], arrays: Arrays) -> None:
    """`run` says which run it is, `state` how far it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = np.array(json.dumps({"run": dict(run), "state": dict(state)}))
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, told=told, **arrays)


def read_checkpoint(path: Path, run: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays] | None:
    """State and arrays of this run; None if there are none. What another run has left is an error that says so."""
    if not path.exists():
        return None
    try:
        # Opened here: numpy leaves a file open that turns out to be damaged.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        told = json.loads(str(arrays.pop("told")))
        left, state = told["run"], told["state"]
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"is a damaged checkpoint ({error}); remove it to begin anew", path=path) from error
    differing = [key for key in sorted({*left, *run}) if left.get(key) != run.get(key)]
    if differing:
        key = differing[0]
        raise InputError(
            f"is of another run: {key} is {left.get(key)} there and {run.get(key)} here; remove it to begin anew, or "
            "take another --out",
            path=path,
        )
    return state, arrays
