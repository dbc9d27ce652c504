"""Claims that wait for their first consumer, while the network is bad and schedulers die."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.live.faults.proxy import Storm
from tests.live.faults.replicas import TIMEOUT_S
from tests.live.faults.stage import Stage, kill_at, stage
from tests.live.faults.world import RUN_LABEL, Object, patiently

from foresail.kube.api.client import MERGE, Client
from foresail.kube.api.errors import NotFound
from foresail.kube.api.watch import Watch
from foresail.lab import Lab

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASS = "tests-local"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def make_volume(name: str, run: str, node: str, size_gi: int) -> Object:
    """A disk of one node."""
    here = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]
    return {
        "metadata": {"name": name, "labels": {RUN_LABEL: run}},
        "spec": {
            "capacity": {"storage": f"{size_gi}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": f"/disks/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}},
        },
    }


def make_claim(name: str, run: str, size_gi: int) -> Object:
    return {
        "metadata": {"name": name, "labels": {RUN_LABEL: run}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": f"{size_gi}Gi"}},
        },
    }


class Claims:
    """Every claim of a run, and the version at which the API server had it bound."""

    def __init__(self, api: Client, run: str) -> None:
        self.bound_at: dict[str, int] = {}
        self.volume_of: dict[str, str] = {}
        self.broken: list[str] = []
        self._watch = Watch(api, CLAIMS, self, labelSelector=f"{RUN_LABEL}={run}")

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Claims]:
        task = asyncio.create_task(self._watch.run())
        try:
            await self._watch.ready()
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def replace(self, items: list[Object]) -> None:
        for item in items:
            self.apply("ADDED", item)

    def apply(self, kind: str, value: Object) -> None:
        name, volume = value["metadata"]["name"], value["spec"].get("volumeName", "")
        if kind == "DELETED" or _BIND_COMPLETED not in value["metadata"].get("annotations", {}):
            return
        if self.volume_of.setdefault(name, volume) != volume:
            self.broken.append(f"{name} had volume {self.volume_of[name]} and has now {volume}")
        self.bound_at.setdefault(name, int(value["metadata"]["resourceVersion"]))


@asynccontextmanager
async def storage(on: Stage) -> AsyncIterator[tuple[Claims, list[Object]]]:
    """Disks on every node and pods with claims to them, more than there are disks; nothing is left behind."""
    run, rng = on.run, on.run.rng
    run.kinds = ("StorageClass", "PersistentVolume", "PersistentVolumeClaim")
    waits = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    await patiently(lambda: run.api.post(CLASSES, {"metadata": {"name": CLASS}, **waits}))
    disks = [
        make_volume(f"{node}-d{at}", run.name, node, rng.choice([1, 2, 3]))
        for node in run.nodes
        for at in range(rng.randint(1, 4))
    ]
    claims = [make_claim(f"{run.name}-c{at}", run.name, rng.choice([1, 1, 2, 3])) for at in range(len(disks) + 2)]
    pods = run.plan_pods(len(claims) + 6, [on.ours], gpus=False)
    names = [claim["metadata"]["name"] for claim in claims]
    for pod, name in zip(pods, names, strict=False):
        # Most have a claim of their own; some one more, and some share one with others.
        uses = [name] if rng.random() < 0.8 else rng.sample(names, 2)
        pod["spec"]["volumes"] = [
            {"name": f"v{at}", "persistentVolumeClaim": {"claimName": one}} for at, one in enumerate(uses)
        ]
    rng.shuffle(pods)
    try:
        await asyncio.gather(*(run.api.post(VOLUMES, disk) for disk in disks))
        await asyncio.gather(*(run.api.post(CLAIMS, claim) for claim in claims))
        async with Claims(run.api, run.name).watching() as truth:
            yield truth, pods
    finally:
        await run.remove()
        for path in (CLAIMS, VOLUMES):
            await _remove(run.api, path, run.name)


async def _remove(api: Client, path: str, run: str) -> None:
    selector: dict[str, Any] = {"labelSelector": f"{RUN_LABEL}={run}"}
    await api.delete(path, **selector)
    for one in (await api.list(path, **selector))[0]:
        # Finalizers wait for controllers that have other things to do; nobody needs these objects any more.
        with suppress(NotFound):
            at = f"{path}/{one['metadata']['name']}"
            await api.patch(at, {"metadata": {"finalizers": None}}, content_type=MERGE)


async def judge_volumes(on: Stage, truth: Claims, pods: list[Object]) -> list[str]:
    """What is wrong: pods bound before their claims or elsewhere, claims that share a volume, volumes kept in vain."""
    disks, _ = await on.run.api.list(VOLUMES, labelSelector=f"{RUN_LABEL}={on.run.name}")
    found = [*truth.broken]
    claim_of = {}
    for disk in disks:
        reference = disk["spec"].get("claimRef")
        name = disk["metadata"]["name"]
        if reference is not None:
            claim_of[name] = reference["name"]
            if truth.volume_of.get(reference["name"]) != name:
                found.append(f"{name} is kept for {reference['name']}, which has another volume or none")
    for claim, volume in truth.volume_of.items():
        if claim_of.get(volume) != claim:
            found.append(f"{claim} is bound to {volume}, which belongs to {claim_of.get(volume)}")
    for pod in pods:
        name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if name not in on.run.made or not node:
            continue
        for volume in pod["spec"].get("volumes", []):
            claim = volume["persistentVolumeClaim"]["claimName"]
            bound_at = truth.bound_at.get(claim)
            if bound_at is None or bound_at > on.truth.bound_at[uid]:
                found.append(f"{name} was bound before its claim {claim}")
            elif not truth.volume_of[claim].startswith(f"{node}-d"):
                found.append(f"{name} is on {node}, its claim {claim} has {truth.volume_of[claim]}")
    return found


async def volumes(lab: Lab, folder: Path, seed: int) -> None:
    """Pods get their disks through a bad network: what is written to volumes fails, too."""
    async with stage(lab, folder, "volumes", seed) as on:
        await on.run.make_nodes(4)
        async with storage(on) as (truth, pods):
            weather = Storm(seed, rate=on.run.rng.choice([0.1, 0.25]), timeout_s=TIMEOUT_S)
            replica = await on.field.replica(on.ours, weather)
            await on.run.churn(pods)
            weather.over = True
            await on.end(replica, check=lambda found: judge_volumes(on, truth, found), within_s=60)
            assert truth.volume_of


async def volumes_killed(lab: Lab, folder: Path, seed: int) -> None:
    """Dead before a volume is kept for its claim, or when it is and the pod is not bound; a new one takes over."""
    async with stage(lab, folder, "volumes-killed", seed) as on:
        await on.run.make_nodes(4)
        async with storage(on) as (truth, pods):
            reached = asyncio.Event()
            number, has_effect = on.run.rng.randint(1, 5), on.run.rng.random() < 0.5
            kind = on.run.rng.choice(["volume", "volume", "bind"])
            script = kill_at(number, has_effect=has_effect, reached=reached, counts=lambda ask: ask.kind == kind)
            first = await on.field.replica(on.ours, script)
            work = asyncio.create_task(on.run.churn(pods))
            await asyncio.wait_for(reached.wait(), 30)
            await first.kill()
            weather = Storm(seed, rate=0.1, timeout_s=TIMEOUT_S)
            second = await on.field.replica(on.ours, weather)
            await work
            weather.over = True
            await on.end(second, check=lambda found: judge_volumes(on, truth, found), within_s=60)
