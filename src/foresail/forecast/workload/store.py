"""Fitted forecasters as files: one .npz of plain arrays and JSON; nothing is ever unpickled."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from foresail.atomic import replacing
from foresail.errors import InputError
from foresail.forecast.workload.fitted import FittedForecaster
from foresail.forecast.workload.fitting import FORECASTERS, HORIZON, MEMBERS, Progress, fingerprint, fit
from foresail.forecast.workload.prepared import SeriesKind
from foresail.forecast.workload.residuals import Residuals
from foresail.traces.series import Series

FORMAT = "foresail-workload-forecaster"
FORMAT_VERSION = 2
_RESIDUALS = ("paths", "series", "times_s", "spreads", "hours")


def save(fitted: FittedForecaster, path: Path) -> Path:
    """Write a fitted forecaster; the same one is the same bytes."""
    about = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": fitted.name,
        "horizon": fitted.horizon,
        "holidays": fitted.holidays,
        "fitted_to": fitted.fitted_to,
        "members": list(fitted.members),
        "series": [asdict(kind) for kind in fitted.kinds],
    }
    arrays: dict[str, npt.NDArray[Any]] = {"about": np.array(json.dumps(about)), "weights": fitted.weights}
    arrays |= {f"residuals/{key}": getattr(fitted.residuals, key) for key in _RESIDUALS}
    for name, member in fitted.members.items():
        arrays |= {f"{name}/{key}": value for key, value in member.arrays().items()}
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def load(path: Path) -> FittedForecaster:
    """Read a fitted forecaster."""
    try:
        # Opened here: numpy would leave a damaged file open.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        about = json.loads(str(arrays["about"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(
            f"is no fitted forecaster; make one with foresail forecast fit ({error})", path=path
        ) from error
    if not isinstance(about, dict) or about.get("format") != FORMAT or about.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"is not of format {FORMAT} {FORMAT_VERSION}; fit it anew with foresail forecast fit", path=path
        )
    try:
        names = FORECASTERS[about["name"]]
        members = {
            name: MEMBERS[name].from_arrays(
                {key.partition("/")[2]: value for key, value in arrays.items() if key.startswith(f"{name}/")}
            )
            for name in names
        }
        kinds = tuple(SeriesKind(**kind) for kind in about["series"])
        residuals = Residuals(*(arrays[f"residuals/{key}"] for key in _RESIDUALS))
        about_it = (about["name"], about["horizon"], about["holidays"])
        return FittedForecaster(*about_it, kinds, members, arrays["weights"], residuals, about["fitted_to"])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"lacks a part of a fitted forecaster: {error}; fit it anew", path=path) from error


def load_or_fit(
    name: str,
    training: Sequence[Series],
    *,
    horizon: int = HORIZON,
    seed: int = 1,
    holidays: str = "us",
    folder: Path | None = None,
    on_progress: Progress | None = None,
) -> FittedForecaster:
    """The forecaster fitted to these rows: kept from before, in the user's cache if no folder is named, or new."""
    wanted = fingerprint(name, training, horizon, seed, holidays)
    path = (folder or cache_folder()) / f"{name}-{wanted[:20]}.npz"
    if path.is_file():
        with suppress(InputError):  # of a file that is damaged, or of an older format, a new one is made
            kept = load(path)
            if kept.fitted_to == wanted:
                return kept
    fitted = fit(name, training, horizon=horizon, seed=seed, holidays=holidays, on_progress=on_progress)
    with suppress(InputError, OSError):  # a read-only home only means that it is fitted again
        save(fitted, path)
    return fitted


def cache_folder() -> Path:
    """Where fitted forecasters are kept between runs."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "foresail" / "forecasters"
