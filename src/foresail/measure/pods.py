"""Pods that measure: a namespace of their own, nodes that take them, and what they print."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from foresail.errors import ForesailError
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import Objects
from foresail.kube.api.errors import ClusterError, NotFound


@contextmanager
def own_namespace(api: BlockingClient) -> Iterator[str]:
    """A namespace that goes at the end, with all in it."""
    name = f"foresail-measure-{secrets.token_hex(4)}"
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    try:
        # Pods are refused until it is there.
        api.wait(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _: True)
        yield name
    finally:
        api.delete(f"/api/v1/namespaces/{name}")


def ready_nodes(api: BlockingClient) -> Objects:
    """Nodes that are ready and take pods, by name; nobody else may be there to place them."""
    found = [
        node
        for node in api.items("/api/v1/nodes")
        if not node.get("spec", {}).get("unschedulable")
        and any(
            one["type"] == "Ready" and one["status"] == "True" for one in node.get("status", {}).get("conditions") or ()
        )
    ]
    if not found:
        raise ForesailError("no node of the cluster is ready; nothing can be measured there")
    return sorted(found, key=lambda node: str(node["metadata"]["name"]))


def log_of(api: BlockingClient, path: str) -> str:
    """What a pod has printed so far."""
    try:
        return api.text(path)
    except (NotFound, ClusterError):
        return ""  # its container has not begun, or its node is busy: it is asked again


def why_not_running(pod: Mapping[str, Any]) -> str:
    """Why a container will not begin, unless somebody does something; empty for one that may."""
    for one in pod["status"].get("containerStatuses") or ():
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in {"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"}:
            return f"{waiting['reason']}: {waiting.get('message', '')}; name another --image"
    return ""
