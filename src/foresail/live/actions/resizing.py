"""Give a running pod another amount of CPU where it stands, through its `resize` subresource."""

from __future__ import annotations

import asyncio

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, NotFound
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import Sleep, until_done
from foresail.kube.objects.quantity import NANO_PER_MILLI, RequestError, milli, rounded
from foresail.kube.objects.requests import effective_requests
from foresail.live.cache.pods import CachedPod

_GONE = "the pod is gone"
_LOOK_EVERY_S = 1.0
_LOOK_FOR_S = 30.0
"""How long the kubelet's answer is waited for; one that takes longer is under way still."""


class Resizer:
    """Carries resizes to the API server, and waits for the kubelet's word on them.

    The pod's uid and version are preconditions: nobody's change in between is overwritten, and one may ask again.
    """

    def __init__(self, api: Client, *, sleep: Sleep = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def resize(self, pod: CachedPod, cpu_milli: int, cpu_limit_milli: int | None) -> str:
        """Why it could not be done, in words; empty if the kubelet has done it, or is about to."""
        path = POD.named(pod.name, pod.namespace)

        async def attempt() -> Object | str:
            """The patch that was made, or why there is none."""
            found = await self._api.get(path)
            if found["metadata"]["uid"] != pod.uid or "deletionTimestamp" in found["metadata"]:
                return _GONE
            wanted = resized(found, cpu_milli, cpu_limit_milli)
            if not isinstance(wanted, str):
                await self._api.patch(f"{path}/resize", wanted)
            return wanted

        try:
            made = await until_done(attempt, sleep=self._sleep)
        except NotFound:
            return _GONE
        except ClusterError as error:
            return str(error)
        if isinstance(made, str):
            return made
        return await self._word_of_kubelet(path, pod.uid, made["spec"]["containers"][0])

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


def resized(found: Object, cpu_milli: int, cpu_limit_milli: int | None) -> Object | str:
    """The patch that lets a pod request `cpu_milli` in all, as Kubernetes adds it up, or why there is none.

    What is none of its container's stays as it is: sidecars, overhead, and what its init containers needed.
    """
    spec = found["spec"]
    containers = spec.get("containers") or []
    with_cpu = [one for one in containers if "cpu" in ((one.get("resources") or {}).get("requests") or {})]
    if not with_cpu and len(containers) == 1:
        with_cpu = containers
    if len(with_cpu) != 1:
        return f"{len(with_cpu)} of its containers request CPU; only a pod in which one does can be resized"
    container = with_cpu[0]
    if any("cpu" in (stated or {}) for stated in (spec.get("resources") or {}).values()):
        return "its CPU is stated for the pod as a whole, which its containers cannot change"
    try:
        beside_milli, least_milli = _without(spec, container)
    except RequestError as error:
        return f"its requests cannot be read: {error}"
    if cpu_milli < least_milli:
        return f"its init containers need {least_milli} milli-CPU, and it counts for no less"
    if cpu_milli <= beside_milli:
        return f"{beside_milli} milli-CPU of it are not its container's, which leaves none of {cpu_milli}"
    changed: Object = {"requests": {"cpu": f"{cpu_milli - beside_milli}m"}}
    if cpu_limit_milli is not None:
        changed["limits"] = {"cpu": f"{cpu_limit_milli}m" if cpu_limit_milli else None}
    about = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": about, "spec": {"containers": [{"name": container["name"], "resources": changed}]}}


def _without(spec: Object, container: Object) -> tuple[int, int]:
    """Milli-CPU that a pod requests beside one of its containers while it runs, and the least it counts for at all."""
    others = [one for one in spec["containers"] if one is not container]
    starters = spec.get("initContainers") or []
    sidecars = [one for one in starters if one.get("restartPolicy") == "Always"]
    beside, least = (
        effective_requests({**spec, "containers": others, "initContainers": starting}).get("cpu", 0)
        for starting in (sidecars, starters)
    )
    return rounded(beside, NANO_PER_MILLI), rounded(least, NANO_PER_MILLI)


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
