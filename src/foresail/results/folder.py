"""The results folder: what a run leaves on disk, written whole or not at all, and read back only if unharmed."""

from __future__ import annotations

import errno
import hashlib
import importlib.metadata
import io
import json
import math
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import polars as pl

from foresail import __version__
from foresail.digest import sha256_of
from foresail.errors import ResultsError
from foresail.results.result import RunResult
from foresail.results.tables import ENDINGS, Column, table_named, tables, to_frame

FORMAT = "foresail-run"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
SUMMARY = "summary.json"

_LIBRARIES = ("numba", "numpy", "polars")
# Values that need no more than 53 bits are exact in a float, so only these may be written without a fraction.
_EXACT_WHOLE = 2.0**53
_WHOLE_WHERE_POSSIBLE = ("time_s", "load")
_DERIVED = frozenset({"report.html"})
"""What a user may make from a results folder and keep in it; replacing the folder may drop it."""


def write_run(folder: Path, result: RunResult, *, manifest_extra: Mapping[str, Any], overwrite: bool = False) -> None:
    """Write a run as a results folder that is complete or absent, with the same bytes for the same run.

    `manifest_extra` goes into the manifest beside the run's own fields: `inputs` (path -> sha256) and `command` (list
    of arguments) are the usual ones. `overwrite` replaces an earlier results folder and nothing else.
    """
    write_files(folder, run_files(result, manifest_extra), overwrite=overwrite)


def run_files(result: RunResult, manifest_extra: Mapping[str, Any]) -> dict[str, bytes]:
    """Make the files of a results folder, the manifest last; a worker elsewhere may send them home."""
    frames = {table_named(name).file: to_frame(name, columns) for name, columns in result.tables.items()}
    lacks = [table.name for table in tables() if table.is_always_there and table.file not in frames]
    if lacks:
        raise ValueError(f"the run lacks the table {lacks[0]}, which every run has")
    files = {file: _table_bytes(file, frame) for file, frame in frames.items()}
    files[SUMMARY] = _json_bytes(result.summary)
    return files | {MANIFEST: _json_bytes(_manifest(result, frames, files, manifest_extra))}


def write_files(folder: Path, files: Mapping[str, bytes], *, overwrite: bool = False) -> None:
    """Write what `run_files` made as a results folder that is complete or absent."""
    folder = folder.resolve() if folder.is_symlink() else folder
    check_target(folder, overwrite=overwrite)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial_folder(folder)
        try:
            # The manifest comes last, so that even a copy cut short by a power failure is not taken for a whole one.
            for name, content in files.items():
                _write_through(partial / name, content)
            _sync_folder(partial)
            _move_into_place(partial, folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise ResultsError(_write_failure(folder, error)) from error


def read_run(folder: Path) -> StoredRun:
    """Open a results folder after checking that every file is there and holds what was written."""
    manifest = _read_manifest(folder)
    for name, expected in manifest["files"].items():
        path = folder / name
        try:
            found = sha256_of(path)
        except FileNotFoundError:
            raise ResultsError(f"{path}: missing, though the manifest lists it; {_RUN_AGAIN}") from None
        except OSError as error:
            raise ResultsError(f"{path}: cannot be read ({error.strerror}); {_RUN_AGAIN}") from error
        if found != expected:
            raise ResultsError(
                f"{path}: changed since it was written (sha256 {found[:12]}…, the manifest says {expected[:12]}…); "
                f"{_RUN_AGAIN}"
            )
    return StoredRun(folder, manifest)


@dataclass(frozen=True)
class StoredRun:
    """A results folder on disk; a table is read when it is first asked for and then kept."""

    folder: Path
    manifest: dict[str, Any]
    _frames: dict[str, pl.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def protocol(self) -> str:
        return str(self.manifest["protocol"])

    @property
    def policy(self) -> str:
        return str(self.manifest["policy"])

    @property
    def trace(self) -> str:
        return str(self.manifest["trace"])

    @property
    def seed(self) -> int:
        return int(self.manifest["seed"])

    @property
    def load(self) -> float | None:
        return None if self.manifest["load"] is None else float(self.manifest["load"])

    @property
    def total_gpus(self) -> int:
        return int(self.manifest["total_gpus"])

    @property
    def profile(self) -> dict[str, Any]:
        return dict(self.manifest["profile"])

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self.manifest.get("controllers", ()))

    @cached_property
    def summary(self) -> dict[str, Any]:
        path = self.folder / SUMMARY
        try:
            return dict(json.loads(path.read_bytes()))
        except (OSError, ValueError) as error:
            raise ResultsError(f"{path}: cannot be read ({error}); {_RUN_AGAIN}") from error

    @property
    def placements(self) -> pl.DataFrame:
        return self._table("placements.csv")

    @property
    def timeline(self) -> pl.DataFrame:
        return self._table("timeline.parquet")

    @property
    def nodes(self) -> pl.DataFrame:
        return self._table("nodes.parquet")

    @property
    def by_load(self) -> pl.DataFrame | None:
        return self.frame("by_load")

    @property
    def pods(self) -> pl.DataFrame | None:
        return self.frame("pods")

    def frame(self, table: str) -> pl.DataFrame | None:
        """One table; None where the run has no such table. Tables that nobody has registered go by their file."""
        known = {one.file: one.name for one in tables()}
        for file in self.manifest["files"]:
            if table == known.get(file, PurePath(file).stem) and file != SUMMARY:
                return self._table(file)
        return None

    def columns(self, table: str) -> Mapping[str, Column] | None:
        """The columns of one table as arrays, nulls as numbers that are none; None where there is no such table."""
        frame = self.frame(table)
        return None if frame is None else _FrameColumns(frame)

    def _table(self, file: str) -> pl.DataFrame:
        if file not in self._frames:
            self._frames[file] = self._read(self.folder / file)
        return self._frames[file]

    def _read(self, path: Path) -> pl.DataFrame:
        schema = next((one.schema for one in tables() if one.file == path.name), None)
        try:
            if path.suffix == ".parquet":
                return pl.read_parquet(path)
            # One reading for an empty field: a pod that was not placed has the node "".
            frame = pl.read_csv(path, schema_overrides=schema)
            return frame.with_columns(pl.col(pl.String).fill_null(""))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise ResultsError(f"{path}: cannot be read ({error}); {_RUN_AGAIN}") from error


class _FrameColumns(Mapping[str, Column]):
    """A data frame as the columns that a run makes; only those that are asked for are turned into arrays."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __getitem__(self, name: str) -> Column:
        if name not in self._frame.columns:
            raise KeyError(name)
        values = self._frame[name]
        return values.to_list() if values.dtype == pl.String else values.to_numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._frame.columns)

    def __len__(self) -> int:
        return self._frame.width


Run = StoredRun | RunResult
"""A run on disk or in memory; tables, plots and the report take either."""


_RUN_AGAIN = "run it again, or take the folder from a backup"
_MANIFEST_KEYS = ("policy", "profile", "protocol", "trace", "seed", "load", "total_gpus", "rows", "versions")


def _manifest(
    result: RunResult, frames: Mapping[str, pl.DataFrame], files: Mapping[str, bytes], extra: Mapping[str, Any]
) -> dict[str, Any]:
    own: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {
            "foresail": __version__,
            "python": platform.python_version(),
            **{library: importlib.metadata.version(library) for library in _LIBRARIES},
        },
        "policy": result.policy,
        "profile": result.profile,
        "protocol": result.protocol,
        "trace": result.trace,
        "seed": result.seed,
        "load": result.load,
        "total_gpus": result.total_gpus,
        "rows": {file: frame.height for file, frame in frames.items()},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        **({"controllers": list(result.controllers)} if result.controllers else {}),
    }
    taken = sorted(own.keys() & extra.keys())
    if taken:
        raise ValueError(f"manifest_extra may not set {', '.join(taken)}: the run itself states it")
    return {"inputs": {}, "command": [], **own, **extra}


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise ResultsError(f"{folder}: {what}; name a results folder, as written by foresail simulate --out")
    if not path.is_file():
        raise ResultsError(f"{folder}: holds no {MANIFEST}, so it is no complete results folder; {_RUN_AGAIN}")
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read as JSON ({error}); {_RUN_AGAIN}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ResultsError(f'{path}: does not say "format": "{FORMAT}"; name a results folder of foresail')
    version = manifest.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ResultsError(
            f"{path}: format version {version}, but foresail {__version__} reads up to {FORMAT_VERSION}; "
            "upgrade foresail, or run it again with this version"
        )
    lacks = [key for key in _MANIFEST_KEYS if key not in manifest]
    files = manifest.get("files")
    if isinstance(files, dict):
        always = {SUMMARY, *(table.file for table in tables() if table.is_always_there)}
        lacks += sorted(always - files.keys())
        # A name such as ../x would have the check read files that no run wrote. A table of a package that is not
        # installed here is read as it stands.
        lacks += sorted(f"a table for {name}" for name in files.keys() - always if not _is_table_file(name))
    else:
        lacks.append("files")
    if lacks:
        raise ResultsError(f"{path}: lacks {', '.join(lacks)}; {_RUN_AGAIN}")
    return manifest


def _is_table_file(name: str) -> bool:
    return PurePath(name).name == name and name.endswith(ENDINGS)


def check_target(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that a run may not write to: one that is there already, or that holds more than results."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ResultsError(f"{folder}: is a file; name a folder that does not exist yet")
    if not overwrite:
        raise ResultsError(f"{folder}: exists already; name another folder, or replace it with --overwrite")
    try:
        known = {MANIFEST, *_DERIVED, *_read_manifest(folder)["files"]}
    except ResultsError as error:
        raise ResultsError(f"will not overwrite {error}") from error
    # Replacing the folder removes it whole, so a file that no run wrote must not be in there.
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in known)
    if foreign:
        raise ResultsError(f"will not overwrite {folder}: {foreign[0]} is not part of the results; move it elsewhere")


def _table_bytes(file: str, frame: pl.DataFrame) -> bytes:
    if file.endswith(".csv"):
        return _csv_bytes(frame)
    buffer = io.BytesIO()
    # Every setting that shapes the bytes is fixed here, so that a new default elsewhere changes no file.
    frame.rechunk().write_parquet(
        buffer, compression="zstd", compression_level=3, statistics=True, row_group_size=262_144
    )
    return buffer.getvalue()


def _csv_bytes(frame: pl.DataFrame) -> bytes:
    columns = [_whole(name) if name in _WHOLE_WHERE_POSSIBLE else pl.col(name) for name in frame.columns]
    # Null is written as nothing at all, the empty string as two quotes; the files know only the former.
    text = frame.select(columns).with_columns(pl.col(pl.String).replace("", None)).write_csv()
    return text.encode()


def _whole(name: str) -> pl.Expr:
    value = pl.col(name)
    is_whole = (value == value.round()) & (value.abs() < _EXACT_WHOLE)
    as_integer = pl.when(is_whole).then(value).cast(pl.Int64).cast(pl.String)
    return pl.when(is_whole).then(as_integer).otherwise(value.cast(pl.String)).alias(name)


def _json_bytes(value: object) -> bytes:
    text = json.dumps(_plain(value), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def _plain(value: Any) -> Any:
    """Reduce numpy values, tuples and paths to what JSON can say; a float without a value becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _partial_folder(folder: Path) -> Path:
    # Hidden and beside the target: on the same disk, so the rename cannot turn into a copy.
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    return partial


def _write_through(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot sync a folder; the files in it are safe already.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(handle)


def _move_into_place(partial: Path, folder: Path) -> None:
    if not folder.exists():
        partial.rename(folder)
    else:
        earlier = folder.with_name(f".{folder.name}.earlier-{os.getpid()}")
        folder.rename(earlier)
        try:
            partial.rename(folder)
        except OSError:
            earlier.rename(folder)
            raise
        shutil.rmtree(earlier, ignore_errors=True)
    _sync_folder(folder.parent)


def _write_failure(folder: Path, error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{folder}: no space left on the disk, nothing was written; free some space or choose another folder"
    reason = error.strerror or str(error)
    return f"{folder}: cannot be written ({reason}), nothing was written; choose a folder you may write to"
