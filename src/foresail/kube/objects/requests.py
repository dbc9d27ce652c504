"""What the containers of a pod request together, as Kubernetes adds it up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foresail.core.kubernetes import UNSTATED_CPU_MILLI, UNSTATED_MEMORY_BYTES
from foresail.kube.objects.quantity import (
    LARGEST,
    NANO_PER_MILLI,
    NANO_PER_UNIT,
    Amounts,
    QuantityError,
    amounts,
    mapping,
    nano,
    rounded,
    sequence,
)

_UNSTATED = {"cpu": UNSTATED_CPU_MILLI * NANO_PER_MILLI, "memory": UNSTATED_MEMORY_BYTES * NANO_PER_UNIT}


def effective_requests(spec: Mapping[str, Any]) -> Amounts:
    """What a pod needs of a node, in nano units.

    The larger of (containers + sidecars) and of every init container with the sidecars started before it; pod-level
    requests then replace CPU, memory and huge pages; the overhead comes on top. Sidecars are init containers whose
    restartPolicy is Always. Limits stand in for requests that are missing.
    """
    asked = _container_requests(spec, {})
    return _with_overhead(spec, asked | _pod_level(spec, asked.keys()))


def readable_amounts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a pod with those amounts alone that can be read, so that one bad amount takes no other with it."""
    return {
        **spec,
        **{
            kind: [_readable_resources(one) for one in _list(spec.get(kind)) if isinstance(one, Mapping)]
            for kind in ("containers", "initContainers")
        },
        "overhead": _readable(spec.get("overhead")),
        "resources": _readable_resources(spec)["resources"],
    }


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _readable_resources(value: Mapping[str, Any]) -> dict[str, Any]:
    stated = value.get("resources")
    if not isinstance(stated, Mapping):
        return {**value, "resources": {}}
    return {**value, "resources": {kind: _readable(stated.get(kind)) for kind in ("requests", "limits")}}


def _readable(stated: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in stated.items() if isinstance(stated, Mapping) else ():
        try:
            amount = nano(value)
        except QuantityError:
            continue
        if amount >= 0:
            found[name] = value if amount <= LARGEST * NANO_PER_UNIT else LARGEST
    return found


def cpu_limit_milli(spec: Mapping[str, Any]) -> int:
    """CPU that the containers and sidecars of a pod may use together; 0, no limit, if one of them has none."""
    running = [
        *sequence(spec.get("containers"), "spec.containers"),
        *(
            one
            for one in sequence(spec.get("initContainers"), "spec.initContainers")
            if mapping(one, "spec.initContainers").get("restartPolicy") == "Always"
        ),
    ]
    total = 0
    for one in running:
        resources = mapping(mapping(one, "spec.containers").get("resources"), "resources")
        limit = amounts(resources.get("limits"), "resources.limits").get("cpu", 0)
        if not limit:
            return 0
        total += limit
    return rounded(total, NANO_PER_MILLI)


def scored_requests(spec: Mapping[str, Any]) -> tuple[Amounts, Amounts]:
    """CPU and memory that a pod counts for in NodeResourcesFit's score: while it waits, and once it is on a node.

    A container that says nothing counts as 100m and 200Mi; an explicit 0 stays 0. The waiting pod's pod-level requests
    are not looked at. On a node they are, and the defaults then only fill what neither they nor any container nor the
    overhead names.
    """
    waiting = _with_overhead(spec, _container_requests(spec, _UNSTATED))
    plain = _container_requests(spec, {})
    pod_level = _pod_level(spec, plain.keys())
    named = _with_overhead(spec, plain | pod_level)
    unstated = {name: amount for name, amount in _UNSTATED.items() if not pod_level or name not in named}
    return waiting, _with_overhead(spec, _container_requests(spec, unstated) | pod_level)


def _container_requests(spec: Mapping[str, Any], unstated: Amounts) -> Amounts:
    """The containers' requests together; `unstated` stands in for what a container does not name."""
    running: Amounts = {}
    sidecars: Amounts = {}
    starting: Amounts = {}
    for index, container in enumerate(sequence(spec.get("initContainers"), "spec.initContainers")):
        field = f"spec.initContainers[{index}]"
        asked = unstated | _asked(container, field)
        if mapping(container, field).get("restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = dict(sidecars)
        else:
            _add(asked, sidecars)
        _raise_to(starting, asked)
    for index, container in enumerate(sequence(spec.get("containers"), "spec.containers")):
        _add(running, unstated | _asked(container, f"spec.containers[{index}]"))
    _add(running, sidecars)
    _raise_to(running, starting)
    return running


def _with_overhead(spec: Mapping[str, Any], asked: Amounts) -> Amounts:
    _add(asked, amounts(spec.get("overhead"), "spec.overhead"))
    return asked


def _asked(container: object, field: str) -> Amounts:
    resources = mapping(mapping(container, field).get("resources"), f"{field}.resources")
    limits = amounts(resources.get("limits"), f"{field}.resources.limits")
    return limits | amounts(resources.get("requests"), f"{field}.resources.requests")


def _pod_level(spec: Mapping[str, Any], asked: Iterable[str]) -> Amounts:
    """Pod-level requests for CPU, memory and huge pages; Kubernetes knows no others."""
    resources = mapping(spec.get("resources"), "spec.resources")
    limits = amounts(resources.get("limits"), "spec.resources.limits")
    # A pod-level limit is a default only for what no container asks; otherwise their sum is the request.
    for name in set(asked):
        limits.pop(name, None)
    stated = limits | amounts(resources.get("requests"), "spec.resources.requests")
    return {
        name: amount for name, amount in stated.items() if name in {"cpu", "memory"} or name.startswith("hugepages-")
    }


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)
