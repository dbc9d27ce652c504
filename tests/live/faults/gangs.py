"""Gangs while the network is bad and schedulers die: whole, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.live.faults.judge import Check
from tests.live.faults.proxy import Bound, Storm
from tests.live.faults.replicas import TIMEOUT_S
from tests.live.faults.stage import Stage, kill_at, stage
from tests.live.faults.world import Object, Run, make_pod

from foresail.kube.objects.values import GANG, GANG_MIN
from foresail.lab import Lab


def plan_gangs(run: Run, scheduler: str, count: int) -> list[Object]:
    """Members of gangs, and pods that belong to none, in any order; together more than the nodes have."""
    pods = run.plan_pods(count, [scheduler], gpus=False)
    for at in range(count // 3):
        least = run.rng.randint(2, 4)
        cpu_milli = run.rng.choice([1000, 1500, 2500])
        for number in range(least + run.rng.choice([0, 0, 1, 2])):
            member = make_pod(f"{run.name}-g{at}-{number}", run.name, scheduler, cpu_milli=cpu_milli, memory_mi=512)
            member["metadata"]["labels"][GANG] = f"{run.name}-g{at}"
            member["metadata"]["annotations"][GANG_MIN] = str(least)
            run.lasting.add(member["metadata"]["name"])
            pods.append(member)
    run.rng.shuffle(pods)
    return pods


def whole_or_not_at_all(on: Stage, *, by_the_dead: Sequence[Bound] = ()) -> Check:
    """`by_the_dead`: what a scheduler has bound that was killed. Where that is all of a gang that has a node, the rest
    was left without room; that there is none now is looked at for every pod that waits.
    """

    async def check(pods: list[Object]) -> list[str]:
        gangs: dict[str, list[Object]] = {}
        for pod in pods:
            if pod["metadata"]["name"] in on.run.lasting:
                gangs.setdefault(pod["metadata"]["labels"][GANG], []).append(pod)
        excused = {bound.uid for bound in by_the_dead}
        found = []
        for name, members in gangs.items():
            least = int(members[0]["metadata"]["annotations"][GANG_MIN])
            bound = [pod["metadata"]["uid"] for pod in members if pod["spec"].get("nodeName")]
            if 0 < len(bound) < least and not excused.issuperset(bound):
                found.append(f"{len(bound)} of {name} are bound, which starts with {least}")
        return found

    return check


async def gangs(lab: Lab, folder: Path, seed: int) -> None:
    """Gangs, among other pods, through a bad network."""
    async with stage(lab, folder, "gangs", seed) as on:
        await on.run.make_nodes(on.run.rng.randint(4, 6))
        weather = Storm(seed, rate=on.run.rng.choice([0.1, 0.25]), timeout_s=TIMEOUT_S)
        replica = await on.field.replica(on.ours, weather)
        await on.run.churn(plan_gangs(on.run, on.ours, 18))
        weather.over = True
        await on.end(replica, check=whole_or_not_at_all(on))


async def gangs_killed(lab: Lab, folder: Path, seed: int) -> None:
    """Dead when some members of a gang are bound and others are not; a new one goes on from there."""
    async with stage(lab, folder, "gangs-killed", seed) as on:
        await on.run.make_nodes(on.run.rng.randint(5, 6))
        pods = plan_gangs(on.run, on.ours, 18)
        members = [pod for pod in pods if pod["metadata"]["name"] in on.run.lasting]
        # Whole gangs wait already, so that the first scheduler binds their members at once.
        await on.run.churn(members, gap_s=0.0)
        reached = asyncio.Event()
        number, has_effect = on.run.rng.randint(2, 5), on.run.rng.random() < 0.5
        first = await on.field.replica(on.ours, kill_at(number, has_effect=has_effect, reached=reached))
        await asyncio.wait_for(reached.wait(), 30)
        await first.kill()
        weather = Storm(seed, rate=0.1, timeout_s=TIMEOUT_S)
        second = await on.field.replica(on.ours, weather)
        await on.run.churn([pod for pod in pods if pod not in members])
        weather.over = True
        await on.end(second, check=whole_or_not_at_all(on, by_the_dead=first.proxy.bound))
