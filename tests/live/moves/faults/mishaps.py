"""Moves that meet a node, a volume, a job, an owner or a user that does not do as one would like."""

from __future__ import annotations

import asyncio

from tests.live.moves.faults.movers import Nursery
from tests.live.moves.faults.scene import Figures, name_of, scene, started
from tests.live.moves.faults.work import ALL, EVICTED, OWNED, PLACED_BY_US, Kind, Work
from tests.live.moves.players import Habits

from foresail.lab import Lab

NO_MOVE = "foresail.dev/no-move"
_BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def target_lost(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """The node that a job is to go to is lost, in any phase."""
    kind = PLACED_BY_US[seed % len(PLACED_BY_US)]
    leaves = "surge" if kind is Kind.SURGED else "evict"
    phase = ("checkpoint", leaves, "replace", "resume")[seed // len(PLACED_BY_US) % 4]
    async with scene(lab, nursery, name_of("lost", seed), kind=kind) as on:
        on.figures["what"] = f"{kind}, in {phase}"
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), Habits(answers_after=5 if phase == "checkpoint" else 0))
        await on.trains(work)
        target = on.elsewhere(work)
        if phase == "resume":
            on.kubelets.slow.add(target)
        on.send(work, target)
        await on.until_phase(phase)
        on.calm()
        await on.lose(target, at_once=True)
        await on.end()
        return on.figures


async def target_refuses(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """The kubelet of the target does not take the successor."""
    kind = PLACED_BY_US[seed % len(PLACED_BY_US)]
    async with scene(lab, nursery, name_of("refuses", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        target = on.elsewhere(work)
        on.kubelets.full.add(target)
        on.send(work, target)
        await on.until(
            lambda: (
                any(one.node == target and one.ended and not one.gone for one in on.judge.pods.values())
                or len(on.kubelets.history.of(work.job)) > 1
            ),
            "refused",
        )
        on.calm()
        on.kubelets.full.clear()
        await on.end()
        return on.figures


async def full_volume(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """The shared volume is full when a checkpoint is asked for: the job stays where it is, and trains on."""
    kind = ALL[seed % len(ALL)]
    async with scene(lab, nursery, name_of("full", seed), kind=kind, checkpoint_s=5.0, rest_s=1.0) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        on.volume.is_full = True
        on.judge.must_stay.add(work.job)
        on.send(work, on.elsewhere(work))
        await on.until(lambda: on.judge.undone, "undone")
        on.calm()
        await on.settled()
        assert on.judge.verdict() == []
        # There is room again, and it can be moved.
        on.volume.is_full = False
        on.judge.must_stay.clear()
        await on.trains(work, on.stay(work.job).last_step - on.stay(work.job).first_step + 3)
        on.send(work, next(iter(on.judge.sent[work.job])))
        await on.end(moved=work)
        return on.figures


async def ignores_sigterm(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """A job that does not heed SIGTERM is killed after its grace, and goes on from the checkpoint it was asked for."""
    kind = ALL[seed % len(ALL)]
    async with scene(lab, nursery, name_of("deaf", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        # It takes its time to answer, too: nobody may make it go before it has.
        habits = Habits(heeds_sigterm=False, answers_after=15, checkpoint_every=10_000 if seed % 2 else 3)
        work = await on.submit(Work(kind, f"{on.name}-t", grace_s=3), habits)
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.end(moved=work)
        return on.figures


async def slow_to_leave(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """A job that trains on after SIGTERM for most of its grace, and writes checkpoints all the time."""
    kind = ALL[seed % len(ALL)]
    async with scene(lab, nursery, name_of("slow", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        habits = Habits(leaves_after_s=4.0, checkpoint_every=2, step_s=0.1)
        work = await on.submit(Work(kind, f"{on.name}-t", grace_s=8), habits)
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.end(moved=work)
        return on.figures


async def corrupt_rows(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """Half a row, rubbish and a row of another job's stand in the file while the job is moved."""
    kind = PLACED_BY_US[seed % len(PLACED_BY_US)]
    rubbish = [
        "\0\0\0\n",
        "nan,nan,inf,,,checkpoint:\n",
        "1e400,-5,,,,\n",
        '"never closed',
        "9" * 5000 + "\n",
        ",,,,,\n",
    ]
    async with scene(lab, nursery, name_of("corrupt", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), Habits(corrupt_row_at=4))
        await on.trains(work)
        rows = on.volume.folder(f"default/{work.job}") / "progress.csv"
        on.send(work, on.elsewhere(work))
        while on.stay(work.job) is None or on.stay(work.job).node not in on.judge.sent[work.job]:
            on.volume.append(rows, on.rng.choice(rubbish))
            await asyncio.sleep(0.3)
        on.volume.append(rows, "\n")
        await on.end(moved=work)
        return on.figures


async def never_made(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """The owner makes no successor for longer than room is held: the room is given back, and nothing else lost."""
    kind = OWNED[seed % len(OWNED)]
    stopped = {"suspend": True} if kind in {Kind.JOB, Kind.INDEXED} else {"replicas": 0}
    goes_on = {"suspend": False} if kind in {Kind.JOB, Kind.INDEXED} else {"replicas": 1 + (kind is Kind.STATEFUL_SET)}
    async with scene(lab, nursery, name_of("never", seed), kind=kind, successor_s=4.0) as on:
        on.figures["what"] = kind
        on.judge.may_stay_unfinished = True
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), Habits(leaves_after_s=2.0))
        await on.trains(work)
        target = on.elsewhere(work)
        on.send(work, target)
        await on.until_phase("replace")
        on.calm()
        on.judge.excused |= set(on.judge.pods)
        await on.api.patch(f"{work.path}/{work.name}", {"spec": stopped}, content_type="application/merge-patch+json")
        # All of the target can be had before the owner goes on.
        stranger = len(on.judge.pods)
        pod_cpu = on.judge.offers_milli[target] / 1000
        await on.until(lambda: all(seen.gone or not seen.leaves_at for seen in on.judge.pods.values()), "all left")
        await on.stranger(pod_cpu, node=target)
        await on.until(lambda: len(on.judge.pods) > stranger, "somebody wants the room")
        await on.until(
            lambda: not [seen for seen in on.judge.pods.values() if not seen.node and not seen.ended], "room"
        )
        await on.api.patch(f"{work.path}/{work.name}", {"spec": goes_on}, content_type="application/merge-patch+json")
        await on.end()
        return on.figures


async def backoff_limit(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """A Job whose every move counts as a failure is moved as long as two are left, and never fails of it."""
    limit, indexed = seed % 3, seed // 3 % 2
    kind = Kind.INDEXED if indexed else Kind.JOB
    async with scene(lab, nursery, name_of("limit", seed), kind=kind, rest_s=0.5) as on:
        on.figures["what"] = f"{kind}, backoffLimit {limit}"
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), podFailurePolicy=None, backoffLimit=limit)
        await on.trains(work)
        if limit < 2:
            on.judge.must_stay.add(work.job)
        else:
            on.send(work, on.elsewhere(work))
            await on.end(moved=work, room=False)
        declined = on.declined("counts as a failure")
        back = on.elsewhere(work)
        on.judge.must_stay |= {work.job} if limit < 2 else set()
        before = on.stay(work.job).uid
        on.send(work, back)
        await on.until(lambda: on.declined("counts as a failure") >= declined + 2, "declined")
        assert on.stay(work.job).uid == before
        await on.end()
        return on.figures


async def budget(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """A disruption budget that allows no eviction: the move waits for it, or is undone."""
    kind = EVICTED[seed % len(EVICTED)]
    allows = seed // len(EVICTED) % 2 == 1
    async with scene(lab, nursery, name_of("budget", seed), kind=kind, budget_s=60.0 if allows else 3.0) as on:
        on.figures["what"] = f"{kind}, {'allows it later' if allows else 'never allows it'}"
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"))
        await on.trains(work)
        spec = {"minAvailable": len(work.jobs), "selector": {"matchLabels": {"app": work.name}}}
        path = f"{_BUDGETS}/{work.name}"
        await on.api.post(_BUDGETS, {"metadata": {"name": work.name}, "spec": spec})
        try:
            await on.has_observed(path)
            on.judge.must_stay.add(work.job)
            on.send(work, on.elsewhere(work))
            await on.until_phase("evict")
            if not allows:
                await on.until(lambda: on.judge.undone, "undone")
                await on.end()
                return on.figures
            assert on.judge.verdict() == []
            on.judge.must_stay.clear()
        finally:
            await on.api.delete(path)
        await on.end(moved=work)
        return on.figures


async def no_move(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """Whoever says that it is not to be moved is not, however often it is asked for."""
    kind = PLACED_BY_US[seed % len(PLACED_BY_US)]
    async with scene(lab, nursery, name_of("stay", seed), kind=kind, rest_s=0.5) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), annotations={NO_MOVE: "true"})
        on.judge.must_stay |= set(work.jobs)
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.until(lambda: on.declined(NO_MOVE) >= 2, "declined")
        assert not on.judge.records
        await on.end()
        return on.figures


async def deleted_meanwhile(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """Its user deletes the job while it is being moved: nobody makes it again."""
    kind = PLACED_BY_US[seed % len(PLACED_BY_US)]
    async with scene(lab, nursery, name_of("deleted", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), Habits(answers_after=15))
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.until_phase("checkpoint")
        on.gone |= set(work.jobs)
        on.judge.excused |= set(on.judge.pods)
        await on.api.delete(f"{work.path}/{work.name}", {"propagationPolicy": "Background"})
        await on.until(lambda: not on.kubelets.training, "it has ended")
        await on.end()
        assert all(seen.ended for seen in on.judge.pods.values() if seen.name.startswith(work.name))
        return on.figures


async def finishes(lab: Lab, nursery: Nursery, seed: int) -> Figures:
    """The job does all its work within its grace: nobody goes on elsewhere, and its Job is complete."""
    kind = (Kind.JOB, Kind.BARE, Kind.BESIDE)[seed % 3]
    async with scene(lab, nursery, name_of("finishes", seed), kind=kind) as on:
        on.figures["what"] = kind
        await on.make_nodes(4)
        await started(on)
        work = await on.submit(Work(kind, f"{on.name}-t"), Habits(ends_on_sigterm=True))
        await on.trains(work)
        on.send(work, on.elsewhere(work))
        await on.until(lambda: on.judge.finished, "over")
        await on.end()
        assert [stay.exit_code for stay in on.kubelets.history.of(work.job)] == [0]
        return on.figures
