"""Carries the runs of a plan out on a real cluster, one after the other."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from foresail.errors import ForesailError, InputError
from foresail.experiments.executors import Done, Failed, Outcomes
from foresail.experiments.kube.objects import Submitting
from foresail.experiments.kube.run import KubeSettings, run_on_kube
from foresail.experiments.kube.settings import KubeOptions
from foresail.experiments.plan import Plan, PlannedRun
from foresail.experiments.run import trace_of
from foresail.experiments.store import manifest_extra
from foresail.kube.api.connect import Connection
from foresail.live.scheduler.run import RunSettings
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.results.folder import run_files
from foresail.traces.training.models import shipped_models


class OnKube:
    """One run after the other: they would disturb each other."""

    def __init__(
        self,
        connection: Connection,
        options: KubeOptions,
        *,
        default_image: str = "",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._connection = connection
        self._options = options
        self._image = options.image or default_image
        self._on_progress = on_progress

    def outcomes(self, runs: Sequence[PlannedRun]) -> Outcomes:
        for planned in runs:
            try:
                trace = trace_of(planned.request)
                with _Folder(self._options.shared_folder) as shared:
                    result = run_on_kube(planned.request, trace, self._settings(shared), self._on_progress)
                yield planned, Done(run_files(result, {**planned.manifest, "world": "kube"}))
            except ForesailError as error:
                yield planned, Failed(str(error))

    def _settings(self, shared: Path | None) -> KubeSettings:
        models = tuple((model.training.name, model.cpu_s / model.training.steps) for model in shipped_models().all)
        volume = () if shared is None else (("hostPath", {"path": str(shared), "type": "Directory"}),)
        return KubeSettings(
            self._connection,
            Submitting(image=self._image, volume=volume, step_cpu_s=models),
            RunSettings(telemetry=TelemetrySettings(measure_cpu=True, progress_every_s=1.0)),
            progress=None if shared is None else shared / "progress",
            give_up_s=self._options.give_up_s,
            keep=self._options.keep_namespaces,
        )


class _Folder:
    """A folder of a run's own below the shared one: no job finds another run's checkpoint."""

    def __init__(self, below: str | None) -> None:
        self._path = None if below is None else Path(below) / f"run-{secrets.token_hex(4)}"

    def __enter__(self) -> Path | None:
        if self._path is not None:
            try:
                (self._path / "progress").mkdir(parents=True)
                (self._path / "checkpoints").mkdir()
            except OSError as error:
                why = f"cannot be made ({error.strerror}); name another --shared-folder"
                raise InputError(why, path=self._path) from error
        return self._path

    def __exit__(self, *_error: object) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


def plan_on_kube(plan: Plan) -> Plan:
    """The plan as it is on a cluster: nobody is pinned there, the policy alone decides where jobs start."""
    runs = []
    for planned in plan.runs:
        request = replace(planned.request, pin_to=None)
        runs.append(replace(planned, request=request, manifest=manifest_extra(request, planned.manifest["inputs"])))
    return replace(plan, runs=tuple(runs))
