"""The pods of a job: made as one gang, looked after, and made anew where they were lost or cannot be resized."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from datetime import datetime

from foresail.controllers.supersteps.planner import ShareGrid
from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError, Conflict, Forbidden, NotFound
from foresail.kube.api.kinds import POD
from foresail.kube.api.retries import may_pass
from foresail.kube.objects.values import Object
from foresail.live.supersteps.job import GangJob, JobFailedError
from foresail.live.supersteps.objects import (
    RUN,
    by_task,
    cpu_milli_of,
    labelled,
    lease_rights,
    task_pod,
    why_not_running,
)
from foresail.live.supersteps.settings import GangSettings
from foresail.logs import get_logger

_LOOK_S = 0.2
_STUCK_S = 30.0
"""A pod that is still there so long after it was to go is on a node that does not answer: it is given up."""


class GangPods:
    """One pod a task. Nothing is taken for granted between two looks: others may delete pods, too."""

    def __init__(self, api: Client, job: GangJob, board: str, settings: GangSettings) -> None:
        self._api, self._job, self._board, self._settings = api, job, board, settings
        self._pods = POD.within(settings.namespace)
        self.sizes: dict[str, int] = {}
        """What each task has, or is to have once its pod is there, in milli-CPU."""
        self.uids: dict[str, str] = {}
        """The pod of each task, as of the last look."""
        self.lost: dict[str, int] = {}
        """How often a task's pod was lost since `forgive`."""
        self.why: dict[str, str] = {}
        """Why tasks do not work, by the last look."""

    async def prepare(self) -> None:
        """Give tasks the rights that they need; what is there stays."""
        if self._board.startswith("lease://"):
            for path, body in lease_rights(self._settings.namespace):
                # Who may not give rights was given what tasks need beforehand; if not, their pods say so.
                with contextlib.suppress(Forbidden):
                    await self._made(path, body)

    async def found(self) -> dict[str, Object]:
        """The pods of this job that are there, by task; JobFailedError if they are another's of the same name."""
        items, _ = await self._api.list(self._pods, labelSelector=labelled(self._job.name))
        there = by_task(items)
        for pod in there.values():
            run = (pod["metadata"].get("annotations") or {}).get(RUN)
            if run != self._job.run:
                raise JobFailedError(
                    f"job {self._job.name} is in namespace {self._settings.namespace} already, with another "
                    "experiment; give this one another name, or remove that one with --delete"
                )
        return there

    async def look_after(self) -> bool:
        """Make the pods that are missing, and take away those that have ended; whether all work now."""
        try:
            there = await self.found()
            working = True
            for task in self._job.names:
                pod = there.get(task)
                works = pod is not None and _works(pod)
                working &= works
                self.why[task] = "has no pod" if pod is None else why_not_running(pod)
                if pod is not None and works:
                    self.uids[task], self.sizes[task] = pod["metadata"]["uid"], cpu_milli_of(pod)
                else:
                    await self._replace(task, pod)
        except ClusterError as error:
            if not may_pass(error):
                raise JobFailedError(f"the pods of {self._job.name} cannot be looked after: {error}") from error
            get_logger().warning("pods_not_looked_after", job=self._job.name, error=str(error))
            return False
        return working

    async def until_working(self, within_s: float) -> None:
        """Until all tasks have a pod that runs; JobFailedError with reasons if that takes too long."""
        until_s = time.monotonic() + within_s
        while not await self.look_after():
            if time.monotonic() > until_s:
                said = "; ".join(f"{task}: {why}" for task, why in self.why.items() if why)
                raise JobFailedError(f"not all pods of {self._job.name} run after {within_s:g} s: {said}")
            await asyncio.sleep(_LOOK_S)

    async def size_lost(self, wanted: Mapping[str, int], grid: ShareGrid, lost: list[str]) -> None:
        """Tasks that lost their pods while others were resized go to `lost`; they are to have what was wanted for them,
        as far as the others have left it.
        """
        there = await self.found()
        lost[:] = [
            task
            for task in self._job.names
            if task not in there or there[task]["metadata"]["uid"] != self.uids.get(task) or not _works(there[task])
        ]
        has = {task: cpu_milli_of(pod) for task, pod in there.items() if task not in lost}
        for number, task in enumerate(lost, 1):
            others_milli = sum(has.values()) + grid.least_milli * (len(lost) - number)
            has[task] = self.sizes[task] = max(grid.least_milli, min(wanted[task], grid.total_milli - others_milli))

    async def recreate(self, sizes: Mapping[str, int], within_s: float) -> None:
        """Give tasks other sizes by new pods; the board knows how far each has come."""
        there = await self.found()
        for task, milli in sizes.items():
            self.sizes[task] = milli
            pod = there.get(task)
            if pod is not None and cpu_milli_of(pod) != milli:
                await self._delete(pod)
        # Room comes before pods: none is made while one that is to go is still there.
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            with contextlib.suppress(ClusterError):
                there = await self.found()
                if all(cpu_milli_of(pod) == sizes.get(task) for task, pod in there.items()):
                    break
            await asyncio.sleep(_LOOK_S)
        await self.until_working(within_s)

    def forgive(self) -> None:
        """A superstep is done: what was lost before counts no more."""
        self.lost.clear()

    async def remove(self, *, grace_s: int | None = None) -> None:
        """Delete all pods of the job, whoever's run they are of."""
        items, _ = await self._api.list(self._pods, labelSelector=labelled(self._job.name))
        for pod in items:
            await self._delete(pod, grace_s=grace_s)

    async def _replace(self, task: str, pod: Object | None) -> None:
        """A task has no pod that works: see to it that it gets one."""
        if pod is None:
            size = self.sizes.get(task)
            if size is None:
                raise JobFailedError(f"nobody knows how much CPU task {task} is to have")
            made = next(one for one in self._job.tasks if one.name == task)
            members = len(self._job.tasks)
            body = task_pod(self._job.name, self._job.run, made, size, members, self._board, self._settings)
            await self._made(self._pods, body)
            return
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            gone_s = datetime.fromisoformat(metadata["deletionTimestamp"]).timestamp()
            if time.time() - gone_s > _STUCK_S:
                await self._delete(pod, grace_s=0)
        elif pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            self.lost[task] = self.lost.get(task, 0) + 1
            why = why_not_running(pod)
            get_logger().warning("task_lost", job=self._job.name, task=task, why=why, times=self.lost[task])
            if self.lost[task] >= self._settings.attempts:
                raise JobFailedError(f"task {task} was lost {self.lost[task]} times in one superstep; last it {why}")
            await self._delete(pod, grace_s=0)

    async def _delete(self, pod: Object, *, grace_s: int | None = None) -> None:
        about: Object = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        if grace_s is not None:
            about["gracePeriodSeconds"] = grace_s
        name = pod["metadata"]["name"]
        with contextlib.suppress(NotFound, Conflict):
            await self._api.delete(POD.named(name, self._settings.namespace), about)

    async def _made(self, path: str, body: Object) -> None:
        with contextlib.suppress(Conflict):
            await self._api.post(path, body)


def _works(pod: Object) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod.get("status", {}).get("phase") == "Running"
