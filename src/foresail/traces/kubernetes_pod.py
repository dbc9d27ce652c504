"""One Pod object: what it asks, when it comes and how long it stays, and what of it is not honoured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from foresail.core.spec import WHOLE_GPU_MILLI, PodSpec, Toleration
from foresail.traces.kubernetes_values import (
    ARRIVAL_S,
    CREATED,
    DELETED,
    DURATION_S,
    GANG,
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODEL,
    NVIDIA_GPU,
    OWNER,
    POD_GROUP,
    column,
    device_count,
    extended_resources,
    mapping_or_empty,
    seconds_of,
    string,
    strings,
    time_of,
    whole_number,
)
from foresail.traces.quantity import (
    NANO_PER_MILLI,
    NANO_PER_UNIT,
    Amounts,
    RequestError,
    effective_requests,
    mapping,
    sequence,
)

TOLERATION_PARTS = ("key", "operator", "value", "effect")
_PLACED_VOLUMES = frozenset(
    {
        *("persistentVolumeClaim", "ephemeral", "csi", "awsElasticBlockStore", "azureDisk", "gcePersistentDisk"),
        *("iscsi", "rbd"),
    }
)
"""Volumes that tie a pod to nodes. The others (config maps, secrets, empty folders) go anywhere."""


def pod_spec(
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    namespace: str,
    ignored: set[str],
) -> PodSpec:
    asked = effective_requests(spec)
    count, milli = _pod_gpus(asked, annotations)
    models = annotations.get(GPU_MODEL, "")
    return PodSpec(
        cpu_milli=column(asked.get("cpu", 0), NANO_PER_MILLI, "the CPU request"),
        memory_bytes=column(asked.get("memory", 0), NANO_PER_UNIT, "the memory request"),
        gpu_count=count,
        gpu_milli=milli,
        gpu_models=tuple(model for model in models.split("|") if model),
        extended=extended_resources(asked, "the request for"),
        node_selector=tuple(strings(spec.get("nodeSelector"), "spec.nodeSelector").items()),
        tolerations=_tolerations(spec, ignored),
        # A gang is a column of its own; left among the labels it would give every gang its own spec.
        labels=tuple((key, text) for key, text in labels.items() if key not in {POD_GROUP, GANG}),
        namespace=namespace,
        owner=_owner(metadata, annotations),
    )


def _pod_gpus(asked: Amounts, annotations: Mapping[str, str]) -> tuple[int, int]:
    count = milli = None
    if GPU_COUNT in annotations:
        count = whole_number(annotations[GPU_COUNT], f"metadata.annotations.{GPU_COUNT}")
    elif GPU_COUNT in asked:
        count = device_count(asked[GPU_COUNT], f"the request for {GPU_COUNT}")
    if GPU_MILLI in annotations:
        milli = whole_number(annotations[GPU_MILLI], f"metadata.annotations.{GPU_MILLI}")
    elif GPU_MILLI in asked:
        milli = device_count(asked[GPU_MILLI], f"the request for {GPU_MILLI}")
    if count is None and milli is None:
        count = device_count(asked.get(NVIDIA_GPU, 0), f"the request for {NVIDIA_GPU}")
    if count is None:
        count = 1 if milli else 0
    if milli is None:
        milli = WHOLE_GPU_MILLI if count else 0
    if milli > WHOLE_GPU_MILLI:
        raise RequestError(f'{GPU_MILLI} is "{milli}"; one device has 1000 milli, ask for more with {GPU_COUNT}')
    if (count == 0) != (milli == 0) or (count > 1 and milli < WHOLE_GPU_MILLI):
        raise RequestError(
            f'{GPU_COUNT} is "{count}" and {GPU_MILLI} is "{milli}"; write 1 to 1000 milli of one GPU, '
            "1000 of several, or neither"
        )
    return count, milli


def _tolerations(spec: Mapping[str, Any], ignored: set[str]) -> tuple[Toleration, ...]:
    taken = []
    for index, value in enumerate(sequence(spec.get("tolerations"), "spec.tolerations")):
        place = f"spec.tolerations[{index}]"
        parts = {
            name: string(text, f"{place}.{name}")
            for name, text in mapping(value, place).items()
            if name in TOLERATION_PARTS
        }
        operator = parts.get("operator") or "Equal"
        if operator in {"Gt", "Lt"}:
            ignored.add(f"spec.tolerations with operator {operator}")
            continue
        if operator not in {"Equal", "Exists"}:
            raise RequestError(f'{place}.operator is "{operator}"; write Equal or Exists')
        taken.append(Toleration(parts.get("key", ""), operator, parts.get("value", ""), parts.get("effect", "")))
    return tuple(taken)


def _owner(metadata: Mapping[str, Any], annotations: Mapping[str, str]) -> str:
    if OWNER in annotations:
        return annotations[OWNER]
    for index, value in enumerate(sequence(metadata.get("ownerReferences"), "metadata.ownerReferences")):
        place = f"metadata.ownerReferences[{index}]"
        reference = mapping(value, place)
        if reference.get("controller") is True:
            return f"{string(reference.get('kind'), place)}/{string(reference.get('name'), place)}"
    return ""


def pod_times(
    metadata: Mapping[str, Any], annotations: Mapping[str, str]
) -> tuple[float | None, datetime | None, float]:
    created = time_of(annotations.get(CREATED), f"metadata.annotations.{CREATED}")
    deleted = time_of(annotations.get(DELETED), f"metadata.annotations.{DELETED}")
    created = created or time_of(metadata.get("creationTimestamp"), "metadata.creationTimestamp")
    arrival_s = None
    if ARRIVAL_S in annotations:
        arrival_s = seconds_of(annotations[ARRIVAL_S], f"metadata.annotations.{ARRIVAL_S}")
        if arrival_s == math.inf:
            raise RequestError(f'metadata.annotations.{ARRIVAL_S} is "inf"; write seconds from the start of the trace')
    if DURATION_S in annotations:
        return arrival_s, created, seconds_of(annotations[DURATION_S], f"metadata.annotations.{DURATION_S}")
    if deleted is None:
        return arrival_s, created, math.inf
    if created is None or deleted < created:
        began = "there is no creation time" if created is None else f"the pod was created {created.isoformat()}"
        raise RequestError(
            f'metadata.annotations.{DELETED} is "{annotations[DELETED]}" but {began}; '
            f"write a deletion time at or after the creation time, or {DURATION_S}"
        )
    return arrival_s, created, (deleted - created).total_seconds()


def ignored_fields(spec: Mapping[str, Any]) -> set[str]:
    names = {f"spec.affinity.{kind}" for kind, terms in mapping(spec.get("affinity"), "spec.affinity").items() if terms}
    names |= {
        f"spec.{name}"
        for name in ("topologySpreadConstraints", "nodeName", "schedulingGates", "resourceClaims")
        if spec.get(name)
    }
    volumes = sequence(spec.get("volumes"), "spec.volumes")
    if any(_PLACED_VOLUMES.intersection(mapping_or_empty(volume)) for volume in volumes):
        names.add("spec.volumes")
    for place in ("containers", "initContainers"):
        for container in sequence(spec.get(place), f"spec.{place}"):
            ports = sequence(mapping_or_empty(container).get("ports"), f"spec.{place}.ports")
            if any(mapping_or_empty(port).get("hostPort") for port in ports):
                names.add("hostPort")
    return names
