"""The folder of simulated jobs: every finished one by itself, so that a broken-off run goes on, and tables of all."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import polars as pl

from foresail import __version__
from foresail.atomic import replacing
from foresail.digest import sha256_of
from foresail.errors import InputError
from foresail.experiments.supersteps.request import JobRequest
from foresail.experiments.supersteps.run import JobResult
from foresail.experiments.supersteps.source import JobSource
from foresail.sim.supersteps.job import JobRun

RUNS = "runs"
"""The part of the folder with finished jobs."""


class JobFolder:
    """Keeps finished jobs, and writes tables of those that were asked for."""

    def __init__(self, folder: Path, source: JobSource) -> None:
        if folder.exists() and not folder.is_dir():
            raise InputError("a file stands there; --out names a folder", path=folder)
        if folder.is_dir() and any(folder.iterdir()) and not (folder / RUNS).is_dir():
            raise InputError("has other files in it; --out names a new folder, or one of bsp simulate", path=folder)
        self._folder, self._source = folder, source
        self._data_digest = _digest_of(source)

    def find(self, request: JobRequest) -> JobResult | None:
        """The job, if it was finished before by this version on this data; a damaged file counts for nothing."""
        path = self._path(request)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as read:
                kept = {name: read[name] for name in read.files}
            run = JobRun(kept["splits"], kept["seconds"], kept["changed"], request.penalty_s)
            return JobResult.of(request, self._source, run, kept["workloads"])
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
            return None

    def keep(self, result: JobResult) -> None:
        path = self._path(result.request)
        with replacing(path) as part:
            path.parent.mkdir(parents=True, exist_ok=True)
            run = result.run
            np.savez_compressed(
                part, splits=run.splits, seconds=run.seconds, changed=run.changed, workloads=result.workloads
            )

    def write_tables(self, results: Sequence[JobResult]) -> None:
        """Write jobs.csv, a row a job, and supersteps.csv, a row a superstep and task."""
        self._folder.mkdir(parents=True, exist_ok=True)
        jobs = pl.DataFrame([{"job": at} | one.figures for at, one in enumerate(results, 1)], infer_schema_length=None)
        supersteps = pl.concat([superstep_frame(one, at) for at, one in enumerate(results, 1)])
        for name, frame in (("jobs.csv", jobs), ("supersteps.csv", supersteps)):
            with replacing(self._folder / name) as part:
                frame.write_csv(part)

    def _path(self, request: JobRequest) -> Path:
        # A model that was trained anew has the same name, and is another one.
        model = sha256_of(request.model) if request.model and Path(request.model).is_file() else None
        stated = json.dumps([__version__, self._data_digest, asdict(request), model], sort_keys=True)
        return self._folder / RUNS / f"{hashlib.sha256(stated.encode()).hexdigest()[:20]}.npz"


def superstep_frame(result: JobResult, job: int) -> pl.DataFrame:
    """What every task had to do, with how much CPU, and how long it took."""
    run, grid = result.run, result.grid
    length, tasks = run.seconds.shape
    return pl.DataFrame(
        {
            "job": np.full(length * tasks, job),
            "superstep": np.repeat(np.arange(length), tasks),
            "task": list(result.tasks) * length,
            "workload": result.workloads.ravel(),
            "cpu_milli": (grid.least_milli + grid.step_milli * run.splits).ravel(),
            "seconds": run.seconds.ravel(),
            "waiting_s": (run.seconds.max(axis=1, keepdims=True) - run.seconds).ravel(),
            "changed": np.repeat(run.changed, tasks),
        }
    )


def _digest_of(source: JobSource) -> str:
    """Of everything that jobs on this data depend on."""
    digest = hashlib.sha256(repr((source.data.tasks, source.data.series)).encode())
    arrays: list[object] = [source.data.actual, source.data.forecasts]
    arrays += [getattr(source.profile, field.name) for field in fields(source.profile)]
    for one in source.series.values():
        arrays += [one.times_s, one.values]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data if isinstance(array, np.ndarray) else repr(array).encode())
    return digest.hexdigest()
