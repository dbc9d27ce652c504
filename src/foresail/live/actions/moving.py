"""What a move asks of the API server: that a pod goes, and that its successor comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ApiError, ClusterError, Conflict, NotFound
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import ATTEMPTS, may_arrive, may_pass, pause_s, until_done
from foresail.live.actions.binding import PodName
from foresail.logs import get_logger

_TOO_MANY = 429
_MOST_CHANGES = 6
"""Attempts that are repeated at once, and not counted, because the pod had changed since it was last read."""


class Leaving(Enum):
    """What has become of a pod that is to be evicted."""

    GOES = "goes"
    """It is being deleted, or gone, or another has its name."""
    ENDED = "ended"
    """It has done its work, or failed, before anybody made it go."""
    BUDGET = "budget"
    """A disruption budget does not allow it now."""
    STAYS = "stays"
    """It could not be asked for, and nothing of it is on its way."""


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """How an eviction ended, and why not otherwise."""

    leaving: Leaving
    why: str = ""


class PodMover:
    """Makes pods go and come.

    Pods go through the Eviction API, so that disruption budgets hold. Uid and version are preconditions: a pod that has
    ended meanwhile is not taken for one that was made to go. The network may deliver a request long after its sender
    has stopped waiting; before an eviction counts as not done, the pod is given a new version, for which none was
    asked.
    """

    def __init__(self, api: Client, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def evict(self, pod: PodName, *, dry_run: bool = False) -> LeaveResult:
        """Make a pod go, or in a dry run find out whether that would be allowed."""
        path = POD.named(pod.name, pod.namespace)
        query = {"dryRun": "All"} if dry_run else {}
        attempt, changes, adrift = 0, 0, False
        while True:
            found = await self._look(path)
            result = _as_found(found, pod)
            if result is not None or found is None:
                return result or LeaveResult(Leaving.GOES)
            try:
                await self._api.post(f"{path}/eviction", eviction(pod, found["metadata"]["resourceVersion"]), **query)
            except NotFound:
                return LeaveResult(Leaving.GOES)
            except Conflict as error:
                # It has changed since it was read, or it has left.
                changes += 1
                if changes > _MOST_CHANGES:
                    return await self._stays(pod, path, Leaving.STAYS, str(error), adrift=adrift)
            except ClusterError as error:
                adrift = adrift or (may_arrive(error) and not dry_run)
                if isinstance(error, ApiError) and error.status == _TOO_MANY and _is_budget(error):
                    why = f"a disruption budget does not allow it now ({error.message})"
                    return await self._stays(pod, path, Leaving.BUDGET, why, adrift=adrift)
                attempt += 1
                if attempt == ATTEMPTS or not may_pass(error):
                    return await self._stays(pod, path, Leaving.STAYS, str(error), adrift=adrift)
                await self._sleep(pause_s(attempt - 1, error))
            else:
                return LeaveResult(Leaving.GOES)

    async def _stays(self, pod: PodName, path: str, leaving: Leaving, why: str, *, adrift: bool) -> LeaveResult:
        """The pod is to stay: make sure that no eviction which is still on its way can make it go after all."""
        attempt = 0
        while adrift:
            found = await self._look(path)
            result = _as_found(found, pod)
            if result is not None or found is None:
                return result or LeaveResult(Leaving.GOES)
            try:
                await self._api.patch(f"{path}/status", touched(found))
                adrift = False
            except NotFound:
                return LeaveResult(Leaving.GOES)
            except ClusterError as error:
                if not may_pass(error):
                    get_logger().warning("eviction_not_called_off", pod=f"{pod.namespace}/{pod.name}", why=str(error))
                    break
                await self._sleep(pause_s(attempt, error))
                attempt += 1
        return LeaveResult(leaving, why)

    async def is_gone(self, pod: PodName) -> bool:
        """Whether nothing of a pod is left, by the API server's word."""
        found = await self._look(POD.named(pod.name, pod.namespace))
        return found is None or found["metadata"]["uid"] != pod.uid

    async def find(self, namespace: str, name: str) -> Object | None:
        """The pod that has a name now."""
        return await self._look(POD.named(name, namespace))

    async def create(self, pod: Object) -> Object | None:
        """Make a pod, once; None if there is one of its name. Raises what went wrong."""
        path = POD.within(pod["metadata"]["namespace"])
        try:
            return await self._api.post(path, pod)
        except Conflict as error:
            if error.reason == "AlreadyExists" or not error.reason:
                return None
            raise

    async def remove(self, pod: Object) -> None:
        """Delete a pod that has not run; not one that has changed since it was read."""
        metadata = pod["metadata"]
        about = {name: metadata[name] for name in ("uid", "resourceVersion")}
        await self._api.delete(
            POD.named(metadata["name"], metadata["namespace"]), {"kind": "DeleteOptions", "preconditions": about}
        )

    async def _look(self, path: str) -> Object | None:
        """The pod; None if there is none. Asks until there is an answer."""
        try:
            return await until_done(lambda: self._api.get(path), attempts=None, sleep=self._sleep)
        except NotFound:
            return None


def _as_found(found: Object | None, pod: PodName) -> LeaveResult | None:
    """What has become of a pod by what was found under its name; None if it is there and runs."""
    if found is None or found["metadata"]["uid"] != pod.uid or "deletionTimestamp" in found["metadata"]:
        return LeaveResult(Leaving.GOES)
    phase = (found.get("status") or {}).get("phase")
    return LeaveResult(Leaving.ENDED, f"it has ended ({phase})") if phase in {"Succeeded", "Failed"} else None


def _is_budget(error: ApiError) -> bool:
    """Whether a budget speaks, and not a busy server."""
    return "budget" in error.message.lower()


def eviction(pod: PodName, version: str) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid, "resourceVersion": version}},
    }


def touched(pod: Object) -> Object:
    """A patch of a running pod's status that gives it a new version and says nothing else."""
    there: Object = next(
        (one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] == "PodScheduled"), {}
    )
    now = datetime.now(UTC)
    # A patch that changes nothing leaves the version as it is, and times are whole seconds.
    if there.get("lastProbeTime") == _text(now):
        now += timedelta(seconds=1)
    condition = {"type": "PodScheduled", "status": there.get("status", "True"), "lastProbeTime": _text(now)}
    about = {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": about, "status": {"conditions": [condition]}}


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
