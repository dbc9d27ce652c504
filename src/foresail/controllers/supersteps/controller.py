"""The controller of bulk-synchronous jobs: when a superstep is done, it says how the CPU is split for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from foresail.controllers.supersteps.feeds import LastValueFeed
from foresail.controllers.supersteps.planner import Floats, ShareGrid, Units
from foresail.controllers.supersteps.splitter import JobSplitter, SplitDecision
from foresail.controllers.supersteps.strategies import planner_of
from foresail.core.control import (
    SUPERSTEPS_DONE,
    SUPERSTEPS_JOB,
    SUPERSTEPS_TASK,
    SUPERSTEPS_TOTAL,
    WORKLOAD,
    Action,
    Candidate,
    Resize,
    RunningPod,
    View,
)
from foresail.forecast.runtime.curves import RuntimeCurves
from foresail.forecast.runtime.monotone import MonotoneRuntime
from foresail.forecast.runtime.profile import RuntimeProfile, read_profile

JobKey = tuple[str, str]
"""A job: its namespace and its name."""
_ENDLESS = 1_000_000
_ONE_MILLI_S = 1000.0
"""Seconds that a unit of work takes with one milli-CPU, where no profile says."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job between two supersteps."""

    key: JobKey
    pods: list[RunningPod]
    """One a task, in the order of the tasks."""
    done: int
    left: int
    workloads: Floats | None
    """What the superstep that is done had to do; None before the first, and where nobody has told."""


class Supersteps:
    """Split the CPU of bulk-synchronous jobs among their tasks, ahead of what they will have to do.

    The tasks of a job are the pods that name it and a task in their annotations (`foresail.dev/superstep-job`,
    `foresail.dev/superstep-task`). When all of them have finished the same superstep (reading `supersteps_done`), the
    forecasts are told what it had to do (reading `workload`), and the strategy says how the CPU that the job has is
    split for the next one.
    """

    def __init__(
        self,
        *,
        profile: str = "",
        strategy: str = "scenario",
        window: int = 6,
        penalty_s: float = 15.0,
        least_milli: int = 100,
        step_milli: int = 50,
        every_s: float = 1.0,
    ) -> None:
        """`profile` is a file with the seconds of each task by work and CPU; without one they are work divided by CPU.
        `strategy` looks `window` supersteps ahead and weighs `penalty_s` for each change. Every task has `least_milli`,
        and the rest is given out in steps of `step_milli`. Work is expected to stay as it was last; `foresail bsp run`
        gives forecasts.
        """
        if not every_s > 0:
            raise ValueError(f"every_s is {every_s}; turns lie a number of seconds above 0 apart")
        self.every_s = every_s
        self._profile = read_profile(profile) if profile else None
        self._strategy, self._window, self._penalty_s = strategy, window, penalty_s
        self._least_milli, self._step_milli = least_milli, step_milli
        planner_of(strategy, _plain_curves(1, np.ones(1)), ShareGrid(1, 1, 1, 1), window=window, penalty_s=penalty_s)
        self._splitters: dict[JobKey, JobSplitter] = {}
        self._decided: dict[JobKey, SplitDecision] = {}
        self._considered: list[Candidate] = []

    @classmethod
    def of(cls, jobs: Mapping[str, JobSplitter], *, namespace: str = "default", every_s: float = 1.0) -> Supersteps:
        """A controller of jobs in a namespace whose planners and forecasts are there already."""
        made = cls(every_s=every_s)
        made._splitters = {(namespace, job): splitter for job, splitter in jobs.items()}
        return made

    def decided(self, job: str, namespace: str = "default") -> SplitDecision | None:
        """What was decided last of a job; None if nothing was yet."""
        return self._decided.get((namespace, job))

    def act(self, view: View) -> list[Action]:
        self._considered = []
        actions: list[Action] = []
        for state in self._between_supersteps(view):
            actions += self._decide(state)
        return actions

    def considered(self) -> list[Candidate]:
        return self._considered

    def _decide(self, job: JobState) -> list[Action]:
        splitter = self._splitters[job.key]
        has_milli = [one.cpu_milli for one in job.pods]
        current = splitter.units(has_milli) if job.done else None
        decision = splitter.decide(job.done, job.left, current, job.workloads)
        self._decided[job.key] = decision
        had = splitter.units(has_milli)
        if decision.split is None:
            self._weigh(splitter, job, had, "the split is kept")
            return []
        why = (
            f"superstep {job.done} is expected to take {splitter.seconds(decision.expected, decision.split):.1f} s "
            f"instead of {splitter.seconds(decision.expected, had):.1f} s"
        )
        self._weigh(splitter, job, decision.split, why)
        return [
            Resize(one.pod, milli, why, milli if one.cpu_limit_milli else None)
            for one, milli in zip(job.pods, splitter.grid.milli(decision.split), strict=True)
            if milli != one.cpu_milli
        ]

    def _weigh(self, splitter: JobSplitter, job: JobState, split: Units, why: str) -> None:
        """Tell of every task what it is to have."""
        cost_s = np.nan if splitter.penalty_s is None else splitter.penalty_s
        for one, milli in zip(job.pods, splitter.grid.milli(split), strict=True):
            said = f"{one.cpu_milli} → {milli} milli-CPU: {why}"
            self._considered.append(Candidate(one.pod, one.node, said, cost=cost_s))

    # --- which jobs have come to the end of a superstep -------------------------------------------------------------

    def _between_supersteps(self, view: View) -> list[JobState]:
        found: dict[JobKey, dict[str, RunningPod]] = {}
        for one in view.running.values():
            job, task = one.annotations.get(SUPERSTEPS_JOB), one.annotations.get(SUPERSTEPS_TASK)
            if job and task:
                # Names are claims: a job of the same name in another namespace is somebody else's.
                found.setdefault((one.pod.spec.namespace, job), {})[task] = one
        states = (self._state(view, job, tasks) for job, tasks in found.items())
        return [state for state in states if state is not None]

    def _state(self, view: View, job: JobKey, by_task: dict[str, RunningPod]) -> JobState | None:
        """The job, if it is between two supersteps and nothing has been decided about the next one."""
        splitter = self._splitters.get(job) or self._new_splitter(job, by_task)
        if set(splitter.tasks) != set(by_task):
            return None  # a task is missing, and whoever looks after the job makes a new one
        pods = [by_task[task] for task in splitter.tasks]
        done = {view.telemetry.reading(one.pod.uid, SUPERSTEPS_DONE) for one in pods}
        count = done.pop()
        decided = self._decided.get(job)
        if count is None or done or (decided is not None and decided.step >= count):
            return None
        totals = [view.telemetry.reading(one.pod.uid, SUPERSTEPS_TOTAL) for one in pods]
        left = min((int(total - count) for total in totals if total is not None), default=_ENDLESS)
        if left < 1:
            return None
        told = [view.telemetry.reading(one.pod.uid, WORKLOAD) for one in pods]
        works = None if count == 0 or None in told else np.array(told, dtype=np.float64)
        return JobState(job, pods, int(count), left, works)

    def _new_splitter(self, job: JobKey, by_task: Mapping[str, RunningPod]) -> JobSplitter:
        """Of a job that nobody has prepared: its CPU is what its pods have now."""
        tasks = sorted(by_task)
        total_milli = sum(one.cpu_milli for one in by_task.values())
        least_milli = max(1, min(self._least_milli, total_milli // len(tasks)))
        grid = ShareGrid(len(tasks), least_milli, self._step_milli, max(total_milli, len(tasks)))
        curves = _curves(self._profile, tasks, grid)
        planner = planner_of(self._strategy, curves, grid, window=self._window, penalty_s=self._penalty_s)
        made = self._splitters[job] = JobSplitter(tasks, planner, LastValueFeed(len(tasks)), curves, grid)
        return made


def _curves(profile: RuntimeProfile | None, tasks: list[str], grid: ShareGrid) -> RuntimeCurves:
    if profile is None:
        return _plain_curves(len(tasks), grid.shares_milli)
    return MonotoneRuntime(profile.of(tasks)).curves(grid.shares_milli)


def _plain_curves(tasks: int, shares_milli: Floats) -> RuntimeCurves:
    """Seconds that are work divided by CPU."""
    pieces = np.zeros((tasks, len(shares_milli), 1, 4))
    pieces[:, :, 0, 1] = _ONE_MILLI_S / shares_milli
    return RuntimeCurves(np.array([0.0, np.inf]), pieces)
