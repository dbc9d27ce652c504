"""Schedulers under test: in the test's own event loop, or as real processes that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

from tests.live.faults.proxy import NO_FAULT, Proxy, Script
from tests.live.faults.world import Truth

from foresail.core.backoff import Backoff
from foresail.core.table import NodeTable
from foresail.kube.api.client import Body, Client, Object
from foresail.kube.api.connect import Connection
from foresail.kube.api.lease import LeaderSettings
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings

TIMEOUT_S = 1.0
"""What a scheduler under test waits for an answer."""
QUICK = Backoff(0.05, 0.4)
"""Rests as short as the runs are."""
SHORT_LEASE = {"lease_s": 2, "renew_s": 1.3, "retry_s": 0.2}
_DEAD_WITHIN_S = 5.0
_MAIN = Path(__file__).with_name("replica_main.py")


class TellingClient(Client):
    """Tells pod and node of every bind in the instant in which it is asked for."""

    on_bind: Callable[[str, str], None] = staticmethod(lambda _uid, _node: None)

    async def post(self, path: str, body: Body, **query: object) -> Object:
        if path.endswith("/binding") and not isinstance(body, bytes):
            self.on_bind(body["metadata"]["uid"], body["target"]["name"])
        return await super().post(path, body, **query)


def held_by_others(table: NodeTable, node: str, uid: str) -> Counter[str]:
    """What a table has booked on a node beside one pod: milli-CPU, Mi, pods, and milli of each GPU."""
    held: Counter[str] = Counter()
    for other, placed in table.placed.items():
        if other != uid and table.names[placed.row] == node:
            spec = placed.pod.spec
            held.update(cpu=spec.cpu_milli, memory=spec.memory_bytes >> 20, pods=1)
            held.update({f"gpu {device}": spec.gpu_milli for device in placed.devices})
    return held


class Replica:
    """`foresail run` in this event loop, behind a proxy of its own."""

    def __init__(
        self, proxy: Proxy, scheduler: str, truth: Truth, *, lease: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        """`truth` gets to know what this one knew whenever it asks for a bind."""
        self.proxy = proxy
        self._truth = truth
        self._timeout_s = timeout_s
        self.said: list[str] = []
        self._settings = RunSettings(
            scheduler_name=scheduler,
            leader_elect=bool(lease),
            lease=LeaderSettings(name=lease or "none", **SHORT_LEASE),
            backoff=QUICK,
            server=ServerSettings(port=0),
        )
        self.process: SchedulerProgram
        self._api: TellingClient
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        self._api = await TellingClient(Connection(self.proxy.url), timeout_s=self._timeout_s).__aenter__()
        self._api.on_bind = self._note
        self.process = SchedulerProgram(self._settings, self._api, announce=self.said.append)
        self._task = asyncio.create_task(self.process.run())
        return self

    def _note(self, uid: str, node: str) -> None:
        self._truth.others_known[uid] = held_by_others(self.process.live.cache.table, node, uid)

    @property
    def leads(self) -> bool:
        return self.process.live.leads

    @property
    def runs(self) -> bool:
        if self._task is not None and self._task.done():
            self._task.result()
        return self._task is not None

    async def stop(self) -> None:
        """As SIGTERM does."""
        task, self._task = self._task, None
        if task is not None:
            self.process.stop()
            await task
            await self._api.close()

    async def kill(self) -> None:
        """As SIGKILL does: from this instant nothing that it does reaches anyone."""
        self.proxy.cut()
        task, self._task = self._task, None
        if task is not None:
            cluster = self.process.live.cluster
            await _end([task])
            # Nobody decides any more, so these are all there will be.
            await _end([*cluster.binding.values(), *cluster.clearing.values()])
            for timer in cluster.paused.values():
                timer.cancel()
            await self._api.close()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks once, which must be enough."""
    for task in tasks:
        task.cancel()
    ended = asyncio.gather(*tasks, return_exceptions=True)  # no error of a process that was killed is of interest
    done, _ = await asyncio.wait([ended], timeout=_DEAD_WITHIN_S)
    assert done, f"outlived its cancel: {[task for task in tasks if not task.done()]}"


class Field:
    """Where replicas are started: every one behind a new proxy, all of them gone at the end."""

    def __init__(self, upstream: str, tls: ssl.SSLContext, truth: Truth, stack: AsyncExitStack) -> None:
        self.proxies: list[Proxy] = []
        self._upstream = upstream
        self._tls = tls
        self._truth = truth
        self._stack = stack

    async def proxy(self, script: Script = lambda _: NO_FAULT) -> Proxy:
        proxy = await self._stack.enter_async_context(Proxy(self._upstream, self._tls, script).running())
        self.proxies.append(proxy)
        self._truth.evictions.append(proxy.evicted)
        return proxy

    async def replica(
        self, scheduler: str, script: Script = lambda _: NO_FAULT, *, lease: str = "", timeout_s: float = TIMEOUT_S
    ) -> Replica:
        proxy = await self.proxy(script)
        replica = await Replica(proxy, scheduler, self._truth, lease=lease, timeout_s=timeout_s).start()
        self._stack.push_async_callback(replica.kill)
        return replica

    async def process(
        self, folder: Path, scheduler: str, script: Script = lambda _: NO_FAULT, *, lease: str = ""
    ) -> RealProcess:
        proxy = await self.proxy(script)
        process = RealProcess(proxy, folder / f"{scheduler}-{len(self.proxies)}", scheduler, lease)
        self._stack.push_async_callback(process.kill)
        await process.start()
        return process


@asynccontextmanager
async def field(upstream: str, tls: ssl.SSLContext, truth: Truth) -> AsyncIterator[Field]:
    async with AsyncExitStack() as stack:
        yield Field(upstream, tls, truth, stack)


class RealProcess:
    """`foresail run` as an operating system has it."""

    def __init__(self, proxy: Proxy, place: Path, scheduler: str, lease: str) -> None:
        self.proxy = proxy
        self._kubeconfig = place.with_suffix(".kubeconfig")
        self._log = place.with_suffix(".log")
        self._options = {"scheduler_name": scheduler, "lease": lease, "timeout_s": TIMEOUT_S, **SHORT_LEASE}
        self._child: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._kubeconfig.write_text(kubeconfig(self.proxy.url), encoding="utf-8")
        with self._log.open("wb") as log:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                str(_MAIN),
                json.dumps({**self._options, "kubeconfig": str(self._kubeconfig)}),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def leads(self) -> bool:
        told = [line for line in self.log.splitlines() if line.startswith("places ")]
        return bool(told) and told[-1] == "places pods now"

    def signal(self, number: signal.Signals) -> None:
        assert self._child is not None
        self._child.send_signal(number)

    async def kill(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            child.kill()
        if child is not None:
            await child.wait()

    async def terminate(self) -> int:
        """SIGTERM; returns its exit code."""
        child, self._child = self._child, None
        assert child is not None
        child.terminate()
        return await child.wait()


def kubeconfig(url: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "chaos",
            "clusters": [{"name": "chaos", "cluster": {"server": url}}],
            "users": [{"name": "nobody", "user": {}}],
            "contexts": [{"name": "chaos", "context": {"cluster": "chaos", "user": "nobody"}}],
        }
    )
