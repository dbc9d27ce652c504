"""Carries the runs of a plan out on a real cluster, one after the other."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from foresail.errors import ForesailError, InputError
from foresail.experiments.executors import Done, Failed, Outcomes
from foresail.experiments.kube.objects import Submitting
from foresail.experiments.kube.run import KubeSettings, remove_left, run_on_kube
from foresail.experiments.kube.settings import KubeOptions
from foresail.experiments.plan import Plan, PlannedRun
from foresail.experiments.request import RunRequest
from foresail.experiments.run import trace_of
from foresail.experiments.store import manifest_extra
from foresail.kube.api.connect import Connection
from foresail.live.scheduler.run import RunSettings
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.results.folder import run_files
from foresail.traces.training.models import shipped_models
from foresail.traces.training.world import models_of

_CPU_EVERY_S = 5.0
"""Jobs of an experiment are short: what they use is looked at more often than it would be otherwise."""


class OnKube:
    """One run after the other: they would disturb each other."""

    def __init__(
        self,
        connection: Connection,
        options: KubeOptions,
        *,
        folder: Path,
        default_image: str = "",
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`folder` is where results go. Who begins there removes what a killed run of the same folder has left."""
        self._connection = connection
        self._options = options
        self._experiment = hashlib.sha256(f"{socket.gethostname()} {folder.resolve()}".encode()).hexdigest()[:12]
        self._image = options.image or default_image
        self._on_progress = on_progress

    def outcomes(self, runs: Sequence[PlannedRun]) -> Outcomes:
        asyncio.run(remove_left(self._connection, self._experiment))
        if self._options.shared_folder is not None:
            for left in Path(self._options.shared_folder).glob(f"run-{self._experiment}-*"):
                shutil.rmtree(left, ignore_errors=True)
        for planned in runs:
            try:
                trace = trace_of(planned.request)
                with self._folder() as shared:
                    settings = self._settings(planned.request, shared)
                    result = run_on_kube(planned.request, trace, settings, self._on_progress)
                yield planned, Done(run_files(result, {**planned.manifest, "world": "kube"}))
            except ForesailError as error:
                yield planned, Failed(str(error))

    def _settings(self, request: RunRequest, shared: Path | None) -> KubeSettings:
        models = shipped_models() if request.training is None else models_of(request.training)
        step_cpu_s = tuple((model.training.name, model.cpu_s / model.training.steps) for model in models.all)
        volume = () if shared is None else (("hostPath", {"path": str(shared), "type": "Directory"}),)
        return KubeSettings(
            self._connection,
            Submitting(image=self._image, volume=volume, step_cpu_s=step_cpu_s),
            RunSettings(telemetry=TelemetrySettings(measure_cpu=True, progress_every_s=1.0, cpu_every_s=_CPU_EVERY_S)),
            progress=None if shared is None else shared / "progress",
            give_up_s=self._options.give_up_s,
            keep=self._options.keep_namespaces,
            experiment=self._experiment,
        )

    @contextmanager
    def _folder(self) -> Iterator[Path | None]:
        """A folder of a run's own below the shared one: no job finds another run's checkpoint."""
        if self._options.shared_folder is None:
            yield None
            return
        path = Path(self._options.shared_folder) / f"run-{self._experiment}-{secrets.token_hex(4)}"
        try:
            (path / "progress").mkdir(parents=True)
            (path / "checkpoints").mkdir()
        except OSError as error:
            why = f"cannot be made ({error.strerror}); name another --shared-folder"
            raise InputError(why, path=path) from error
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)


def plan_on_kube(plan: Plan) -> Plan:
    """The plan as it is on a cluster: nobody is pinned there, the policy alone decides where jobs start."""
    runs = []
    for planned in plan.runs:
        request = replace(planned.request, pin_to=None)
        runs.append(replace(planned, request=request, manifest=manifest_extra(request, planned.manifest["inputs"])))
    return replace(plan, runs=tuple(runs))
