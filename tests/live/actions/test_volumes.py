"""Volumes that decisions took, beside what watches tell in any order."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.live.cluster import make_cache, make_node, make_pod

from foresail.core.model import Placement
from foresail.kube.api.client import Object
from foresail.kube.api.errors import Conflict
from foresail.live.actions.volumes import SELECTED_NODE, VolumeBinder
from foresail.live.cache.cache import Cache
from foresail.live.cache.volume_books import CLAIM, VOLUME


def volume(name: str = "disk", version: int = 1, **spec: Any) -> Object:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"} | spec
    metadata = {"name": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Available"}}


def claim(name: str = "data", version: int = 1, kind: str = "local", **annotations: str) -> Object:
    spec: Object = {"storageClassName": kind, "resources": {"requests": {"storage": "1Gi"}}}
    spec["accessModes"] = ["ReadWriteOnce"]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata | {"annotations": annotations}, "spec": spec}


def bound_claim(name: str, to: str, version: int, **annotations: str) -> Object:
    found = claim(name, version, **annotations | {"pv.kubernetes.io/bind-completed": "yes"})
    found["spec"]["volumeName"] = to
    return found


def kept(name: str, claim: str, version: int) -> Object:
    return volume(name, version, claimRef={"namespace": "default", "name": claim, "uid": f"uid-{claim}"})


class Server:
    """Answers patches as an API server does, and notes them."""

    def __init__(self) -> None:
        self.stored: dict[str, Object] = {}
        self.log: list[tuple[str, Object]] = []

    async def patch(self, path: str, body: Object, *, content_type: str) -> Object:
        assert content_type == "application/merge-patch+json"
        self.log.append((path, body))
        stored = self.stored[path.rpartition("/")[2]]
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise Conflict(409, "PATCH", path, reason="Conflict", message="the object has been modified")
        answer = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "10"}}
        answer["metadata"]["annotations"] = stored["metadata"].get("annotations", {}) | body["metadata"].get(
            "annotations", {}
        )
        answer["spec"] = stored["spec"] | body.get("spec", {})
        return answer


def cluster(*nodes: str) -> tuple[Cache, Server, VolumeBinder]:
    """A cache with volume `disk`, claims `data` and `more`, and pod `p` that uses `data`, assumed on the first node."""
    cache, _ = make_cache()
    cache.table.volume_taking = cache.volumes
    cache.put_nodes([make_node(name) for name in nodes or ("a",)])
    for kind, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", "example.com/csi")):
        mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        cache.put_object("StorageClass", {"metadata": {"name": kind}, **mode})
    server = Server()
    for kind_of, value in ((VOLUME, volume()), (CLAIM, claim()), (CLAIM, claim("more", kind="made"))):
        cache.put_object(kind_of, value)
        server.stored[value["metadata"]["name"]] = value
    return cache, server, VolumeBinder(server, cache, timeout_s=0.2)  # type: ignore[arg-type]


def assume(cache: Cache, *claims: str, name: str = "p") -> str:
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    cache.put_pod(make_pod(name, volumes=volumes))
    pod = cache.waiting(f"uid-{name}")
    assert pod is not None
    cache.table.assume(pod, Placement(0, cache.table.names[0]))
    return f"uid-{name}"


def test_a_volume_is_written_with_its_version_and_late_news_do_not_free_it():
    cache, server, binder = cluster()
    uid = assume(cache, "data")
    taken = cache.volumes.by_pod[uid]
    assert asyncio.run(binder.write(uid, taken)) == ""
    ((path, body),) = server.log
    assert path == "/api/v1/persistentvolumes/disk"
    assert body["metadata"] == {
        "resourceVersion": "1",
        "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
    }
    assert {key: body["spec"]["claimRef"][key] for key in ("namespace", "name", "uid")} == {
        "namespace": "default",
        "name": "data",
        "uid": "uid-data",
    }
    # Older than our own write: it would show the volume as free.
    cache.put_object(VOLUME, volume(version=5))
    assert cache.table.objects.volumes["disk"].claim == ("default", "data", "uid-data")
    cache.put_object(VOLUME, kept("disk", "data", 11))
    cache.put_object(CLAIM, bound_claim("data", "disk", 12))
    assert asyncio.run(binder.wait(uid, taken)) == ""
    assert cache.volumes.by_pod == {}
    # What is bound stays so when the pod goes.
    cache.drop_pod(uid)
    assert cache.table.objects.claims["default", "data"].bound


def test_a_volume_that_somebody_else_wrote_to_sends_the_pod_back_and_is_free_again():
    cache, server, binder = cluster()
    server.stored["disk"] = volume(version=2)
    uid = assume(cache, "data")
    why = asyncio.run(binder.write(uid, cache.volumes.by_pod[uid]))
    assert why.startswith("binding volumes: ")
    assert "modified" in why
    cache.give_back(uid)
    assert cache.table.objects.volumes["disk"].claim is None


def test_what_another_claim_got_meanwhile_is_not_written_over():
    cache, server, binder = cluster()
    uid = assume(cache, "data")
    cache.put_object(VOLUME, kept("disk", "other", 2))
    why = asyncio.run(binder.write(uid, cache.volumes.by_pod[uid]))
    assert why == 'binding volumes: volume "disk" is gone, or another claim has it'
    assert server.log == []


def test_a_claim_gets_its_node_and_the_wait_ends_when_nobody_makes_the_volume():
    cache, server, binder = cluster()
    uid = assume(cache, "more")
    taken = cache.volumes.by_pod[uid]
    assert asyncio.run(binder.write(uid, taken)) == ""
    assert [body["metadata"]["annotations"] for _, body in server.log] == [{SELECTED_NODE: "a"}]
    assert asyncio.run(binder.wait(uid, taken)) == 'binding volumes: claims "more" were not bound within 0.2 s'
    # The node stays in the claim, as kube-scheduler leaves it: whoever makes the volume may still be at it.
    cache.give_back(uid)
    assert cache.table.objects.claims["default", "more"].selected_node == "a"


def test_a_wait_ends_at_once_when_the_node_goes_or_the_pod_does_or_the_scheduler_stops():
    async def told(happens: str) -> str:
        cache, _, binder = cluster()
        uid = assume(cache, "more")
        taken = cache.volumes.by_pod[uid]
        await binder.write(uid, taken)
        waiting = asyncio.create_task(binder.wait(uid, taken))
        await asyncio.sleep(0)
        if happens == "node":
            cache.remove_nodes(["a"])
        elif happens == "pod":
            cache.drop_pod(uid)
        else:
            binder.stop("enough")
        return await asyncio.wait_for(waiting, 0.15)

    assert [asyncio.run(told(happens)) for happens in ("node", "pod", "stop")] == [
        'binding volumes: node "a" went away',
        "binding volumes: the pod was deleted",
        "binding volumes: enough",
    ]


def test_a_wait_that_is_cancelled_together_with_news_ends():
    async def ends(turns: int) -> bool:
        cache, _, binder = cluster()
        uid = assume(cache, "more")
        taken = cache.volumes.by_pod[uid]
        await binder.write(uid, taken)
        waiting = asyncio.create_task(binder.wait(uid, taken))
        await asyncio.sleep(0)
        cache.put_object(CLAIM, claim("more", 20, "made", **{SELECTED_NODE: "a"}))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting], timeout=0.1)
        return waiting.cancelled()

    assert [asyncio.run(ends(turns)) for turns in range(4)] == [True] * 4


def test_pods_that_another_scheduler_placed_take_nothing():
    cache, _, _ = cluster()
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    cache.put_pod(make_pod("theirs", node="a", volumes=volumes))
    assert cache.volumes.by_pod == {}
    assert cache.table.objects.volumes["disk"].claim is None
