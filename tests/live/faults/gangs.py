"""Gangs while the network is bad and schedulers die: whole, or not at all."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.live.faults.judge import Check
from tests.live.faults.proxy import NO_FAULT, Ask, Bound, Fault, Storm
from tests.live.faults.replicas import TIMEOUT_S
from tests.live.faults.stage import Stage, kill_at, stage, until
from tests.live.faults.world import NODES, Object, Run, make_pod

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


async def gangs_refused(lab: Lab, folder: Path, seed: int) -> None:
    """The API server refuses the bind of one member again and again, as admission may, and then no more."""
    async with stage(lab, folder, "gangs-refused", seed) as on:
        await on.run.make_nodes(6)
        least = on.run.rng.randint(3, 4)
        refusals, status = on.run.rng.randint(2, 6), on.run.rng.choice([403, 409, 500])
        refused: Counter[str] = Counter()

        def script(ask: Ask) -> Fault:
            if ask.kind != "bind" or (refused and ask.uid not in refused) or refused[ask.uid] >= refusals:
                return NO_FAULT
            refused[ask.uid] += 1
            return Fault(status)

        replica = await on.field.replica(on.ours, script)
        for number in range(least):
            await on.run.submit(_member(on, "one", number, least))
        await until(lambda: sum(refused.values()) == refusals)
        await on.end(replica, check=_all_bound(on, "one"))


async def gangs_vanishing(lab: Lab, folder: Path, seed: int) -> None:
    """The node of one member goes while the binds of its gang are under way, and another takes its place."""
    async with stage(lab, folder, "gangs-vanishing", seed) as on:
        await on.run.make_nodes(4)
        least = on.run.rng.randint(3, 4)
        number, count = on.run.rng.randint(1, least), 0
        held: list[str] = []
        go_on = asyncio.Event()

        async def script(ask: Ask) -> Fault:
            nonlocal count
            if ask.kind != "bind":
                return NO_FAULT
            count += 1
            if count == number:
                held.append(ask.node)
                await go_on.wait()
            return NO_FAULT

        replica = await on.field.replica(on.ours, script)
        for at in range(least):
            await on.run.submit(_member(on, "one", at, least))
        await until(lambda: held)
        [node] = held
        await on.run.api.delete(f"{NODES}/{node}")
        await until(lambda: node not in replica.process.live.cache.table.row_of)
        if on.run.rng.random() < 0.5:
            await on.run.api.post(NODES, on.run.nodes[node])
            await until(lambda: node in replica.process.live.cache.table.row_of)
        go_on.set()
        await until(lambda: not replica.process.live.cluster.binding)
        if node not in replica.process.live.cache.table.row_of:
            await on.run.api.post(NODES, on.run.nodes[node])
        await on.end(replica, check=_all_bound(on, "one"))


async def gangs_deleted(lab: Lab, folder: Path, seed: int) -> None:
    """A gang that waits for more members is deleted, one that waits for room too, and one while it is being bound; the
    room goes to another.
    """
    async with stage(lab, folder, "gangs-deleted", seed) as on:
        await on.run.make_nodes(4)
        reached, go_on = asyncio.Event(), asyncio.Event()

        async def script(ask: Ask) -> Fault:
            if ask.kind == "bind" and not go_on.is_set():
                reached.set()
                await go_on.wait()
            return NO_FAULT

        replica = await on.field.replica(on.ours, script)
        queue = replica.process.live.queue
        waiting = [_member(on, "few", at, 9) for at in range(3)]
        waiting += [_member(on, "wide", at, 20, cpu_milli=4000) for at in range(20)]
        binding = [_member(on, "held", at, 3) for at in range(3)]
        for pod in (*waiting, *binding):
            await on.run.submit(pod)
        await asyncio.wait_for(reached.wait(), 30)
        await until(lambda: len(queue) >= len(waiting))
        for pod in (*waiting, *binding):
            await on.run.delete(pod["metadata"]["name"])
        if on.run.rng.random() < 0.5:
            await until(lambda: not len(queue))
        go_on.set()
        for at in range(4):
            await on.run.submit(_member(on, "next", at, 4))
        await on.end(replica, check=_all_bound(on, "next"))
        assert not len(queue)


def _member(on: Stage, gang: str, at: int, least: int, *, cpu_milli: int = 1000) -> Object:
    pod = make_pod(f"{on.run.name}-{gang}-{at}", on.run.name, on.ours, cpu_milli=cpu_milli, memory_mi=64)
    pod["metadata"]["labels"][GANG] = f"{on.run.name}-{gang}"
    pod["metadata"]["annotations"][GANG_MIN] = str(least)
    on.run.lasting.add(pod["metadata"]["name"])
    return pod


def _all_bound(on: Stage, gang: str) -> Check:
    async def check(pods: list[Object]) -> list[str]:
        members = [pod for pod in pods if pod["metadata"]["labels"].get(GANG) == f"{on.run.name}-{gang}"]
        return [f"{pod['metadata']['name']} is not bound" for pod in members if not pod["spec"].get("nodeName")]

    return check
