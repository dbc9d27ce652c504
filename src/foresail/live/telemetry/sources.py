"""All that is measured and reported: one telemetry for controllers, and the parts that keep it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

from prometheus_client import CollectorRegistry

from foresail.core.clock import Clock
from foresail.core.control import CPU_USED_MILLI, CPU_USED_S
from foresail.kube.api.client import Client
from foresail.live.cache.cache import Cache
from foresail.live.program import Part
from foresail.live.telemetry.checkpoints import Channel, ReportedCheckpoints
from foresail.live.telemetry.csv_folder import CsvFolders
from foresail.live.telemetry.folders import JobsFolder
from foresail.live.telemetry.jobs import Jobs, job_of
from foresail.live.telemetry.kubelet import KubeletCpu
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.live.telemetry.progress import ProgressStore
from foresail.live.telemetry.settings import TelemetrySettings

_FORGET_EVERY_S = 60.0


class Sources:
    """What is known of the running pods of one scheduler name; see `foresail.core.control.Telemetry`."""

    def __init__(
        self,
        settings: TelemetrySettings,
        api: Client,
        cache: Cache,
        clock: Clock,
        *,
        scheduler_name: str,
        registry: CollectorRegistry,
    ) -> None:
        self._cache = cache
        metrics = TelemetryMetrics(registry)
        jobs = Jobs(cache, scheduler_name)
        self.progress = ProgressStore(jobs, clock, metrics)
        self._cpu = KubeletCpu(api, cache, clock, scheduler_name) if settings.measure_cpu else None
        folders = [JobsFolder.parse(text, "--progress-dir") for text in settings.progress_dirs]
        self._csv = CsvFolders(folders, jobs, self.progress, every_s=settings.progress_every_s) if folders else None
        channels: list[Channel] = [one for one in (self._csv,) if one is not None]
        self.checkpoints = ReportedCheckpoints(self.progress, channels, metrics)

    def reading(self, uid: Hashable, name: str) -> float | None:
        if name in {CPU_USED_MILLI, CPU_USED_S}:
            return None if self._cpu is None else self._cpu.reading(uid, name)
        pod = self._cache.pods.get(str(uid))
        return None if pod is None else self.progress.reading(job_of(pod), name)

    def parts(self) -> Sequence[Part]:
        """What a program runs to keep the readings up to date."""
        cpu, csv = self._cpu, self._csv
        return [
            *([] if cpu is None else [Part("telemetry", cpu.run, ready=lambda: cpu.problem)]),
            *([] if csv is None else [Part("progress files", csv.run, ready=lambda: csv.problem)]),
            Part("jobs", self._forget),
        ]

    async def _forget(self) -> None:
        while True:
            self.checkpoints.forget(self.progress.forget_gone())
            await asyncio.sleep(_FORGET_EVERY_S)
