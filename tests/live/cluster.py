"""Objects as an API server writes them, and a listener that notes what it is told."""

from typing import Any

from foresail.core.model import Pod
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.policies.plain.devices import LeastSufficient

OURS = "foresail"


class Heard(Listener):
    """A listener whose whole history can be compared."""

    def __init__(self) -> None:
        self.log: list[tuple[str, ...]] = []
        self.running: list[tuple[CachedPod | None, CachedPod | None]] = []
        """Pods with a node as they were before each change, and after it."""

    def pod_waits(self, pod: Pod, cached: CachedPod) -> None:
        assert pod.uid == cached.uid
        self.log.append(("waits", cached.uid))

    def pod_gone(self, uid: str) -> None:
        self.log.append(("gone", uid))

    def pod_bound(self, pod: Pod, cached: CachedPod) -> None:
        assert pod.uid == cached.uid
        self.log.append(("bound", cached.uid, cached.node))

    def pod_waits_for(self, cached: CachedPod, why: str) -> None:
        self.log.append(("waits for", cached.uid, why))

    def pod_unreadable(self, cached: CachedPod, why: str) -> None:
        self.log.append(("unreadable", cached.uid, why))

    def room_freed(self, row: int) -> None:
        self.log.append(("room", str(row)))

    def pod_came(self, row: int) -> None:
        self.log.append(("came", str(row)))

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        self.running.append((before, now))

    def anything_changed(self) -> None:
        self.log.append(("anything",))

    def told(self) -> list[tuple[str, ...]]:
        """What was heard since this was asked last."""
        log, self.log = self.log, []
        return log


def make_cache() -> tuple[Cache, Heard]:
    heard = Heard()
    return Cache(heard, scheduler_name=OURS, devices=LeastSufficient()), heard


def make_node(name: str, cpu: str = "4", memory: str = "8Gi", gpus: int = 0, **more: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **more.pop("allocatable", {})}
    if gpus:
        allocatable["nvidia.com/gpu"] = str(gpus)
    return {
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": more,
        "status": {"allocatable": allocatable},
    }


def make_pod(
    name: str,
    cpu: str = "1",
    node: str = "",
    *,
    uid: str = "",
    gpus: int = 0,
    phase: str = "",
    status: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    requests = {"cpu": cpu}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}"}
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if node:
        spec["nodeName"] = node
    return {
        "metadata": metadata,
        "spec": {
            "schedulerName": OURS,
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
            **spec,
        },
        "status": {**({"phase": phase} if phase else {}), **(status or {})},
    }


def make_group(name: str, least: int) -> dict[str, Any]:
    """A PodGroup of scheduling.k8s.io."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}},
    }
