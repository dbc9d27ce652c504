"""The CPU that pods use, from their kubelets' summary (`/stats/summary`), through the API server's node proxy.

That needs the right to `get` on `nodes/proxy`, which also lets its holder run commands in pods on some versions of
Kubernetes; so nothing is read unless it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError
from foresail.kube.objects.parts import MALFORMED
from foresail.kube.objects.quantity import NANO_PER_UNIT
from foresail.kube.objects.values import time_of
from foresail.live.telemetry.cpu import CpuBook, CpuSourceError
from foresail.live.telemetry.jobs import Jobs

_AT_ONCE = 8
_POD = "pod"


class KubeletCpu:
    """One request a look to every node with pods of ours."""

    name = "kubelet"

    def __init__(self, api: Client, jobs: Jobs) -> None:
        self.problem = ""
        self._api = api
        self._jobs = jobs

    async def look(self, book: CpuBook) -> int:
        nodes = sorted({pod.node for pod in self._jobs.pods()})
        turn = asyncio.Semaphore(_AT_ONCE)

        async def read(node: str) -> Object | str:
            async with turn:
                try:
                    return await self._api.get(f"/api/v1/nodes/{node}/proxy/stats/summary", only_cpu_and_memory=True)
                except ClusterError as error:
                    return str(error)

        answers = await asyncio.gather(*map(read, nodes))
        failed = [answer for answer in answers if isinstance(answer, str)]
        if failed and len(failed) == len(nodes):
            raise CpuSourceError(failed[0])
        self.problem = f"{len(failed)} of {len(nodes)} nodes: {failed[0]}" if failed else ""
        known = 0
        for answer in answers:
            for uid, used_s, at_s in pods_in(answer if isinstance(answer, dict) else {}):
                if self._jobs.pod(uid) is not None:
                    book.counted(self.name, uid, {_POD: used_s}, at_s)
                    known += 1
        return known


def pods_in(summary: Object) -> Iterator[tuple[str, float, float]]:
    """Uid, CPU-seconds used since it began, and when that was measured, of each pod of a kubelet's summary."""
    for pod in summary.get("pods") or ():
        try:
            cpu = pod["cpu"]
            at = time_of(cpu["time"], "time")
            if at is not None:
                yield str(pod["podRef"]["uid"]), cpu["usageCoreNanoSeconds"] / NANO_PER_UNIT, at.timestamp()
        except MALFORMED:
            continue  # one that has just begun has no figures yet
