"""Measure points until all are, or until the model made of them is sure enough; each try is kept once it is done."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from foresail.errors import ForesailError, OptionError
from foresail.measure.stress.adaptive import AdaptiveSampling, NextPoints
from foresail.measure.stress.grid import StressGrid, StressPoint
from foresail.measure.stress.results import StressFile, StressRow
from foresail.workloads.stress import OPS, StressTook

_LONG_ENOUGH_S = 0.3
"""Work that takes so much CPU beyond its start says how quick a task is."""
_MOST_OPS = 10**12
_NEXT_TO_NOTHING = (1, 1)
"""An operation and a worker: of several, some tasks' first one ends before the others find its file, and they wait."""
_GOES = 3
"""How often a try that was over before it had begun is done again."""
Work = tuple[str, int, int]
"""A task, its operations in all, and the workers that share them."""


class StressRunner(Protocol):
    """Where work is done under a limit on CPU."""

    @property
    def where(self) -> dict[str, str]:
        """What seconds depend on."""

    @property
    def most_milli(self) -> int:
        """The most CPU that can be had there."""

    def do(self, cpu_milli: int, works: Sequence[Work]) -> Generator[StressTook]:
        """Do each work alone, in this order, and tell what it took as soon as that is known."""


@dataclass(frozen=True, slots=True)
class StressPlan:
    """What is to be measured, and how."""

    grid: StressGrid
    workers: int
    """Processes that share the work of a task, at every amount of CPU; 0 for one for each core."""
    tries: int = 1
    """At each point."""
    try_s: float | None = 2.0
    """As much of the work is done as takes about so long, seconds of the whole are told from it; None: all of it."""
    target: float | None = 0.03
    """How far seconds may be off on average, as a part of them, by what the model knows of itself; None: all points."""
    most: int | None = None
    """Points of a task at most; None for all."""
    ops_a_unit: Mapping[str, float] | None = None
    """Operations that a unit of workload counts; the published ones for tasks that are not there."""
    aim_s: float | None = None
    """Choose operations so that the middle workload takes so long with the most CPU; None for those above."""

    def how(self) -> dict[str, object]:
        """What seconds depend on, beside the point and the machine."""
        return {"workers": self.workers, "try_s": self.try_s}


@dataclass(frozen=True, slots=True)
class StressProgress:
    """How far a measurement is."""

    points: int
    """Measured so far, in all runs."""
    most: int
    """Points that there will be at most."""
    expected_error: float | None
    """Of the model so far; None before there is one, and where all points are measured anyway."""


def default_cpus(most_milli: int) -> tuple[int, ...]:
    """14 amounts of CPU from a tenth of what there is to three quarters: what is left is for everything else."""
    step = most_milli // 20
    return tuple(step * times for times in range(2, 16))


def default_workers(grid: StressGrid) -> int:
    """Enough to use the most CPU of the grid, and no more: the same at every amount, as in a task that is resized."""
    return -(-grid.cpus_milli[-1] // 1000)


def measure_stress(
    plan: StressPlan,
    file: StressFile,
    runner: StressRunner,
    on_progress: Callable[[StressProgress], None] | None = None,
) -> StressProgress:
    """Measure what is not in the file yet."""
    if plan.grid.cpus_milli[-1] > runner.most_milli:
        raise OptionError(
            f"--cpus goes to {plan.grid.cpus_milli[-1]} milli, and {runner.most_milli} can be had; "
            "leave it out, or end it there"
        )
    _settle_ops(plan, file, runner)
    sampling = AdaptiveSampling(plan.grid, plan.target or 0.0, plan.most or len(plan.grid.of(plan.grid.tasks[0])))
    most = len(plan.grid.tasks) * min(sampling.most, len(plan.grid.of(plan.grid.tasks[0])))

    def told(error: float | None) -> StressProgress:
        there = file.seconds()
        progress = StressProgress(sum(point in there for point in plan.grid.points), most, error)
        if on_progress is not None:
            on_progress(progress)
        return progress

    while True:
        measured = {point: tries for point, tries in file.seconds().items() if len(tries) >= plan.tries}
        following = _following(plan, sampling, measured)
        progress = told(following.expected_error)
        if not following.points:
            return progress
        for row in _measure(plan, file, runner, following.points):
            file.add(row)
            told(following.expected_error)


def _following(plan: StressPlan, sampling: AdaptiveSampling, measured: Mapping[StressPoint, list[float]]) -> NextPoints:
    if plan.target is None:
        return NextPoints(tuple(point for point in plan.grid.points if point not in measured), None)
    return sampling.choose(measured)


def _measure(
    plan: StressPlan, file: StressFile, runner: StressRunner, points: Sequence[StressPoint]
) -> Iterator[StressRow]:
    """All tries of these points that are not there yet, one amount of CPU after the other."""
    before = file.seconds()
    speeds = {} if plan.try_s is None else {task: _speed(plan, file, task, runner) for task in plan.grid.tasks}
    for cpu_milli in sorted({point.cpu_milli for point in points}):
        tries = [
            (point, number)
            for point in points
            if point.cpu_milli == cpu_milli
            for number in range(len(before.get(point, ())) + 1, plan.tries + 1)
        ]
        for _ in range(_GOES):
            again = []
            works = [work for point, _ in tries for work in _works(plan, file, point, speeds)]
            with closing(runner.do(cpu_milli, works)) as done:
                for point, number in tries:
                    start_s = 0.0 if plan.try_s is None else next(done).seconds
                    took = next(done)
                    if took.seconds <= start_s:
                        again.append((point, number))
                        continue
                    yield _row(point, number, _ops(file, point), start_s, took)
            tries = again
            if not tries:
                break
        else:
            point = tries[0][0]
            raise ForesailError(
                f"task {point.task} at workload {point.workload:g} and {cpu_milli} milli is over as soon as it starts; "
                "try for longer with --try-for, or count more operations with --ops or --aim"
            )


def _works(plan: StressPlan, file: StressFile, point: StressPoint, speeds: Mapping[str, float]) -> list[Work]:
    """What is done for one try: next to nothing, to know what starting takes, and then as much as time allows."""
    ops = _ops(file, point)
    if plan.try_s is None:
        return [(point.task, ops, plan.workers)]
    some = max(1, round(plan.try_s * point.cpu_milli / 1000 * speeds[point.task]))
    return [(point.task, *_NEXT_TO_NOTHING), (point.task, min(ops, some), plan.workers)]


def _ops(file: StressFile, point: StressPoint) -> int:
    return max(1, round(file.ops_a_unit[point.task] * point.workload))


def _row(point: StressPoint, number: int, ops: int, start_s: float, took: StressTook) -> StressRow:
    seconds = start_s + (took.seconds - start_s) * ops / took.ops
    when = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return StressRow(
        *(point.task, point.workload, point.cpu_milli, seconds, number, ops, took.ops),
        *(took.seconds, start_s, took.cpu_s, took.throttled, when),
    )


def _settle_ops(plan: StressPlan, file: StressFile, runner: StressRunner) -> None:
    """Say in the file what a unit of each task's workload counts; what stands there already holds."""
    for task in plan.grid.tasks:
        stated = (plan.ops_a_unit or {}).get(task)
        known = file.ops_a_unit.get(task)
        if known is not None and (stated or (None if plan.aim_s else OPS.get(task))) not in (None, known):
            raise OptionError(
                f"{file.path} has {known:g} operations of {task} in a unit of workload, not "
                f"{stated or OPS[task]:g}; name another file with --out"
            )
        if known is None:
            if stated is None and plan.aim_s is not None:
                # The middle workload, with the most CPU, takes as long as aimed at.
                middle = plan.grid.workloads[len(plan.grid.workloads) // 2]
                cpu_s = plan.aim_s * plan.grid.cpus_milli[-1] / 1000
                stated = float(f"{_speed(plan, file, task, runner) * cpu_s / middle:.3g}")
            if stated is None and task not in OPS:
                raise OptionError(f"nobody has published what a unit of {task} counts; give --ops {task}=N, or --aim")
            file.state_ops(task, stated or OPS[task])


def _speed(plan: StressPlan, file: StressFile, task: str, runner: StressRunner) -> float:
    """Operations in a second of CPU, by what is measured already or else by a trial; CPU time is disturbed least."""
    rows = [row for row in file.rows if row.task == task]
    if rows:
        return sum(row.ops_done for row in rows) / max(1e-9, sum(row.cpu_s for row in rows))
    ops = 16
    while True:
        with closing(runner.do(plan.grid.cpus_milli[-1], [(task, *_NEXT_TO_NOTHING), (task, ops, 1)])) as done:
            start, took = next(done), next(done)
        beyond_s = took.cpu_s - start.cpu_s
        if beyond_s >= _LONG_ENOUGH_S:
            return ops / beyond_s
        if ops >= _MOST_OPS:
            raise ForesailError(f"{ops} operations of {task} take no time; is it a task of stress-ng that works?")
        ops *= 8
