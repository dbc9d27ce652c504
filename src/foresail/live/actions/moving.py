"""Let a running pod go on elsewhere: it is evicted, its owner makes a successor, and that gets the node held for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ApiError, ClusterError, Conflict, NotFound
from foresail.kube.api.retries import ATTEMPTS, may_pass, pause_s
from foresail.kube.objects.values import COMPLETION_INDEX
from foresail.live.cache.pods import CachedPod

_NOT_REPLACED_ELSEWHERE = {
    "DaemonSet": "a DaemonSet makes its successor for the same node",
    "Node": "it is a static pod of its node",
}
_TOO_MANY = 429


def why_not(pod: CachedPod) -> str:
    """Why a pod is not to be moved; empty if it may be.

    Nobody is deleted who would not come back: only an owner makes a successor.
    """
    if pod.terminating:
        return "it is being deleted"
    if pod.owner is None:
        return "it has no owner that would make a successor"
    if pod.owner.kind in _NOT_REPLACED_ELSEWHERE:
        return _NOT_REPLACED_ELSEWHERE[pod.owner.kind]
    if pod.gang is not None:
        return "it is one of a gang, which is moved whole or not at all"
    return ""


def is_successor(moved: CachedPod, pod: CachedPod) -> bool:
    """Whether a pod that has come takes the place of one that was moved."""
    if pod.uid == moved.uid or pod.owner is None or pod.owner != moved.owner or pod.namespace != moved.namespace:
        return False
    if pod.owner.kind == "StatefulSet":
        return pod.name == moved.name
    return pod.labels.get(COMPLETION_INDEX) == moved.labels.get(COMPLETION_INDEX)


class Mover:
    """Evicts through the Eviction API, so that disruption budgets hold; the pod's uid is a precondition."""

    def __init__(self, api: Client, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def evict(self, pod: CachedPod) -> str:
        """Why it could not be done, in words; empty if the pod is going, or gone."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        attempt = 0
        while True:
            try:
                await self._api.post(path, eviction(pod))
            except NotFound:
                return ""
            except Conflict as error:
                return str(error)  # another pod has taken the name
            except ClusterError as error:
                attempt += 1
                if isinstance(error, ApiError) and error.status == _TOO_MANY:
                    return f"a disruption budget does not allow it now ({error})"
                if attempt == ATTEMPTS or not may_pass(error):
                    return str(error)
                await self._sleep(pause_s(attempt - 1, error))
            else:
                return ""


def eviction(pod: CachedPod) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
