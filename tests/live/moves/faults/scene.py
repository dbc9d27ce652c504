"""What every story of moves has at hand: nodes, trainers, processes that move, and the judge at the end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.live.faults.proxy import NO_FAULT, Ask, Fault, Script
from tests.live.faults.world import NODES, RUN_LABEL, make_node, patiently
from tests.live.moves.faults.judge import Judge
from tests.live.moves.faults.movers import LEASE, LOOK_S, Mover, Movers, Nursery
from tests.live.moves.faults.work import (
    DEPLOYMENTS,
    JOBS,
    OTHER_SCHEDULER,
    PODS,
    STATEFUL_SETS,
    Kind,
    Work,
    job_of,
    manifest,
    pod_template,
)
from tests.live.moves.players import Checkpoints, Habits, Kubelets, Stay, Volume

from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab
from foresail.workloads.checkpoint import CheckpointFolder

Figures = dict[str, Any]
"""What came of a run."""
NODE_CPU = 4
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_NAMESPACES = "/api/v1/namespaces"
_POLL_S = 0.05
_BEATS_EVERY_S = 20.0
MOVES = {
    "checkpoint_s": 120.0,
    "budget_s": 120.0,
    "successor_s": 120.0,
    "resume_s": 300.0,
    "rest_s": 2.0,
    "look_every_s": LOOK_S,
}
"""How long each part of a move may take here: long enough for a busy machine."""
_QUIET = Habits(step_s=60.0, reports=False)
"""Of those that only take room."""


class SharedVolume(Volume):
    """The shared volume, on which jobs keep their checkpoints as we tell them to."""

    def checkpoints(self, folder: Path, uid: str) -> Checkpoints:
        return _InFolder(self, CheckpointFolder(folder, uid))


class _InFolder:
    def __init__(self, volume: Volume, folder: CheckpointFolder) -> None:
        self._volume = volume
        self._folder = folder

    def newest(self) -> int:
        found = self._folder.newest(lambda _: None)
        return 0 if found is None else found[0]

    def save(self, step: int) -> None:
        def write(file: Any) -> None:
            self._volume.check()
            file.write(b"weights")

        self._folder.save(step, write)


@dataclass
class Scene:
    """What a story has at hand."""

    api: Client
    """Straight to the API server."""
    name: str
    rng: random.Random
    volume: Volume
    kubelets: Kubelets
    judge: Judge
    movers: Movers
    folder: Path
    habits: dict[str, Habits]
    scheduler: str
    nodes: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Jobs that the story has made an end of."""
    figures: Figures = field(default_factory=dict)

    # --- the cluster -----------------------------------------------------------------------------------------------

    async def make_nodes(self, count: int) -> None:
        for at in range(count):
            name = f"{self.name}-n{at}"
            self.nodes.append(name)
            self.judge.offers_milli[name] = 1000 * NODE_CPU
            await self.api.post(NODES, make_node(name, self.name, cpu=NODE_CPU, memory_mi=8192, pods=20))

    async def submit(
        self, work: Work, habits: Habits | None = None, annotations: dict[str, str] | None = None, **spec: Any
    ) -> Work:
        """Let it be made, and train for a while."""
        for job in work.jobs:
            self.habits[job] = habits or Habits()
        self.judge.works.append(work)
        made = manifest(work, self.name, self.scheduler, annotations=annotations or {}, **spec)
        await patiently(lambda: self.api.post(work.path, made))
        return work

    async def trains(self, work: Work, steps: int = 5) -> None:
        """Until all of it trains, and has done so for a few steps."""
        await self.until(
            lambda: all(
                (stay := self.stay(job)) is not None and stay.last_step >= stay.first_step + steps for job in work.jobs
            ),
            f"{work.name} trains",
        )

    async def stranger(self, cpu: float = 3.0, node: str = "") -> None:
        """Somebody else who wants room, anywhere or on a node."""
        name = f"{self.name}-s{len(self.judge.pods)}"
        pod = pod_template(self.name, self.scheduler, {}, cpu=cpu, grace_s=0)
        pod["metadata"]["name"] = name
        self.habits[name] = _QUIET
        if node:
            pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
        await patiently(lambda: self.api.post(PODS, pod))

    def stay(self, job: str) -> Stay | None:
        """Where a job trains now."""
        return next((stay for stay in self.kubelets.training if stay.job == job), None)

    def elsewhere(self, work: Work) -> str:
        """A node on which nothing of it stands."""
        standing = {stay.node for stay in self.kubelets.training if stay.job in work.jobs}
        free = self.judge.free_milli()
        choices = [node for node in self.nodes if node not in standing and free.get(node, 0) >= 1000 * NODE_CPU]
        return self.rng.choice(choices or [node for node in self.nodes if node not in standing])

    def send(self, work: Work, node: str) -> None:
        """The controller is to ask for it."""
        self.judge.sent.setdefault(work.job, set()).add(node)
        self._tell({work.starts_with: node})

    def calm(self) -> None:
        """Nobody is to ask for moves any more."""
        self._tell({})

    def _tell(self, moves: dict[str, str]) -> None:
        half = self.folder / "told.new"
        half.write_text(json.dumps(moves), encoding="utf-8")
        half.rename(self.folder / "told.json")

    async def lose(self, node: str, *, at_once: bool) -> None:
        """A machine is gone, and its Node deleted; its pods are, too, or when Kubernetes gets round to it."""
        self.kubelets.lose(node)
        self.judge.lost_nodes.add(node)
        await patiently(lambda: self.api.delete(f"{NODES}/{node}"))
        while at_once:
            there = [one for one in self.judge.pods.values() if one.node == node and not one.gone]
            if not there and not self.judge.records:
                return
            for one in there:
                await patiently(lambda one=one: self.api.delete(f"{PODS}/{one.name}", {"gracePeriodSeconds": 0}))
            if not there:
                return
            await asyncio.sleep(_POLL_S)

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def until(self, reached: Callable[[], object], what: str, within_s: float = 300.0) -> None:
        deadline_s = time.monotonic() + within_s
        while not reached():
            if time.monotonic() > deadline_s:
                raise AssertionError(f"not within {within_s:g} s: {what}\n{self.state()}")
            await asyncio.sleep(_POLL_S)

    async def until_phase(self, phase: str) -> None:
        """Until this phase has been written down of some move."""
        await self.until(
            lambda: any(one == phase for seen in self.judge.records.values() for _, one in seen.phases), f"in {phase}"
        )

    def declined(self, why: str) -> int:
        """How often a move was declined for a reason."""
        return sum(
            line["what"] == "decline" and why in line["detail"] for mover in self.movers.all for line in mover.journal
        )

    async def has_observed(self, path: str) -> None:
        """Until the disruption controller has looked at a budget."""
        async with asyncio.timeout(300):
            while not (await self.api.get(path)).get("status", {}).get("observedGeneration"):
                await asyncio.sleep(_POLL_S)

    def state(self) -> str:
        pods = [
            f"  {seen.name} on {seen.node or 'no node'} {seen.pod.get('status', {}).get('phase')}"
            f"{' leaves' * bool(seen.leaves_at)}{' gone' * seen.gone}"
            for seen in self.judge.pods.values()
        ]
        moves = [f"  {uid}: {seen.phases} {seen.over_s}" for uid, seen in self.judge.records.items()]
        noted = [
            f"  {at} {line['what']} {line['pod']} {line['node']} {line['detail']}"
            for at, mover in enumerate(self.movers.all)
            for line in mover.journal
            if line["what"] in {"move", "moved", "decline"}
        ]
        return "\n".join(["pods", *pods, "moves", *moves, "noted", *noted[-30:]])

    # --- the end ---------------------------------------------------------------------------------------------------

    async def settled(self, within_s: float = 300.0) -> None:
        """Until every move is over and every job trains or has finished."""
        jobs = {job for work in self.judge.works for job in work.jobs} - self.gone
        await self.until(lambda: not self.judge.unsettled(jobs), "settled", within_s)

    async def end(self, *, moved: Work | None = None, room: bool = True, within_s: float = 300.0) -> None:
        """No more faults: within a while all must be as promised. `moved` is where it was sent; with `room`, no node
        has room that nobody can have.
        """
        if moved is not None:
            wanted = self.judge.sent[moved.job]
            await self.until(
                lambda: (stay := self.stay(moved.job)) is not None and stay.node in wanted, "moved", within_s
            )
        self.calm()
        try:
            await self.settled(within_s)
        except AssertionError as error:
            jobs = {job for work in self.judge.works for job in work.jobs} - self.gone
            error.add_note("\n".join(self.judge.unsettled(jobs)))
            raise
        if room and self.scheduler != OTHER_SCHEDULER:
            await self._fill()
        await self._no_job_has_failed()
        found = self.judge.verdict()
        if found:
            raise AssertionError("\n".join([*found, self.state()]))
        moves = self.judge.moves()
        self.figures |= {
            "moved": self.judge.finished,
            "undone": self.judge.undone,
            "went_on": len(moves),
            "steps_lost": [one.steps_lost for one in moves],
            "beyond_checkpoint": sum(one.beyond_checkpoint for one in moves),
            "overlap_s": max((one.overlap_s for one in moves), default=0.0),
        }

    async def _fill(self) -> None:
        """All room that is free can be had: nothing is held any more."""
        for node, milli in self.judge.free_milli().items():
            if milli:
                pod = pod_template(self.name, self.scheduler, {}, cpu=milli / 1000, grace_s=0)
                pod["metadata"]["name"] = f"{node}-rest"
                self.habits[f"{node}-rest"] = _QUIET
                pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
                await patiently(lambda pod=pod: self.api.post(PODS, pod))
        await self.until(
            lambda: all(seen.node for seen in self.judge.pods.values() if not seen.ended), "all room can be had", 300.0
        )

    async def _no_job_has_failed(self) -> None:
        jobs, _ = await self.api.list(JOBS, labelSelector=f"{RUN_LABEL}={self.name}")
        for job in jobs:
            failed = [
                one for one in job["status"].get("conditions") or () if one["type"] in {"Failed", "FailureTarget"}
            ]
            assert not failed, f"Job {job['metadata']['name']} has failed: {failed}"

    async def remove(self) -> None:
        about = {"labelSelector": f"{RUN_LABEL}={self.name}"}
        for path in (JOBS, STATEFUL_SETS, DEPLOYMENTS):
            await patiently(lambda path=path: self.api.delete(path, {"propagationPolicy": "Background"}, **about))
        await patiently(lambda: self.api.delete(PODS, {"gracePeriodSeconds": 0}, **about))
        await patiently(lambda: self.api.delete(NODES, **about))
        await patiently(lambda: self.api.delete(f"{_NAMESPACES}/{self.name}"))
        for node in self.nodes:
            await patiently(lambda node=node: self.api.delete(f"{_LEASES}/{node}"))

    async def beat(self) -> None:
        """What kubelets do to be known to live."""
        while True:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            for node in self.nodes:
                if node not in self.judge.lost_nodes:
                    spec = {"holderIdentity": node, "leaseDurationSeconds": 120, "renewTime": now}
                    lease = {"metadata": {"name": node}, "spec": spec}
                    await patiently(lambda lease=lease: self.api.post(_LEASES, lease))
                    await patiently(
                        lambda node=node, spec=spec: self.api.patch(f"{_LEASES}/{node}", {"spec": spec}),
                    )
            await asyncio.sleep(_BEATS_EVERY_S)


def name_of(story: str, seed: int) -> str:
    """What a run, its namespace, its nodes and its scheduler are called."""
    return f"{story}-{seed}"


def kill_at(kind: str, phase: str, number: int, *, has_effect: bool, reached: asyncio.Event) -> Script:
    """The write of this kind, phase and number is never answered, with or without effect; none follows it."""
    count = 0
    begun = False

    def script(ask: Ask) -> Fault:
        nonlocal count, begun
        begun = begun or ask.kind == "record"
        if reached.is_set() and ask.kind in {"record", "evict", "make", "bind"}:
            return Fault(wait_s=3600.0, drop="before")
        if ask.kind != kind or ask.phase != phase or not begun:
            return NO_FAULT
        count += 1
        if count < number:
            return NO_FAULT
        reached.set()
        return Fault(answer_late_s=3600.0) if has_effect else Fault(wait_s=3600.0, drop="before")

    return script


@asynccontextmanager
async def scene(
    lab: Lab, nursery: Nursery, name: str, *, kind: Kind = Kind.BARE, **settings: float
) -> AsyncIterator[Scene]:
    """A run of its own; `settings` are of its moves."""
    scheduler = OTHER_SCHEDULER if kind is Kind.BESIDE else name
    tls = ssl.create_default_context(cafile=str(lab.ca))
    tls.load_cert_chain(lab.client_certificate, lab.client_key)
    shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - what is brought to disk costs no time there
    with tempfile.TemporaryDirectory(prefix="moves-", dir=shared) as made:
        folder = Path(made)
        volume = SharedVolume(folder / "volume")
        volume.folder("default")
        options = {
            "scheduler_name": scheduler,
            "beside": kind is Kind.BESIDE,
            "lease": {"namespace": name, "name": "lead", **LEASE},
            "progress_dir": str(volume.root),
            "look_s": LOOK_S,
            "moves": {**MOVES, **settings},
            "told": str(folder / "told.json"),
        }
        async with Client(find_connection(lab.kubeconfig)) as api:
            await api.post(_NAMESPACES, {"metadata": {"name": name}})
            habits: dict[str, Habits] = {}
            kubelets = Kubelets(
                api, volume, now_s=time.time, job_of=job_of, habits=habits, labelSelector=f"{RUN_LABEL}={name}"
            )
            judge = Judge(api, name, kubelets.history)
            movers = Movers(nursery, lab.url, tls, folder, options)
            on = Scene(
                api,
                name,
                random.Random(name),  # noqa: S311 - no secret
                volume,
                kubelets,
                judge,
                movers,
                folder,
                habits,
                scheduler,
            )
            beats = asyncio.create_task(on.beat())
            try:
                async with judge.watching(), kubelets:
                    try:
                        yield on
                    except BaseException as error:
                        error.add_note("\n".join(f"--- {at}\n{one.log[-3000:]}" for at, one in enumerate(movers.all)))
                        raise
                    finally:
                        await movers.end()
            finally:
                beats.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await beats
                await on.remove()


async def started(on: Scene, script: Script = lambda _: NO_FAULT) -> Mover:
    """A process that leads."""
    mover = await on.movers.start(script)
    await on.until(lambda: mover.leads, "it leads")
    return mover
