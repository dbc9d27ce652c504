"""All that is measured and reported: one telemetry for controllers, and the parts that keep it up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from foresail.core.clock import Clock
from foresail.core.control import CPU_USED_MILLI, CPU_USED_S
from foresail.kube.api.client import Client
from foresail.live.cache.cache import Cache
from foresail.live.program import Part
from foresail.live.serving.health import Receive, Scope, Send
from foresail.live.serving.server import ServerSettings, is_loopback, listen, serve
from foresail.live.telemetry.checkpoints import Channel, ReportedCheckpoints
from foresail.live.telemetry.checks import ADDRESS, cpu_sources, progress_folders, progress_server, tensorboard_folders
from foresail.live.telemetry.cpu import CpuSource, CpuUsed
from foresail.live.telemetry.csv_folder import CsvFolders
from foresail.live.telemetry.http import PATH, ProgressReceiver
from foresail.live.telemetry.jobs import Jobs, job_of
from foresail.live.telemetry.kubelet import KubeletCpu
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.live.telemetry.metrics_api import MetricsApiCpu
from foresail.live.telemetry.pod_log import PodLogs
from foresail.live.telemetry.progress import ProgressStore
from foresail.live.telemetry.prometheus import PrometheusCpu
from foresail.live.telemetry.settings import TelemetrySettings
from foresail.live.telemetry.tensorboard import TensorBoardFolders
from foresail.live.telemetry.tokens import ListedTokens, PodTokens
from foresail.logs import get_logger

_FORGET_EVERY_S = 60.0


def _cpu_source(name: str, settings: TelemetrySettings, api: Client, jobs: Jobs) -> CpuSource:
    if name == PrometheusCpu.name:
        file = settings.prometheus_token_file
        return PrometheusCpu(settings.prometheus, jobs, token_file=None if file is None else Path(file))
    return MetricsApiCpu(api, jobs) if name == MetricsApiCpu.name else KubeletCpu(api, jobs)


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
        server: ServerSettings | None = None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`server` is the program's own, whose certificate is shown wherever progress is received. `leads`: whether
        what is sent here is of use, or another replica is the one that acts on it.
        """
        self._cache = cache
        metrics = TelemetryMetrics(registry)
        jobs = Jobs(cache, scheduler_name)
        self.progress = ProgressStore(jobs, clock, metrics)
        measured = [_cpu_source(name, settings, api, jobs) for name in cpu_sources(settings)]
        self._cpu = CpuUsed(measured, jobs, metrics, every_s=settings.cpu_every_s) if measured else None
        folders = progress_folders(settings)
        self._csv = CsvFolders(folders, jobs, self.progress, every_s=settings.progress_every_s) if folders else None
        events = tensorboard_folders(settings)
        every_s = settings.progress_every_s
        self._events = TensorBoardFolders(events, jobs, self.progress, every_s=every_s) if events else None
        self._logs = PodLogs(api, jobs, self.progress, clock) if settings.progress_logs else None
        self._server = progress_server(settings, server or ServerSettings())
        self._shares_server = self._server is not None and self._server == server
        self.receiver: ProgressReceiver | None = None
        if self._server is not None:
            file, is_near = settings.progress_token_file, is_loopback(self._server.host)
            tokens = PodTokens(api, jobs, open_to_all=is_near) if file is None else ListedTokens(Path(file), jobs)
            self.receiver = ProgressReceiver(tokens, self.progress, clock, metrics, leads=leads)
        self.receiver_url = ""
        """Where progress is received, once it is."""
        channels: list[Channel] = [one for one in (self._csv, self.receiver) if one is not None]
        self.checkpoints = ReportedCheckpoints(self.progress, channels, metrics)

    def reading(self, uid: Hashable, name: str) -> float | None:
        if name in {CPU_USED_MILLI, CPU_USED_S}:
            return None if self._cpu is None else self._cpu.reading(uid, name)
        pod = self._cache.pods.get(str(uid))
        return None if pod is None else self.progress.reading(job_of(pod), name)

    def parts(self) -> Sequence[Part]:
        """What a program runs to keep the readings up to date."""
        cpu, csv, events, logs, receiver = self._cpu, self._csv, self._events, self._logs, self.receiver
        serve_it = None if self._shares_server else self._receive
        return [
            *([] if cpu is None else [Part("telemetry", cpu.run, ready=lambda: cpu.problem)]),
            *([] if csv is None else [Part("progress files", csv.run, ready=lambda: csv.problem)]),
            *([] if events is None else [Part("tensorboard files", events.run, ready=lambda: events.problem)]),
            *([] if logs is None else [Part("progress logs", logs.run, ready=lambda: logs.problem)]),
            *([] if receiver is None else [Part("progress http", serve_it, ready=lambda: receiver.problem)]),
            Part("jobs", self._forget),
        ]

    def app(self, health: Any) -> Any:
        """What the program's own server answers with: `health`, and progress if that is received there."""
        receiver = self.receiver
        if receiver is None or not self._shares_server:
            return health

        async def either(scope: Scope, receive: Receive, send: Send) -> None:
            await (receiver if scope.get("path") == PATH else health)(scope, receive, send)

        return either

    async def _receive(self) -> None:
        if self._server is None or self.receiver is None:
            return
        at = listen(self._server, ADDRESS)
        self.receiver_url = self._server.url_of(at)
        get_logger().info("progress_is_received", url=f"{self.receiver_url}{PATH}")
        await serve(self.receiver, at, self._server, guarded=True)

    async def _forget(self) -> None:
        while True:
            forgotten = self.progress.forget_gone()
            self.checkpoints.forget(forgotten)
            if self.receiver is not None:
                self.receiver.forget(forgotten)
            await asyncio.sleep(_FORGET_EVERY_S)
