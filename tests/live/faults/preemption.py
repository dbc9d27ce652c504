"""Preemption while the network is bad and schedulers die: who has more priority gets in, and nobody else has to go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.live.faults.proxy import NO_FAULT, Ask, Fault, Storm
from tests.live.faults.replicas import TIMEOUT_S
from tests.live.faults.stage import Stage, kill_at, stage, until
from tests.live.faults.world import Object, patiently

from foresail.kube.api.errors import Forbidden
from foresail.lab import Lab

PRIORITIES = (100, 200)
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_FILLERS = 30
_STALL_S = 12.0
_PATIENCE_S = 30.0
"""What a scheduler waits for an answer: longer than the stall, and than its lease lasts."""


async def make_classes(on: Stage) -> None:
    """The classes of priority, and the API server's word that it knows them."""
    for priority in PRIORITIES:
        value = {"metadata": {"name": f"tests-{priority}"}, "value": priority}
        await patiently(lambda value=value: on.run.api.post(CLASSES, value))
        pod = with_priority(on.run.plan_pods(1, ["nobody"])[0], priority)
        async with asyncio.timeout(30):
            while not await _is_taken(on, pod):
                await asyncio.sleep(0.05)


async def _is_taken(on: Stage, pod: Object) -> bool:
    try:
        await on.run.api.post(on.run.pods_path, pod, dryRun="All")
    except Forbidden:
        return False  # admission has not heard of the class yet
    return True


def with_priority(pod: Object, priority: int) -> Object:
    if priority:
        pod["spec"]["priorityClassName"] = f"tests-{priority}"
    return pod


async def _fill(on: Stage) -> list[Object]:
    """Fill the nodes with pods of priority 0; returns pods that are still to come, most of more."""
    pods = on.run.plan_pods(_FILLERS + 14, [on.ours])
    await on.run.churn(pods[:_FILLERS])
    await until(lambda: on.truth.binds >= _FILLERS // 3)
    return [with_priority(pod, on.run.rng.choice([0, 100, 100, 200])) for pod in pods[_FILLERS:]]


async def preemption(lab: Lab, folder: Path, seed: int) -> None:
    """Pods of more priority make others go through a bad network: deletions, conditions and reads fail too."""
    async with stage(lab, folder, "preemption", seed) as on:
        await make_classes(on)
        await on.run.make_nodes(4)
        weather = Storm(seed, rate=on.run.rng.choice([0.1, 0.25]), timeout_s=TIMEOUT_S)
        replica = await on.field.replica(on.ours, weather)
        await on.run.churn(await _fill(on), gap_s=0.03)
        weather.over = True
        await on.end(replica)
        assert on.truth.evicted_names


async def preemption_killed(lab: Lab, folder: Path, seed: int) -> None:
    """Dead before a victim is deleted, or when it is and nobody was told; a new one goes on from there."""
    async with stage(lab, folder, "preemption-killed", seed) as on:
        await make_classes(on)
        await on.run.make_nodes(4)
        reached = asyncio.Event()
        number, has_effect = on.run.rng.randint(1, 3), on.run.rng.random() < 0.5
        script = kill_at(number, has_effect=has_effect, reached=reached, counts=lambda ask: ask.kind == "delete")
        first = await on.field.replica(on.ours, script)
        work = asyncio.create_task(on.run.churn(await _fill(on), gap_s=0.03))
        await asyncio.wait_for(reached.wait(), 30)
        await first.kill()
        weather = Storm(seed, rate=0.1, timeout_s=TIMEOUT_S)
        second = await on.field.replica(on.ours, weather)
        await work
        weather.over = True
        await on.end(second)


async def stall(lab: Lab, folder: Path, seed: int) -> None:
    """Nobody gets an answer for 12 s while victims are being made to go, and the lead lapses meanwhile."""
    async with stage(lab, folder, "stall", seed) as on:
        await make_classes(on)
        await on.run.make_nodes(4)
        begun, over = asyncio.Event(), asyncio.Event()
        first = on.run.rng.randint(1, 3)
        deletes = 0

        async def script(ask: Ask) -> Fault:
            nonlocal deletes
            deletes += ask.kind == "delete"
            if deletes >= first and not begun.is_set():
                begun.set()
                asyncio.get_running_loop().call_later(_STALL_S, over.set)
            if begun.is_set():
                await over.wait()
            return NO_FAULT

        replica = await on.field.replica(on.ours, script, lease=on.ours, timeout_s=_PATIENCE_S)
        await on.run.churn(await _fill(on), gap_s=0.03)
        await asyncio.wait_for(over.wait(), 60)
        await until(lambda: replica.leads)
        assert replica.said.count("places pods now") > 1, "the lead never lapsed"
        await on.end(replica)
