"""Events that people read with `kubectl describe`: written in the background, never in the way of a bind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import UTC, datetime

from foresail.kube.api.client import MERGE, Client, Object
from foresail.kube.api.errors import ClusterError, NotFound
from foresail.kube.api.kinds import EVENT
from foresail.kube.api.retries import is_nobodys_fault, list_pause_s
from foresail.live.cache.pods import CachedPod
from foresail.logs import get_logger

CONTROLLER = "foresail.dev/scheduler"
_MOST_NOTE_BYTES = 1024
_MOST_WAITING = 5000
_MOST_REMEMBERED = 2000
_SERIES_LASTS_S = 360.0


@dataclass(slots=True)
class _PendingEvent:
    pod: CachedPod
    reason: str
    action: str
    note: str
    warning: bool
    first: datetime
    last: datetime
    count: int = 1
    path: str = ""
    """Where the event stands on the API server, once it was written."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.pod.uid, self.reason, self.note


class Events:
    """Writes events one after the other. The same event once more only counts the first one up (a series).

    When more wait than can be written soon, the oldest ordinary ones are dropped, and counted.
    """

    def __init__(self, api: Client, *, instance: str | None = None) -> None:
        self._api = api
        self._instance = instance or f"{socket.gethostname()}-{os.getpid()}"
        self._waiting: deque[_PendingEvent] = deque()
        self._pending: dict[tuple[str, str, str], _PendingEvent] = {}
        self._written: OrderedDict[tuple[str, str, str], _PendingEvent] = OrderedDict()
        self._wake = asyncio.Event()
        self._serial = itertools.count()
        self.dropped = 0
        self.sent = 0
        self.failure = ""
        """Why events could not be written lately; empty if they could."""

    def add(self, pod: CachedPod, reason: str, action: str, note: str, *, warning: bool = False) -> None:
        now = datetime.now(UTC)
        event = _PendingEvent(pod, reason, action, _shortened(note), warning, now, now)
        known = self._pending.get(event.key)
        if known is not None:
            known.count += 1
            known.last = now
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._drop_one()
        self._pending[event.key] = event
        self._waiting.append(event)
        self._wake.set()

    def _drop_one(self) -> None:
        at = next((at for at, event in enumerate(self._waiting) if not event.warning), 0)
        del self._pending[self._waiting[at].key]
        del self._waiting[at]
        self.dropped += 1

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._write_next()

    async def drain(self, within_s: float) -> None:
        """Write what is left, for at most so long."""
        # A request that hangs must not keep the process from ending.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._waiting:
                    await self._write_next()

    async def _write_next(self) -> None:
        event = self._waiting.popleft()
        del self._pending[event.key]
        try:
            await self._write(event)
        except ClusterError as error:
            if not self.failure:
                get_logger().warning("event_failed", pod=event.pod.full_name, error=str(error))
            self.failure = str(error)
            if not is_nobodys_fault(error):
                self.dropped += 1  # it would stand in the way of all behind it
                return
            self._put_back(event)
            await asyncio.sleep(list_pause_s(error))
        else:
            self.sent += 1
            self.failure = ""

    def _put_back(self, event: _PendingEvent) -> None:
        """The next try is this one's."""
        again = self._pending.get(event.key)
        if again is not None:
            # It has happened again meanwhile: one series.
            again.count += event.count
            again.first = event.first
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._drop_one()
        self._pending[event.key] = event
        self._waiting.appendleft(event)

    async def _write(self, event: _PendingEvent) -> None:
        known = self._written.get(event.key)
        if known is not None and (event.last - known.last).total_seconds() < _SERIES_LASTS_S:
            count = known.count + event.count
            series = {"series": {"count": count, "lastObservedTime": _micro(event.last)}}
            try:
                await self._api.patch(known.path, series, content_type=MERGE)
            except NotFound:
                del self._written[event.key]
            else:
                # Only now: one that could not be written comes again, and would be counted twice.
                known.count, known.last = count, event.last
                return
        await self._create(event)

    async def _create(self, event: _PendingEvent) -> None:
        name = f"{event.pod.name[:200].rstrip('-.')}.{time.time_ns():x}{next(self._serial) & 0xFFFF:x}"
        path = EVENT.within(event.pod.namespace)
        await self._api.post(path, self._body(event, name))
        event.path = EVENT.named(name, event.pod.namespace)
        if event.warning:
            # A pod is bound once, but refused again and again.
            self._written[event.key] = event
            if len(self._written) > _MOST_REMEMBERED:
                self._written.popitem(last=False)

    def _body(self, event: _PendingEvent, name: str) -> Object:
        body: Object = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": event.pod.namespace},
            "eventTime": _micro(event.first),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": event.action,
            "reason": event.reason,
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": event.pod.namespace,
                "name": event.pod.name,
                "uid": event.pod.uid,
            },
            "note": event.note,
            "type": "Warning" if event.warning else "Normal",
        }
        if event.count > 1:
            body["series"] = {"count": event.count, "lastObservedTime": _micro(event.last)}
        return body


def _micro(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _shortened(note: str) -> str:
    """At most as long as Kubernetes takes it."""
    encoded = note.encode()
    if len(encoded) <= _MOST_NOTE_BYTES:
        return note
    return encoded[: _MOST_NOTE_BYTES - 3].decode(errors="ignore") + "…"
