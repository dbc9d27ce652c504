"""Make victims go: the pod for which they leave is told its node, and they are told why before they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from foresail.core.journal import Journal, What
from foresail.core.preemption import Preemption
from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Conflict, NotFound
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import until_done
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import CachedPod
from foresail.logs import get_logger

Send = Callable[[], Awaitable[object]]


class Evictor:
    """Carries preemptions to the API server.

    Every request names the uid of its pod, so asking again is harmless, and what may pass is asked again. A conflict
    may only have been a race: whether the pod is gone is looked at, or others would wait for one that stays.
    """

    def __init__(self, api: Client, cache: Cache, journal: Journal) -> None:
        self._api = api
        self._cache = cache
        self._journal = journal

    async def clear(self, pod: CachedPod, plan: Preemption, *, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Nominate the pod and delete its victims; False if one of them could not be made to go.

        `wanted` is asked before every request: whether the pod is still to get the node.
        """
        path = f"{_path(pod)}/status"
        try:
            if not await self._until_done(pod, lambda: self._api.patch(path, _nomination(pod, plan.node)), wanted):
                return False  # the pod itself is gone
        except ClusterError as error:
            get_logger().warning("nomination_failed", pod=pod.full_name, node=plan.node, error=str(error))
            return False
        victims = [found for held in plan.evictions if (found := self._cache.pods.get(str(held.pod.uid))) is not None]
        return all(await asyncio.gather(*(self._evict(victim, pod, plan.node, wanted) for victim in victims)))

    async def _evict(self, victim: CachedPod, pod: CachedPod, node: str, wanted: Callable[[], bool]) -> bool:
        path = _path(victim)
        delete = {"kind": "DeleteOptions", "preconditions": {"uid": victim.uid}}
        try:
            gone = not await self._until_done(
                victim, lambda: self._api.patch(f"{path}/status", _disruption(victim, pod)), wanted
            ) or not await self._until_done(victim, lambda: self._api.delete(path, delete), wanted, last=True)
        except ClusterError as error:
            get_logger().warning("eviction_failed", victim=victim.full_name, pod=pod.full_name, error=str(error))
            return False
        if not gone:
            detail = f"Preempted by pod {pod.uid} on node {node}"
            self._journal.note(What.EVICT, pod=victim.full_name, node=node, detail=detail)
        return True

    async def _until_done(self, pod: CachedPod, send: Send, wanted: Callable[[], bool], *, last: bool = False) -> bool:
        """Ask until it is done; False if the pod was gone already. Raises what does not pass.

        `last`: the request lets the pod go, so one that is gone after an attempt that seemed to fail went by it.
        """
        attempts = 0

        async def attempt() -> bool:
            nonlocal attempts
            if not wanted():
                raise _NotWantedError("the pod is no longer to get the node, or another replica may lead by now")
            attempts += 1
            return await self._attempt(pod, send) or (last and attempts > 1)

        return await until_done(attempt)

    async def _attempt(self, pod: CachedPod, send: Send) -> bool:
        try:
            await send()
        except NotFound:
            return False
        except Conflict:
            if await self._is_gone(pod):
                return False
            raise
        return True

    async def _is_gone(self, pod: CachedPod) -> bool:
        """Whether the pod is gone, or leaving, or another has taken its name."""
        try:
            metadata = (await self._api.get(_path(pod)))["metadata"]
        except NotFound:
            return True
        return metadata["uid"] != pod.uid or "deletionTimestamp" in metadata


class _NotWantedError(ClusterError):
    """Nobody is to go for the pod any more."""


def _path(pod: CachedPod) -> str:
    return POD.named(pod.name, pod.namespace)


def _nomination(pod: CachedPod, node: str) -> Object:
    return {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}


def _disruption(victim: CachedPod, pod: CachedPod) -> Object:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
