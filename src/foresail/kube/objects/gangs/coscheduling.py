"""The form of the scheduler plug-ins' Coscheduling: a PodGroup of `scheduling.x-k8s.io`, named by a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.gangs.form import GangName, Limits, one_name
from foresail.kube.objects.quantity import mapping
from foresail.kube.objects.values import POD_GROUP, seconds_of, whole_number

SIGS_GROUP = "scheduling.x-k8s.io"
COSCHEDULING = f"PodGroup.{SIGS_GROUP}"


class CoschedulingGroups:
    """`scheduling.x-k8s.io` PodGroup. Its `minResources` are what members request together, which is counted anyway."""

    title = COSCHEDULING

    def named(
        self, _spec: Mapping[str, Any], labels: Mapping[str, Any], _annotations: Mapping[str, Any], namespace: str
    ) -> GangName | None:
        name = one_name(labels.get(POD_GROUP), f"metadata.labels.{POD_GROUP}")
        return GangName(COSCHEDULING, namespace, name) if name else None

    def groups(self, value: Mapping[str, Any], namespace: str, name: str) -> list[tuple[GangName, Limits]]:
        spec = mapping(value.get("spec"), "spec")
        least, timeout = spec.get("minMember"), spec.get("scheduleTimeoutSeconds")
        limits = Limits(
            None if least is None else whole_number(least, "spec.minMember", least=1),
            None if timeout is None else seconds_of(timeout, "spec.scheduleTimeoutSeconds"),
        )
        return [(GangName(COSCHEDULING, namespace, name), limits)]
