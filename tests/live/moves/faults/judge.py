"""The judge of moves: what the API server and the trainers' own diaries say, held against what is promised.

It knows of moves what a user can see: pods, and ConfigMaps `foresail-move-UID` that say the phase.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.live.faults.world import RUN_LABEL, Object
from tests.live.moves.faults.work import Kind, Work, job_of
from tests.live.moves.players import History, Stay

from foresail.kube.api.client import Client
from foresail.kube.api.watch import Watch

_PODS = "/api/v1/pods"
_RECORD = "foresail-move-"
_SLACK_S = 2.0
"""What the player of a busy machine's kubelets may be late."""


@dataclass
class SeenPod:
    """A pod from its first version to its last."""

    pod: Object
    leaves_at: int = 0
    """The version at which it was to be deleted."""
    leaves_s: float = 0.0
    had_ended: bool = False
    """Whether it had ended before."""
    gone: bool = False

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName", ""))

    @property
    def was_evicted(self) -> bool:
        conditions = self.pod.get("status", {}).get("conditions") or ()
        return bool(self.leaves_at) and any(one.get("reason") == "EvictionByEvictionAPI" for one in conditions)

    @property
    def ended(self) -> bool:
        return self.gone or self.pod.get("status", {}).get("phase") in {"Failed", "Succeeded"}


@dataclass
class SeenRecord:
    """A move as it was written down."""

    phases: list[tuple[int, str]] = field(default_factory=list)
    """Version and phase."""
    over_s: float = 0.0

    @property
    def was_undone(self) -> bool:
        return self.phases[-1][1] == "undo"


@dataclass
class Moved:
    """One job that goes on in another pod, as its trainers saw it."""

    steps_lost: int
    overlap_s: float
    beyond_checkpoint: int
    """Steps that were lost although they were on disk."""


class Judge:
    """Watches one run from its beginning."""

    def __init__(self, api: Client, run: str, history: History) -> None:
        self.offers_milli: dict[str, int] = {}
        self.works: list[Work] = []
        self.sent: dict[str, set[str]] = {}
        """Job to the nodes that it was ever to go to."""
        self.excused: set[str] = set()
        """Uids of pods that the story itself made to go."""
        self.lost_nodes: set[str] = set()
        self.must_stay: set[str] = set()
        """Jobs that nobody may evict."""
        self.cannot_confirm: set[str] = set()
        """Jobs that do not answer when they are asked for a checkpoint, and may be evicted all the same."""
        self.may_stay_unfinished = False
        """Whether a move may be given up after its pod has gone."""
        self.pods: dict[str, SeenPod] = {}
        self.records: dict[str, SeenRecord] = {}
        """The last move of each pod, by its uid."""
        self._earlier: list[SeenRecord] = []
        self.broken: list[str] = []
        self._history = history
        self._watches = [
            Watch(api, _PODS, _Told(self._pod, self._pods_listed), labelSelector=f"{RUN_LABEL}={run}"),
            Watch(
                api,
                f"/api/v1/namespaces/{run}/configmaps",
                _Told(self._record, lambda _: None),
                labelSelector="foresail.dev/record=move",
            ),
        ]

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Judge]:
        tasks = [asyncio.create_task(watch.run()) for watch in self._watches]
        try:
            for watch in self._watches:
                await watch.ready()
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- what the API server tells ---------------------------------------------------------------------------------

    def _pods_listed(self, items: list[Object]) -> None:
        there = {item["metadata"]["uid"] for item in items}
        for uid, seen in self.pods.items():
            seen.gone = seen.gone or uid not in there

    def _pod(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        seen = self.pods.setdefault(uid, SeenPod(pod))
        before, seen.pod = seen.node, pod
        if before and seen.node != before:
            self.broken.append(f"{seen.name} was on {before} and is now on {seen.node or 'no node'}")
        if "deletionTimestamp" in pod["metadata"] and not seen.leaves_at:
            seen.had_ended = seen.ended
            seen.leaves_at, seen.leaves_s = int(pod["metadata"]["resourceVersion"]), time.time()
        if kind == "DELETED":
            seen.gone = True
        if seen.node and not before:
            self._judge_room(seen.node)
        if pod["spec"].get("schedulingGates"):
            self.broken.append(f"{seen.name} has a scheduling gate")

    def _judge_room(self, node: str) -> None:
        held = sum(cpu_milli(seen.pod) for seen in self.pods.values() if seen.node == node and not seen.ended)
        if held > self.offers_milli.get(node, 0):
            self.broken.append(f"{node} is over capacity: {held} of {self.offers_milli.get(node, 0)} milli-CPU")

    def _record(self, kind: str, value: Object) -> None:
        uid = value["metadata"]["name"].removeprefix(_RECORD)
        seen = self.records.setdefault(uid, SeenRecord())
        if seen.over_s:
            self._earlier.append(seen)
            seen = self.records[uid] = SeenRecord()
        if kind == "DELETED":
            seen.over_s = time.time()
        else:
            seen.phases.append((int(value["metadata"]["resourceVersion"]), value["data"]["phase"]))

    # --- at the end ------------------------------------------------------------------------------------------------

    def unsettled(self, jobs: set[str]) -> list[str]:
        """What is not at its end yet; `jobs` are those that are to train or to have finished."""
        found = [f"the move of {uid} is not over" for uid, seen in self.records.items() if not seen.over_s]
        for seen in self.pods.values():
            if not seen.gone and seen.leaves_at and seen.node not in self.lost_nodes:
                found.append(f"{seen.name} is still being deleted")
            if not seen.ended and not seen.node:
                found.append(f"{seen.name} waits")
        for job in jobs:
            stays = self._history.of(job)
            now = [stay for stay in stays if stay.ended_s is None]
            if len(now) != 1 and not any(stay.exit_code == 0 for stay in stays):
                found.append(f"{job} trains in {len(now)} pods")
        return found

    def verdict(self) -> list[str]:
        """All that was not as promised."""
        found = list(self.broken)
        for work in self.works:
            for job in work.jobs:
                found += self._of_job(job, work)
        for uid, seen in self.pods.items():
            job = job_of(seen.pod)
            if seen.was_evicted:
                found += self._of_leaving(uid, seen, job, "evict")
            elif seen.leaves_at and not self._may_have_gone(uid, seen):
                if job not in self._surged:
                    found.append(f"{seen.name} was deleted, and by nobody who may")
                elif not self.undone:
                    found += self._of_leaving(uid, seen, job, "shrink")
        return found

    def _may_have_gone(self, uid: str, seen: SeenPod) -> bool:
        return uid in self.excused or seen.node in self.lost_nodes or seen.had_ended

    @property
    def _surged(self) -> set[str]:
        return {work.job for work in self.works if work.kind is Kind.SURGED}

    def _of_job(self, job: str, work: Work) -> list[str]:
        found = []
        stays = self._history.of(job)
        most_s = work.grace_s + _SLACK_S if work.kind in {Kind.DEPLOYMENT, Kind.SURGED} else 0.0
        for before, after in pairwise(stays):
            moved = between(before, after)
            together_s = moved.overlap_s
            if work.kind is Kind.SURGED and before.uid in self.pods:
                # Until it is told to go; that it is, is seen from one of them being left at the end.
                told_s = self.pods[before.uid].leaves_s
                together_s = (before.ended_s or time.time()) - told_s if told_s else 0.0
            if together_s > most_s:
                found.append(f"{job} trained twice at once for {together_s:.2f} s")
            if moved.beyond_checkpoint:
                found.append(f"{job} lost {moved.beyond_checkpoint} steps that were on disk")
            late = [one.step for one in before.saved if one.at_s > after.begun_s]
            if late:
                found.append(f"{job}: the old pod wrote checkpoints {late} behind its successor's back")
        return found

    def _of_leaving(self, uid: str, seen: SeenPod, job: str, phase: str) -> list[str]:
        found = []
        record = self.records.get(uid)
        written = [] if record is None else [phase for version, phase in record.phases if version < seen.leaves_at]
        if not written or written[-1] != phase:
            found.append(f"{seen.name} had to go when this was written down: {written}")
        if job in self.must_stay:
            found.append(f"{seen.name} was evicted, and had to stay")
        if seen.node in self.sent.get(job, ()) and not self.sent[job] - {seen.node}:
            found.append(f"{seen.name} was evicted from {seen.node}, where it had been sent")
        stay = next((one for one in self._history.stays if one.uid == uid), None)
        answered = stay is not None and any(one.request == uid and one.at_s <= seen.leaves_s for one in stay.saved)
        if not answered and job not in self.cannot_confirm:
            found.append(f"{seen.name} was evicted without a checkpoint that it had confirmed")
        if record is not None and record.over_s and not self.may_stay_unfinished:
            after = [one for one in self._history.of(job) if one.uid != uid and one.begun_s <= record.over_s]
            later = [one for one in after if stay is None or one.begun_s >= stay.begun_s]
            done = any(one.exit_code == 0 for one in self._history.of(job))
            if not later and not done:
                found.append(f"the move of {seen.name} was called done before its successor trained")
        return found

    def moves(self) -> list[Moved]:
        """Every time a job went on in another pod."""
        stays = [self._history.of(job) for work in self.works for job in work.jobs]
        return [between(before, after) for own in stays for before, after in pairwise(own)]

    @property
    def finished(self) -> int:
        """Moves that were brought to their end."""
        return sum(bool(seen.over_s) and not seen.was_undone for seen in self._all_records())

    @property
    def undone(self) -> int:
        return sum(bool(seen.over_s) and seen.was_undone for seen in self._all_records())

    def _all_records(self) -> list[SeenRecord]:
        return [*self._earlier, *self.records.values()]

    def free_milli(self) -> dict[str, int]:
        held: Counter[str] = Counter()
        for seen in self.pods.values():
            if seen.node and not seen.ended:
                held[seen.node] += cpu_milli(seen.pod)
        there = {node: milli for node, milli in self.offers_milli.items() if node not in self.lost_nodes}
        return {node: milli - held[node] for node, milli in there.items()}


class _Told:
    """What a watch is to be given."""

    def __init__(self, apply: Any, listed: Any) -> None:
        self.apply = apply
        self._listed = listed

    def replace(self, items: list[Object]) -> None:
        self._listed(items)
        for item in items:
            self.apply("MODIFIED", item)


def between(before: Stay, after: Stay) -> Moved:
    on_disk = max((one.step for one in before.saved if one.at_s <= after.begun_s), default=before.on_disk)
    ended_s = time.time() if before.ended_s is None else before.ended_s
    return Moved(
        steps_lost=max(0, before.last_step - after.first_step),
        overlap_s=max(0.0, ended_s - after.begun_s),
        beyond_checkpoint=max(0, on_disk - after.first_step),
    )


def cpu_milli(pod: Object) -> int:
    said = [str(one["resources"]["requests"]["cpu"]) for one in pod["spec"]["containers"]]
    return sum(int(one[:-1]) if one.endswith("m") else 1000 * int(one) for one in said)
