"""A small cluster full of work, what truly happened on it, and the judge of a run."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError, NotFound
from foresail.kube.api.watch import Watch
from foresail.kube.objects.values import GPU_COUNT, GPU_DEVICES, GPU_MILLI, NVIDIA_GPU

Object = dict[str, Any]
RUN_LABEL = "run"
GATE = "tests.foresail.dev/later"
_POLL_S = 0.05
_LEAST_PRIORITY = -(2**31)
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


def make_node(name: str, run: str, *, cpu: int, memory_mi: int, pods: int, gpus: int = 0) -> Object:
    """A node that is Ready and stays so for longer than a run; nobody plays its pods' lives."""
    has = {"cpu": str(cpu), "memory": f"{memory_mi}Mi", "pods": str(pods), **({NVIDIA_GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {RUN_LABEL: run, "kubernetes.io/hostname": name}},
        "status": {
            "capacity": has,
            "allocatable": has,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}],
        },
    }


def make_pod(
    name: str, run: str, scheduler: str, *, cpu_milli: int, memory_mi: int, gpu_milli: int = 0, gpus: int = 0
) -> Object:
    share = {GPU_COUNT: "1", GPU_MILLI: str(gpu_milli)} if gpu_milli else {}
    whole = {NVIDIA_GPU: str(gpus)} if gpus else {}
    asks = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mi}Mi", **whole}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {RUN_LABEL: run}, "annotations": share},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {RUN_LABEL: run},
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"requests": asks, **({"limits": whole} if gpus else {})},
                }
            ],
        },
    }


def asks_of(pod: Object) -> Counter[str]:
    """What a pod made here holds on its node, in milli-CPU, Mi, pods, and milli of each GPU."""
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    annotations = pod["metadata"].get("annotations", {})
    milli = int(annotations.get(GPU_MILLI, 1000))
    held = Counter(cpu=_milli(requests["cpu"]), memory=_mebi(requests["memory"]), pods=1)
    for device in filter(None, annotations.get(GPU_DEVICES, "").split(",")):
        held[f"gpu {device}"] += milli
    return held


def _milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else 1000 * int(text)


def _mebi(text: str) -> int:
    return 1024 * int(text[:-2]) if text.endswith("Gi") else int(text[:-2])


def offer_of(node: Object) -> Counter[str]:
    has = node["status"]["allocatable"]
    gpus = {f"gpu {device}": 1000 for device in range(int(has.get(NVIDIA_GPU, 0)))}
    return Counter(cpu=_milli(has["cpu"]), memory=_mebi(has["memory"]), pods=int(has["pods"]), **gpus)


def ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}


class Truth:
    """Everything that the API server says of the pods of a run, in order, and what must never have been.

    Nodes here have no kubelet. Two schedulers may choose the same room in the same instant, and only a kubelet keeps
    the second pod out. Where that can happen, `plays_kubelet` has this class play its rule: a pod that does not fit
    when it is seen bound becomes Failed, OutOfcpu. That is excused only if its scheduler could not know: by its own
    table there was room for the pod when it last asked to bind it. Its own pods alone must never be too many.
    """

    def __init__(self, api: Client, run: str, offers: dict[str, Counter[str]], *, plays_kubelet: bool = False) -> None:
        self.api = api
        self.pods: dict[str, Object] = {}
        self.node_of: dict[str, str] = {}
        self.broken: list[str] = []
        """What must never be."""
        self.refused: list[str] = []
        """Pods that the kubelet's rule kept out."""
        self.binds = 0
        self.others_known: dict[str, Counter[str]] = {}
        """Uid to what other pods held on its node, by the table of its scheduler, when it last asked for the bind."""
        self.evictions: list[list[str]] = []
        """Uids of the pods that each scheduler had deleted; who keeps the lists goes on writing to them."""
        self.bound_at: dict[str, int] = {}
        """Uid to the version at which the API server had bound the pod."""
        self._gone: dict[str, tuple[Object, int]] = {}
        """Pods that were deleted, with the highest priority of those that had been nominated for their node."""
        self._nominated: dict[str, int] = {}
        self._offers = offers
        self._held: dict[str, Counter[str]] = {}
        self._own: dict[tuple[str, str], dict[str, Counter[str]]] = {}
        """Node and scheduler to what each pod asks that it has bound there, also where the kubelet kept it out."""
        self._standing: dict[str, tuple[str, Counter[str]]] = {}
        self._plays_kubelet = plays_kubelet
        self._refusals: set[asyncio.Task[None]] = set()
        self.watch = Watch(api, PODS, self, labelSelector=f"{RUN_LABEL}={run}")

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Truth]:
        task = asyncio.create_task(self.watch.run())
        try:
            await self.watch.ready()
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, *self._refusals, return_exceptions=True)

    def replace(self, items: list[Object]) -> None:
        there = {item["metadata"]["uid"] for item in items}
        for uid in [uid for uid in self.pods if uid not in there]:
            self._drop(uid)
        for item in items:
            self._put(item)

    def apply(self, kind: str, value: Object) -> None:
        if kind == "DELETED":
            self._drop(value["metadata"]["uid"])
        else:
            self._put(value)

    @property
    def evicted_names(self) -> set[str]:
        """Pods that schedulers had deleted, and that are gone."""
        return {self._gone[uid][0]["metadata"]["name"] for uid in self._evicted()}

    def wrong_evictions(self) -> list[str]:
        """Pods that had to go although nobody of more priority was to get their node."""
        gone = [self._gone[uid] for uid in self._evicted()]
        return [
            f"{_name(pod)} of priority {_priority(pod)} had to go from {pod['spec'].get('nodeName')}, for {highest}"
            for pod, highest in gone
            if highest <= _priority(pod)
        ]

    def _evicted(self) -> list[str]:
        return [uid for uids in self.evictions for uid in uids if uid in self._gone]

    def _drop(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            node = pod["spec"].get("nodeName")
            # One that was still being bound may have to go as well; where to is not to be seen here.
            nominated = [priority for where, priority in self._nominated.items() if node in {None, where}]
            self._gone[uid] = (pod, max(nominated, default=_LEAST_PRIORITY))
        self._leave(uid)

    def _put(self, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        self.pods[uid] = pod
        nominated = pod.get("status", {}).get("nominatedNodeName")
        if nominated:
            self._nominated[nominated] = max(self._nominated.get(nominated, _LEAST_PRIORITY), _priority(pod))
        before = self.node_of.get(uid, "")
        if before and node != before:
            self.broken.append(f"{_name(pod)} was on {before} and is now on {node or 'no node'}")
        if node and not before:
            self.node_of[uid] = node
            self.bound_at[uid] = int(pod["metadata"]["resourceVersion"])
            self.binds += 1
            self._arrive(uid, node, pod)
        if ended(pod):
            self._leave(uid)

    def _arrive(self, uid: str, node: str, pod: Object) -> None:
        offer = self._offers.get(node)
        if offer is None:
            self.broken.append(f"{_name(pod)} was bound to {node}, which is none of the run's nodes")
            return
        held = self._held.setdefault(node, Counter())
        asked = asks_of(pod)
        over = _too_much(asked, held, offer)
        self._judge_own(uid, node, pod, asked)
        if over and self._plays_kubelet:
            # kube-scheduler's own way to fill nodes is not judged; nobody has noted what it knows.
            known = _too_much(asked, self.others_known.get(uid, Counter()), offer)
            if known:
                self.broken.append(f"{_name(pod)} overfills {node} ({', '.join(over)}), as was known: {known}")
            self.refused.append(uid)
            task = asyncio.create_task(self._refuse(pod))
            self._refusals.add(task)
            task.add_done_callback(self._refusals.discard)
            return
        if over:
            self.broken.append(f"{node} was over capacity when {_name(pod)} came: {', '.join(over)}")
        held.update(asked)
        self._standing[uid] = (node, asked)

    def _judge_own(self, uid: str, node: str, pod: Object, asked: Counter[str]) -> None:
        own = self._own.setdefault((node, pod["spec"]["schedulerName"]), {})
        over = _too_much(asked, sum(own.values(), Counter()), self._offers[node])
        if over and uid in self.others_known:
            self.broken.append(f"{node} is too full of its scheduler's own pods with {_name(pod)}: {', '.join(over)}")
        own[uid] = asked

    def _leave(self, uid: str) -> None:
        for own in self._own.values():
            own.pop(uid, None)
        node, asked = self._standing.pop(uid, ("", Counter()))
        if node:
            self._held[node].subtract(asked)

    async def _refuse(self, pod: Object) -> None:
        status = {
            "phase": "Failed",
            "reason": "OutOfcpu",
            "message": "Pod was rejected: Node didn't have enough resource",
        }
        with suppress(NotFound):  # deleted meanwhile
            await self.api.patch(f"{_path(pod)}/status", {"status": status})


def _too_much(asked: Counter[str], held: Counter[str], offer: Counter[str]) -> list[str]:
    """What a node has too little of for a pod beside what is held there."""
    return [
        f"{what}: {held[what] + asked[what]} of {offer[what]}"
        for what in asked
        if held[what] + asked[what] > offer[what]
    ]


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))


def _name(pod: Object) -> str:
    return f"{pod['metadata']['name']} ({pod['spec']['schedulerName']})"


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


@dataclass
class Run:
    """One run: its nodes, its pods, and what was done to them on purpose."""

    api: Client
    """Straight to the API server."""
    name: str
    rng: random.Random
    namespace: str = "default"
    offers: dict[str, Counter[str]] = field(default_factory=dict)
    nodes: dict[str, Object] = field(default_factory=dict)
    made: dict[str, Object] = field(default_factory=dict)
    """Every pod made and not deleted on purpose, by name."""
    gated: set[str] = field(default_factory=set)
    lasting: set[str] = field(default_factory=set)
    """Pods that nobody deletes on purpose."""
    kinds: tuple[str, ...] = ()
    """What decisions look at beside nodes and pods, by the names of `KINDS`."""

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    async def make_nodes(self, count: int) -> None:
        for at in range(count):
            gpus = self.rng.choice([0, 0, 2])
            node = make_node(
                f"{self.name}-n{at}",
                self.name,
                cpu=self.rng.choice([4, 6, 8]),
                memory_mi=self.rng.choice([8, 16]) * 1024,
                pods=self.rng.choice([5, 8, 12]),
                gpus=gpus,
            )
            self.nodes[node["metadata"]["name"]] = node
            self.offers[node["metadata"]["name"]] = offer_of(node)
        await asyncio.gather(*(self.api.post(NODES, node) for node in self.nodes.values()))

    def plan_pods(self, count: int, schedulers: list[str], *, gpus: bool = True) -> list[Object]:
        """Pods that together ask for about all the nodes have."""
        pods = []
        for at in range(count):
            kind = self.rng.random() if gpus else 0.5
            pods.append(
                make_pod(
                    f"{self.name}-p{at}",
                    self.name,
                    self.rng.choice(schedulers),
                    cpu_milli=self.rng.choice([500, 1000, 1500, 2500]),
                    memory_mi=self.rng.choice([256, 1024, 2048]),
                    gpu_milli=self.rng.choice([300, 500, 700]) if kind < 0.15 else 0,
                    gpus=1 if kind > 0.92 else 0,
                )
            )
        return pods

    async def submit(self, pod: Object, *, gated: bool = False) -> None:
        name = pod["metadata"]["name"]
        if gated:
            pod["spec"]["schedulingGates"] = [{"name": GATE}]
            self.gated.add(name)
        self.made[name] = pod
        await patiently(lambda: self.api.post(self.pods_path, pod))

    async def open_gate(self, name: str) -> None:
        patch = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
        await patiently(lambda: self.api.patch(f"{self.pods_path}/{name}", patch))
        self.gated.discard(name)

    async def delete(self, name: str) -> None:
        self.made.pop(name)
        self.gated.discard(name)
        await patiently(lambda: self.api.delete(f"{self.pods_path}/{name}", {"gracePeriodSeconds": 0}))

    async def churn(self, pods: list[Object], *, gap_s: float = 0.01) -> None:
        """Submit pods; some gated, and some deleted a moment later."""
        for pod in pods:
            await self.submit(pod, gated=self.rng.random() < 0.1)
            fate = self.rng.random()
            mortal = [name for name in self.made if name not in self.lasting]
            if fate < 0.12 and mortal:
                await self.delete(self.rng.choice(mortal))
            elif fate < 0.25 and self.gated:
                await self.open_gate(self.rng.choice(sorted(self.gated)))
            if gap_s:
                await asyncio.sleep(self.rng.uniform(0, 2 * gap_s))

    async def remove(self) -> None:
        """Leave the cluster as it was."""
        await patiently(
            lambda: self.api.delete(self.pods_path, {"gracePeriodSeconds": 0}, labelSelector=f"{RUN_LABEL}={self.name}")
        )
        await patiently(lambda: self.api.delete(NODES, labelSelector=f"{RUN_LABEL}={self.name}"))


async def patiently(act: Callable[[], Any], within_s: float = 60.0) -> None:
    """Do it through an API server that may be restarting: the test's own hand is not what is tested."""
    until_s = time.monotonic() + within_s
    while True:
        try:
            await act()
        except ClusterError as error:
            status = getattr(error, "status", 0)
            if status in {404, 409}:
                return  # gone, or there already: an earlier attempt has had its effect
            if time.monotonic() > until_s or 400 <= status < 429:
                raise
            await asyncio.sleep(_POLL_S)
        else:
            return
