"""The judge of a run: is all as promised, and was it so all the way?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from tests.core.answering import answered
from tests.live.differences import differences
from tests.live.faults.world import NODES, PODS, RUN_LABEL, Object, Run, Truth

from foresail.core.decide import decide
from foresail.core.gang import place_gang
from foresail.core.lifecycle import State
from foresail.core.model import NoFit, Pod
from foresail.core.preemption import find_victims
from foresail.core.profile import Profile
from foresail.core.spec import Gang
from foresail.kube.api.kinds import KINDS
from foresail.live.cache.cache import Cache
from foresail.live.scheduler.run import SchedulerProgram, profile_for

Check = Callable[[list[Object]], Awaitable[list[str]]]
"""What else is not as promised, given all pods."""

_POLL_S = 0.05
_UNPLACED = (State.WAITING, State.RESTING, State.BINDING)


async def problems(
    run: Run, truth: Truth, processes: Iterable[SchedulerProgram], judged: Iterable[str], check: Check | None
) -> list[str]:
    """What is not yet as promised; empty when the run has come to its right end."""
    pods, _ = await run.api.list(PODS)
    nodes, _ = await run.api.list(NODES)
    objects = {kind: (await run.api.list(KINDS[kind].path))[0] for kind in run.kinds}
    found = _lost(run, truth, pods)
    for process in processes:
        live = process.live
        found += [f"the cache is not the truth: {line}" for line in differences(live.cache, nodes, pods)]
        found += [f"still binding {uid}" for uid in live.cluster.binding]
        found += [f"{uid} stands in two places" for uid in live.cluster.paused if uid in live.queue]
        found += [f"{uid} is not where it should be as one that is {live.lives.of(uid)}" for uid in live.misplaced()]
        unplaced = {uid for uid, state in live.lives._state.items() if state in _UNPLACED}
        strangers = unplaced - live.cache.pods.keys()
        found += [f"{uid} is gone, and looked after" for uid in strangers]
        found += [f"{live.metrics.mended._value.get():.0f} pods were lost and mended"] * bool(
            live.metrics.mended._value.get()
        )
        found += [f"a turn broke: {live.broke}"] * bool(live.broke)
    for name in judged:
        found += _fits(name, run, {"Node": nodes, "Pod": pods, **objects})
    return found + (await check(pods) if check is not None else [])


def _lost(run: Run, truth: Truth, pods: list[Object]) -> list[str]:
    there = {pod["metadata"]["name"]: pod for pod in pods}
    evicted = truth.evicted_names
    found = []
    for name in run.made:
        pod = there.get(name)
        if pod is None:
            found += [f"{name} is gone, and nobody deleted it"] * (name not in evicted)
        elif not pod["spec"].get("nodeName") and name not in run.gated:
            told = [one for one in pod["status"].get("conditions", []) if one["type"] == "PodScheduled"]
            if not told or told[0]["status"] != "False":
                found.append(f"{name} waits and is not told why")
    return found


def _fits(scheduler: str, run: Run, objects: dict[str, list[Object]]) -> list[str]:
    """Pods that wait although there is room, or would be if others went, by decisions over a fresh table."""
    profile = profile_for("kubernetes")
    cache = Cache(scheduler_name=scheduler, devices=profile.devices)
    for kind, items in objects.items():
        cache.handler(kind).replace(items)
    found = []
    gangs: dict[Gang, list[Pod]] = {}
    for uid, cached in cache.pods.items():
        pod = cache.waiting(uid)
        if pod is None or cached.name not in run.made:
            continue
        if pod.gang is not None:
            gangs.setdefault(pod.gang, []).append(pod)
            continue
        outcome = decide(pod, cache.table, profile)
        if not isinstance(outcome, NoFit):
            found.append(f"{cached.name} waits although {outcome.node} has room")
        elif plan := find_victims(pod, cache.table, profile):
            found.append(f"{cached.name} waits although {[held.pod.name for held in plan.victims]} could go for it")
    return found + [line for gang, members in gangs.items() for line in _gang_fits(gang, members, cache, profile)]


def _gang_fits(gang: Gang, members: list[Pod], cache: Cache, profile: Profile) -> list[str]:
    missing = max(1, gang.min_members - cache.placed_members(gang.name))
    placed, _ = answered(place_gang(members, cache.table, profile, missing=missing), cache.table, profile)
    for pod, _ in placed:
        cache.table.forget(pod.uid)
    return [f"{len(members)} of {gang.name} wait although there is room for {len(placed)}"] * bool(placed)


async def settle(
    run: Run,
    truth: Truth,
    processes: list[SchedulerProgram],
    *,
    judged: Iterable[str],
    check: Check | None = None,
    within_s: float = 40.0,
) -> None:
    """Wait for the right end, and judge the way to it. `judged`: names of the schedulers that must have done all."""
    until_s = time.monotonic() + within_s
    while True:
        found = truth.broken or await problems(run, truth, processes, judged, check)
        if not found:
            break
        if truth.broken or time.monotonic() > until_s:
            raise AssertionError("\n".join(map(str, found[:20])))
        await asyncio.sleep(_POLL_S)
    # The watch of the truth may be a moment behind; every bind must have been seen and judged.
    mine, _ = await run.api.list(run.pods_path, labelSelector=f"{RUN_LABEL}={run.name}")
    bound = [pod for pod in mine if pod["spec"].get("nodeName")]
    while not all(pod["metadata"]["uid"] in truth.node_of for pod in bound):
        assert time.monotonic() < until_s, "the truth's own watch does not catch up"
        await asyncio.sleep(_POLL_S)
    assert truth.broken + truth.wrong_evictions() == []
