"""The CPU that pods use, from whichever source of a cluster has it; if one fails the next is read."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from foresail.core.control import CPU_USED_MILLI, CPU_USED_S
from foresail.kube.api.errors import ClusterError
from foresail.live.telemetry.jobs import Jobs
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.logs import get_logger

_MOST_PARTS = 64
"""Containers of one pod, those that have ended too."""
_KNOWN_AFTER_S = 120.0
"""A pod that has run for so long is known to every source that works."""
_LOOK_BACK_EVERY = 20
"""Rounds after which one that comes earlier in the order is tried again."""


class CpuSourceError(Exception):
    """A source cannot say what pods use; says why."""


class CpuSource(Protocol):
    """A place where the CPU used by pods can be read."""

    name: str
    problem: str
    """What it could not read in its last look although it read others; empty if nothing."""

    async def look(self, book: CpuBook) -> int:
        """Write down what pods have used; of how many of them it is known. ClusterError or CpuSourceError if
        it cannot be read at all.
        """


@dataclass(slots=True)
class _UsedByPod:
    """What one pod has used."""

    used_s: float = 0.0
    used_milli: float | None = None
    at_s: float = 0.0
    """When that was measured."""
    source: str = ""
    parts: OrderedDict[str, float] = field(default_factory=OrderedDict)
    """The counters of that source, by what counts, as they last stood."""


class CpuBook:
    """CPU-seconds that pods have used since they began, which never become fewer, and what they use now.

    Times are seconds since 1970. A pod that is read from another source than before goes on from what was known.
    """

    def __init__(self) -> None:
        self._pods: dict[str, _UsedByPod] = {}

    def reading(self, uid: Hashable, name: str) -> float | None:
        known = self._pods.get(str(uid))
        if known is None:
            return None
        return known.used_milli if name == CPU_USED_MILLI else known.used_s if name == CPU_USED_S else None

    def __len__(self) -> int:
        return len(self._pods)

    def keep(self, uids: Iterable[str]) -> None:
        """There are these pods and no others."""
        there = set(uids)
        for uid in self._pods.keys() - there:
            del self._pods[uid]

    def counted(self, source: str, uid: str, parts: Mapping[str, float], at_s: float) -> None:
        """What the counters of a pod's parts say, in CPU-seconds since each part began."""
        sound = {part: value for part, value in parts.items() if 0 <= value < math.inf}
        if not sound:
            return
        known = self._pods.setdefault(uid, _UsedByPod())
        if known.source != source:
            known.used_s = max(known.used_s, sum(sound.values()))
            known.source, known.at_s = source, at_s
            known.parts = OrderedDict(sound)
        elif at_s > known.at_s:
            gained = sum(_gained(known.parts.get(part), value) for part, value in sound.items())
            known.used_milli = 1000.0 * gained / (at_s - known.at_s)
            known.used_s += gained
            known.at_s = at_s
            for part, value in sound.items():
                known.parts[part] = value
                known.parts.move_to_end(part)
        while len(known.parts) > _MOST_PARTS:
            known.parts.popitem(last=False)

    def rated(self, source: str, uid: str, used_milli: float, at_s: float, since_s: float) -> None:
        """What a pod uses now. What it used before it was first seen, from `since_s` on, is taken to be as much."""
        if not 0 <= used_milli < math.inf:
            return
        known = self._pods.get(uid)
        if known is None:
            known = self._pods[uid] = _UsedByPod(at_s=min(since_s, at_s))
        if known.source != source:
            known.source = source
            known.parts.clear()
        if at_s > known.at_s:
            known.used_s += used_milli / 1000.0 * (at_s - known.at_s)
            known.at_s = at_s
        known.used_milli = used_milli


def _gained(before: float | None, now: float) -> float:
    """A part that was not there before, or that counts from 0 again, has used all that it says since."""
    return now if before is None or now < before else now - before


class CpuUsed:
    """Readings from the first source that works."""

    def __init__(
        self,
        sources: Sequence[CpuSource],
        jobs: Jobs,
        metrics: TelemetryMetrics,
        *,
        every_s: float,
        unix_s: Callable[[], float] = time.time,
    ) -> None:
        """`sources` in the order in which they are tried."""
        self.problem = ""
        self.source = ""
        """The one that is read now; empty if none could be."""
        self._sources = sources
        self._jobs = jobs
        self._metrics = metrics
        self._every_s = every_s
        self._unix_s = unix_s
        self._book = CpuBook()
        self._round = 0
        self._partial = ""
        for source in sources:
            metrics.cpu_source.labels(source.name).set(0)

    def reading(self, uid: Hashable, name: str) -> float | None:
        return self._book.reading(uid, name)

    async def run(self) -> None:
        """Look every so often, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> None:
        """One look at whoever can say what pods use."""
        pods = self._jobs.pods()
        self._book.keep(pod.uid for pod in pods)
        if not pods and self.source:
            return
        settled_s = self._unix_s() - _KNOWN_AFTER_S
        expected = sum(pod.started_s is not None and pod.started_s < settled_s for pod in pods)
        failed: dict[str, str] = {}
        for source in self._in_order():
            failed[source.name] = why = await self._read(source, expected)
            if not why:
                del failed[source.name]
                self._use(source.name, failed)
                self._tell_partial(source)
                self.problem = ""
                break
        else:
            self._use("", failed)
            self.problem = "; ".join(f"{name}: {why}" for name, why in failed.items())
        self._metrics.cpu_pods.set(len(self._book))

    def _tell_partial(self, source: CpuSource) -> None:
        """A node that cannot be read keeps nobody from their work, so it is said once, and counted."""
        if source.problem:
            self._metrics.cpu_failures.labels(source.name).inc()
            if not self._partial:
                get_logger().warning("cpu_used_is_partly_unknown", source=source.name, why=source.problem)
        self._partial = source.problem

    async def _read(self, source: CpuSource, expected: int) -> str:
        """Why a source cannot be used; empty if it was."""
        try:
            known = await source.look(self._book)
        except (ClusterError, CpuSourceError) as error:
            why = str(error)
        else:
            why = "" if known or not expected else f"it knows none of {expected} pods"
        if why:
            self._metrics.cpu_failures.labels(source.name).inc()
        return why

    def _in_order(self) -> list[CpuSource]:
        """Whom to ask: the one of the last round first, and now and then those before it again."""
        self._round += 1
        if not self.source or self._round % _LOOK_BACK_EVERY == 0:
            return list(self._sources)
        return sorted(self._sources, key=lambda source: source.name != self.source)

    def _use(self, name: str, failed: dict[str, str]) -> None:
        if name == self.source and (name or self.problem):
            return
        if name:
            get_logger().info("cpu_used_is_read", source=name, instead_of=failed or None)
        else:
            get_logger().warning("cpu_used_is_unknown", failed=failed)
        self.source = name
        for source in self._sources:
            self._metrics.cpu_source.labels(source.name).set(source.name == name)
