"""What is done to a scheduler under load, one function a story; each is told its seed and nothing else."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.live.faults.competing import competing
from tests.live.faults.gangs import gangs, gangs_deleted, gangs_killed, gangs_refused, gangs_vanishing
from tests.live.faults.preemption import preemption, preemption_killed, stall
from tests.live.faults.proxy import NO_FAULT, Ask, Fault, Script, Storm, late_delivery
from tests.live.faults.replicas import TIMEOUT_S, Replica
from tests.live.faults.stage import Stage, kill_at, stage, until
from tests.live.faults.volumes import volumes, volumes_killed
from tests.live.faults.world import NODES

from foresail.lab import Lab

KUBE_SCHEDULER = "default-scheduler"


# --- one scheduler, a bad network ------------------------------------------------------------------------------------


async def storm(lab: Lab, folder: Path, seed: int) -> None:
    """409, 410, 429, 500, 503, time-outs, lost answers and broken watches, all at once."""
    async with stage(lab, folder, "storm", seed) as on:
        await on.run.make_nodes(on.run.rng.randint(5, 8))
        weather = Storm(seed, rate=on.run.rng.choice([0.1, 0.25, 0.4]), timeout_s=TIMEOUT_S)
        replica = await on.field.replica(on.ours, weather)
        await on.run.churn(on.run.plan_pods(on.run.rng.randint(25, 40), [on.ours]))
        weather.over = True
        assert weather.count
        await on.end(replica)


async def cuts(lab: Lab, folder: Path, seed: int) -> None:
    """Every watch is broken again and again, and some are refused because their version is gone."""
    async with stage(lab, folder, "cuts", seed) as on:
        await on.run.make_nodes(5)
        over = False

        def script(ask: Ask) -> Fault:
            gone = ask.kind == "watch" and not over and on.run.rng.random() < 0.3
            return Fault(410) if gone else NO_FAULT

        replica = await on.field.replica(on.ours, script)
        await until(lambda: replica.leads)
        work = asyncio.create_task(on.run.churn(on.run.plan_pods(30, [on.ours])))
        broken = 0
        while not work.done():
            broken += replica.proxy.cut_watches()
            await asyncio.sleep(0.1)
        await work
        over = True
        assert broken
        await on.end(replica)


async def partition(lab: Lab, folder: Path, seed: int) -> None:
    """The network is down for a while in the middle of the work."""
    async with stage(lab, folder, "partition", seed) as on:
        await on.run.make_nodes(5)
        replica = await on.field.replica(on.ours)
        pods = on.run.plan_pods(30, [on.ours])
        await on.run.churn(pods[:10])
        replica.proxy.cut()
        await on.run.churn(pods[10:])
        replica.proxy.mend()
        await on.end(replica)


async def late(lab: Lab, folder: Path, seed: int) -> None:
    """Binds arrive seconds after they were given up, when other pods want, and have, the room."""
    async with stage(lab, folder, "late", seed) as on:
        await on.run.make_nodes(3)
        rng, over = on.run.rng, False
        given_up: set[str] = set()
        """Uids of pods with a bind on its way; the next attempt is refused for good, which ends the bind."""

        def script(ask: Ask) -> Fault:
            if ask.kind == "condition" and not over and rng.random() < 0.7:
                # What a pod is told changes its version, too; that alone must not be what saves the day.
                return Fault(503)
            if ask.kind != "bind":
                return NO_FAULT
            if ask.uid in given_up:
                given_up.discard(ask.uid)
                return Fault(403)
            if over or rng.random() > 0.5:
                return NO_FAULT
            given_up.add(ask.uid)
            return late_delivery(rng, TIMEOUT_S)

        replica = await on.field.replica(on.ours, script)
        # Far more than there is room for, so that somebody always waits for what is given back.
        await on.run.churn(on.run.plan_pods(50, [on.ours]), gap_s=0.02)
        over = True
        await on.end(replica)
        assert replica.proxy.too_late


# --- nodes that vanish -----------------------------------------------------------------------------------------------


async def vanishing(lab: Lab, folder: Path, seed: int) -> None:
    """Nodes go between the decision and the bind, and some come back under the same name."""
    async with stage(lab, folder, "vanishing", seed) as on:
        await on.run.make_nodes(6)
        held: dict[str, asyncio.Event] = {}
        script = _holds_binds(on, held, lambda: replica)
        replica = await on.field.replica(on.ours, script)
        here = set(on.run.nodes)
        work = asyncio.create_task(on.run.churn(on.run.plan_pods(30, [on.ours])))
        for _ in range(4):
            await until(lambda: held or work.done())
            if not held:
                break
            name = on.run.rng.choice(sorted(held))
            if name in here:  # a bind may also be held that was sent before word came that the node is gone
                await on.run.api.delete(f"{NODES}/{name}")
                here.remove(name)
            if on.run.rng.random() < 0.5:
                await until(lambda name=name: name not in replica.process.live.cache.table.row_of)
            if on.run.rng.random() < 0.7:
                await on.run.api.post(NODES, on.run.nodes[name])
                here.add(name)
                await until(lambda name=name: name in replica.process.live.cache.table.row_of)
                # Whoever waits may take the room of the pod whose bind is still on its way.
                await asyncio.sleep(0.1)
            held.pop(name).set()
        await work
        replica.proxy.script = lambda _: NO_FAULT
        for waiting in held.values():
            waiting.set()
        await on.end(replica)


def _holds_binds(on: Stage, held: dict[str, asyncio.Event], replica: Callable[[], Replica]) -> Script:
    """Holds some binds until their node's event is set; then some are passed on and others fail."""
    hopeless: set[tuple[str, str]] = set()
    """Binds that were answered when their node was known to be gone; they are not to be repeated while it is."""

    async def script(ask: Ask) -> Fault:
        if ask.kind != "bind":
            return NO_FAULT
        known = replica().process.live.cache.table.row_of
        if ask.node not in known and (ask.uid, ask.node) in hopeless:
            on.truth.broken.append(f"asked again to bind to {ask.node}, which it knew to be gone")
        if on.run.rng.random() < 0.4:
            await held.setdefault(ask.node, asyncio.Event()).wait()
            if ask.node not in known:
                hopeless.add((ask.uid, ask.node))
            return on.run.rng.choice([NO_FAULT, NO_FAULT, Fault(500), Fault(drop="before"), Fault(drop="after")])
        return NO_FAULT

    return script


# --- others in the same nodes ----------------------------------------------------------------------------------------


async def crowd(lab: Lab, folder: Path, seed: int) -> None:
    """Three schedulers of different names fill the same nodes through bad networks."""
    async with stage(lab, folder, "crowd", seed, plays_kubelet=True) as on:
        await on.run.make_nodes(6)
        names = [f"{on.ours}-{letter}" for letter in "abc"]
        weather = [Storm(seed * 10 + at, rate=0.15, timeout_s=TIMEOUT_S) for at in range(3)]
        replicas = [await on.field.replica(name, one) for name, one in zip(names, weather, strict=True)]
        await on.run.churn(on.run.plan_pods(45, names), gap_s=0.005)
        for one in weather:
            one.over = True
        await on.end(*replicas, judged=names)


async def kube(lab: Lab, folder: Path, seed: int) -> None:
    """The real kube-scheduler binds pods into the same nodes at the same time."""
    async with stage(lab, folder, "kube", seed, plays_kubelet=True) as on:
        await on.run.make_nodes(6)
        weather = Storm(seed, rate=0.1, timeout_s=TIMEOUT_S)
        replica = await on.field.replica(on.ours, weather)
        await until(lambda: replica.leads)
        # kube-scheduler knows nothing of shares of GPUs.
        await on.run.churn(on.run.plan_pods(45, [on.ours, KUBE_SCHEDULER], gpus=False), gap_s=0.0)
        weather.over = True
        await on.end(replica)
        binders = {on.truth.pods[uid]["spec"]["schedulerName"] for uid in on.truth.node_of if uid in on.truth.pods}
        assert binders == {on.ours, KUBE_SCHEDULER}


# --- schedulers that die ---------------------------------------------------------------------------------------------


async def killed(lab: Lab, folder: Path, seed: int) -> None:
    """Dead between the decision and the bind, or between the bind and its answer; a new one takes over."""
    async with stage(lab, folder, "killed", seed) as on:
        await on.run.make_nodes(5)
        pods = on.run.plan_pods(30, [on.ours])
        reached = asyncio.Event()
        script = kill_at(on.run.rng.randint(1, 8), has_effect=on.run.rng.random() < 0.5, reached=reached)
        first = await on.field.replica(on.ours, script)
        work = asyncio.create_task(on.run.churn(pods))
        await asyncio.wait_for(reached.wait(), 30)
        await first.kill()
        second = await on.field.replica(on.ours)
        await work
        await on.end(second)


async def process_killed(lab: Lab, folder: Path, seed: int) -> None:
    """SIGKILL to a real process between the decision and the bind, or between the bind and its answer."""
    async with stage(lab, folder, "process", seed) as on:
        await on.run.make_nodes(5)
        pods = on.run.plan_pods(30, [on.ours])
        reached = asyncio.Event()
        number, has_effect = on.run.rng.randint(1, 8), bool(seed % 2)
        script = kill_at(number, has_effect=has_effect, reached=reached)
        first = await on.field.process(folder, on.ours, script)
        work = asyncio.create_task(on.run.churn(pods))
        await asyncio.wait_for(reached.wait(), 60)
        if has_effect:
            await until(lambda: len(first.proxy.bound) == number)
        first.signal(signal.SIGKILL)
        first.proxy.cut()
        await first.kill()
        second = await on.field.process(folder, on.ours)
        await work
        await until(lambda: second.leads, within_s=60)
        await on.end(within_s=60)
        assert await second.terminate() == 0, second.log


# --- two replicas, one leader ----------------------------------------------------------------------------------------


async def replicas(lab: Lab, folder: Path, seed: int) -> None:
    """The leader of two is killed, cut off, or stopped under load; one that comes back does no harm."""
    async with stage(lab, folder, "replicas", seed) as on:
        await on.run.make_nodes(5)
        pods = on.run.plan_pods(36, [on.ours])
        way = ["kill", "cut off", "stop"][seed % 3]
        # A leader that dies cannot call off what it has sent.
        weather = Storm(seed, rate=0.05, timeout_s=TIMEOUT_S, late=False)
        pair = [await on.field.replica(on.ours, weather, lease=on.ours) for _ in range(2)]
        await until(lambda: any(one.leads for one in pair))
        leader, other = sorted(pair, key=lambda one: not one.leads)
        await on.run.churn(pods[:8])
        work = asyncio.create_task(on.run.churn(pods[8:], gap_s=0.05))
        await asyncio.sleep(on.run.rng.uniform(0.0, 0.3))
        if way == "kill":
            await leader.kill()
        elif way == "cut off":
            leader.proxy.cut()
        else:
            await leader.stop()
        await until(lambda: other.leads)
        if way == "cut off":
            assert not leader.leads, "two lead at once"
            leader.proxy.mend()
        weather.over = True
        await work
        await on.end(*([leader, other] if way == "cut off" else [other]))


async def process_replicas(lab: Lab, folder: Path, seed: int) -> None:
    """Two real processes; the leader gets SIGKILL, or SIGSTOP and wakes up when another leads."""
    async with stage(lab, folder, "pair", seed) as on:
        await on.run.make_nodes(5)
        pods = on.run.plan_pods(36, [on.ours])
        pair = [await on.field.process(folder, on.ours, lease=on.ours) for _ in range(2)]
        await until(lambda: any(one.leads for one in pair), within_s=60)
        leader, other = sorted(pair, key=lambda one: not one.leads)
        work = asyncio.create_task(on.run.churn(pods, gap_s=0.05))
        await until(lambda: len(leader.proxy.bound) >= on.run.rng.randint(1, 6))
        if seed % 2:
            leader.signal(signal.SIGSTOP)
        else:
            await leader.kill()
        await until(lambda: other.leads, within_s=60)
        if seed % 2:
            leader.signal(signal.SIGCONT)
        await work
        await on.end(within_s=60)
        assert await other.terminate() == 0, other.log


# --- the API server --------------------------------------------------------------------------------------------------


async def restart(lab: Lab, folder: Path, seed: int) -> None:
    """kube-apiserver is killed under load and comes back."""
    async with stage(lab, folder, "restart", seed) as on:
        await on.run.make_nodes(6)
        pods = on.run.plan_pods(40, [on.ours])
        replica = await on.field.replica(on.ours)
        await on.run.churn(pods[:10])
        back = asyncio.create_task(asyncio.to_thread(lab.restart, "kube-apiserver"))
        await on.run.churn(pods[10:])
        await back
        await on.end(replica, within_s=90)


Story = Callable[[Lab, Path, int], Awaitable[None]]

STORIES: dict[str, tuple[Story, int]] = {
    "storm": (storm, 40),
    "cuts": (cuts, 16),
    "partition": (partition, 12),
    "late": (late, 10),
    "vanishing": (vanishing, 24),
    "crowd": (crowd, 12),
    "kube": (kube, 8),
    "killed": (killed, 24),
    "replicas": (replicas, 12),
    "process_killed": (process_killed, 6),
    "process_replicas": (process_replicas, 4),
    "restart": (restart, 4),
    "gangs": (gangs, 8),
    "gangs_killed": (gangs_killed, 8),
    "gangs_refused": (gangs_refused, 3),
    "gangs_vanishing": (gangs_vanishing, 4),
    "gangs_deleted": (gangs_deleted, 2),
    "competing": (competing, 1),
    "preemption": (preemption, 6),
    "preemption_killed": (preemption_killed, 6),
    "stall": (stall, 3),
    "volumes": (volumes, 8),
    "volumes_killed": (volumes_killed, 8),
}
"""Name to the story and how many seeds it is told with."""
