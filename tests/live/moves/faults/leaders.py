"""Moves whose leader dies, sleeps, or is badly connected: whoever leads next, or still does, brings them to an end."""

from __future__ import annotations

import asyncio
import signal
from typing import NamedTuple

from tests.live.faults.proxy import Ask, Fault, Storm
from tests.live.moves.faults.movers import TIMEOUT_S, Nursery
from tests.live.moves.faults.scene import Figures, kill_at, name_of, scene, started
from tests.live.moves.faults.work import ALL, EVICTED, OWNED, PLACED_BY_US, Kind, Work
from tests.live.moves.players import Habits

from foresail.lab import Lab


class Point(NamedTuple):
    """A write of a move."""

    kind: str
    phase: str = ""
    number: int = 1

    def __str__(self) -> str:
        return f"{self.kind}{f' {self.phase}' if self.phase else ''}{f' {self.number}' if self.number > 1 else ''}"


FORWARD = (
    Point("record", "checkpoint"),
    Point("record", "checkpoint", 2),
    Point("record", "evict"),
    Point("evict"),
    Point("record", "replace"),
    Point("make"),
    Point("record", "replace", 2),
    Point("bind"),
    Point("record", "resume"),
    Point("record", "done"),
)
"""Every write of a move that comes to its end: what is asked for is noted, and who succeeds."""
BESIDE_ITS_POD = (
    Point("record", "checkpoint"),
    Point("record", "checkpoint", 2),
    Point("record", "surge"),
    Point("scale"),
    Point("record", "surge", 2),
    Point("bind"),
    Point("record", "shrink"),
    Point("mark"),
    Point("scale", number=2),
    Point("record", "replace"),
    Point("record", "resume"),
    Point("record", "done"),
)
"""Every write of a move in which the pod stays until its successor is ready."""
BACK = (
    Point("record", "checkpoint"),
    Point("record", "checkpoint", 2),
    Point("record", "undo"),
    Point("record", "done"),
)


def _points(kind: Kind) -> list[Point]:
    """Who has an owner is not made here, and who is placed by another is not bound here."""
    if kind is Kind.SURGED:
        return list(BESIDE_ITS_POD)
    left_out = {"make" if kind in OWNED else "", "bind" if kind is Kind.BESIDE else ""}
    return [point for point in FORWARD if point.kind not in left_out]


KILLED = [(kind, point, has_effect) for kind in ALL for point in _points(kind) for has_effect in (False, True)]
KILLED_BACK = [(kind, point, has_effect) for point in BACK for has_effect in (False, True) for kind in PLACED_BY_US]


async def killed(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """Killed before or after each write of a move; the next leader brings it to its end."""
    kind, point, has_effect = KILLED[seed % len(KILLED)]
    async with scene(lab, nursery, name_of("killed", seed), kind=kind) as on:
        on.figures["what"] = f"{kind}, {'after' if has_effect else 'before'} {point}"
        await on.make_nodes(4)
        reached = asyncio.Event()
        first = await started(on, kill_at(*point, has_effect=has_effect, reached=reached))
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.until(reached.is_set, f"at {point}")
        await first.kill()
        if kind is not Kind.BESIDE:  # where another places pods no room can be held
            await on.stranger()
        await started(on)
        await on.end(moved=work)
        return on.figures


async def killed_undoing(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """Killed before or after each write of a move that comes to nothing, as no checkpoint is confirmed."""
    kind, point, has_effect = KILLED_BACK[seed % len(KILLED_BACK)]
    async with scene(lab, nursery, name_of("undoing", seed), kind=kind, checkpoint_s=3.0) as on:
        on.figures["what"] = f"{kind}, {'after' if has_effect else 'before'} {point}"
        await on.make_nodes(4)
        reached = asyncio.Event()
        first = await started(on, kill_at(*point, has_effect=has_effect, reached=reached))
        work = await on.submit(Work(kind, f"{on.name}-t"), Habits(answers=False))
        on.judge.must_stay.add(work.job)
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.until(reached.is_set, f"at {point}")
        await first.kill()
        await on.stranger()
        await started(on)
        await on.until(lambda: on.judge.undone or has_effect, "undone")
        await on.end()
        return on.figures


async def two_leaders(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """The leader is stopped in any phase until another leads, wakes up, and goes on as if nothing had been."""
    kind = ALL[seed % len(ALL)]
    points = [point for point in _points(kind) if point.phase != "done"]
    point = points[seed // len(ALL) % len(points)]
    async with scene(lab, nursery, name_of("two", seed), kind=kind) as on:
        on.figures["what"] = f"{kind}, stopped at {point}"
        await on.make_nodes(4)
        stopped = asyncio.Event()
        goes_on = asyncio.Event()
        count = 0

        async def script(ask: Ask) -> Fault:
            nonlocal count
            if ask.kind == point.kind and ask.phase == point.phase and (on.judge.records or ask.kind == "record"):
                count += 1
                if count == point.number:
                    first.signal(signal.SIGSTOP)
                    stopped.set()
                    await goes_on.wait()
            return Fault()

        first = await started(on, script)
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        second = await on.movers.start()
        on.send(work, on.elsewhere(work))
        await on.until(stopped.is_set, f"at {point}")
        await on.until(lambda: second.leads, "the second leads")
        first.signal(signal.SIGCONT)
        goes_on.set()
        await on.end(moved=work)
        return on.figures


async def storm(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """Requests are refused, lost, answered late, or arrive long after everybody has stopped waiting."""
    kind = ALL[seed % len(ALL)]
    async with scene(lab, nursery, name_of("storm", seed), kind=kind, rest_s=1.0) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        weather = Storm(seed, rate=on.rng.choice([0.1, 0.2, 0.3]), timeout_s=TIMEOUT_S, over=True)
        mover = await started(on, weather)
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        weather.over = False
        on.send(work, on.elsewhere(work))
        await on.until(lambda: len(on.kubelets.history.of(work.job)) > 1, "a successor")
        weather.over = True
        await mover.proxy.delivered()
        await on.end(moved=work)
        return on.figures


async def late_eviction(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """An eviction arrives a second time, when the successor trains, which may have the same name."""
    kind = EVICTED[(seed + 2) % len(EVICTED)]
    async with scene(lab, nursery, name_of("late", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        evictions = 0

        def script(ask: Ask) -> Fault:
            nonlocal evictions
            evictions += ask.kind == "evict"
            if ask.kind == "evict" and evictions == 1:
                return Fault(drop="while", wait_s=20.0)
            return Fault()

        mover = await started(on, script)
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.until(lambda: on.judge.finished, "moved")
        on.calm()
        await mover.proxy.delivered()
        await on.trains(work)
        assert evictions > 1
        await on.end(moved=work)
        return on.figures
