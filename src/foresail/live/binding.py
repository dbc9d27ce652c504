"""Bind a pod to its node, once and only there, whatever the API server answers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from foresail.live.client import Client, Object
from foresail.live.errors import ApiError, ClusterError, Conflict, Forbidden, NotFound, Unauthorized, Unreachable
from foresail.traces.kubernetes_values import GPU_DEVICES

_FIRST_PAUSE_S = 0.1
_MOST_PAUSE_S = 5.0
ATTEMPTS = 6


class PodName(Protocol):
    """Which pod is meant."""

    @property
    def uid(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


class Ending(Enum):
    """How a bind ended."""

    BOUND = "bound"
    GONE = "gone"
    """The pod was deleted, or is being deleted, or another has taken its name."""
    TAKEN = "taken"
    """Somebody else has bound it to another node."""
    FAILED = "failed"
    """It waits as before and may be decided about anew."""
    NO_VOLUMES = "no volumes"
    """So does one whose volumes could not be had."""


@dataclass(frozen=True, slots=True)
class Bind:
    """How a bind ended, and why not otherwise."""

    ending: Ending
    why: str = ""


class Binder:
    """Carries bindings to the API server.

    The pod's uid is a precondition and the API server binds a pod once, so asking again is harmless. After an answer
    that may have been lost the pod is read before anything else is done: its room is given back only when it is certain
    that the pod is not on the node.
    """

    def __init__(self, api: Client, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def bind(
        self, pod: PodName, node: str, devices: tuple[int, ...] = (), *, obstacle: Callable[[], str] = lambda: ""
    ) -> Bind:
        """Bind, and find out how it ended; only a cancellation leaves that open.

        `obstacle` is asked before every attempt: what speaks against it now, empty if nothing does.
        """
        body = binding(pod, node, devices)
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        why = ""
        for attempt in range(ATTEMPTS):
            if against := obstacle():
                if not attempt:
                    return Bind(Ending.FAILED, against)
                why = against
                break
            try:
                await self._api.post(f"{path}/binding", body)
            except ClusterError as error:
                why = str(error)
                ended = await self._look(pod, path, node)
                if ended is not None:
                    return ended
                if not may_pass(error):
                    return Bind(Ending.FAILED, why)
                await self._sleep(pause_s(attempt, error))
            else:
                return Bind(Ending.BOUND)
        # What was not answered may have had its effect during the pause.
        return await self._look(pod, path, node) or Bind(Ending.FAILED, why)

    async def _look(self, pod: PodName, path: str, node: str) -> Bind | None:
        """What has become of the pod; None if it still waits. Asks until there is an answer."""
        attempt = 0
        while True:
            try:
                found = await self._api.get(path)
            except NotFound:
                return Bind(Ending.GONE, "the pod was deleted")
            except (Forbidden, Unauthorized) as error:
                return Bind(Ending.FAILED, str(error))
            except ClusterError as error:
                await self._sleep(pause_s(attempt, error))
                attempt += 1
            else:
                return _ended(found, pod.uid, node)


def binding(pod: PodName, node: str, devices: tuple[int, ...]) -> dict[str, Any]:
    """The Binding object; its annotations are copied to the pod."""
    metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if devices:
        metadata["annotations"] = {GPU_DEVICES: ",".join(map(str, devices))}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _ended(found: Object, uid: str, node: str) -> Bind | None:
    metadata = found["metadata"]
    on = found.get("spec", {}).get("nodeName")
    if metadata["uid"] != uid:
        return Bind(Ending.GONE, "another pod has taken the name")
    if on:
        return Bind(Ending.BOUND) if on == node else Bind(Ending.TAKEN, f"another scheduler has bound the pod to {on}")
    if metadata.get("deletionTimestamp"):
        return Bind(Ending.GONE, "the pod is being deleted")
    return None


def pause_s(attempt: int, error: ClusterError) -> float:
    """How long to leave a server alone after an attempt that failed."""
    told_s = error.retry_after_s if isinstance(error, ApiError) else None
    longest_s = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt, 10))
    # Many requests fail at the same instant when a server goes away; they should not come back in step.
    return max(told_s or 0.0, longest_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


def may_pass(error: ClusterError) -> bool:
    """Whether the same request may succeed a little later: a busy or restarting server, a lost race."""
    if isinstance(error, Unreachable | Conflict):
        return True
    return isinstance(error, ApiError) and (error.status == 429 or error.status >= 500)
