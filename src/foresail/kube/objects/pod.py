"""One Pod object: what it requests, when it comes and how long it stays, and what of it is not honoured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from foresail.core.kubernetes import KubernetesPod
from foresail.core.spec import PodSpec, Toleration
from foresail.kube.objects.gpus import pod_gpus
from foresail.kube.objects.parts import WHOLE, Parts, Request
from foresail.kube.objects.quantity import NANO_PER_MILLI, NANO_PER_UNIT, Amounts, RequestError, mapping, sequence
from foresail.kube.objects.requests import cpu_limit_milli, effective_requests, readable_amounts, scored_requests
from foresail.kube.objects.terms import node_affinity, pod_affinity, spread_constraints
from foresail.kube.objects.values import (
    ARRIVAL_S,
    CPU_LIMIT_MILLI,
    CPU_WEIGHT,
    CREATED,
    DELETED,
    DURATION_S,
    GPU_MODEL,
    HELD_REQUEST,
    OWNER,
    SCORED_REQUEST,
    TRAINING,
    WORK_CPU_S,
    column,
    extended_resources,
    named_metadata,
    seconds_of,
    string,
    strings,
    time_of,
    whole_number,
)
from foresail.kube.objects.volumes import claims_and_disks, features, host_ports, images, resource_claims

TOLERATION_PARTS = ("key", "operator", "value", "effect")


def pod_spec(
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    namespace: str,
    parts: Parts = WHOLE,
) -> PodSpec:
    """What a pod asks; what of it is wrong is for `parts` to say. What containers request counts in any case."""
    part = parts.part
    requested = part(effective_requests, None, spec)
    if requested is None:
        spec = readable_amounts(spec)
        requested = effective_requests(spec)
    requested = parts.bounded(requested)
    cpu_milli, memory_bytes = _cpu_and_memory(requested)
    count, milli = pod_gpus(requested, annotations, parts)
    models = annotations.get(GPU_MODEL, "")
    plain = PodSpec(
        cpu_milli=cpu_milli,
        memory_bytes=memory_bytes,
        gpu_count=count,
        gpu_milli=milli,
        gpu_models=tuple(model for model in models.split("|") if model),
        extended=extended_resources(requested, "the request for"),
        node_selector=part(_node_selector, (), spec),
        tolerations=part(_tolerations, (), spec),
        labels=tuple(labels.items()),
        namespace=namespace,
        owner=part(_owner, "", metadata, annotations),
    )
    return replace(plain, kubernetes=_kubernetes_only(plain, spec, metadata, labels, annotations, parts))


def pod_spec_of(value: Mapping[str, Any]) -> PodSpec:
    """What a Pod object requests, without when it comes and how long it stays."""
    metadata, _ = named_metadata(value)
    return pod_spec(
        mapping(value.get("spec"), "spec"),
        metadata,
        strings(metadata.get("labels"), "metadata.labels"),
        strings(metadata.get("annotations"), "metadata.annotations"),
        string(metadata.get("namespace"), "metadata.namespace") or "default",
    )


def _cpu_and_memory(asked: Amounts) -> Request:
    return (
        column(asked.get("cpu", 0), NANO_PER_MILLI, "the CPU request"),
        column(asked.get("memory", 0), NANO_PER_UNIT, "the memory request"),
    )


def _kubernetes_only(
    plain: PodSpec,
    spec: Mapping[str, Any],
    metadata: Mapping[str, Any],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    parts: Parts,
) -> KubernetesPod | None:
    """What is left, None if nothing is: pods that request the same then share one spec with those of other traces."""
    part = parts.part
    required_nodes, preferred_nodes = part(node_affinity, (None, ()), spec)
    affinity, preferred_affinity = part(pod_affinity, ((), ()), spec, "podAffinity", labels, plain.namespace)
    anti_affinity, preferred_anti_affinity = part(
        pod_affinity, ((), ()), spec, "podAntiAffinity", labels, plain.namespace
    )
    claims, disks = part(claims_and_disks, ((), ()), spec, metadata.get("name"))
    named_images, container_count = part(images, ((), 1), spec)
    waiting, held = (_cpu_and_memory(parts.bounded(requested)) for requested in scored_requests(spec))
    waiting = parts.claimed(waiting, part(_stated_request, None, annotations, SCORED_REQUEST, parts))
    held = parts.claimed(held, part(_stated_request, None, annotations, HELD_REQUEST, parts))
    found = KubernetesPod(
        required_nodes=required_nodes,
        preferred_nodes=preferred_nodes,
        affinity=affinity,
        anti_affinity=anti_affinity,
        preferred_affinity=preferred_affinity,
        preferred_anti_affinity=preferred_anti_affinity,
        spread=part(spread_constraints, (), spec, labels),
        host_ports=part(host_ports, (), spec),
        disks=disks,
        claims=claims,
        resource_claims=part(resource_claims, (), spec),
        images=named_images,
        container_count=container_count,
        features=part(features, (), spec),
        scored_request=None if waiting == plain.scored_request else waiting,
        held_request=None if held == plain.held_request else held,
        terminating=bool(metadata.get("deletionTimestamp")),
    )
    return None if found == KubernetesPod() else found


def _stated_request(annotations: Mapping[str, str], name: str, parts: Parts) -> Request | None:
    """Milli-CPU and bytes as our writer notes them where they do not follow from the containers it writes."""
    if name not in annotations:
        return None
    cpu, _, memory = annotations[name].partition("/")
    place = f"metadata.annotations.{name}"
    cpu_milli, memory_bytes = whole_number(cpu, place), whole_number(memory, place)
    stated = {"cpu": cpu_milli * NANO_PER_MILLI, "memory": memory_bytes * NANO_PER_UNIT}
    return _cpu_and_memory(parts.bounded(stated))


def _node_selector(spec: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(strings(spec.get("nodeSelector"), "spec.nodeSelector").items())


def _tolerations(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    taken = []
    for index, value in enumerate(sequence(spec.get("tolerations"), "spec.tolerations")):
        place = f"spec.tolerations[{index}]"
        parts = {
            name: string(text, f"{place}.{name}")
            for name, text in mapping(value, place).items()
            if name in TOLERATION_PARTS
        }
        operator = parts.get("operator") or "Equal"
        if operator not in {"Equal", "Exists", "Gt", "Lt"}:
            raise RequestError(f'{place}.operator is "{operator}"; write Equal, Exists, Gt or Lt')
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


class PodWork(NamedTuple):
    """How a pod runs where CPU is shared; see `Workload`."""

    cpu_limit_milli: int
    cpu_weight: float
    work_cpu_s: float
    training: str = ""
    """Name of the model that it trains; whoever knows the models says whether there is one."""


def pod_work(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> PodWork:
    if CPU_LIMIT_MILLI in annotations:
        text = annotations[CPU_LIMIT_MILLI]
        if not text.isdecimal():
            raise RequestError(f'metadata.annotations.{CPU_LIMIT_MILLI} is "{text}"; write a whole number of milli-CPU')
        limit_milli = int(text)
    else:
        limit_milli = cpu_limit_milli(spec)
    weight, work_cpu_s = 0.0, math.nan
    if CPU_WEIGHT in annotations:
        weight = seconds_of(annotations[CPU_WEIGHT], f"metadata.annotations.{CPU_WEIGHT}")
        if not 0 < weight < math.inf:
            raise RequestError(f'metadata.annotations.{CPU_WEIGHT} is "{weight:g}"; write a number above 0')
    if WORK_CPU_S in annotations:
        work_cpu_s = seconds_of(annotations[WORK_CPU_S], f"metadata.annotations.{WORK_CPU_S}")
    return PodWork(limit_milli, weight, work_cpu_s, annotations.get(TRAINING, ""))


def ignored_fields(spec: Mapping[str, Any]) -> set[str]:
    return {f"spec.{name}" for name in ("nodeName", "schedulingGates") if spec.get(name)}
