"""Bind a pod to its node, once and only there, whatever the API server answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Conflict, Forbidden, NotFound, Unauthorized
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import ATTEMPTS, Sleep, may_arrive, may_pass, pause_s
from foresail.kube.objects.values import GPU_DEVICES
from foresail.live.scheduler.conditions import SCHEDULER_ERROR, touch
from foresail.logs import get_logger

_MOST_CHANGES = 6
"""Attempts that are repeated at once, and not counted, because the pod had changed since it was last read."""


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
class BindResult:
    """How a bind ended, and why not otherwise."""

    ending: Ending
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod as it was found."""

    version: str
    ended: BindResult | None = None
    """What has become of it; None if it still waits."""
    pod: Object = field(default_factory=dict)

    @property
    def is_hidden(self) -> bool:
        """We may not read it."""
        return self.ended is not None and self.ended.ending is Ending.FAILED


class Binder:
    """Carries bindings to the API server.

    The pod's uid is a precondition and the API server binds a pod once, so asking again is harmless. After an answer
    that may have been lost the pod is read before anything else is done: its room is given back only when it is certain
    that the pod is not on the node, and will not be.

    The network may deliver a request long after its sender has stopped waiting. So the pod's version is a precondition
    too, and before a bind ends as failed while a request of it may still arrive, the pod is given a new version.
    """

    def __init__(self, api: Client, *, sleep: Sleep = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def bind(
        self,
        pod: PodName,
        node: str,
        devices: tuple[int, ...] = (),
        *,
        version: str = "",
        obstacle: Callable[[], str] = lambda: "",
    ) -> BindResult:
        """Bind, and find out how it ended; only a cancellation leaves that open.

        `version` is the pod's resourceVersion as last heard of. An old one costs a read and a second request, none at
        all a read before the first: a request without a version could never be called off. `obstacle` is asked before
        every attempt: what speaks against it now, empty if nothing does.
        """
        path = POD.named(pod.name, pod.namespace)
        seen = _Seen(version) if version else await self._look(pod, path, node)
        why, attempt, changes = "", 0, 0
        adrift = False  # whether a request for the version last seen may still arrive
        while seen.ended is None and attempt < ATTEMPTS:
            if against := obstacle():
                why = against
                break
            try:
                await self._api.post(f"{path}/binding", binding(pod, node, devices, seen.version))
            except ClusterError as error:
                why = str(error)
                asked, seen = seen.version, await self._look(pod, path, node)
                has_changed = seen.version != asked
                adrift = (adrift or may_arrive(error)) and (seen.is_hidden or not has_changed)
                if seen.ended is not None or not may_pass(error):
                    break
                if isinstance(error, Conflict) and has_changed and changes < _MOST_CHANGES:
                    changes += 1
                    continue
                await self._sleep(pause_s(attempt, error))
                attempt += 1
            else:
                return BindResult(Ending.BOUND)
        if adrift:
            seen = await self._call_off(pod, path, node, seen, why)
        return seen.ended or BindResult(Ending.FAILED, why)

    async def _call_off(self, pod: PodName, path: str, node: str, seen: _Seen, why: str) -> _Seen:
        """Make sure that nothing which is still on its way can bind the pod: that the pod has another version than it
        was asked to be bound at, whoever gave it that. Asks until there is an answer; returns the pod as it is then.
        """
        asked, attempt, error = seen.version, 0, ClusterError("")
        while not seen.is_hidden:
            error = ClusterError(f"PATCH {path}/status: the pod's version has stayed as it was")
            try:
                # Its version is a precondition here too, so a pod that was bound meanwhile is left as it is.
                seen = _seen(await self._api.patch(f"{path}/status", touch(seen.pod, SCHEDULER_ERROR, why)), pod, node)
            except ClusterError as refusal:
                error, seen = refusal, await self._look(pod, path, node)
            if not seen.is_hidden and seen.version != asked:
                return seen
            if not may_pass(error):
                break
            await self._sleep(pause_s(attempt, error))
            attempt += 1
        said = seen.ended.why if seen.ended is not None else str(error)
        get_logger().warning("bind_not_called_off", pod=f"{pod.namespace}/{pod.name}", node=node, why=said)
        return seen

    async def _look(self, pod: PodName, path: str, node: str) -> _Seen:
        """What has become of the pod. Asks until there is an answer."""
        attempt = 0
        while True:
            try:
                found = await self._api.get(path)
            except NotFound:
                return _Seen("", BindResult(Ending.GONE, "the pod was deleted"))
            except (Forbidden, Unauthorized) as error:
                return _Seen("", BindResult(Ending.FAILED, str(error)))
            except ClusterError as error:
                await self._sleep(pause_s(attempt, error))
                attempt += 1
            else:
                return _seen(found, pod, node)


def binding(pod: PodName, node: str, devices: tuple[int, ...], version: str) -> dict[str, Any]:
    """The Binding object; its annotations are copied to the pod. Uid and version are preconditions."""
    metadata: dict[str, Any] = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    metadata["resourceVersion"] = version
    if devices:
        metadata["annotations"] = {GPU_DEVICES: ",".join(map(str, devices))}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def _seen(found: Object, pod: PodName, node: str) -> _Seen:
    return _Seen(found["metadata"]["resourceVersion"], _ended(found, pod.uid, node), found)


def _ended(found: Object, uid: str, node: str) -> BindResult | None:
    metadata = found["metadata"]
    on = found.get("spec", {}).get("nodeName")
    if metadata["uid"] != uid:
        return BindResult(Ending.GONE, "another pod has taken the name")
    if on:
        return (
            BindResult(Ending.BOUND)
            if on == node
            else BindResult(Ending.TAKEN, f"another scheduler has bound the pod to {on}")
        )
    if metadata.get("deletionTimestamp"):
        return BindResult(Ending.GONE, "the pod is being deleted")
    return None
