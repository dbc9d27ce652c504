"""What is measured of running pods and where their reports come from: settings of every program with controllers."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.settings import setting


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where readings come from; without any of these there are none."""

    measure_cpu: bool = False
    """Let controllers see the CPU that pods use; needs the right to get nodes/proxy."""
    progress_dirs: tuple[str, ...] = setting((), option="--progress-dir", metavar="[NAMESPACE=]DIR", example="/data")
    """Read training jobs' progress from NAMESPACE/JOB/progress.csv below this folder, or from JOB/progress.csv if it is
    one namespace's; may be given several times."""
    progress_every_s: float = 5.0
    """How often these folders are looked at."""
