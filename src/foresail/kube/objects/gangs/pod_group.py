"""Kubernetes' own form since 1.36: a PodGroup that pods name in `spec.schedulingGroup`. Of Kubernetes 1.36 it is
v1alpha2, of 1.37 v1alpha3 and v1beta1; they say the same of what is read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.gangs.form import GangName, Limits, one_name
from foresail.kube.objects.quantity import RequestError, mapping, sequence
from foresail.kube.objects.values import string, whole_number

KUBERNETES_GROUP = "scheduling.k8s.io"
KUBERNETES = f"PodGroup.{KUBERNETES_GROUP}"


class PodGroups:
    """`scheduling.k8s.io` PodGroup."""

    title = KUBERNETES

    def named(
        self, spec: Mapping[str, Any], _labels: Mapping[str, Any], _annotations: Mapping[str, Any], namespace: str
    ) -> GangName | None:
        stated = spec.get("schedulingGroup")
        if not stated:
            return None
        field_name = "spec.schedulingGroup.podGroupName"
        name = one_name(mapping(stated, "spec.schedulingGroup").get("podGroupName"), field_name)
        return GangName(KUBERNETES, namespace, name) if name else None

    def groups(self, value: Mapping[str, Any], namespace: str, name: str) -> list[tuple[GangName, Limits]]:
        spec = mapping(value.get("spec"), "spec")
        priority = spec.get("priority")
        limits = Limits(
            policy_minimum(spec.get("schedulingPolicy"), "spec.schedulingPolicy"),
            topology=_topology(spec.get("schedulingConstraints")),
            priority=None if priority is None else whole_number(priority, "spec.priority", least=-(2**31)),
        )
        return [(GangName(KUBERNETES, namespace, name), limits)]


def policy_minimum(value: object, field_name: str) -> int | None:
    """How many start together; 1 for a basic group, which has no such rule."""
    policy = mapping(value, field_name)
    least = mapping(policy.get("gang"), f"{field_name}.gang").get("minCount")
    if least is not None:
        return whole_number(least, f"{field_name}.gang.minCount", least=1)
    return 1 if "basic" in policy else None


def _topology(value: object) -> str:
    place = "spec.schedulingConstraints.topology"
    stated = sequence(mapping(value, "spec.schedulingConstraints").get("topology"), place)
    if len(stated) > 1:
        raise RequestError(f"{place} has {len(stated)} constraints; write one")
    return string(mapping(stated[0], f"{place}[0]").get("key"), f"{place}[0].key") if stated else ""
