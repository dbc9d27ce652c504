"""Where simulated jobs come from: a folder laid out as the published data is, or made up by seed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from foresail.errors import InputError
from foresail.forecast.runtime.measured import shipped_profile
from foresail.forecast.runtime.profile import RuntimeProfile
from foresail.forecast.runtime.scattered import read_measured
from foresail.traces.series import Series, read_series_folder
from foresail.traces.supersteps.generate import generate_job
from foresail.traces.supersteps.matrices import PROFILE, JobData, read_job

GENERATED = "generated"


@dataclass(frozen=True, eq=False, slots=True)
class JobSource:
    """Workloads, the series they are taken from, and the profile of the tasks that have them."""

    name: str
    data: JobData
    profile: RuntimeProfile
    series: Mapping[str, Series]
    """By name; empty where a folder has none. They go on to the end of the data, so forecasters are given parts."""


def find_source(folder: Path | None, measured: Path | None = None) -> JobSource:
    """The data of a folder, else of bsp in $FORESAIL_DATA, else made up; with the profile of a file if given."""
    profile = None if measured is None else read_measured(measured)
    stated = os.environ.get("FORESAIL_DATA")
    if folder is None and stated and (Path(stated) / "bsp").is_dir():
        folder = Path(stated) / "bsp"
    if folder is None:
        profile = profile or shipped_profile()
        data, series = generate_job(tasks=profile.tasks)
        return JobSource(GENERATED, data, profile, {one.name: one for one in series})
    if not folder.is_dir():
        raise InputError("no such folder; --data names one with actual, forecasts, series and a profile", path=folder)
    data = read_job(folder)
    found = read_series_folder(folder / "series", data.series) if (folder / "series").is_dir() else []
    profile = profile or read_measured(folder / PROFILE)
    return JobSource(folder.resolve().name, data, profile.of(data.tasks), {one.name: one for one in found})
