"""The program that runs a bulk-synchronous job: pods, supersteps on a board, and a split that the controller changes.

What must survive stands elsewhere: the step and its results on the board, sizes on the pods, resizes under way in their
records. So whoever is started again under the same name goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from foresail.controllers.supersteps.controller import Supersteps
from foresail.core.clock import WallClock
from foresail.core.control_loop import checked
from foresail.core.journal import Journal
from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError
from foresail.kube.api.kinds import KINDS, NODE, POD
from foresail.kube.api.lease import LeaderSettings
from foresail.live.cache.cache import Cache
from foresail.live.control.steering import LiveSteering
from foresail.live.events import Events
from foresail.live.moves.rooms import LookedAtRooms
from foresail.live.program import Announce, Part, Program
from foresail.live.reports import EventReport, logged
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.resizes.tools import Outcome, ResizeEnd
from foresail.live.supersteps.job import ChangedSize, GangJob, JobFailedError, RowFile, SuperstepRow, last_sizes
from foresail.live.supersteps.pods import GangPods
from foresail.live.supersteps.readings import GangReadings
from foresail.live.supersteps.settings import GangSettings
from foresail.policies.kubernetes import FILTERS
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.profiles.load import load_profile
from foresail.workloads.supersteps.board import BarrierTimeoutError, BoardError, BoardTimeoutError, CoordinatorBoard
from foresail.workloads.supersteps.records import StepResult

NAME = "supersteps"
DONE = "done"
"""The reason with which a job ends that went well."""
_TURN_S = 0.05
_SLICE_S = 1.0
"""Nobody waits longer than this without looking after the pods."""
_CALL_S = 5.0
_FINISH_S = 20.0
_EVENTS_S = 3.0
_WITHOUT = frozenset(kind.kind for kind in KINDS.values()) - {NODE.kind, POD.kind}
_NOT_HAD = frozenset({Outcome.REFUSED, Outcome.INFEASIBLE, Outcome.GONE})
"""Ends of a resize that asking again will not change; for a pod that is still there `gone` is the word of a server that
knows no resizes.
"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of the split before a superstep."""

    changed: bool = False
    took_s: float = 0.0
    recreated: bool = False
    resizes: tuple[ChangedSize, ...] = ()
    penalty_s: float | None = None


class SuperstepsProgram(Program):
    """Runs one job to its end. `failure` says why it did not come to one, `rows` what became of its supersteps."""

    def __init__(
        self,
        job: GangJob,
        settings: GangSettings,
        api: Client,
        board: CoordinatorBoard,
        address: str,
        *,
        rows: RowFile,
        announce: Announce,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """`board` is where `address` leads from here; tasks are told the address."""
        self.job, self.settings = job, settings
        self.failure = ""
        self.finished = False
        """Whether the job has come to its end, be it this or a bad one."""
        self._api, self._board, self._rows = api, board, rows
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._clock = WallClock()
        self._events = Events(api)
        cache = Cache(scheduler_name=None, devices=LeastSufficient())
        self.journal = Journal(self._clock, EventReport(cache, self._events), logged())
        self._readings = GangReadings(len(job.works))
        self.controller = Supersteps.of({job.name: job.splitter}, namespace=settings.namespace, every_s=_TURN_S)
        self._pods = GangPods(api, job, address, settings)
        self._ends: list[ResizeEnd] = []
        self._in_place = True
        """Whether resizes are asked for; not any more once the API server has refused one."""
        self._took_s: list[float] = [row.changing_s for row in rows.rows() if row.changing_s > 0]
        self.steering = LiveSteering(
            {NAME: self.controller},
            api,
            cache,
            self._clock,
            self.journal,
            scheduler_name=settings.scheduler,
            rooms=LookedAtRooms(cache.table, load_profile("kubernetes", filters=FILTERS)),
            records_namespace=settings.namespace,
            records_of=f"bsp-{job.name}",
            telemetry=self._readings,
            resizes=ResizeSettings(within_s=settings.resize_within_s, least_change=0.0, rest_s=0.0),
            resize_ended=self._ends.append,
        )
        self.steering.act_if(self.may_act)
        self._leading = asyncio.Event()
        lease = LeaderSettings(
            namespace=settings.namespace, name=f"{job.name}-coordinator", lease_s=10, renew_s=7.0, retry_s=1.0
        )
        super().__init__(api, cache, announce=announce, lease=lease, without=_WITHOUT)

    def parts(self) -> Sequence[Part]:
        return [Part("job", self._run_job), Part("events", self._events.run)]

    def known(self) -> None:
        self.announce(f"{self.cache.table.count} nodes, {len(self.cache.pods)} pods")

    async def take_over(self) -> None:
        await self.steering.take_over()

    def lead(self, *, leads: bool) -> None:
        self.steering.lead(leads=leads)
        if leads:
            self._leading.set()
        else:
            self._leading.clear()

    async def finish(self) -> None:
        await self.steering.finish(_FINISH_S)

    async def flush(self) -> None:
        await self._events.drain(_EVENTS_S)

    # --- the job ---------------------------------------------------------------------------------------------------

    async def _run_job(self) -> None:
        try:
            await self._supersteps()
        except JobFailedError as error:
            self.failure = str(error)
        except (BoardError, ClusterError) as error:
            self.failure = f"{type(error).__name__}: {error}"
        await self._end(self.failure or DONE)
        self.finished = True
        self.stop()

    async def _supersteps(self) -> None:
        await self._leading.wait()
        standing = await self._asked(self._board.standing)
        length = len(self.job.works)
        if standing is not None and standing.finished is not None:
            self.failure = "" if standing.finished == DONE else standing.finished
            return
        if standing is None:
            self._rows.forget()
        step = 0 if standing is None else standing.step
        known = max((row.step + 1 for row in self._rows.rows()), default=0)
        self._size_up(step)
        await self._retried(self._pods.prepare)
        await self._pods.until_working(self.settings.start_within_s)
        self.announce(f"{len(self.job.tasks)} tasks of {self.job.name} run; superstep {step} of {length} comes next")
        change = Changed() if standing is not None else await self._change(0)
        while step < length:
            if standing is None or standing.step < step:
                standing = await self._asked(partial(self._board.open, step, self.job.works_of(step)))
            self._readings.working()
            results = await self._results(step)
            if step >= known:  # a coordinator before us that has written the row knew more of it
                self._rows.add(self._row(step, change, results, standing.opened_s))
            self._pods.forgive()
            step += 1
            self._on_progress(step, length)
            change = await self._change(step) if step < length else Changed()

    def _size_up(self, step: int) -> None:
        """What tasks are to have whose pods are not there: what they had last, else equal parts."""
        grid, names = self.job.splitter.grid, self.job.names
        even = dict(zip(names, grid.milli(grid.even()), strict=True))
        self._pods.sizes.update(even | dict(last_sizes(self._rows.rows(), names) if step else {}))

    async def _results(self, step: int) -> dict[str, StepResult]:
        """What all tasks report of a superstep, however often their pods are lost; in time, or the job fails."""
        until_s = time.monotonic() + self.settings.superstep_within_s
        while True:
            await self._leading.wait()
            try:
                return await asyncio.to_thread(self._board.wait_for_all, step, self.job.names, _SLICE_S)
            except BarrierTimeoutError as error:
                if time.monotonic() > until_s:
                    raise JobFailedError(
                        f"superstep {step} was not done within {self.settings.superstep_within_s:g} s: "
                        f"{self._why(error.missing)}; {error}"
                    ) from error
            await self._pods.look_after()

    def _why(self, tasks: Sequence[str]) -> str:
        return ", ".join(f"{task} {self._pods.why.get(task) or 'is still at work'}" for task in tasks)

    def _row(self, step: int, change: Changed, results: Mapping[str, StepResult], opened_s: float) -> SuperstepRow:
        ended_s = max(result.ended_s for result in results.values())
        slowest_s = max(result.seconds for result in results.values())
        return SuperstepRow(
            step=step,
            workload=self.job.works_of(step),
            cpu_milli=dict(self._pods.sizes),
            seconds={task: results[task].seconds for task in self.job.names},
            attempt={task: results[task].attempt for task in self.job.names},
            superstep_s=max(slowest_s, ended_s - opened_s),
            changed=change.changed and step > 0,
            changing_s=change.took_s,
            recreated=change.recreated,
            resizes=change.resizes,
            penalty_s=change.penalty_s,
        )

    # --- the split -------------------------------------------------------------------------------------------------

    async def _change(self, step: int) -> Changed:
        """Let the controller decide about a superstep, and wait until its word is done or undone."""
        splitter = self.job.splitter
        await self._settled()  # what a coordinator before us had begun is completed or rolled back first
        await self._pods.until_working(self.settings.start_within_s)
        while splitter.told < step - 1:
            splitter.observe(self.job.works[splitter.told])
        penalty_s = splitter.penalty_s
        decided_s = await self._decided(step)
        decision = self.controller.decided(self.job.name, self.settings.namespace)
        if decision is None or decision.split is None:
            return Changed(penalty_s=penalty_s)
        wanted = dict(zip(self.job.names, splitter.grid.milli(decision.split), strict=True))
        if wanted == self._pods.sizes:
            return Changed(penalty_s=penalty_s)
        await self._settled()
        recreated = False
        if await self._is_refused(wanted):
            # An API server that was away for a while refuses nothing: it is asked once more when it is back.
            await self._ask_again(wanted)
            if await self._is_refused(wanted):
                if self._in_place:
                    said = _outcomes(self._ends)
                    self.announce(f"superstep {step}: pods cannot be resized ({said}), so they are made anew")
                await self._retried(partial(self._pods.recreate, wanted, self.settings.start_within_s))
                recreated = True
                self._in_place &= not any(end.outcome is Outcome.REFUSED for end in self._ends)
        ends = list(self._ends)
        took_s = self._clock.now() - decided_s
        if recreated or any(end.outcome in {Outcome.DONE, Outcome.ALLOCATED} for end in ends):
            self._took_s.append(took_s)
        if self.job.measures_penalty and self._took_s:
            splitter.penalty_s = sum(self._took_s) / len(self._took_s)
        resizes = tuple(
            ChangedSize(outcome=str(end.outcome), took_s=end.took_s, allocated_s=end.allocated_s) for end in ends
        )
        return Changed(changed=True, took_s=took_s, recreated=recreated, resizes=resizes, penalty_s=penalty_s)

    async def _is_refused(self, wanted: Mapping[str, int]) -> bool:
        """Whether tasks have not what they are to have though all have their pods, and asking for it does not help.

        A task that has lost its pod meanwhile gets a new one with what is left for it, and the others stay as they are.
        """
        lost: list[str] = []
        await self._retried(partial(self._pods.size_lost, wanted, self.job.splitter.grid, lost))
        await self._pods.until_working(self.settings.start_within_s)
        is_had = all(end.outcome not in _NOT_HAD for end in self._ends) and bool(self._ends)
        return wanted != self._pods.sizes and not is_had and not lost

    async def _ask_again(self, wanted: Mapping[str, int]) -> None:
        """Ask once more for what tasks have not."""
        if not self._in_place:
            return
        self._ends.clear()
        asked = [(task, self.cache.pods.get(self._pods.uids[task])) for task in self.job.names]
        for task, pod in sorted(asked, key=lambda one: wanted[one[0]] - self._pods.sizes[one[0]]):
            if pod is not None and wanted[task] != self._pods.sizes[task]:
                self.steering.resizes.ask(pod, wanted[task], wanted[task], NAME)
        self.steering.resizes.start()
        await self._settled()

    async def _decided(self, step: int) -> float:
        """Give the controller turns until it has decided about a superstep; when that was, on the clock."""
        until_s = time.monotonic() + self.settings.start_within_s
        while True:
            await self._leading.wait()
            last = self.job.works[step - 1] if step else [0.0] * len(self.job.tasks)
            uids = (self._pods.uids[task] for task in self.job.names)
            self._readings.between(step, dict(zip(uids, map(float, last), strict=True)))
            self._ends.clear()
            if self._in_place:
                self.steering.run_due()
            else:
                view = self.steering.view()
                checked(NAME, self.controller.act(view), view)  # its word is carried out by new pods
            decision = self.controller.decided(self.job.name, self.settings.namespace)
            if decision is not None and decision.step == step:
                return self._clock.now()
            if time.monotonic() > until_s:
                why = self.steering.problem or self._why(self.job.names)
                raise JobFailedError(f"the split of superstep {step} could not be decided: {why}")
            await asyncio.sleep(_TURN_S)
            await self._pods.look_after()

    async def _settled(self) -> None:
        """Until no resize is under way."""
        while self.steering.resizes.tasks:
            await asyncio.wait(list(self.steering.resizes.tasks.values()), timeout=_SLICE_S)

    # --- the end, and servers that are away ------------------------------------------------------------------------

    async def _end(self, reason: str) -> None:
        """Tell tasks that it is over, and leave nothing behind; what cannot be removed is told."""
        try:
            await self._asked(partial(self._board.finish, reason), within_s=_CALL_S * 2)
            until_s = time.monotonic() + _CALL_S
            while time.monotonic() < until_s and not self.failure:
                there = await self._pods.found()
                if all(pod.get("status", {}).get("phase") in {"Succeeded", "Failed"} for pod in there.values()):
                    break
                await asyncio.sleep(_SLICE_S / 5)
            await self._pods.remove(grace_s=1)
            await self._asked(self._board.remove, within_s=_CALL_S * 2)
        except (BoardError, ClusterError, JobFailedError) as error:
            self.announce(f"not all of {self.job.name} could be removed: {error}")

    async def _asked(self, call: Callable[..., T], within_s: float | None = None) -> T:
        """The board's answer; asked again while its server is away."""
        until_s = time.monotonic() + (within_s or self.settings.superstep_within_s)
        while True:
            try:
                return await asyncio.to_thread(call, timeout_s=_CALL_S)
            except BoardTimeoutError:
                if time.monotonic() > until_s:
                    raise

    async def _retried(self, call: Callable[[], Awaitable[None]]) -> None:
        """Requests to the API server that are made again while it is away."""
        until_s = time.monotonic() + self.settings.start_within_s
        while True:
            try:
                await call()
            except ClusterError as error:
                if time.monotonic() > until_s:
                    raise JobFailedError(f"the API server did not do what {self.job.name} needs: {error}") from error
                await asyncio.sleep(_SLICE_S)
            else:
                return


def _outcomes(ends: Sequence[ResizeEnd]) -> str:
    return ", ".join(sorted({str(end.outcome) for end in ends})) or "nothing could be asked for"
