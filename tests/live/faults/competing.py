"""Many gangs that want the same room, beside a kube-scheduler that fills it with single pods: nobody waits for ever."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.live.faults.replicas import Replica
from tests.live.faults.stage import Stage, stage, until
from tests.live.faults.world import NODES, Object, ended, make_node, make_pod, offer_of, patiently

from foresail.core.model import Placement, Pod
from foresail.kube.objects.values import GANG, GANG_MIN
from foresail.lab import Lab

KUBE_SCHEDULER = "default-scheduler"
_NODES, _CPU = 8, 8
_POLL_S = 0.05
_SINGLES_AT_ONCE = 12
_HANDS = 8
_BEAT_S = 20.0


@dataclass
class Job:
    """A gang and its life: whoever has it placed whole is done with it a moment later."""

    name: str
    least: int
    cpu_milli: list[int]
    """Of each member."""
    apart: bool = False
    """No two members on one node."""
    made: list[str] = field(default_factory=list)
    """Names of its pods; one that a kubelet turned away is made again under another."""
    tried: set[str] = field(default_factory=set)
    """Uids of members that were sent to a node."""
    torn: int = 0
    """How often a member was turned away."""
    done: bool = False

    @property
    def fits(self) -> bool:
        if self.apart:
            return self.least <= _NODES
        return sum(sorted(self.cpu_milli)[: self.least]) <= 1000 * _NODES * _CPU

    def member(self, on: Stage, at: int, *, again: str = "") -> Object:
        name = f"{self.name}-{at}{again}"
        pod = make_pod(name, on.run.name, on.ours, cpu_milli=self.cpu_milli[at], memory_mi=64)
        pod["metadata"]["labels"] |= {GANG: self.name, "member": str(at)}
        pod["metadata"]["annotations"][GANG_MIN] = str(self.least)
        if self.apart:
            term = {"labelSelector": {"matchLabels": {GANG: self.name}}, "topologyKey": "kubernetes.io/hostname"}
            rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            pod["spec"]["affinity"] = {"podAntiAffinity": rule}
        self.made.append(name)
        on.run.lasting.add(name)
        return pod


def plan_jobs(on: Stage, count: int) -> list[Job]:
    """Gangs of two to eight, equal members or not, some kept apart and some that may start with fewer; the last two fit
    nowhere. Together they want several times what there is.
    """
    rng, jobs = on.run.rng, []
    for at in range(count):
        size = rng.randint(2, 8)
        cpu_milli = [rng.choice([500, 1000, 2000, 3500])] * size
        if at % 4 == 1:
            cpu_milli = [rng.choice([500, 1500, 4000]) for _ in range(size)]
        least = size if at % 3 else rng.randint(2, size)
        jobs.append(Job(f"{on.run.name}-g{at}", least, cpu_milli, apart=at % 5 == 2))
    jobs += [
        Job(f"{on.run.name}-wide", _NODES + 1, [500] * (_NODES + 1), apart=True),
        Job(f"{on.run.name}-huge", 9, [8000] * 9),
    ]
    rng.shuffle(jobs)
    return jobs


async def competing(lab: Lab, folder: Path, seed: int) -> None:
    """Fifty gangs and a stock kube-scheduler's single pods want the same eight nodes."""
    await compete(lab, folder, seed, 50)


async def compete(lab: Lab, folder: Path, seed: int, count: int, *, within_s: float = 240.0) -> Counter[str]:
    """So many gangs; returns what came of them."""
    async with stage(lab, folder, "competing", seed, plays_kubelet=True) as on:
        for at in range(_NODES):
            node = make_node(f"{on.run.name}-n{at}", on.run.name, cpu=_CPU, memory_mi=16 * 1024, pods=110)
            on.run.nodes[node["metadata"]["name"]] = node
            on.run.offers[node["metadata"]["name"]] = offer_of(node)
            await on.run.api.post(NODES, node)
        replica = await on.field.replica(on.ours)
        await until(lambda: replica.leads)
        jobs = plan_jobs(on, count)
        job_of = {job.name: job for job in jobs}
        _note_decisions(replica, job_of)
        pods = [job.member(on, at) for job in jobs for at in range(len(job.cpu_milli))]
        on.run.rng.shuffle(pods)
        arriving = asyncio.create_task(_submit(on, pods))
        over = asyncio.Event()
        singles = asyncio.create_task(_singles(on, 2 * count, over))
        beating = asyncio.create_task(_beat(on))
        try:
            deadline_s = time.monotonic() + within_s
            while not all(job.done for job in jobs if job.fits):
                _never_in_part(jobs)
                waiting = [f"{job.name}: {_standing(on, job)} of {job.least}" for job in jobs if not job.done]
                assert time.monotonic() < deadline_s, f"not placed: {waiting}"
                await _live_on(on, jobs)
                await asyncio.sleep(_POLL_S)
        finally:
            over.set()
            beating.cancel()
            await asyncio.gather(singles, arriving)  # a request that was broken off might have had its effect, or not
        _never_in_part(jobs)
        begun = [f"{job.name}: {len(job.tried)} of {job.least}" for job in jobs if not job.fits and job.tried]
        assert not begun, begun
        await on.end(replica)
        by_kube = sum(pod["spec"]["schedulerName"] == KUBE_SCHEDULER for pod, _ in on.truth._gone.values())
        assert by_kube  # or they did not compete
        return Counter(
            gangs=sum(job.done for job in jobs),
            members=sum(len(job.tried) for job in jobs),
            single_pods=by_kube,
            turned_away=len(on.truth.refused),
            torn_gangs=sum(job.torn > 0 for job in jobs),
        )


async def _beat(on: Stage) -> None:
    """What kubelets say now and then; nodes that say nothing for two minutes are taken for lost."""
    while True:
        await asyncio.sleep(_BEAT_S)
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        ready["lastHeartbeatTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in on.run.nodes:
            path = f"{NODES}/{name}/status"
            await patiently(lambda path=path, ready=ready: on.run.api.patch(path, {"status": {"conditions": [ready]}}))


async def _submit(on: Stage, pods: list[Object]) -> None:
    todo = iter(pods)

    async def submit() -> None:
        for pod in todo:
            await on.run.submit(pod)

    await asyncio.gather(*(submit() for _ in range(_HANDS)))


def _note_decisions(replica: Replica, job_of: dict[str, Job]) -> None:
    """Have each job told which of its members were sent to a node, in the instant of the decision."""
    cluster = replica.process.live.cluster
    bind = cluster.bind

    def noted(pod: Pod, placement: Placement) -> None:
        if pod.gang is not None:
            job_of[pod.gang.name.partition("/")[2]].tried.add(str(pod.uid))
        bind(pod, placement)

    cluster.bind = noted  # type: ignore[method-assign]


def _never_in_part(jobs: list[Job]) -> None:
    """No gang begins with fewer than its minimum: all of them are sent to their nodes in one turn."""
    assert [f"{job.name}: {len(job.tried)} of {job.least}" for job in jobs if 0 < len(job.tried) < job.least] == []


def _standing(on: Stage, job: Job) -> int:
    return sum(bool(pod["spec"].get("nodeName")) and not ended(pod) for pod in _pods(on, job))


def _pods(on: Stage, job: Job) -> list[Object]:
    return [pod for pod in on.truth.pods.values() if pod["metadata"]["labels"].get(GANG) == job.name]


async def _live_on(on: Stage, jobs: list[Job]) -> None:
    """What the jobs' owners do: whoever a kubelet turned away is made again, and a gang that is whole ends."""
    by_job: dict[str, list[Object]] = {}
    for pod in list(on.truth.pods.values()):
        by_job.setdefault(pod["metadata"]["labels"].get(GANG, ""), []).append(pod)
    for job in jobs:
        pods = by_job.get(job.name, [])
        for pod in pods:
            if ended(pod) and pod["metadata"]["name"] in on.run.made:
                job.torn += 1
                await on.run.delete(pod["metadata"]["name"])
                at = int(pod["metadata"]["labels"]["member"])
                await on.run.submit(job.member(on, at, again=f"-{job.torn}"))
        standing = [pod for pod in pods if pod["spec"].get("nodeName") and not ended(pod)]
        if len(pods) >= len(job.cpu_milli) and not job.done and len(standing) >= job.least:
            job.done = True
            await asyncio.gather(*(on.run.delete(name) for name in job.made if name in on.run.made))


async def _singles(on: Stage, count: int, over: asyncio.Event) -> None:
    """Single pods for kube-scheduler, as many at once as it may have; those that have run are deleted."""
    made = 0
    while not over.is_set():
        bound = [
            pod["metadata"]["name"]
            for pod in list(on.truth.pods.values())
            if pod["spec"]["schedulerName"] == KUBE_SCHEDULER and pod["spec"].get("nodeName")
        ]
        await asyncio.gather(*(on.run.delete(name) for name in bound if name in on.run.made))
        mine = sum(f"{on.run.name}-s" in name for name in on.run.made)
        if made < count and mine < _SINGLES_AT_ONCE:
            cpu_milli = on.run.rng.choice([500, 1000, 2500])
            name = f"{on.run.name}-s{made}"
            await on.run.submit(make_pod(name, on.run.name, KUBE_SCHEDULER, cpu_milli=cpu_milli, memory_mi=64))
            on.run.lasting.add(name)
            made += 1
        else:
            await asyncio.sleep(_POLL_S)
