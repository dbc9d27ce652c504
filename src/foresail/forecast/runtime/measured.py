"""The profile that comes with Foresail: the eight tasks of the published job, measured on a machine of two cores."""

from __future__ import annotations

from pathlib import Path

from foresail.forecast.runtime.profile import RuntimeProfile
from foresail.forecast.runtime.scattered import read_measured

FILE = Path(__file__).with_name("measured.csv")
"""As `foresail measure stress` wrote it; the command stands in docs/guides/supersteps.md."""


def shipped_profile() -> RuntimeProfile:
    """Seconds of stress-ng's tasks with 200 to 1500 milli, at workloads from 10 to 49."""
    return read_measured(FILE)
