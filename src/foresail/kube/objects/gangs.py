"""Gangs as Kubernetes objects state them: PodGroups of two API groups, and a plain label of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from foresail.kube.objects.quantity import mapping
from foresail.kube.objects.values import (
    GANG,
    GANG_MIN,
    GANG_TIMEOUT_S,
    POD_GROUP,
    named_metadata,
    seconds_of,
    string,
    whole_number,
)

KUBERNETES_GROUP = "scheduling.k8s.io"
SIGS_GROUP = "scheduling.x-k8s.io"
PLAIN = ""


class Limits(NamedTuple):
    """What a gang says of itself; None for what it leaves open."""

    min_members: int | None = None
    timeout_s: float | None = None


NO_LIMITS = Limits()


class GangName(NamedTuple):
    """Which gang a pod names, and how: `form` is the API group of its PodGroup, empty for our plain label."""

    form: str
    namespace: str
    name: str


def pod_group(value: Mapping[str, Any]) -> tuple[str, str, Limits]:
    """Namespace, name and limits of a PodGroup object of either API group."""
    metadata, name = named_metadata(value)
    spec = mapping(value.get("spec"), "spec")
    policy = mapping(spec.get("schedulingPolicy"), "spec.schedulingPolicy")
    gang = mapping(policy.get("gang"), "spec.schedulingPolicy.gang")
    least: int | None = None
    for place, number in (
        ("spec.minMember", spec.get("minMember")),
        ("spec.minCount", spec.get("minCount")),
        ("spec.schedulingPolicy.gang.minCount", gang.get("minCount")),
    ):
        if number is not None:
            least = whole_number(number, place, least=1)
    if least is None and "basic" in policy:
        least = 1  # a basic group has no all-or-nothing rule
    timeout = spec.get("scheduleTimeoutSeconds")
    timeout_s = None if timeout is None else seconds_of(timeout, "spec.scheduleTimeoutSeconds")
    return string(metadata.get("namespace"), "metadata.namespace") or "default", name, Limits(least, timeout_s)


def gang_named(spec: Mapping[str, Any], labels: Mapping[str, str], namespace: str) -> GangName | None:
    """The gang that a pod belongs to, None for one that stands alone."""
    group = mapping(spec.get("schedulingGroup"), "spec.schedulingGroup")
    for form, name in (
        (KUBERNETES_GROUP, string(group.get("podGroupName"), "spec.schedulingGroup.podGroupName")),
        (SIGS_GROUP, string(labels.get(POD_GROUP), f"metadata.labels.{POD_GROUP}")),
        (PLAIN, string(labels.get(GANG), f"metadata.labels.{GANG}")),
    ):
        if name:
            return GangName(form, namespace, name)
    return None


def annotated_limits(annotations: Mapping[str, str]) -> Limits:
    """What a pod itself says of its gang."""
    least = timeout_s = None
    if GANG_MIN in annotations:
        least = whole_number(annotations[GANG_MIN], f"metadata.annotations.{GANG_MIN}", least=1)
    if GANG_TIMEOUT_S in annotations:
        timeout_s = seconds_of(annotations[GANG_TIMEOUT_S], f"metadata.annotations.{GANG_TIMEOUT_S}")
    return Limits(least, timeout_s)
