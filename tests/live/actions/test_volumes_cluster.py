"""Volumes of pods that `foresail run` places, with the volume controller of a real cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from tests.live.running import bound, cluster_of, node, pod, scheduling

from foresail.kube.api.client import MERGE, Client, Object
from foresail.kube.api.errors import NotFound
from foresail.lab import Lab

pytestmark = pytest.mark.cluster

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
MADE_UP = "example.com/made-up"
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(scheduler=False) as lab:
        yield lab


def storage_class(name: str, provisioner: str) -> Object:
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}


def volume(name: str, *nodes: str, kind: str = "local", size: str = "1Gi", **spec: Any) -> Object:
    """A volume that these nodes reach."""
    hosts = [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}]
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": kind,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"/disks/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": hosts}]}},
            **spec,
        },
    }


def claim_spec(kind: str = "local", size: str = "1Gi") -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": kind,
        "resources": {"requests": {"storage": size}},
    }


def claim(name: str, kind: str = "local", size: str = "1Gi") -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": claim_spec(kind, size)}


def using(name: str, *claims: str, **spec: Any) -> Object:
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": one}} for at, one in enumerate(claims)]
    return pod(name, volumes=volumes, **spec)


@asynccontextmanager
async def storage(lab: Lab, *nodes: Object, volumes: list[Object], claims: list[Object]) -> AsyncIterator[Client]:
    """A cluster with these volumes, which the controller says are free, and claims; nothing is left behind."""
    async with cluster_of(lab, *nodes) as api:
        try:
            for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("made", MADE_UP)):
                await api.post(CLASSES, storage_class(name, provisioner))
            for one in volumes:
                await api.post(VOLUMES, one)
            for one in claims:
                await api.post(CLAIMS, one)
            await until(
                api, VOLUMES, lambda found: all(v["status"].get("phase") == "Available" for v in found.values())
            )
            yield api
        finally:
            await api.delete("/api/v1/namespaces/default/pods?gracePeriodSeconds=0")
            for path in (CLAIMS, VOLUMES, CLASSES):
                await api.delete(path)
                for one in (await api.list(path))[0]:
                    # Finalizers wait for controllers that have other things to do; nobody needs these objects any more.
                    with suppress(NotFound):
                        at = f"{path}/{one['metadata']['name']}"
                        await api.patch(at, {"metadata": {"finalizers": None}}, content_type=MERGE)
                await until(api, path, lambda found: not found)


async def until(api: Client, path: str, reached: Callable[[dict[str, Object]], bool]) -> dict[str, Object]:
    """The objects by name, once they are as wanted."""
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        found = {one["metadata"]["name"]: one for one in (await api.list(path))[0]}
        if reached(found):
            return found
        assert time.monotonic() < deadline_s, f"not within {WITHIN_S} s: {found}"
        await asyncio.sleep(0.1)


async def provision(api: Client, name: str) -> str:
    """Stand in for a provisioner: make the volume of a claim where the scheduler wants it, and say where."""
    found = await until(api, CLAIMS, lambda claims: SELECTED_NODE in claims[name]["metadata"].get("annotations", {}))
    wanted = found[name]
    where = str(wanted["metadata"]["annotations"][SELECTED_NODE])
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default"}
    reference |= {"name": name, "uid": wanted["metadata"]["uid"]}
    made = volume(f"made-for-{name}", where, kind="made", claimRef=reference)
    made["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": MADE_UP}
    await api.post(VOLUMES, made)
    return where


async def volume_of_claims(api: Client) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"].get("volumeName", "") for one in (await api.list(CLAIMS))[0]}


def nodes(count: int) -> list[Object]:
    return [node(f"node-{index}") for index in range(count)]


def test_each_pod_gets_a_local_volume_of_its_own_on_the_node_that_has_it_and_a_fourth_waits(lab: Lab):
    async def history() -> tuple[dict[str, str], dict[str, str], list[Object], str, dict[str, str]]:
        disks = [volume(f"disk-{index}", f"node-{index}") for index in range(3)]
        claims = [claim(f"claim-{index}") for index in range(4)]
        async with storage(lab, *nodes(3), volumes=disks, claims=claims) as api, scheduling(lab) as running:
            await running.create(*(using(f"pod-{index}", f"claim-{index}") for index in range(3)))
            await running.until(lambda found: bound(found, "pod-0", "pod-1", "pod-2"))
            await running.create(using("pod-3", "claim-3"))
            told = (await running.until_told("pod-3"))["pod-3"]
            kept = (await api.list(VOLUMES))[0]
            first, volumes = await running.placements(), await volume_of_claims(api)
            # A further disk helps at once.
            await api.post(VOLUMES, volume("disk-3", "node-1"))
            await running.until(lambda found: bound(found, "pod-3"))
            return first, volumes, kept, told, await running.placements()

    placed, volumes, kept, told, at_last = asyncio.run(history())
    assert {name: where for name, where in placed.items() if where} == {
        f"pod-{index}": volumes[f"claim-{index}"].replace("disk", "node") for index in range(3)
    }
    assert sorted(volumes.values()) == ["", "disk-0", "disk-1", "disk-2"]
    assert {one["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] for one in kept} == {"yes"}
    assert told == "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
    assert at_last["pod-3"] == "node-1"


def test_two_pods_that_want_the_only_volume_do_not_both_get_it(lab: Lab):
    async def history() -> tuple[dict[str, str], list[str], dict[str, str]]:
        shared = volume("only", "node-0", "node-1")
        async with storage(lab, *nodes(2), volumes=[shared], claims=[claim("a"), claim("b")]) as api:
            # Both wait before there is a scheduler: its second decision follows the first at once.
            for name in ("a", "b"):
                await api.post("/api/v1/namespaces/default/pods", using(f"pod-{name}", name))
            async with scheduling(lab) as running:
                found = await running.until(lambda pods: bound(pods, "pod-a") or bound(pods, "pod-b"))
                waiting = "pod-b" if found["pod-a"]["spec"].get("nodeName") else "pod-a"
                told = await running.until_told(waiting)
                notes = [note for name, note in await running.events("FailedScheduling") if name == waiting]
                return told, notes, await volume_of_claims(api)

    told, notes, volumes = asyncio.run(history())
    (message,) = told.values()
    assert message == "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    # It was never on its way to a node, only to find the volume gone.
    assert set(notes) <= {message}
    assert sorted(volumes.values()) == ["", "only"]


def test_a_claim_without_a_volume_gets_a_node_and_its_pod_follows_when_the_volume_is_made(lab: Lab):
    async def history() -> tuple[str, dict[str, str], dict[str, str], int]:
        claims = [claim("made-claim", "made")]
        async with storage(lab, *nodes(2), volumes=[], claims=claims) as api, scheduling(lab) as running:
            await running.create(using("pod-made", "made-claim"), pod("plain"))
            # Nobody else has to wait for it, and it takes no place among the binds.
            await running.until(lambda found: bound(found, "plain"))
            await until(api, CLAIMS, lambda found: SELECTED_NODE in found["made-claim"]["metadata"]["annotations"])
            cluster = running.process.live.cluster
            under_way = len(cluster.binding) - len(cluster.awaiting_volumes)
            assert (await running.placements())["pod-made"] == ""
            where = await provision(api, "made-claim")
            await running.until(lambda found: bound(found, "pod-made"))
            return where, await running.placements(), await volume_of_claims(api), under_way

    where, placed, volumes, under_way = asyncio.run(history())
    assert placed["pod-made"] == where
    assert volumes == {"made-claim": "made-for-made-claim"}
    assert under_way == 0


def test_the_claim_of_an_ephemeral_volume_is_bound_alike(lab: Lab):
    async def history() -> tuple[dict[str, str], dict[str, str]]:
        disks = [volume("disk", "node-1")]
        async with storage(lab, *nodes(2), volumes=disks, claims=[]) as api, scheduling(lab) as running:
            template = {"volumeClaimTemplate": {"spec": claim_spec()}}
            await running.create(pod("short", volumes=[{"name": "scratch", "ephemeral": template}]))
            await running.until(lambda found: bound(found, "short"))
            return await running.placements(), await volume_of_claims(api)

    assert asyncio.run(history()) == ({"short": "node-1"}, {"short-scratch": "disk"})


def test_a_provisioner_that_gives_up_sends_the_pod_back_with_the_reason(lab: Lab):
    async def history() -> tuple[str, str, dict[str, str]]:
        async with storage(lab, *nodes(1), volumes=[], claims=[claim("c", "made")]) as api, scheduling(lab) as running:
            await running.create(using("p", "c"))
            await until(api, CLAIMS, lambda found: SELECTED_NODE in found["c"]["metadata"].get("annotations", {}))
            await api.patch(f"{CLAIMS}/c", {"metadata": {"annotations": {SELECTED_NODE: None}}}, content_type=MERGE)
            told = (await running.until_told("p", reason="SchedulerError"))["p"]
            where = await provision(api, "c")
            await running.until(lambda found: bound(found, "p"))
            return told, where, await running.placements()

    told, where, placed = asyncio.run(history())
    assert told == 'binding volumes: provisioning failed for PVC "c"'
    assert placed == {"p": where}


def test_a_node_that_goes_while_a_pod_waits_for_its_volume_ends_the_wait(lab: Lab):
    async def history() -> str:
        async with storage(lab, *nodes(1), volumes=[], claims=[claim("c", "made")]) as api, scheduling(lab) as running:
            await running.create(using("p", "c"))
            await until(api, CLAIMS, lambda found: SELECTED_NODE in found["c"]["metadata"].get("annotations", {}))
            await api.delete("/api/v1/nodes/node-0")
            return (await running.until_told("p", reason="SchedulerError"))["p"]

    assert asyncio.run(history()) == 'binding volumes: node "node-0" went away'


def test_a_scheduler_that_is_started_anew_goes_on_where_the_claim_says(lab: Lab):
    async def history() -> tuple[str, dict[str, str]]:
        async with storage(lab, *nodes(3), volumes=[], claims=[claim("c", "made")]) as api:
            async with scheduling(lab) as running:
                await running.create(using("p", "c"))
                await until(api, CLAIMS, lambda found: SELECTED_NODE in found["c"]["metadata"].get("annotations", {}))
            async with scheduling(lab) as running:
                where = await provision(api, "c")
                await running.until(lambda found: bound(found, "p"))
                return where, await running.placements()

    where, placed = asyncio.run(history())
    assert placed == {"p": where}
