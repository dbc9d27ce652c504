"""The quality-of-service class of a pod, which follows from what its containers request and may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.quantity import amounts, mapping, sequence

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_LOOKED_AT = ("cpu", "memory")


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed if every container's requests for CPU and memory are its limits, BestEffort if none has either.

    Amounts of 0 are as none. A limit stands in for a request that is missing. What is stated for the pod as a whole
    goes before what containers state.
    """
    whole = mapping(spec.get("resources"), "spec.resources")
    if whole.get("requests") or whole.get("limits"):
        stated = [whole]
    else:
        stated = [
            mapping(mapping(one, f"spec.{kind}").get("resources"), f"spec.{kind}.resources")
            for kind in ("initContainers", "containers")
            for one in sequence(spec.get(kind), f"spec.{kind}")
        ]
    has_any, is_guaranteed = False, True
    for resources in stated:
        limits = _above_none(resources, "limits")
        requests = limits | _above_none(resources, "requests")
        has_any = has_any or bool(requests)
        is_guaranteed = is_guaranteed and len(limits) == len(_LOOKED_AT) and requests == limits
    if not has_any:
        return BEST_EFFORT
    return GUARANTEED if is_guaranteed else BURSTABLE


def _above_none(resources: Mapping[str, Any], kind: str) -> dict[str, int]:
    found = amounts(resources.get(kind), f"resources.{kind}")
    return {name: found[name] for name in _LOOKED_AT if found.get(name)}
