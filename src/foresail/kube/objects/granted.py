"""Pods that are resized in place: what their node still grants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.kube.objects.quantity import QuantityError, nano
from foresail.kube.objects.values import Object


def with_granted(spec: Object, status: Mapping[str, Any]) -> Object:
    """The spec with every container's request raised to what its node still grants it while a resize is under way.

    That is the largest of what is asked, what the kubelet has set aside and what the container runs with; what is
    asked does not count once the kubelet has called it infeasible. Amounts of the status that cannot be read are passed
    over.
    """
    states = {
        one.get("name"): one
        for field_name in ("containerStatuses", "initContainerStatuses")
        for one in status.get(field_name) or ()
        if "resources" in one or "allocatedResources" in one
    }
    if not states:
        return spec
    refused = any(
        one.get("type") == "PodResizePending" and one.get("reason") == "Infeasible"
        for one in status.get("conditions") or ()
    )
    changed: Object = {}
    for field_name in ("containers", "initContainers"):
        containers = spec.get(field_name) or ()
        granted = [
            container
            if field_name == "initContainers" and container.get("restartPolicy") != "Always"
            else _granted(container, states.get(container.get("name")), refused=refused)
            for container in containers
        ]
        if any(now is not before for now, before in zip(granted, containers, strict=True)):
            changed[field_name] = granted
    if spec.get("resources"):
        whole = _granted({"resources": spec["resources"]}, status, refused=refused)
        if whole["resources"] is not spec["resources"]:
            changed["resources"] = whole["resources"]
    return {**spec, **changed} if changed else spec


def _granted(container: Object, state: Mapping[str, Any] | None, *, refused: bool) -> Object:
    if state is None:
        return container
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    stated = (state.get("allocatedResources"), (state.get("resources") or {}).get("requests"))
    others = [one for one in stated if one is not None]
    if not others or (not refused and all(one == requests for one in others)):
        return container
    # A limit stands in for a request that is missing, so the node's word must not hide it.
    largest: dict[str, Any] = {} if refused else {**(resources.get("limits") or {}), **requests}
    for amounts in others:
        for name, amount in amounts.items():
            granted = _readable(amount)
            if granted is not None and granted > (_readable(largest.get(name)) or -1):
                largest[name] = amount
    return {**container, "resources": {**resources, "requests": largest}}


def _readable(amount: object) -> int | None:
    """The amount in nano units; None, which grants nothing, for a word of the status that is no quantity."""
    try:
        return nano(amount)
    except QuantityError:
        return None
