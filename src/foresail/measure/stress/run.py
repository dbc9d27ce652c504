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
    part: float = 1.0
    """How much of the work is really done; seconds of the whole are told from it."""
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
        return {"workers": self.workers, "part": self.part}


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
    for cpu_milli in sorted({point.cpu_milli for point in points}):
        tries = [
            (point, number)
            for point in points
            if point.cpu_milli == cpu_milli
            for number in range(len(before.get(point, ())) + 1, plan.tries + 1)
        ]
        for _ in range(_GOES):
            again = []
            works = [work for point, _ in tries for work in _works(plan, point.task, _ops(file, point))]
            with closing(runner.do(cpu_milli, works)) as done:
                for point, number in tries:
                    start_s = next(done).seconds if plan.part < 1 else 0.0
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
                "do more of the work with --part, or count more operations with --ops or --aim"
            )


def _works(plan: StressPlan, task: str, ops: int) -> list[Work]:
    """What is done for one try: next to nothing, to know what starting takes, and then the part."""
    if plan.part == 1:
        return [(task, ops, plan.workers)]
    return [(task, *_NEXT_TO_NOTHING), (task, max(1, round(plan.part * ops)), plan.workers)]


def _ops(file: StressFile, point: StressPoint) -> int:
    return max(1, round(file.ops_a_unit[point.task] * point.workload))


def _row(point: StressPoint, number: int, ops: int, start_s: float, took: StressTook) -> StressRow:
    # The part that was really done: operations are whole numbers.
    seconds = start_s + (took.seconds - start_s) * ops / took.ops
    when = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return StressRow(
        *(point.task, point.workload, point.cpu_milli, seconds, number, ops),
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
                stated = _aimed(plan, task, runner)
            if stated is None and task not in OPS:
                raise OptionError(f"nobody has published what a unit of {task} counts; give --ops {task}=N, or --aim")
            file.state_ops(task, stated or OPS[task])


def _aimed(plan: StressPlan, task: str, runner: StressRunner) -> float:
    """Operations that make the middle workload take as long as aimed at, with the most CPU."""
    cpu_milli = plan.grid.cpus_milli[-1]
    ops = 16
    while True:
        with closing(runner.do(cpu_milli, [(task, *_NEXT_TO_NOTHING), (task, ops, 1)])) as done:
            start, took = next(done), next(done)
        # CPU time, since a busy machine changes it least.
        beyond_s = took.cpu_s - start.cpu_s
        if beyond_s >= _LONG_ENOUGH_S:
            break
        if ops >= _MOST_OPS:
            raise ForesailError(f"{ops} operations of {task} take no time; give --ops {task}=N")
        ops *= 4
    middle = plan.grid.workloads[len(plan.grid.workloads) // 2]
    assert plan.aim_s is not None  # noqa: S101 - it is called for that alone
    return float(f"{ops / beyond_s * plan.aim_s * cpu_milli / 1000 / middle:.3g}")
