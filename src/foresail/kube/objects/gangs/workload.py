"""Kubernetes' form of 1.35: groups inside a Workload (`scheduling.k8s.io/v1alpha1`), named in `spec.workloadRef`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.gangs.form import GangName, Limits, one_name
from foresail.kube.objects.gangs.pod_group import KUBERNETES_GROUP, policy_minimum
from foresail.kube.objects.quantity import RequestError, mapping, sequence

WORKLOAD = f"Workload.{KUBERNETES_GROUP}"


class WorkloadGroups:
    """A gang is called by its Workload and its group: `workload/group`, or `workload/group/key` for one replica."""

    title = WORKLOAD

    def named(
        self, spec: Mapping[str, Any], _labels: Mapping[str, Any], _annotations: Mapping[str, Any], namespace: str
    ) -> GangName | None:
        if not spec.get("workloadRef"):
            return None
        stated = mapping(spec["workloadRef"], "spec.workloadRef")
        workload, group, replica = (
            one_name(stated.get(name), f"spec.workloadRef.{name}")
            for name in ("name", "podGroup", "podGroupReplicaKey")
        )
        if not workload or not group:
            raise RequestError("spec.workloadRef is to have both name and podGroup")
        return GangName(WORKLOAD, namespace, f"{workload}/{group}", replica)

    def groups(self, value: Mapping[str, Any], namespace: str, name: str) -> list[tuple[GangName, Limits]]:
        found = []
        for at, one in enumerate(sequence(mapping(value.get("spec"), "spec").get("podGroups"), "spec.podGroups")):
            place = f"spec.podGroups[{at}]"
            group = mapping(one, place)
            short = one_name(group.get("name"), f"{place}.name")
            if not short:
                raise RequestError(f"{place}.name is missing; pods name the group by it")
            limits = Limits(policy_minimum(group.get("policy"), f"{place}.policy"))
            found.append((GangName(WORKLOAD, namespace, f"{name}/{short}"), limits))
        return found
