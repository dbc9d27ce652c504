"""The CPU that pods use, from their kubelets' `/metrics/resource`, through the API server's node proxy.

That needs the right to `get` on `nodes/proxy`, which also lets its holder run commands in pods on some versions of
Kubernetes; so nothing is read unless it is asked for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Hashable, Iterator

from foresail.core.clock import Clock
from foresail.core.control import CPU_USED_MILLI
from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError
from foresail.kube.api.kinds import NODE
from foresail.live.cache.cache import Cache
from foresail.logs import get_logger

_EVERY_S = 15.0
_LINE = re.compile(r"pod_cpu_usage_seconds_total\{(?P<labels>[^}]*)\} (?P<used_s>\S+)(?: (?P<at_ms>\d+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class KubeletCpu:
    """Readings of `cpu_used_milli`: the mean between the last two looks at a pod's node."""

    def __init__(self, api: Client, cache: Cache, clock: Clock, scheduler_name: str) -> None:
        """Nodes are looked at that have pods of this scheduler's name."""
        self._api = api
        self._cache = cache
        self._clock = clock
        self._scheduler_name = scheduler_name
        self._last: dict[str, tuple[float, float]] = {}
        """Uid to when a pod was looked at, and the CPU-seconds that it had used by then."""
        self._used_milli: dict[str, float] = {}
        self.problem = ""
        """Why a node could not be read in the last round; empty if all could."""

    def reading(self, uid: Hashable, name: str) -> float | None:
        return self._used_milli.get(str(uid)) if name == CPU_USED_MILLI else None

    async def run(self) -> None:
        """Look at all nodes every so often, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> None:
        """One look at every node with pods of ours."""
        ours = [pod for pod in self._cache.pods.values() if pod.stands and pod.scheduler_name == self._scheduler_name]
        there = {pod.uid for pod in ours}
        for uid in self._last.keys() - there:
            del self._last[uid]
            self._used_milli.pop(uid, None)
        problem = ""
        for node in sorted({pod.node for pod in ours}):
            try:
                text = await self._api.text(NODE.named(node, part="proxy/metrics/resource"))
            except ClusterError as error:
                problem = str(error)
                continue
            self._take(text)
        if problem and not self.problem:
            get_logger().warning("telemetry_failed", error=problem)
        self.problem = problem

    def _take(self, text: str) -> None:
        for name, measured_s, used_s in pods_in(text):
            pod = self._cache.named(name)
            if pod is None:
                continue
            at_s = self._clock.now() if measured_s is None else measured_s
            before = self._last.get(pod.uid)
            if before is not None and at_s > before[0] and used_s >= before[1]:
                self._used_milli[pod.uid] = 1000.0 * (used_s - before[1]) / (at_s - before[0])
            self._last[pod.uid] = (at_s, used_s)


def pods_in(text: str) -> Iterator[tuple[str, float | None, float]]:
    """Pods of a kubelet's answer, as `namespace/name`, with the time it measured at and the CPU-seconds used so far."""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        labels = dict(_LABEL.findall(found["labels"]))
        at_s = None if found["at_ms"] is None else int(found["at_ms"]) / 1000.0
        yield f"{labels.get('namespace', '')}/{labels.get('pod', '')}", at_s, float(found["used_s"])
