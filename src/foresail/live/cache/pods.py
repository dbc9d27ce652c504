"""One Pod object as the cache keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from foresail.core.spec import PodSpec
from foresail.kube.objects.gangs import NO_LIMITS, PLAIN, GangName, Limits, annotated_limits, gang_named
from foresail.kube.objects.pod import pod_spec
from foresail.kube.objects.quantity import QuantityError, RequestError, nano
from foresail.kube.objects.values import (
    GANG_MIN,
    GPU_COUNT,
    GPU_DEVICES,
    GPU_MILLI,
    GPU_MODEL,
    HELD_REQUEST,
    OWNER,
    SCORED_REQUEST,
    Object,
    strings,
    time_of,
    whole_number,
)

MOST_DEVICES = 256
"""GPUs of one node or pod; more is a mistake, and a table as wide as somebody cares to write would fill the memory."""

_READ_ANNOTATIONS = (GPU_COUNT, GPU_MILLI, GPU_MODEL, OWNER, SCORED_REQUEST, HELD_REQUEST)
_READ_VOLUMES = frozenset(
    {"persistentVolumeClaim", "ephemeral", "awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd", "image"}
)
_READ_SPEC = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "overhead",
    "resources",
    "hostNetwork",
    "hostUsers",
)
_MOST_SPECS = 1 << 14
_MALFORMED = (ValueError, TypeError, AttributeError, KeyError)
"""What reading an object raises that is not as Kubernetes writes it; one such must not end a watch."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class CachedPod:
    """What is known of a pod, whoever placed it. Two are equal if nothing that anyone looks at differs."""

    uid: str
    namespace: str
    name: str
    spec: PodSpec
    """What it asks; with requests of 0 if that cannot be read."""
    labels: dict[str, str]
    node: str = ""
    devices: tuple[int, ...] | None = None
    """GPUs of its node that it was given, None where nobody wrote them down."""
    priority: int = 0
    preemption_policy: str = "PreemptLowerPriority"
    scheduler_name: str = "default-scheduler"
    gated: bool = False
    terminating: bool = False
    phase: str = ""
    nominated_node: str = ""
    created_s: float = 0.0
    """Seconds since 1970."""
    started_s: float | None = None
    """When its kubelet took it over."""
    gang: GangName | None = None
    gang_limits: Limits = NO_LIMITS
    """What the pod itself says of its gang."""
    unreadable: str = ""
    """Why its request cannot be read; empty if it can."""
    version: str = field(default="", compare=False)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ended(self) -> bool:
        """It holds nothing any more, though the object is still there."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def stands(self) -> bool:
        """It has a node and holds room there."""
        return bool(self.node) and not self.ended


def uid_of(value: Object) -> str:
    """The uid, or the name of an object that was never on an API server."""
    metadata = value["metadata"]
    return str(metadata.get("uid") or f"{metadata.get('namespace') or 'default'}/{metadata['name']}")


class PodReader:
    """Reads Pod objects. Most pods are like others and most events change the status alone, so what was read once is
    found again by the parts that reading looks at.
    """

    def __init__(self) -> None:
        self._specs: dict[bytes, PodSpec] = {}

    def read(self, value: Object, before: CachedPod | None = None) -> CachedPod:
        """What the object says; `before` itself if that is what it said before."""
        metadata = value["metadata"]
        version = metadata.get("resourceVersion") or ""
        if before is not None and version and version == before.version:
            return before
        spec, status = value.get("spec") or {}, value.get("status") or {}
        namespace = metadata.get("namespace") or "default"
        labels = metadata.get("labels") or {}
        annotations = metadata.get("annotations") or {}
        asked, gang, limits, unreadable = PodSpec(namespace=namespace), None, NO_LIMITS, ""
        priority, created_s, started_s = 0, 0.0, None
        try:
            priority = whole_number(spec.get("priority") or 0, "spec.priority", least=-(2**31))
            created_s = _unix_s(metadata.get("creationTimestamp"), "metadata.creationTimestamp") or 0.0
            started_s = _unix_s(status.get("startTime"), "status.startTime")
            asked = self._spec(spec, status, metadata, labels, annotations, namespace)
            gang = gang_named(spec, labels, namespace)
            if gang is not None and gang.form == PLAIN:
                limits = annotated_limits(annotations)
                if limits.min_members is None:
                    raise RequestError(
                        f"metadata.annotations.{GANG_MIN} is missing; write how many members of the gang start together"
                    )
        except _MALFORMED as error:
            unreadable = str(error) if isinstance(error, RequestError) else f"{type(error).__name__}: {error}"
        now = CachedPod(
            uid=uid_of(value),
            namespace=namespace,
            name=metadata["name"],
            spec=asked,
            labels=labels,
            node=spec.get("nodeName") or "",
            devices=_devices(annotations.get(GPU_DEVICES), asked.gpu_count),
            priority=priority,
            preemption_policy=spec.get("preemptionPolicy") or "PreemptLowerPriority",
            scheduler_name=spec.get("schedulerName") or "default-scheduler",
            gated=bool(spec.get("schedulingGates")),
            terminating=bool(metadata.get("deletionTimestamp")),
            phase=status.get("phase") or "",
            nominated_node=status.get("nominatedNodeName") or "",
            created_s=created_s,
            started_s=started_s,
            gang=gang,
            gang_limits=limits,
            unreadable=unreadable,
            version=version,
        )
        if now == before:
            before.version = version
            return before
        return now

    def _spec(
        self,
        spec: Object,
        status: Object,
        metadata: Object,
        labels: dict[str, str],
        annotations: dict[str, str],
        namespace: str,
    ) -> PodSpec:
        spec = with_granted(spec, status)
        volumes = [volume for volume in spec.get("volumes") or () if not _READ_VOLUMES.isdisjoint(volume)]
        # Each pod has a volume of its own for its service account, so volumes that reading skips must be left out.
        key = _encode(
            (
                namespace,
                labels,
                [annotations.get(name) for name in _READ_ANNOTATIONS] if annotations else None,
                metadata.get("ownerReferences"),
                "deletionTimestamp" in metadata,
                [spec.get(name) for name in _READ_SPEC],
                _container_parts(spec.get("containers")),
                _container_parts(spec.get("initContainers")),
                volumes,
                # The claim of an ephemeral volume is named after the pod.
                metadata["name"] if any("ephemeral" in volume for volume in volumes) else "",
            )
        )
        found = self._specs.get(key)
        if found is None:
            found = pod_spec(
                spec,
                metadata,
                strings(labels, "metadata.labels"),
                strings(annotations, "metadata.annotations"),
                namespace,
            )
            if found.gpu_count > MOST_DEVICES:
                raise RequestError(f"the pod asks for {found.gpu_count} GPUs; one node has at most {MOST_DEVICES}")
            if len(self._specs) >= _MOST_SPECS:
                self._specs.clear()
            self._specs[key] = found
        return found


def _container_parts(containers: Iterable[Object] | None) -> list[object] | None:
    """What reading looks at in containers; the rest, such as commands and environments, is often each pod's own."""
    if not containers:
        return None
    return [
        (
            one.get("image"),
            one.get("resources"),
            one.get("ports"),
            one.get("restartPolicy"),
            one.get("restartPolicyRules"),
        )
        for one in containers
    ]


def _unix_s(text: object, place: str) -> float | None:
    time = time_of(text, place)
    return None if time is None else time.timestamp()


def _devices(text: object, count: int) -> tuple[int, ...] | None:
    """GPUs as the annotation lists them, None if it does not list as many as the pod has."""
    if not text or not count:
        return None
    try:
        found = tuple(sorted({int(part) for part in str(text).split(",")}))
    except ValueError:
        return None
    return found if len(found) == count and found[0] >= 0 and found[-1] < MOST_DEVICES else None


# --- pods that are resized in place ----------------------------------------------------------------------------------


def with_granted(spec: Object, status: Mapping[str, Any]) -> Object:
    """The spec with every container's request raised to what its node still grants it while a resize is under way.

    That is the largest of what is asked, what the kubelet has set aside and what the container runs with; what is
    asked does not count once the kubelet has called it infeasible.
    """
    states = {
        one.get("name"): one
        for field_name in ("containerStatuses", "initContainerStatuses")
        for one in status.get(field_name) or ()
        if "resources" in one or "allocatedResources" in one
    }
    if not states:
        return spec
    refused = any(
        one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible"
        for one in status.get("conditions") or ()
    )
    changed: Object = {}
    for field_name in ("containers", "initContainers"):
        containers = spec.get(field_name) or ()
        granted = [
            container
            if field_name == "initContainers" and container.get("restartPolicy") != "Always"
            else _granted(container, states.get(container.get("name")), refused=refused)
            for container in containers
        ]
        if any(now is not before for now, before in zip(granted, containers, strict=True)):
            changed[field_name] = granted
    if spec.get("resources"):
        whole = _granted({"resources": spec["resources"]}, status, refused=refused)
        if whole["resources"] is not spec["resources"]:
            changed["resources"] = whole["resources"]
    return {**spec, **changed} if changed else spec


def _granted(container: Object, state: Mapping[str, Any] | None, *, refused: bool) -> Object:
    if state is None:
        return container
    resources = container.get("resources") or {}
    asked = resources.get("requests") or {}
    stated = (state.get("allocatedResources"), (state.get("resources") or {}).get("requests"))
    others = [one for one in stated if one is not None]
    if not others or (not refused and all(one == asked for one in others)):
        return container
    largest: dict[str, Any] = {}
    for amounts in others if refused else (asked, *others):
        for name, amount in amounts.items():
            try:
                if name not in largest or nano(amount) > nano(largest[name]):
                    largest[name] = amount
            except QuantityError as error:
                raise RequestError(f"the status of a container: {name} {error}") from None
    return {**container, "resources": {**resources, "requests": largest}}


def discard(index: dict[str, dict[str, None]], key: str, uid: str) -> None:
    """Take a pod out of an index of pods by node or by gang; no key is left without pods."""
    listed = index.get(key)
    if listed is not None:
        listed.pop(uid, None)
        if not listed:
            del index[key]
