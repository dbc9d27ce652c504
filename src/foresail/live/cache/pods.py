"""One Pod object as the cache keeps it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from foresail.core.spec import PodSpec
from foresail.kube.objects.gangs.form import NO_LIMITS, GangName, Limits, later_members
from foresail.kube.objects.gangs.forms import gang_named
from foresail.kube.objects.gangs.plain import PLAIN, annotated_limits
from foresail.kube.objects.gpus import MOST_DEVICES, gpu_devices, largest_gpus
from foresail.kube.objects.granted import with_granted
from foresail.kube.objects.parts import MALFORMED, Lenient
from foresail.kube.objects.pod import pod_spec
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.requests import cpu_limit_milli
from foresail.kube.objects.values import (
    COMPLETION_INDEX,
    GANG_MIN,
    GPU_COUNT,
    GPU_DEVICES,
    GPU_MILLI,
    GPU_MODEL,
    HELD_REQUEST,
    OWNER,
    PREFIX,
    SCORED_REQUEST,
    Object,
    mapping_or_empty,
    strings,
    time_of,
    whole_number,
)

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
    "resourceClaims",
    "hostNetwork",
    "hostUsers",
)
_MOST_SPECS = 1 << 14
K = TypeVar("K")
_encode = msgspec.json.Encoder().encode


class Owner(NamedTuple):
    """Who made a pod, in its namespace, and makes another when it is gone."""

    kind: str
    name: str
    uid: str = ""


_GRACE_S = 30
"""What the API server fills in for a pod that does not say how long it may take to end."""


@dataclass(slots=True)
class CachedPod:
    """What is known of a pod, whoever placed it. Two are equal if nothing that anyone looks at differs."""

    uid: str
    namespace: str
    name: str
    spec: PodSpec
    """What it asks, as far as that can be read; its containers' requests in any case."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of foresail.dev, as they stand."""
    cpu_limit_milli: int = 0
    """CPU that its containers may use together, 0 if any of them has no limit."""
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
    gone_after_s: float = math.inf
    """How long after that its kubelet has ended it at the latest; infinity if it never does."""
    gang: GangName | None = None
    gang_limits: Limits = NO_LIMITS
    """What the pod itself says of its gang."""
    gang_later: int = 0
    """How many of its gang's minimum are made only once the others run."""
    owner: Owner | None = None
    """Its controller; None for a pod that nobody would make again."""
    unreadable: str = ""
    """What of it cannot be read; such a pod is not placed, but counts where it stands. Empty if all can be read."""
    version: str = field(default="", compare=False)

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def completion_index(self) -> str | None:
        """Which of an Indexed Job's pods it is."""
        index = self.labels.get(COMPLETION_INDEX)
        return index if isinstance(index, str) else None

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

    A part that cannot be read never takes another with it: whatever its labels, annotations or status say, a pod on a
    node counts for what its containers request.
    """

    def __init__(self) -> None:
        self._specs: dict[bytes, _Read] = {}

    def read(self, value: Object, before: CachedPod | None = None) -> CachedPod:
        """What the object says; `before` itself if that is what it said before."""
        metadata = value["metadata"]
        version = metadata.get("resourceVersion") or ""
        if before is not None and version and version == before.version:
            return before
        spec, status = mapping_or_empty(value.get("spec")), mapping_or_empty(value.get("status"))
        namespace = metadata.get("namespace") or "default"
        labels = mapping_or_empty(metadata.get("labels"))
        annotations = mapping_or_empty(metadata.get("annotations"))
        parts = Lenient()
        part = parts.part
        priority = part(_priority, 0, spec)
        created_s = part(_unix_s, None, metadata.get("creationTimestamp"), "metadata.creationTimestamp") or 0.0
        started_s = part(_unix_s, None, status.get("startTime"), "status.startTime")
        asked, cpu_limit_milli, why = self._spec(spec, status, metadata, labels, annotations, namespace)
        parts.why = parts.why or why
        gang = part(gang_named, None, spec, labels, annotations, namespace)
        limits = part(_plain_limits, NO_LIMITS, annotations) if gang is not None and gang.form == PLAIN else NO_LIMITS
        now = CachedPod(
            uid=uid_of(value),
            namespace=namespace,
            name=metadata["name"],
            spec=asked,
            labels=labels,
            annotations={name: text for name, text in annotations.items() if name.startswith(PREFIX)}
            if annotations
            else {},
            cpu_limit_milli=cpu_limit_milli,
            node=_word(spec.get("nodeName")),
            devices=gpu_devices(annotations.get(GPU_DEVICES), asked.gpu_count),
            priority=priority,
            preemption_policy=_word(spec.get("preemptionPolicy")) or "PreemptLowerPriority",
            scheduler_name=_word(spec.get("schedulerName")) or "default-scheduler",
            gated=bool(spec.get("schedulingGates")),
            terminating=bool(metadata.get("deletionTimestamp")),
            phase=_word(status.get("phase")),
            nominated_node=_word(status.get("nominatedNodeName")),
            created_s=created_s,
            started_s=started_s,
            gone_after_s=_seconds(spec.get("activeDeadlineSeconds"))
            + _seconds(spec.get("terminationGracePeriodSeconds", _GRACE_S)),
            gang=gang,
            gang_limits=limits,
            gang_later=0 if gang is None else part(later_members, 0, annotations),
            owner=_owner(metadata.get("ownerReferences")),
            unreadable=parts.why,
            version=version,
        )
        if now == before:
            before.version = version
            return before
        return now

    def _spec(
        self,
        spec: Mapping[str, Any],
        status: Mapping[str, Any],
        metadata: Object,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        namespace: str,
    ) -> _Read:
        spec = Lenient().part(with_granted, spec, spec, status)
        try:
            key = _key(spec, metadata, labels, annotations, namespace)
        except MALFORMED:
            key = None  # of a shape that no API server writes; it is read anew each time
        found = None if key is None else self._specs.get(key)
        if found is None:
            found = _read_spec(spec, metadata, labels, annotations, namespace)
            if key is not None:
                if len(self._specs) >= _MOST_SPECS:
                    self._specs.clear()
                self._specs[key] = found
        return found


class _Read(NamedTuple):
    spec: PodSpec
    cpu_limit_milli: int
    why: str
    """What of it cannot be read; empty if all can."""


def _key(
    spec: Mapping[str, Any],
    metadata: Object,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    namespace: str,
) -> bytes:
    """The parts of a pod that reading looks at."""
    # Each pod has a volume of its own for its service account, so volumes that reading skips must be left out.
    volumes = [volume for volume in spec.get("volumes") or () if not _READ_VOLUMES.isdisjoint(volume)]
    return _encode(
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


def _read_spec(
    spec: Mapping[str, Any],
    metadata: Object,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    namespace: str,
) -> _Read:
    parts = Lenient()
    labels = _strings(labels, "metadata.labels", parts)
    read_annotations = {name: annotations[name] for name in _READ_ANNOTATIONS if name in annotations}
    read_annotations = _strings(read_annotations, "metadata.annotations", parts)
    found = pod_spec(spec, metadata, labels, read_annotations, namespace, parts)
    if found.gpu_count > MOST_DEVICES:
        parts.note(RequestError(f"the pod asks for {found.gpu_count} GPUs; one node has at most {MOST_DEVICES}"))
        stated = {name: text for name, text in read_annotations.items() if name not in {GPU_COUNT, GPU_MILLI}}
        found = pod_spec(spec, metadata, labels, stated, namespace, parts)
        found = replace(found, gpu_count=min(found.gpu_count, MOST_DEVICES))
    return _Read(found, parts.part(cpu_limit_milli, 0, spec), parts.why)


def _strings(value: Mapping[str, Any], place: str, parts: Lenient) -> dict[str, str]:
    found = parts.part(strings, None, value, place)
    return {key: text for key, text in value.items() if isinstance(text, str)} if found is None else found


def _priority(spec: Mapping[str, Any]) -> int:
    return whole_number(spec.get("priority") or 0, "spec.priority", least=-(2**31))


def _owner(references: object) -> Owner | None:
    """The controller among a pod's owners."""
    for one in references if isinstance(references, list) else ():
        if isinstance(one, Mapping) and one.get("controller") is True:
            return Owner(*(_word(one.get(name)) for name in Owner._fields))
    return None


def _plain_limits(annotations: Mapping[str, str]) -> Limits:
    limits = annotated_limits(annotations)
    if limits.min_members is None:
        raise RequestError(
            f"metadata.annotations.{GANG_MIN} is missing; write how many members of the gang start together"
        )
    return limits


def _word(value: object) -> str:
    """A field whose value is a word; empty for anything else."""
    return value if isinstance(value, str) else ""


def _seconds(value: object) -> float:
    """A field whose value is a time; infinity for anything else."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else math.inf


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


def as_held(now: CachedPod, *before: tuple[PodSpec, tuple[int, ...] | None]) -> CachedPod:
    """The pod with no fewer GPUs than it had before on its node, and on the devices it had there.

    Containers' requests for GPUs do not change while a pod runs, but annotations may be edited by whoever may edit the
    pod: that must not give anything back that it still uses.
    """
    spec = now.spec
    gpus, devices = (spec.gpu_count, spec.gpu_milli), now.devices
    for earlier, known in before:
        gpus = largest_gpus(gpus, (earlier.gpu_count, earlier.gpu_milli))
        devices = known or devices
    if gpus != (spec.gpu_count, spec.gpu_milli):
        spec = replace(spec, gpu_count=gpus[0], gpu_milli=gpus[1])
    if devices is not None and len(devices) != gpus[0]:
        more = (*devices, *(now.devices or ()), *range(gpus[0]))
        devices = tuple(sorted(list(dict.fromkeys(more))[: gpus[0]]))
    if spec is now.spec and devices == now.devices:
        return now
    return replace(now, spec=spec, devices=devices)


def discard(index: dict[K, dict[str, None]], key: K, uid: str) -> None:
    """Take a pod out of an index of pods, such as that by node or by gang; no key is left without pods."""
    listed = index.get(key)
    if listed is not None:
        listed.pop(uid, None)
        if not listed:
            del index[key]
