"""A lab, and `foresail run` in the test's own event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import Client, Object
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab
from foresail.lab.fake_nodes import FAKE
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def node(
    name: str, cpu: str = "4", memory: str = "16Gi", *, labels: dict[str, str] | None = None, **more: str
) -> Object:
    """A node that KWOK plays; `more` are further resources."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", **more}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {FAKE: "fake"},
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod(name: str, *, scheduler: str = "foresail", **spec: Any) -> Object:
    """A pod; `requests`, `labels` and `annotations` go where they belong, the rest into its spec."""
    metadata = {"name": name, "namespace": NAMESPACE, "labels": spec.pop("labels", {})}
    metadata["annotations"] = spec.pop("annotations", {})
    container = {"name": "main", "image": "pause", "resources": {"requests": spec.pop("requests", {})}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }


@dataclass
class Running:
    """A scheduler at work, and a client to look at the cluster with."""

    process: SchedulerProgram
    api: Client
    said: list[str]

    async def create(self, *pods: Object) -> None:
        for one in pods:
            await self.api.post(PODS, one)

    async def pods(self) -> dict[str, Object]:
        items, _ = await self.api.list(PODS)
        return {one["metadata"]["name"]: one for one in items}

    async def placements(self) -> dict[str, str]:
        """Pod to node, empty for none."""
        return {name: one["spec"].get("nodeName", "") for name, one in (await self.pods()).items()}

    async def until(self, reached: Callable[[dict[str, Object]], bool], within_s: float = 60.0) -> dict[str, Object]:
        """The pods, once they are as wanted."""
        until_s = time.monotonic() + within_s
        while True:
            found = await self.pods()
            if reached(found):
                return found
            if time.monotonic() > until_s:
                seen = {name: (one["spec"].get("nodeName"), one.get("status")) for name, one in found.items()}
                raise AssertionError(f"not within {within_s} s: {seen}; said {self.said}")
            await asyncio.sleep(0.1)

    async def until_told(self, *names: str, reason: str = "Unschedulable") -> dict[str, str]:
        """Pod to the message of its PodScheduled condition, once all of these have one."""
        found = await self.until(lambda pods: all(messages(pods, *names, reason=reason)))
        return dict(zip(names, messages(found, *names, reason=reason), strict=True))

    async def events(self, reason: str) -> list[tuple[str, str]]:
        """Pod and note of the events with a reason."""
        items, _ = await self.api.list(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        return [(one["regarding"]["name"], one["note"]) for one in items if one["reason"] == reason]


def clear(api: BlockingClient) -> None:
    """Delete all pods of the namespace and wait until they are gone."""
    api.delete(f"{PODS}?gracePeriodSeconds=0")
    api.wait(PODS, lambda found: not found["items"])


def messages(found: dict[str, Object], *names: str, reason: str = "Unschedulable") -> list[str]:
    """What the conditions of these pods say for this reason, empty for none."""
    conditions = [found[name].get("status", {}).get("conditions", []) for name in names]
    return [next((c.get("message", "") for c in one if c.get("reason") == reason), "") for one in conditions]


def bound(found: dict[str, Object], *names: str) -> bool:
    return all(name in found and found[name]["spec"].get("nodeName") for name in names)


@asynccontextmanager
async def scheduling(lab: Lab, **settings: Any) -> AsyncIterator[Running]:
    """`foresail run` until the block ends, then stopped in order."""
    said: list[str] = []
    settings.setdefault("leader_elect", False)
    asked = RunSettings(kubeconfig=lab.kubeconfig, server=ServerSettings(port=0), **settings)
    async with Client(find_connection(lab.kubeconfig)) as api, Client(find_connection(lab.kubeconfig)) as own:
        process = SchedulerProgram(asked, own, announce=said.append)
        task = asyncio.create_task(process.run())
        try:
            until_s = time.monotonic() + 60
            while "places pods now" not in said and not task.done() and time.monotonic() < until_s:
                await asyncio.sleep(0.02)
            yield Running(process, api, said)
        finally:
            process.stop()
            await asyncio.wait_for(task, 60)


@asynccontextmanager
async def cluster_of(lab: Lab, *nodes: Object) -> AsyncIterator[Client]:
    """These nodes and no others, ready and without pods; nothing of it is left behind."""
    async with Client(find_connection(lab.kubeconfig)) as api:
        await _clear(api)
        for one in nodes:
            await api.post("/api/v1/nodes", one)
        await _until_ready(api, len(nodes))
        try:
            yield api
        finally:
            await _clear(api)


async def _until_ready(api: Client, count: int) -> None:
    until_s = time.monotonic() + 90
    while True:
        items, _ = await api.list("/api/v1/nodes")
        ready = [
            one
            for one in items
            if not any(taint["key"].startswith("node.kubernetes.io/") for taint in one["spec"].get("taints", []))
            and any(c["type"] == "Ready" and c["status"] == "True" for c in one["status"].get("conditions", []))
        ]
        if len(ready) >= count:
            return
        assert time.monotonic() < until_s, f"{len(ready)} of {count} nodes are ready"
        await asyncio.sleep(0.2)


async def _clear(api: Client) -> None:
    await api.delete(f"{PODS}?gracePeriodSeconds=0")
    until_s = time.monotonic() + 60
    while (await api.list(PODS))[0]:
        assert time.monotonic() < until_s, "pods are still there"
        await asyncio.sleep(0.1)
    await api.delete("/api/v1/nodes")
