"""Progress from pods' logs, through the API server: for jobs that report nowhere else.

Every look asks for what came since the last line that was seen, with its time; a pod whose log tells nothing is looked
at more and more seldom. Needs the right to get `pods/log`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from foresail.core.clock import Clock
from foresail.kube.api.client import Client
from foresail.kube.api.errors import ApiError, ClusterError, Forbidden, NotFound
from foresail.kube.objects.values import PROGRESS_CONTAINER, PROGRESS_PATTERN, PROGRESS_TOTAL
from foresail.live.cache.pods import CachedPod
from foresail.live.telemetry.jobs import Jobs, job_of, stated_job
from foresail.live.telemetry.patterns import PatternError, patterns_in, reported_in
from foresail.live.telemetry.progress import ProgressStore
from foresail.live.telemetry.rows import LONGEST_LINE, RESUME

SOURCE = "log"
_EVERY_S = 10.0
_EXPECTED_S = 40.0
"""The longest pause for a pod that says of itself that it is a job, or how it reports."""
_SELDOM_S = 320.0
_TICK_S = 1.0
_AT_ONCE = 8
_MOST_BYTES = 1 << 18
_FIRST_LINES = 500
_NOT_YET = 400
"""What is answered while a container is being started, and where a container must be named."""


class StampedLine(NamedTuple):
    """A line and when it was written."""

    at: datetime
    text: str


@dataclass(slots=True)
class _Reading:
    """How far the log of one pod was read."""

    due_s: float
    every_s: float = _EVERY_S
    last: datetime | None = None
    """When the last line was written that was read."""
    seen: int = 0
    """How many lines of that very moment were read."""
    step: str = ""
    """The last step that a pattern told, for lines that tell only how well it went."""


class PodLogs:
    """Looks at the logs of running pods, each in its own time."""

    def __init__(self, api: Client, jobs: Jobs, store: ProgressStore, clock: Clock) -> None:
        self.problem = ""
        self._api = api
        self._jobs = jobs
        self._store = store
        self._clock = clock
        self._readings: dict[str, _Reading] = {}

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(_TICK_S)

    async def look(self) -> None:
        """One look at every log whose time has come."""
        pods = {pod.uid: pod for pod in self._jobs.pods() if pod.phase == "Running"}
        now_s = self._clock.now()
        self._readings = {uid: self._readings.get(uid) or _Reading(now_s) for uid in pods}
        due = [pods[uid] for uid, reading in self._readings.items() if reading.due_s <= now_s]
        turn = asyncio.Semaphore(_AT_ONCE)

        async def read(pod: CachedPod) -> str:
            async with turn:
                return await self._read(pod, self._readings[pod.uid])

        failed = [why for why in await asyncio.gather(*map(read, due)) if why]
        if due:
            self.problem = failed[0] if failed else ""

    async def _read(self, pod: CachedPod, reading: _Reading) -> str:
        """Read what came to a log; why that is not allowed, empty if it is."""
        query: dict[str, object] = {"timestamps": True, "limitBytes": _MOST_BYTES}
        if reading.last is None:
            query["tailLines"] = _FIRST_LINES
        else:
            # The API counts in whole seconds, so some lines come again.
            query["sinceTime"] = reading.last.replace(microsecond=0).isoformat().replace("+00:00", "Z")
        container = pod.annotations.get(PROGRESS_CONTAINER)
        if container:
            query["container"] = container
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
        try:
            text = await self._api.text(path, **query)
        except Forbidden as error:
            return error.missing
        except ClusterError as error:
            self._remark(pod, path, error)
            return ""
        finally:
            # One that has told something goes on to; others are asked more and more seldom.
            longest_s = _EXPECTED_S if stated_job(pod) or PROGRESS_PATTERN in pod.annotations else _SELDOM_S
            reading.every_s = min(longest_s, reading.every_s * (1 if reading.step else 2))
            reading.due_s = self._clock.now() + reading.every_s
        lines = new_lines(text, reading.last, reading.seen)
        self._remember(reading, lines, text)
        if self._take(pod, reading, lines):
            reading.every_s = _EVERY_S
            reading.due_s = min(reading.due_s, self._clock.now() + _EVERY_S)
        return ""

    def _remark(self, pod: CachedPod, path: str, error: ClusterError) -> None:
        why = str(error)
        if isinstance(error, ApiError) and error.status == _NOT_YET:
            if "container name must be specified" not in why:
                return  # it is being started
            why = f"it has several containers; name the one that trains in the annotation {PROGRESS_CONTAINER}"
        if not isinstance(error, NotFound):
            self._store.remark(job_of(pod), SOURCE, path, why)

    @staticmethod
    def _remember(reading: _Reading, lines: list[StampedLine], text: str) -> None:
        if lines:
            newest = max(line.at for line in lines)
            same = sum(line.at == newest for line in lines)
            reading.seen = same + (reading.seen if newest == reading.last else 0)
            reading.last = newest
        elif len(text.encode()) >= _MOST_BYTES and reading.last is not None:
            # More was written in one second than a look reads: go on with the next one.
            second = reading.last.replace(microsecond=0).timestamp() + 1.0
            reading.last, reading.seen = datetime.fromtimestamp(second, UTC), 0

    def _take(self, pod: CachedPod, reading: _Reading, lines: list[StampedLine]) -> bool:
        job = job_of(pod)
        values_in = self._reader(pod, job)
        found = False
        for line in lines:
            values = values_in(line.text)
            if values is None:
                continue
            found = True
            if "note" not in values and "step" in values and self._goes_back(reading, values["step"]):
                values["note"] = RESUME  # a job that says nothing of restarts began anew
            reading.step = values.get("step", reading.step)
            if not reading.step:
                continue  # it tells how well it goes before it has said where it is
            row = {"time": line.at.timestamp(), "step": reading.step, **values}
            if PROGRESS_TOTAL in pod.annotations:
                row.setdefault("total", pod.annotations[PROGRESS_TOTAL])
            self._store.offer(job, SOURCE, row, line.text)
        return found

    def _reader(self, pod: CachedPod, job: str) -> Callable[[str], dict[str, str] | None]:
        """What reads a line of this pod."""
        stated = pod.annotations.get(PROGRESS_PATTERN)
        if not isinstance(stated, str):
            return reported_in
        try:
            patterns = patterns_in(stated)
        except PatternError as error:
            self._store.remark(job, SOURCE, f"annotation {PROGRESS_PATTERN}", str(error))
            return reported_in
        return lambda line: next((found for one in patterns if (found := one.match(line)) is not None), None)

    @staticmethod
    def _goes_back(reading: _Reading, step: str) -> bool:
        with contextlib.suppress(ValueError):
            return bool(reading.step) and float(step) < float(reading.step)
        return False


def new_lines(text: str, last: datetime | None, seen: int) -> list[StampedLine]:
    """The lines of an answer after `seen` lines of the moment `last`; one that has not ended comes again, and whole."""
    found = []
    for one in text.split("\n")[:-1]:
        stamp, _, said = one.partition(" ")
        at = stamp_of(stamp)
        if at is None or (last is not None and at < last):
            continue
        if at == last and seen > 0:
            seen -= 1
            continue
        found.append(StampedLine(at, said[:LONGEST_LINE]))
    return found


def stamp_of(text: str) -> datetime | None:
    """The time that a kubelet writes before a line, to the microsecond; None if it is none."""
    whole, has_part, part = text.removesuffix("Z").partition(".")
    try:
        at = datetime.fromisoformat(f"{whole}+00:00") if text.endswith("Z") else datetime.fromisoformat(text)
        micro = int(f"{part[:6]:0<6}") if has_part and text.endswith("Z") else at.microsecond
    except ValueError:
        return None
    return at.replace(microsecond=micro) if at.tzinfo is not None else None
