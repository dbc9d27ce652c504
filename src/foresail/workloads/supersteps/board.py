"""The barrier between supersteps: who opens a step, who has reported it, and how long anybody waits.

All state stands on the board. Every call may be made again, by the same process or by one that took its place, and goes
on from what stands there; none takes longer than the time it is given.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, Self, TypeVar

from foresail.workloads.supersteps import records
from foresail.workloads.supersteps.records import BadRecordError, JobRecord, StepResult, TaskRecord, check_task

JOB = ""
"""The name of the job's record among those of its tasks."""
CALL_S = 30.0
"""What a call may take that waits for nobody but the server."""
_PAUSE_S = (0.05, 1.0)
_MOST_S = 1e7

T = TypeVar("T")


class BoardError(Exception):
    """A board that cannot be used for what was asked; the message says why."""


class BoardTimeoutError(BoardError):
    """Time is over; the message says what was awaited, from whom and for how long."""


class BarrierTimeoutError(BoardTimeoutError):
    """Some tasks have not reported a step in time."""

    def __init__(self, message: str, missing: tuple[str, ...], results: Mapping[str, StepResult]) -> None:
        super().__init__(message)
        self.missing = missing
        self.results = results


class TaskReplacedError(BoardError):
    """Another pod has this task now; the one that hears this leaves."""


class StoreTroubleError(Exception):
    """A server that does not answer, or refuses; asking again may help, and the board does until time is over."""


@dataclass(frozen=True)
class Superstep:
    """A step that is open, as one task sees it."""

    step: int
    workload: float


@dataclass(frozen=True)
class Finished:
    """The job is over."""

    reason: str


@dataclass(frozen=True)
class JobStanding:
    """What the board says of the job."""

    step: int
    works: Mapping[str, float]
    opened_s: float
    """Unix time, by the clock of the coordinator that opened the step."""
    finished: str | None
    """Why the job is over; None while it runs."""


class Reported(StrEnum):
    """What became of a report."""

    TAKEN = "taken"
    DOUBLED = "doubled"
    """The step was reported before; what was reported first stays."""
    LATE = "late"
    """The job is at a later step."""


@dataclass(frozen=True)
class Stored:
    """A text on the board, and which version of it."""

    text: str
    version: str


class BoardStore(Protocol):
    """Where records are kept. Each call ends before `by_s` on the monotonic clock, or raises StoreTroubleError."""

    address: str
    """For messages; without secrets."""

    def read(self, name: str, by_s: float) -> Stored | None:
        """A record; None if there is none. The next `wait` on it ends when it changes after this."""

    def read_tasks(self, by_s: float, wanted: Collection[str] | None = None) -> Mapping[str, Stored]:
        """The records of all tasks, or at least of those wanted; the next `wait` for them ends when one changes."""

    def write(self, name: str, text: str, was: Stored | None, by_s: float) -> bool:
        """Put a text in place of the one read; returns whether nobody was quicker."""

    def wait(self, name: str | None, by_s: float) -> None:
        """Until a record, or with None one of any task, may have changed; early ends are allowed."""

    def announce(self, task: str, pod_uid: str, attempt: int, by_s: float) -> None:
        """Be seen as the one who has a task, from now on until closed or dead."""

    def present(self, by_s: float) -> Mapping[str, int]:
        """Tasks whose pods give signs of life, and which attempt each is."""

    def remove(self, by_s: float) -> None:
        """Take everything of the job away."""

    def close(self) -> None: ...


def tell_stderr(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(f"foresail board: {text}\n")
        sys.stderr.flush()


class _Board:
    """What both sides share: time limits, asking again, and reading what may be anything."""

    def __init__(self, store: BoardStore, run: str, tell: Callable[[str], None]) -> None:
        self._store, self.run, self._tell = store, run, tell
        self._told: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End connections; what stands on the board stays."""
        self._store.close()

    def _tell_once(self, about: str, text: str) -> None:
        if about not in self._told and len(self._told) < 1000:
            self._told.add(about)
            self._tell(text)

    def _asking(self, what: str, timeout_s: float, attempt: Callable[[float], T | None]) -> T:
        """Ask until there is an answer; None means that somebody was quicker and all is to be looked at again."""
        begun_s, by_s = _times(timeout_s)
        pauses, last = _Pauses(by_s), "others were quicker every time"
        while True:
            try:
                found = attempt(by_s)
                if found is not None:
                    return found
            except StoreTroubleError as error:
                last = str(error)
                self._tell_once(f"trouble {last}", f"{what}: {last}; asked again for up to {timeout_s:g} s")
            pauses.wait()
            if time.monotonic() >= by_s:
                took_s = time.monotonic() - begun_s
                raise BoardTimeoutError(f"{what}: no success on {self._store.address} within {took_s:.1f} s: {last}")

    def _job(self, by_s: float) -> tuple[Stored | None, JobRecord | None]:
        """The job's record as stored, and as read if it is one of this run."""
        stored = self._store.read(JOB, by_s)
        if stored is None:
            return None, None
        try:
            job = records.read_job(stored.text)
        except BadRecordError as error:
            self._tell_once(f"job {error}", f"the job's record on {self._store.address} is skipped: {error}")
            return stored, None
        if job.run != self.run:
            self._tell_once(f"run {job.run}", f'{self._store.address} holds run "{job.run}", not "{self.run}"')
            return stored, None
        return stored, job

    def _read_task(self, task: str, stored: Stored | None) -> TaskRecord | None:
        if stored is None:
            return None
        try:
            return records.read_task(task, stored.text)
        except BadRecordError as error:
            self._tell_once(
                f"task {task} {error}", f"the record of task {task} on {self._store.address} is skipped: {error}"
            )
            return None


class CoordinatorBoard(_Board):
    """The side that opens steps and collects results; one at a time, but a second does no harm."""

    def __init__(self, store: BoardStore, *, run: str = "", tell: Callable[[str], None] = tell_stderr) -> None:
        """`run` tells this run of the job from others on the same board; tasks are given the same."""
        super().__init__(store, run, tell)

    def standing(self, timeout_s: float = CALL_S) -> JobStanding | None:
        """What this run has come to; None if it has not begun."""

        def attempt(by_s: float) -> tuple[JobStanding | None]:
            _stored, job = self._job(by_s)
            return (_standing(job) if job is not None else None,)

        return self._asking("reading the job", timeout_s, attempt)[0]

    def open(self, step: int, works: Mapping[str, float], timeout_s: float = CALL_S) -> JobStanding:
        """Open a step; returns what stands then.

        A step that is open already stays as it was opened first, and one that is over stays over: the caller sees by
        what is returned.
        """
        wanted = JobRecord(self.run, step, dict(works), time.time())
        text = _checked(lambda: records.job_text(wanted))

        def attempt(by_s: float) -> JobStanding | None:
            stored, job = self._job(by_s)
            if job is not None:
                if job.step >= step or job.finished is not None:
                    return _standing(job)
                if job.step + 1 != step:
                    raise BoardError(
                        f"step {step} cannot be opened on {self._store.address}, which is at {job.step}; "
                        f"the next is {job.step + 1}"
                    )
            return _standing(wanted) if self._store.write(JOB, text, stored, by_s) else None

        return self._asking(f"opening step {step}", timeout_s, attempt)

    def results(self, step: int, timeout_s: float = CALL_S) -> dict[str, StepResult]:
        """What was reported of a step by the job's tasks; of old steps nothing is left."""
        return self._asking(f"reading the results of step {step}", timeout_s, lambda by_s: self._results(step, by_s))

    def wait_for_all(self, step: int, tasks: Collection[str], timeout_s: float) -> dict[str, StepResult]:
        """The results of a step once all these tasks have reported it; raises BarrierTimeoutError if some do not."""
        begun_s, by_s = _times(timeout_s)
        found, trouble, pauses = dict[str, StepResult](), "", _Pauses(by_s)
        while True:
            try:
                # What was reported stays; only the others are asked for.
                found |= self._results(step, by_s, [task for task in tasks if task not in found], tasks)
                trouble = ""
                pauses.begin_anew()
                if len(found) == len(set(tasks)):
                    return found
                if time.monotonic() < by_s:
                    self._store.wait(None, by_s)
            except StoreTroubleError as error:
                trouble = str(error)
                self._tell_once(f"trouble {trouble}", f"waiting for step {step}: {trouble}; asked again")
                pauses.wait()
            if time.monotonic() >= by_s:
                raise self._barrier_timeout(step, tasks, found, trouble, time.monotonic() - begun_s)

    def present(self, timeout_s: float = CALL_S) -> frozenset[str]:
        """Tasks whose pods give signs of life; a pod that was replaced does not count."""

        def attempt(by_s: float) -> frozenset[str]:
            alive, there = self._store.present(by_s), self._store.read_tasks(by_s)
            held = {task: self._read_task(task, stored) for task, stored in there.items()}
            return frozenset(
                task
                for task, record in held.items()
                if record is not None and record.run == self.run and alive.get(task) == record.attempt
            )

        return self._asking("looking who is present", timeout_s, attempt)

    def finish(self, reason: str, timeout_s: float = CALL_S) -> None:
        """Tell all tasks that the job is over; the first reason stays."""

        def attempt(by_s: float) -> bool | None:
            stored, job = self._job(by_s)
            if job is not None and job.finished is not None:
                return True
            job = job or JobRecord(self.run, 0, {}, time.time())
            text = records.job_text(replace(job, finished=reason[:1000]))
            return self._store.write(JOB, text, stored, by_s) or None

        self._asking("finishing the job", timeout_s, attempt)

    def remove(self, timeout_s: float = CALL_S) -> None:
        """Take everything of the job off the board; tasks that are still there wait in vain."""

        def attempt(by_s: float) -> bool:
            self._store.remove(by_s)
            return True

        self._asking("removing the job", timeout_s, attempt)

    def _results(
        self, step: int, by_s: float, wanted: Collection[str] | None = None, known: Collection[str] = ()
    ) -> dict[str, StepResult]:
        if wanted is None:
            _stored, job = self._job(by_s)
            known = job.works.keys() if job is not None else ()
        found = {}
        for task, stored in self._store.read_tasks(by_s, wanted).items():
            if task not in known:
                self._tell_once(f"unknown {task[:80]}", f'a record of "{task[:80]}", no task of the job, is skipped')
                continue
            record = self._read_task(task, stored)
            result = record.result(step) if record is not None and record.run == self.run else None
            if result is not None:
                found[task] = result
        return found

    def _barrier_timeout(
        self, step: int, tasks: Collection[str], found: Mapping[str, StepResult], trouble: str, waited_s: float
    ) -> BarrierTimeoutError:
        missing = tuple(sorted(set(tasks) - found.keys()))
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        why = f"; the board did not answer last: {trouble}" if trouble else ""
        return BarrierTimeoutError(
            f"step {step} on {self._store.address}: {len(missing)} of {len(set(tasks))} tasks have not reported within "
            f"{waited_s:.1f} s: {shown}{why}",
            missing,
            found,
        )


class TaskBoard(_Board):
    """The side of one task: awaits steps and reports them. A pod that takes the place of another goes on from there."""

    def __init__(
        self,
        store: BoardStore,
        task: str,
        *,
        pod_uid: str = "",
        run: str = "",
        tell: Callable[[str], None] = tell_stderr,
    ) -> None:
        super().__init__(store, run, tell)
        self.task, self.pod_uid = _checked(lambda: check_task(task)), pod_uid
        self.attempt = 0
        """Which one of those who had this task we are; 0 before the first step was awaited."""
        self._announced = 0

    def await_step(self, after: int, timeout_s: float) -> Superstep | Finished:
        """The next step after this one, and after all that this task has reported, once it is open."""
        begun_s, by_s = _times(timeout_s)
        pauses, last = _Pauses(by_s), ""
        while True:
            try:
                _stored, job = self._job(by_s)
                found = None if job is None else self._look(job, after, by_s)
                if found is not None:
                    return found
                last = _stands(job)
                pauses.begin_anew()
                if time.monotonic() < by_s:
                    self._store.wait(JOB, by_s)
            except StoreTroubleError as error:
                last = str(error)
                self._tell_once(f"trouble {last}", f"waiting for a step after {after}: {last}; asked again")
                pauses.wait()
            if time.monotonic() >= by_s:
                raise BoardTimeoutError(
                    f"task {self.task} waited {time.monotonic() - begun_s:.1f} s for the coordinator to open a step "
                    f"after {after} on {self._store.address}: {last}"
                )

    def report(self, result: StepResult, timeout_s: float = CALL_S) -> Reported:
        """Tell of a step that was done; says whether it was news. Raises TaskReplacedError if the task is another's."""
        result = replace(result, task=self.task, pod_uid=self.pod_uid, attempt=self.attempt)
        _checked(lambda: records.check_result(result))

        def attempt(by_s: float) -> Reported | None:
            _job_stored, job = self._job(by_s)
            if job is None:
                raise StoreTroubleError(f'there is no job of run "{self.run}"')
            if result.step > job.step:
                raise BoardError(f"step {result.step} was never opened: {self._store.address} is at {job.step}")
            stored = self._store.read(self.task, by_s)
            record = self._read_task(self.task, stored)
            if record is None or record.run != self.run:
                record = TaskRecord(self.run, self.pod_uid, self.attempt)
            self._check_is_mine(record)
            there = record.result(result.step)
            if there is not None:
                # Our own, if an answer was lost on its way.
                return Reported.TAKEN if there == result else Reported.DOUBLED
            if result.step < max(job.step, record.last_step):
                return Reported.LATE
            text = records.task_text(replace(record, results=(*record.results, result)))
            return Reported.TAKEN if self._store.write(self.task, text, stored, by_s) else None

        return self._asking(f"reporting step {result.step} of task {self.task}", timeout_s, attempt)

    def _look(self, job: JobRecord, after: int, by_s: float) -> Superstep | Finished | None:
        if job.finished is not None:
            return Finished(job.finished)
        record = self._join(by_s) if not self.attempt else self._mine(by_s)
        if self._announced != self.attempt:
            self._store.announce(self.task, self.pod_uid, self.attempt, by_s)
            self._announced = self.attempt
        if self.task not in job.works or job.step <= max(after, record.last_step):
            return None
        return Superstep(job.step, job.works[self.task])

    def _join(self, by_s: float) -> TaskRecord:
        """Take the task over: whoever had it before may report no more."""
        stored = self._store.read(self.task, by_s)
        there = self._read_task(self.task, stored)
        attempt = max(self.attempt, there.attempt if there is not None else 0) + 1
        results = there.results if there is not None and there.run == self.run else ()
        record = TaskRecord(self.run, self.pod_uid, attempt, results)
        if not self._store.write(self.task, records.task_text(record), stored, by_s):
            raise StoreTroubleError(f"another pod takes task {self.task}, too")
        self.attempt = attempt
        return record

    def _mine(self, by_s: float) -> TaskRecord:
        record = self._read_task(self.task, self._store.read(self.task, by_s))
        if record is None or record.run != self.run:
            # Lost with the server's memory, or written over: taken anew.
            return self._join(by_s)
        self._check_is_mine(record)
        return record

    def _check_is_mine(self, record: TaskRecord) -> None:
        if record.attempt > self.attempt or (record.attempt == self.attempt and record.pod_uid != self.pod_uid):
            raise TaskReplacedError(
                f"task {self.task} is pod {record.pod_uid or '?'}'s now, the {record.attempt}. to have it; "
                f"this one was the {self.attempt}. and leaves"
            )


class _Pauses:
    """Between two tries: each is twice as long as the one before, up to a second, and none goes beyond a time."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s
        self._next_s = _PAUSE_S[0]

    def wait(self) -> None:
        time.sleep(max(0.0, min(self._next_s, self._by_s - time.monotonic())))
        self._next_s = min(2 * self._next_s, _PAUSE_S[1])

    def begin_anew(self) -> None:
        """A try went well: the next pause is a short one."""
        self._next_s = _PAUSE_S[0]


def _times(timeout_s: float) -> tuple[float, float]:
    """Now, and when time is over."""
    if not 0 <= timeout_s < _MOST_S:
        raise BoardError(f"a time-out of {timeout_s:g} s; write 0 to {_MOST_S:g}")
    begun_s = time.monotonic()
    return begun_s, begun_s + timeout_s


def _standing(job: JobRecord) -> JobStanding:
    return JobStanding(job.step, job.works, job.opened_s, job.finished)


def _stands(job: JobRecord | None) -> str:
    if job is None:
        return "no job of this run is there"
    return f"it is at step {job.step}, opened {time.time() - job.opened_s:.1f} s ago"


def _checked(check: Callable[[], T]) -> T:
    """What is ours to get right is an error of the caller's, not something to skip."""
    try:
        return check()
    except BadRecordError as error:
        raise BoardError(str(error)) from error
