"""Give a running pod another amount of CPU where it stands, through its `resize` subresource."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Conflict, NotFound
from foresail.kube.api.retries import ATTEMPTS, may_pass, pause_s
from foresail.kube.objects.quantity import QuantityError, milli
from foresail.live.cache.pods import CachedPod

_LOOK_EVERY_S = 1.0
_LOOK_FOR_S = 30.0
"""How long the kubelet's answer is waited for; one that takes longer is under way still."""


class Resizer:
    """Carries resizes to the API server, and waits for the kubelet's word on them.

    The pod's uid and version are preconditions: nobody's change in between is overwritten, and one may ask again.
    """

    def __init__(self, api: Client, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def resize(self, pod: CachedPod, cpu_milli: int, cpu_limit_milli: int | None) -> str:
        """Why it could not be done, in words; empty if the kubelet has done it, or is about to."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        attempt = 0
        while True:
            try:
                found = await self._api.get(path)
                if found["metadata"]["uid"] != pod.uid or "deletionTimestamp" in found["metadata"]:
                    return "the pod is gone"
                wanted = resized(found, pod.spec.cpu_milli, cpu_milli, cpu_limit_milli)
                if isinstance(wanted, str):
                    return wanted
                await self._api.patch(f"{path}/resize", wanted)
                return await self._word_of_kubelet(path, pod.uid, wanted["spec"]["containers"][0])
            except NotFound:
                return "the pod is gone"
            except ClusterError as error:
                attempt += 1
                if attempt == ATTEMPTS or not (isinstance(error, Conflict) or may_pass(error)):
                    return str(error)
                await self._sleep(pause_s(attempt - 1, error))

    async def _word_of_kubelet(self, path: str, uid: str, wanted: Object) -> str:
        for _ in range(int(_LOOK_FOR_S / _LOOK_EVERY_S)):
            try:
                found = await self._api.get(path)
            except ClusterError:
                return ""  # the API server has taken it; what becomes of it is not for this request to find out
            if found["metadata"]["uid"] != uid or _has(found, wanted):
                return ""
            infeasible = _infeasible(found)
            if infeasible:
                return infeasible
            await self._sleep(_LOOK_EVERY_S)
        return ""


def resized(found: Object, held_milli: int, cpu_milli: int, cpu_limit_milli: int | None) -> Object | str:
    """The patch that lets a pod request `cpu_milli` in all, or why there is none.

    `held_milli` is what it requests in all now, with what is none of its containers' (overhead, sidecars).
    """
    containers = found["spec"].get("containers") or []
    with_cpu = [one for one in containers if "cpu" in ((one.get("resources") or {}).get("requests") or {})]
    if not with_cpu and len(containers) == 1:
        with_cpu = containers
    if len(with_cpu) != 1:
        return f"{len(with_cpu)} of its containers request CPU; only a pod in which one does can be resized"
    container = with_cpu[0]
    resources = container.get("resources") or {}
    try:
        has_milli = milli((resources.get("requests") or {}).get("cpu", "0"))
    except QuantityError as error:
        return f"the CPU request of its container cannot be read: {error}"
    request_milli = cpu_milli - max(0, held_milli - has_milli)
    if request_milli <= 0:
        return f"{held_milli - has_milli} milli-CPU of it are not its container's, which leaves none of {cpu_milli}"
    changed: Object = {"requests": {"cpu": f"{request_milli}m"}}
    if cpu_limit_milli is not None:
        changed["limits"] = {"cpu": f"{cpu_limit_milli}m" if cpu_limit_milli else None}
    about = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": about, "spec": {"containers": [{"name": container["name"], "resources": changed}]}}


def _has(found: Object, wanted: Object) -> bool:
    """Whether the kubelet has set aside what a container is to request."""
    for one in found.get("status", {}).get("containerStatuses") or ():
        if one.get("name") == wanted["name"]:
            cpu = (one.get("allocatedResources") or {}).get("cpu")
            return cpu is not None and milli(cpu) == milli(wanted["resources"]["requests"]["cpu"])
    return False


def _infeasible(found: Object) -> str:
    """The kubelet's word that its node can never give so much; empty if it has not said so."""
    for one in found.get("status", {}).get("conditions") or ():
        if one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible":
            return f"infeasible: {one.get('message') or 'the node cannot give so much'}"
    return ""
