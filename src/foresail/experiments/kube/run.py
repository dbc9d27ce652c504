"""One run on a real cluster: a namespace of its own, our scheduler in it, and the trace's pods in their time."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foresail.controllers import load_controllers
from foresail.core.clock import WallClock
from foresail.core.lifecycle import State
from foresail.core.spec import Workload
from foresail.errors import ResultsError
from foresail.experiments.kube.diary import RunDiary, names_of
from foresail.experiments.kube.objects import DEPLOYED, TRACE_POD, SubmittedObject, Submitting, submissions
from foresail.experiments.kube.reported import report_columns, rows_below, steps_lost
from foresail.experiments.kube.resizes import ResizeWatch, resize_columns
from foresail.experiments.request import RunRequest
from foresail.kube.api.client import Client, Object
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ApiError, ClusterError, NotFound
from foresail.kube.api.watch import Watch
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings, end
from foresail.results.result import RunResult
from foresail.traces.trace import Trace

EXPERIMENT = "foresail.dev/experiment"
"""Label of a run's namespace."""
_LOOK_EVERY_S = 0.5
_BEGIN_WITHIN_S = 60.0
_CLEAN_WITHIN_S = 120.0
_CONFLICT = 409


@dataclass(frozen=True, slots=True)
class KubeSettings:
    """How runs go on a cluster."""

    connection: Connection
    submitting: Submitting
    run: RunSettings
    """Of the scheduler; policy, controllers, seed and scheduler name are each run's own."""
    progress: Path | None = None
    """Folder in which trainers write how far they have come."""
    give_up_s: float = 3600.0
    """A run in which not all pods have ended after so long is over."""
    sample_every_s: float = 2.0
    keep: bool = False
    """Whether the namespace is left as it is when the run is over."""
    experiment: str = ""
    """Label of its namespace: whose run this is, for who comes after one that was killed."""


class KubeRun:
    """One run, from an empty namespace to the tables of what happened in it."""

    def __init__(self, request: RunRequest, trace: Trace, settings: KubeSettings) -> None:
        self._request, self._trace, self._settings = request, trace, settings
        run_id = secrets.token_hex(4)
        self._namespace = f"foresail-run-{run_id}"
        self._scheduler_name = f"foresail-{run_id}"
        self._clock = WallClock()
        self._program: SchedulerProgram | None = None
        self._diary: RunDiary | None = None
        self._begun_s = 0.0
        self._begun_unix_s = 0.0
        self._resizes = ResizeWatch(self._clock.now)
        workload = trace.workload
        self._deployed = {
            name
            for index, name in enumerate(workload.names)
            if workload.training_of[index] >= 0 and workload.spec(index).owner.partition("/")[0] in DEPLOYED
        }
        """Stories whose pods are made anew for ever: they are over when their trainer is done."""
        self._pod_of: dict[str, str] = {}
        """Story to the uid of the pod that it is now, while that has a node."""

    async def go(self, on_progress: Callable[[int, int], None] | None = None) -> RunResult:
        async with Client(self._settings.connection) as api:
            labels = {EXPERIMENT: self._settings.experiment} if self._settings.experiment else {}
            await api.post("/api/v1/namespaces", {"metadata": {"name": self._namespace, "labels": labels}})
            try:
                return await self._with_scheduler(api, on_progress)
            finally:
                if not self._settings.keep:
                    await _remove(api, self._namespace)

    async def _with_scheduler(self, api: Client, on_progress: Callable[[int, int], None] | None) -> RunResult:
        given, progress = self._settings.run, self._settings.progress
        dirs = () if progress is None else (f"{self._namespace}={progress}",)
        settings = replace(
            given,
            telemetry=replace(given.telemetry, progress_dirs=dirs),
            policy=self._request.policy,
            controllers=self._request.controllers,
            seed=self._request.seed,
            scheduler_name=self._scheduler_name,
            leader_elect=False,
            # Moves are written down there, and go with the namespace.
            lease=replace(given.lease, namespace=self._namespace),
            server=ServerSettings(port=0),
        )
        program = self._program = SchedulerProgram(settings, api, announce=lambda _said: None, clock=self._clock)
        program.live.core.profile.learn(self._trace.workload, program.cache.table.all)
        task = asyncio.create_task(program.run(), name="scheduler")
        watch = Watch(api, f"/api/v1/namespaces/{self._namespace}/pods", self._resizes)
        watching = asyncio.create_task(watch.run(), name="resizes")
        try:
            await self._begin(task)
            await self._watch(api, task, on_progress)
        finally:
            watching.cancel()
            program.stop()
            await end([task, watching])
        return self._result()

    async def _begin(self, task: asyncio.Task[None]) -> None:
        program, deadline_s = self._the_program, time.monotonic() + _BEGIN_WITHIN_S
        while not (program.is_known and program.live.leads):
            if task.done():
                task.result()
            if time.monotonic() > deadline_s:
                raise ResultsError(f"the scheduler did not know the cluster within {_BEGIN_WITHIN_S:g} s")
            await asyncio.sleep(0.05)
        self._begun_s, self._begun_unix_s = self._clock.now(), time.time()
        workload = self._trace.workload
        self._diary = RunDiary(workload, look_every_s=self._settings.sample_every_s, begun_s=self._begun_s)
        program.live.journal.listen(self._diary.note)
        program.live.journal.listen_to_candidates(self._diary.consider)

    # --- while it goes on ------------------------------------------------------------------------------------------

    async def _watch(
        self, api: Client, task: asyncio.Task[None], on_progress: Callable[[int, int], None] | None
    ) -> None:
        workload, settings = self._trace.workload, self._settings
        to_come = submissions(workload, settings.submitting, self._namespace, self._scheduler_name)
        scale = self._request.clock.arrival_scale
        waiting = sorted(to_come, key=lambda one: one.arrival_s)
        while True:
            now_s = self._now_s()
            while waiting and waiting[0].arrival_s * scale <= now_s:
                await self._submit(api, waiting.pop(0))
                now_s = self._now_s()
            await self._look(api)
            over = self._over()
            if on_progress is not None:
                on_progress(len(workload) - len(waiting) + over, 2 * len(workload))
            if over == len(workload):
                return
            if task.done():
                task.result()
                raise ResultsError("the scheduler ended before the run did")
            if now_s > settings.give_up_s:
                left = [name for name, story in self._the_diary.stories.items() if not _is_over(story.outcome)]
                raise ResultsError(
                    f"after {settings.give_up_s:g} s {len(workload) - over} of {len(workload)} pods had not ended "
                    f"({names_of(left) or 'not all were submitted'}); let it go on for longer with --give-up"
                )
            next_s = waiting[0].arrival_s * scale - self._now_s() if waiting else _LOOK_EVERY_S
            await asyncio.sleep(min(_LOOK_EVERY_S, max(0.0, next_s)))

    async def _submit(self, api: Client, one: SubmittedObject) -> None:
        try:
            await api.post(one.path, one.body)
        except ApiError as error:
            if error.status != _CONFLICT:  # a request whose answer was lost is sent again
                raise ResultsError(f"{one.name} was not taken by the API server: {error}") from error
        self._the_diary.submitted(one.name, self._now_s())

    async def _look(self, api: Client) -> None:
        """Ask the API server what has become of the pods, and look at the jobs."""
        try:
            pods, _ = await api.list(f"/api/v1/namespaces/{self._namespace}/pods")
            jobs, _ = await api.list(f"/apis/batch/v1/namespaces/{self._namespace}/jobs")
        except ClusterError:
            return  # asked again in a moment; nothing is lost by a late look
        now_s, seen = self._now_s(), self._the_diary
        by_story: dict[str, list[Object]] = {}
        for pod in pods:
            story = pod["metadata"].get("labels", {}).get(TRACE_POD, "")
            by_story.setdefault(story, []).append(pod)
            seen.met(f"{self._namespace}/{pod['metadata']['name']}", story)
        trained = {job["metadata"]["labels"][TRACE_POD]: job for job in jobs}
        for name, told in seen.stories.items():
            if not _is_over(told.outcome):
                self._follow(name, by_story.get(name, ()), now_s)
                own = by_story.get(name, ())
                if name in self._deployed:
                    done, why = any(map(_is_trained, own)), ""
                else:
                    done, why = _job_end(trained[name]) if name in trained else _pod_end(own)
                if done and await self._is_retired(api, name):
                    seen.ended(name, now_s, why)
        seen.look(self._the_program.live.steering.view())

    async def _is_retired(self, api: Client, name: str) -> bool:
        """Whether nobody starts a trainer again that is done; a Deployment would, until it is deleted."""
        if name in self._deployed:
            path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments"
            try:
                await api.delete(path, labelSelector=f"{TRACE_POD}={name}", propagationPolicy="Background")
            except ClusterError:
                return False  # asked again at the next look
        return True

    def _follow(self, name: str, pods: Iterable[Object], now_s: float) -> None:
        """Note that the pod of a story got a node, or that it is another one now."""
        placed = [pod for pod in pods if pod["spec"].get("nodeName") and not _is_leaving(pod)]
        uids = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in placed}
        known = self._pod_of.get(name)
        if known is not None and known not in uids:
            self._the_diary.left(name, now_s)
            del self._pod_of[name]
        if name not in self._pod_of and uids:
            uid, node = next(iter(uids.items()))
            self._pod_of[name] = uid
            self._the_diary.started(name, node, now_s)

    def _over(self) -> int:
        return sum(_is_over(story.outcome) for story in self._the_diary.stories.values())

    def _now_s(self) -> float:
        return self._clock.now() - self._begun_s

    # --- at the end ------------------------------------------------------------------------------------------------

    def _result(self) -> RunResult:
        program, seen, request = self._the_program, self._the_diary, self._request
        table = program.cache.table
        rows = rows_below(self._settings.progress)
        profile = program.live.core.profile
        return RunResult(
            protocol="clock",
            policy=profile.name,
            trace=self._trace.name,
            seed=request.seed,
            load=None,
            total_gpus=int(table.gpu_count.sum()),
            tables={
                **seen.tables(table, list(program.controllers.values())),
                "reports": report_columns(rows, self._begun_unix_s),
                "resizes": resize_columns(self._resizes.done, self._begun_s, seen.name_of),
            },
            summary={**seen.summary(end_s=self._now_s()), "steps_lost": steps_lost(rows)},
            profile=profile.description,
            controllers=tuple(load_controllers(request.controllers)),
        )

    @property
    def _the_program(self) -> SchedulerProgram:
        assert self._program is not None, "the run has begun"  # noqa: S101 - set before anything asks
        return self._program

    @property
    def _the_diary(self) -> RunDiary:
        assert self._diary is not None, "the run has begun"  # noqa: S101 - as above
        return self._diary


def _is_over(outcome: State) -> bool:
    return outcome in (State.FINISHED, State.FAILED)


def _is_leaving(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _pod_end(pods: Iterable[Object]) -> tuple[bool, str]:
    """Whether a pod that is nobody's has ended, and why it failed."""
    for pod in pods:
        status = pod.get("status", {})
        if status.get("phase") == "Succeeded":
            return True, ""
        if status.get("phase") == "Failed" and not _is_disrupted(status):
            return True, status.get("message") or status.get("reason") or "its containers failed"
    return False, ""


def _is_trained(pod: Object) -> bool:
    """Whether a trainer has been done in a pod that would start it again."""
    for one in pod.get("status", {}).get("containerStatuses") or ():
        for state in (one.get("state") or {}, one.get("lastState") or {}):
            if (state.get("terminated") or {}).get("exitCode") == 0:
                return True
    return False


def _is_disrupted(status: Object) -> bool:
    return any(one.get("type") == "DisruptionTarget" for one in status.get("conditions") or ())


def _job_end(job: Object) -> tuple[bool, str]:
    for one in job.get("status", {}).get("conditions") or ():
        if one.get("status") == "True" and one.get("type") in ("Complete", "SuccessCriteriaMet"):
            return True, ""
        if one.get("status") == "True" and one.get("type") == "Failed":
            return True, one.get("message") or one.get("reason") or "its Job failed"
    return False, ""


async def _remove(api: Client, namespace: str) -> None:
    """Delete the namespace with all in it, and wait until it is gone: the next run begins on an empty cluster."""
    path = f"/api/v1/namespaces/{namespace}"
    with contextlib.suppress(NotFound):
        await api.delete(path)
    until_s = time.monotonic() + _CLEAN_WITHIN_S
    while time.monotonic() < until_s:
        try:
            await api.get(path)
        except NotFound:
            return
        except ClusterError:
            pass
        await asyncio.sleep(_LOOK_EVERY_S)
    raise ResultsError(f"namespace {namespace} was not gone within {_CLEAN_WITHIN_S:g} s; delete what holds it")


def run_on_kube(
    request: RunRequest,
    trace: Trace,
    settings: KubeSettings,
    on_progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    """One run, for callers that wait."""
    _check(trace.workload)
    with asyncio.Runner() as runner:
        result = runner.run(_unless_told_to_end(KubeRun(request, trace, settings).go(on_progress)))
    if result is None:
        raise KeyboardInterrupt
    return result


async def _unless_told_to_end(run: Coroutine[Any, Any, RunResult]) -> RunResult | None:
    """What the run gives; None if a polite end (SIGTERM) came first, for which it cleans up as for an interrupt."""
    going = asyncio.ensure_future(run)
    told = asyncio.Event()

    def end_it() -> None:
        told.set()
        going.cancel()

    with contextlib.suppress(ValueError, RuntimeError):  # only the main thread hears signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end_it)
    try:
        return await going
    except asyncio.CancelledError:
        if told.is_set():
            return None
        raise


async def remove_left(connection: Connection, experiment: str) -> int:
    """Delete the namespaces of this experiment's runs that were killed; how many there were."""
    async with Client(connection) as api:
        left, _ = await api.list("/api/v1/namespaces", labelSelector=f"{EXPERIMENT}={experiment}")
        for one in left:
            await _remove(api, one["metadata"]["name"])
    return len(left)


def _check(workload: Workload) -> None:
    if (workload.priority != 0).any():
        raise ResultsError(
            "the trace has pods with priorities; on a cluster these come from PriorityClasses, which are not made for "
            "an experiment: leave the column out"
        )
