"""What a resize asks of the API server, and what pods say of it: another amount of CPU where they stand.

It is the CPU of one container that changes: of the one that `foresail.dev/progress-container` or
`kubectl.kubernetes.io/default-container` names, else of the only one, else of the only one that requests CPU. Sidecars
and overhead stay as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import NotFound
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import Sleep, until_done
from foresail.kube.objects.qos import BEST_EFFORT, GUARANTEED, qos_class
from foresail.kube.objects.quantity import NANO_PER_MILLI, QuantityError, RequestError, milli, rounded
from foresail.kube.objects.requests import effective_requests
from foresail.kube.objects.values import PROGRESS_CONTAINER, mapping_or_empty
from foresail.live.actions.binding import PodName

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_PENDING, _IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


class Cpu(NamedTuple):
    """A container's CPU, in milli-CPU."""

    request_milli: int
    limit_milli: int = 0
    """0 for none."""


class ResizePlan(NamedTuple):
    """What of a pod is to change."""

    container: str
    was: Cpu
    to: Cpu
    beside_milli: int
    """What the pod requests beside this container while it runs."""
    least_milli: int
    """What the pod counts for at least, whatever the container requests."""


class Stage(Enum):
    """How far a pod has come with a resize."""

    GONE = "gone"
    CHANGED = "changed"
    """Somebody else has given it another amount."""
    UNSENT = "unsent"
    """It asks for what it asked for before."""
    ASKED = "asked"
    """The kubelet has not said anything yet."""
    DEFERRED = "deferred"
    """The node has not enough now."""
    INFEASIBLE = "infeasible"
    """The node can never give so much."""
    ALLOCATED = "allocated"
    """The kubelet has set it aside."""
    DONE = "done"
    """The container runs with it."""


class Word(NamedTuple):
    """What a pod says of a resize."""

    stage: Stage
    why: str = ""
    """The kubelet's words."""


class PodResizer:
    """Looks at pods and gives them another amount of CPU.

    The pod's uid and version are preconditions: nobody's change in between is overwritten.
    """

    def __init__(self, api: Client, *, sleep: Sleep = asyncio.sleep) -> None:
        self._api = api
        self._sleep = sleep

    async def find(self, pod: PodName) -> Object | None:
        """The pod, if it is there and is to stay; raises what went wrong."""
        path = POD.named(pod.name, pod.namespace)

        async def look() -> Object | None:
            try:
                found = await self._api.get(path)
            except NotFound:
                return None
            ended = (found.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
            is_other = found["metadata"]["uid"] != pod.uid
            return None if is_other or ended or "deletionTimestamp" in found["metadata"] else found

        return await until_done(look, sleep=self._sleep)

    async def send(self, pod: PodName, container: str, known: Collection[Cpu], wanted: Cpu) -> Word:
        """Ask for an amount, if the pod has one of those that are known; raises what went wrong."""
        path = f"{POD.named(pod.name, pod.namespace)}/resize"

        async def attempt() -> Word:
            found = await self.find(pod)
            word = word_of(found, container, wanted, known)
            if found is None or word.stage is not Stage.UNSENT:
                return word
            try:
                await self._api.patch(path, patch(found, container, wanted))
            except NotFound:
                return Word(Stage.GONE)
            return Word(Stage.ASKED)

        return await until_done(attempt, sleep=self._sleep)


def patch(found: Object, container: str, wanted: Cpu) -> Object:
    """The patch of the resize subresource that gives a container an amount."""
    resources: Object = {"requests": {"cpu": f"{wanted.request_milli}m"}}
    if wanted.limit_milli:
        resources["limits"] = {"cpu": f"{wanted.limit_milli}m"}
    about = {name: found["metadata"][name] for name in ("uid", "resourceVersion")}
    return {"metadata": about, "spec": {"containers": [{"name": container, "resources": resources}]}}


# --- what is to change -----------------------------------------------------------------------------------------------


class _RefusalError(Exception):
    """Why a pod cannot be resized so."""


def planned(
    found: Object, cpu_milli: int, cpu_limit_milli: int | None, *, may_restart: bool = False
) -> ResizePlan | str:
    """What lets a pod request `cpu_milli` in all, as Kubernetes adds it up, or why it cannot be.

    `cpu_limit_milli` is what its containers may use together; without one limits stay as they are, except that those of
    a pod of the class Guaranteed go with its requests.
    """
    try:
        container = _that_works(found)
        if not may_restart and _restarts(container):
            return "it would be restarted (resizePolicy: RestartContainer for cpu); --resize-restarts allows that"
        return _plan(found, container, cpu_milli, cpu_limit_milli)
    except _RefusalError as refusal:
        return str(refusal)
    except RequestError as error:
        return f"its requests cannot be read: {error}"


def _plan(found: Object, container: Object, cpu_milli: int, cpu_limit_milli: int | None) -> ResizePlan:
    spec = found["spec"]
    if any("cpu" in (stated or {}) for stated in (spec.get("resources") or {}).values()):
        raise _RefusalError("its CPU is stated for the pod as a whole, which its containers cannot change")
    beside_milli, least_milli = _without(spec, container)
    was = cpu_of(container)
    before = str((found.get("status") or {}).get("qosClass") or qos_class(spec))
    if before == BEST_EFFORT:
        raise _RefusalError("its QoS class is BestEffort, which a request for CPU would change, and no resize may")
    if cpu_milli < least_milli:
        raise _RefusalError(f"its init containers need {least_milli} milli-CPU, and it counts for no less")
    if cpu_milli <= beside_milli:
        raise _RefusalError(f"{beside_milli} milli-CPU of it are not its container's, which leaves none of {cpu_milli}")
    request_milli = cpu_milli - beside_milli
    is_guaranteed = before == GUARANTEED
    to = Cpu(request_milli, _limit(spec, container, was, request_milli, cpu_limit_milli, is_guaranteed=is_guaranteed))
    after = qos_class(_with(spec, container, to))
    if after != before:
        raise _RefusalError(f"its QoS class would become {after} and is {before}, which no resize may change")
    return ResizePlan(container["name"], was, to, beside_milli, least_milli)


def _that_works(found: Object) -> Object:
    """The container that does a pod's work."""
    containers: list[Object] = found["spec"].get("containers") or []
    annotations = mapping_or_empty(found["metadata"].get("annotations"))
    for annotation in (PROGRESS_CONTAINER, DEFAULT_CONTAINER):
        named = [one for one in containers if one.get("name") == annotations.get(annotation, "")]
        if named:
            return named[0]
    if len(containers) == 1:
        return containers[0]
    with_cpu = [one for one in containers if "cpu" in ((one.get("resources") or {}).get("requests") or {})]
    if len(with_cpu) != 1:
        raise _RefusalError(
            f"{len(with_cpu)} of its containers request CPU; the annotation {DEFAULT_CONTAINER} names one"
        )
    return with_cpu[0]


def _restarts(container: Object) -> bool:
    return any(
        one.get("resourceName") == "cpu" and one.get("restartPolicy") == "RestartContainer"
        for one in container.get("resizePolicy") or ()
    )


def _limit(
    spec: Object, container: Object, was: Cpu, request_milli: int, together_milli: int | None, *, is_guaranteed: bool
) -> int:
    """The container's limit; 0 for none."""
    if together_milli is None:
        limit_milli = request_milli if is_guaranteed else was.limit_milli
    elif not together_milli:
        if was.limit_milli:
            raise _RefusalError("it has a limit, which no resize can take away")
        limit_milli = 0
    else:
        others = [one for one in (*spec["containers"], *_sidecars(spec)) if one is not container]
        limit_milli = together_milli - sum(cpu_of(one).limit_milli for one in others)
    if (limit_milli or together_milli) and limit_milli < request_milli:
        raise _RefusalError(
            f"{request_milli} milli-CPU are above its limit of {limit_milli}; give cpu_limit_milli as well"
        )
    return limit_milli


def _without(spec: Object, container: Object) -> tuple[int, int]:
    """Milli-CPU that a pod requests beside one of its containers while it runs, and the least it counts for at all."""
    others = [one for one in spec["containers"] if one is not container]
    beside, least = (
        effective_requests({**spec, "containers": others, "initContainers": starting}).get("cpu", 0)
        for starting in (_sidecars(spec), spec.get("initContainers") or [])
    )
    return rounded(beside, NANO_PER_MILLI), rounded(least, NANO_PER_MILLI)


def _sidecars(spec: Object) -> list[Object]:
    return [one for one in spec.get("initContainers") or [] if one.get("restartPolicy") == "Always"]


def _with(spec: Object, container: Object, cpu: Cpu) -> Object:
    resources = container.get("resources") or {}
    changed = {
        **resources,
        "requests": {**(resources.get("requests") or {}), "cpu": f"{cpu.request_milli}m"},
        "limits": {**(resources.get("limits") or {}), **({"cpu": f"{cpu.limit_milli}m"} if cpu.limit_milli else {})},
    }
    containers = [{**one, "resources": changed} if one is container else one for one in spec["containers"]]
    return {**spec, "containers": containers}


# --- what has become of it -------------------------------------------------------------------------------------------


def cpu_of(container: Object) -> Cpu:
    """What a container states of its CPU; a limit stands in for a request that is missing."""
    resources = container.get("resources") or {}
    limit_milli = _milli((resources.get("limits") or {}).get("cpu")) or 0
    request_milli = _milli((resources.get("requests") or {}).get("cpu"))
    return Cpu(limit_milli if request_milli is None else request_milli, limit_milli)


def word_of(found: Object | None, container: str, wanted: Cpu, known: Collection[Cpu] = ()) -> Word:
    """What a pod says of a resize of its container to an amount; one of those `known` is what it had before."""
    one = None if found is None else _named(found["spec"].get("containers"), container)
    if found is None or one is None:
        return Word(Stage.GONE)
    stated = cpu_of(one)
    if stated != wanted:
        return Word(Stage.UNSENT if stated in known else Stage.CHANGED)
    status = mapping_or_empty(found.get("status"))
    conditions = {
        each.get("type"): each
        for each in status.get("conditions") or ()
        if _is_of_now(each, found["metadata"].get("generation"))
    }
    pending = conditions.get(_PENDING)
    if pending is not None:
        is_infeasible = pending.get("reason") == "Infeasible"
        why = str(pending.get("message") or "the node cannot give so much")
        return Word(Stage.INFEASIBLE if is_infeasible else Stage.DEFERRED, why)
    state = _named(status.get("containerStatuses"), container) or {}
    if _milli((state.get("allocatedResources") or {}).get("cpu")) != wanted.request_milli:
        return Word(Stage.ASKED)
    in_progress = conditions.get(_IN_PROGRESS)
    if in_progress is not None or not _runs_with(state, wanted):
        return Word(Stage.ALLOCATED, str((in_progress or {}).get("message") or ""))
    return Word(Stage.DONE)


def _named(things: object, name: str) -> Object | None:
    for one in things if isinstance(things, list) else ():
        if one.get("name") == name:
            return dict(one)
    return None


def _is_of_now(condition: Object, generation: int | None) -> bool:
    """Whether a condition is about the pod as it is, and not about an amount that it asked for earlier."""
    observed = condition.get("observedGeneration")
    return observed is None or generation is None or observed >= generation


def _runs_with(state: Object, wanted: Cpu) -> bool:
    """Whether a container runs with an amount, as its kubelet reads it from the runtime."""
    resources = state.get("resources")
    if resources is None:
        return True  # the kubelet does not say
    limit_milli = _milli((resources.get("limits") or {}).get("cpu")) or 0
    request_milli = _milli((resources.get("requests") or {}).get("cpu"))
    return limit_milli == wanted.limit_milli and request_milli == wanted.request_milli


def _milli(amount: object) -> int | None:
    """An amount in milli-CPU; None for one that is not there, or that cannot be read."""
    try:
        return None if amount is None else milli(amount)
    except QuantityError:
        return None
