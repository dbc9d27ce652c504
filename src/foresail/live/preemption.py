"""Make victims go: the pod for which they leave is told its node, and they are told why before they are deleted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from foresail.core.preemption import Preemption
from foresail.live.cache import Cache
from foresail.live.client import Client, Object
from foresail.live.errors import ClusterError, Conflict, NotFound
from foresail.live.events import Events
from foresail.live.pods import CachedPod
from foresail.logs import get_logger


class Evictor:
    """Carries preemptions to the API server."""

    def __init__(self, api: Client, cache: Cache, events: Events) -> None:
        self._api = api
        self._cache = cache
        self._events = events

    async def clear(self, pod: CachedPod, plan: Preemption) -> bool:
        """Nominate the pod and delete its victims; False if one of them could not be made to go."""
        try:
            await self._api.patch(f"{_path(pod)}/status", _nomination(pod, plan.node))
        except (NotFound, Conflict):
            return False  # the pod itself is gone
        except ClusterError as error:
            get_logger().warning("nomination_failed", pod=pod.full_name, node=plan.node, error=str(error))
            return False
        victims = [found for held in plan.evictions if (found := self._cache.pods.get(str(held.pod.uid))) is not None]
        return all(await asyncio.gather(*(self._evict(victim, pod, plan.node) for victim in victims)))

    async def _evict(self, victim: CachedPod, pod: CachedPod, node: str) -> bool:
        try:
            await self._api.patch(f"{_path(victim)}/status", _disruption(victim, pod))
            await self._api.delete(_path(victim), {"kind": "DeleteOptions", "preconditions": {"uid": victim.uid}})
        except (NotFound, Conflict):
            return True  # gone already, or another pod has its name now
        except ClusterError as error:
            get_logger().warning("eviction_failed", victim=victim.full_name, pod=pod.full_name, error=str(error))
            return False
        self._events.add(victim, "Preempted", "Preempting", f"Preempted by pod {pod.uid} on node {node}")
        return True


def _path(pod: CachedPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


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
