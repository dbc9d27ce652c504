"""Volcano's form: a PodGroup of `scheduling.volcano.sh`, named by an annotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.gangs.form import GangName, Limits, one_name
from foresail.kube.objects.quantity import RequestError, mapping
from foresail.kube.objects.values import VOLCANO_GROUP_NAMES, whole_number

VOLCANO_GROUP = "scheduling.volcano.sh"
VOLCANO = f"PodGroup.{VOLCANO_GROUP}"


class VolcanoGroups:
    """`scheduling.volcano.sh` PodGroup. Queues are Volcano's own and not looked at here; nor are `minResources`, which
    are the sum of what members request.
    """

    title = VOLCANO

    def named(
        self, _spec: Mapping[str, Any], _labels: Mapping[str, Any], annotations: Mapping[str, Any], namespace: str
    ) -> GangName | None:
        for annotation in VOLCANO_GROUP_NAMES:
            name = one_name(annotations.get(annotation), f"metadata.annotations.{annotation}")
            if name:
                return GangName(VOLCANO, namespace, name)
        return None

    def groups(self, value: Mapping[str, Any], namespace: str, name: str) -> list[tuple[GangName, Limits]]:
        spec = mapping(value.get("spec"), "spec")
        topology = mapping(spec.get("networkTopology"), "spec.networkTopology")
        # Volcano takes a mode that is not stated for hard.
        if topology and topology.get("mode", "hard") == "hard":
            raise RequestError(
                'spec.networkTopology.mode is "hard", which is about HyperNodes, and those are known to Volcano alone; '
                'write "soft", or a required podAffinity in the pods'
            )
        # Nought is what its API server writes for a minimum that nobody stated.
        least = whole_number(spec.get("minMember") or 0, "spec.minMember")
        tasks = mapping(spec.get("minTaskMember"), "spec.minTaskMember")
        of_tasks = sum(whole_number(number, f"spec.minTaskMember.{task}") for task, number in tasks.items())
        return [(GangName(VOLCANO, namespace, name), Limits(max(least, of_tasks) or None))]
