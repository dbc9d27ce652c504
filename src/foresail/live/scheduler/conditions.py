"""The `PodScheduled` condition of pods that wait: autoscalers and people look there for the reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Forbidden, NotFound
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import is_nobodys_fault, list_pause_s, may_pass
from foresail.live.cache.pods import CachedPod
from foresail.logs import get_logger

UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"
_TYPE = "PodScheduled"
_WRITERS = 4

Told = tuple[str, str]
"""Reason and message."""


class PodConditions:
    """Tells each waiting pod why it waits, the latest reason only, and only when it has changed."""

    def __init__(self, api: Client, find: Callable[[str], CachedPod | None]) -> None:
        """`find` gives a pod that still waits, None for one that does not."""
        self._api = api
        self._find = find
        self._wanted: dict[str, Told] = {}
        self._told: dict[str, Told] = {}
        self._writing: set[str] = set()
        self._wake = asyncio.Event()
        self.failure = ""
        """Why conditions could not be written lately; empty if they could."""

    def tell(self, uid: str, reason: str, message: str) -> bool:
        """Whether that is news for the pod."""
        told = (reason, message)
        if self.told(uid) == told:
            return False
        self._wanted[uid] = told
        self._wake.set()
        return True

    def told(self, uid: str) -> Told | None:
        """What the pod was told last, or will be."""
        return self._wanted.get(uid, self._told.get(uid))

    def forget(self, uid: str) -> None:
        """The pod waits no more."""
        self._wanted.pop(uid, None)
        self._told.pop(uid, None)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as writers:
            for _ in range(_WRITERS):
                writers.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            # One writer a pod: of two that are under way at once the older could arrive last.
            uid = next((uid for uid in self._wanted if uid not in self._writing), None)
            if uid is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._writing.add(uid)
            try:
                await self._write(uid, self._wanted.pop(uid))
            finally:
                self._writing.remove(uid)
                self._wake.set()

    async def _write(self, uid: str, told: Told) -> None:
        pod = self._find(uid)
        if pod is None:
            if not self._wanted:
                self.failure = ""  # nobody is left who was not told
            return
        patch = _patch(uid, told, is_new=uid not in self._told)
        self._told[uid] = told
        try:
            await self._api.patch(POD.named(pod.name, pod.namespace, part="status"), patch)
        except NotFound:
            self._told.pop(uid, None)  # deleted meanwhile; the watch will say so
        except ClusterError as error:
            if not self.failure:
                get_logger().warning("condition_failed", pod=pod.full_name, error=str(error))
            self.failure = str(error)
            # After a conflict another writer was quicker, or another pod has taken the name: the watch will tell.
            worth_it = isinstance(error, Forbidden) or may_pass(error) or is_nobodys_fault(error)
            if worth_it and self._told.get(uid) == told:
                del self._told[uid]
                self._wanted.setdefault(uid, told)
            await asyncio.sleep(list_pause_s(error))
        else:
            self.failure = ""


def _patch(uid: str, told: Told, *, is_new: bool) -> Object:
    # The uid is a precondition: a pod of the same name that came later is none of our business.
    return {"metadata": {"uid": uid}, "status": {"conditions": [_condition(told, is_new=is_new)]}}


def _condition(told: Told, *, is_new: bool) -> Object:
    reason, message = told
    condition: Object = {"type": _TYPE, "status": "False", "reason": reason, "message": message}
    if is_new:
        # When it began to be so, not when the words last changed.
        condition["lastTransitionTime"] = _text(datetime.now(UTC))
    return condition


def touch(pod: Object, reason: str, message: str) -> Object:
    """A patch of a waiting pod's status that gives it a new version, unless it has one already.

    What the pod was told stays, whoever told it; one that was told nothing yet is told this.
    """
    there: Object = next((one for one in pod.get("status", {}).get("conditions") or () if one["type"] == _TYPE), {})
    waits = there.get("status") == "False"
    condition: Object = {"type": _TYPE} if waits else _condition((reason, message), is_new=True)
    now = datetime.now(UTC)
    # A patch that changes nothing leaves the version as it is, and times are whole seconds.
    if there.get("lastProbeTime") == _text(now):
        now += timedelta(seconds=1)
    condition["lastProbeTime"] = _text(now)
    about = {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": about, "status": {"conditions": [condition]}}


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
