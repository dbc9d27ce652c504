"""What stands on a board, and how it is read: whoever may write there may write anything."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NoReturn

KEPT_RESULTS = 4
"""Of each task: the step that is open, and some before it for a coordinator that was away."""
LONGEST_RECORD = 256 * 1024
"""In bytes: more than this neither a Lease's annotations nor, by default, four of them a ZooKeeper node hold."""
_MOST_STEPS = 2**53
_TASK = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LONGEST_TEXT = 2000


class BadRecordError(ValueError):
    """Something on the board that is no record of ours; says what is wrong with it."""


@dataclass(frozen=True)
class StepResult:
    """What a task tells of one superstep."""

    task: str
    step: int
    seconds: float
    """How long the work took, without waiting."""
    ops: int
    """Operations done."""
    started_s: float
    """Unix time, by the task's clock."""
    ended_s: float
    """Unix time, by the task's clock."""
    pod_uid: str = ""
    attempt: int = 0
    """How many pods or processes had this task before, and this one; counted by the board."""


@dataclass(frozen=True)
class JobRecord:
    """What the coordinator has said last."""

    run: str
    """Which run of the job: what others of the same name left behind does not count."""
    step: int
    works: Mapping[str, float]
    """Task to its workload in this step."""
    opened_s: float
    """Unix time, by the coordinator's clock."""
    finished: str | None = None
    """Why the job is over; None while it runs."""


@dataclass(frozen=True)
class TaskRecord:
    """Who has a task now, and what was reported last."""

    run: str
    pod_uid: str
    attempt: int
    results: tuple[StepResult, ...] = ()
    """Newest last."""

    @property
    def last_step(self) -> int:
        """The newest step that was reported; -1 if none was."""
        return self.results[-1].step if self.results else -1

    def result(self, step: int) -> StepResult | None:
        return next((one for one in self.results if one.step == step), None)


def check_task(name: str) -> str:
    """A task's name becomes part of the names of Leases and pods."""
    if not _TASK.fullmatch(name):
        raise BadRecordError(f'a task is called "{name[:80]}"; write up to 63 of a-z, 0-9 and -, not - at an end')
    return name


def job_text(job: JobRecord) -> str:
    """A job's record as it stands on the board."""
    for task, work in job.works.items():
        check_task(task)
        _number({"workload": work}, "workload")
    return _text(asdict(job))


def read_job(text: str) -> JobRecord:
    found = _object(text)
    works = found.get("works")
    if not isinstance(works, dict):
        raise BadRecordError("works is no mapping of tasks to workloads")
    finished = found.get("finished")
    return JobRecord(
        run=_short(found, "run"),
        step=_whole(found, "step"),
        works={check_task(task): _number(works, task) for task in works},
        opened_s=_number(found, "opened_s"),
        finished=None if finished is None else _short(found, "finished"),
    )


def task_text(record: TaskRecord) -> str:
    """A task's record as it stands on the board: the newest results alone, so that it never grows."""
    kept = [asdict(check_result(one)) for one in record.results[-KEPT_RESULTS:]]
    for one in kept:
        del one["task"]
    return _text({"run": record.run, "pod_uid": record.pod_uid, "attempt": record.attempt, "results": kept})


def read_task(task: str, text: str) -> TaskRecord:
    found = _object(text)
    results = found.get("results")
    if not isinstance(results, list) or len(results) > KEPT_RESULTS:
        raise BadRecordError(f"results is no list of at most {KEPT_RESULTS}")
    read = tuple(_read_result(task, one) for one in results)
    if any(one.step >= other.step for one, other in itertools.pairwise(read)):
        raise BadRecordError("results do not stand in the order of their steps")
    return TaskRecord(_short(found, "run"), _short(found, "pod_uid"), _whole(found, "attempt"), read)


def check_result(result: StepResult) -> StepResult:
    """A result that others can read, or an error that says what is wrong with it."""
    check_task(result.task)
    return _read_result(result.task, {field.name: getattr(result, field.name) for field in fields(StepResult)})


def _read_result(task: str, found: Any) -> StepResult:
    if not isinstance(found, dict):
        raise BadRecordError("a result is no mapping")
    return StepResult(
        task=task,
        step=_whole(found, "step"),
        seconds=_number(found, "seconds"),
        ops=_whole(found, "ops"),
        started_s=_number(found, "started_s"),
        ended_s=_number(found, "ended_s"),
        pod_uid=_short(found, "pod_uid"),
        attempt=_whole(found, "attempt"),
    )


def _text(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    if len(text) > LONGEST_RECORD:
        raise BadRecordError(f"a record of {len(text)} bytes does not fit a board, which takes {LONGEST_RECORD}")
    return text


def _object(text: str) -> dict[str, Any]:
    if len(text) > LONGEST_RECORD:
        raise BadRecordError(f"it has {len(text)} characters; at most {LONGEST_RECORD} are read")
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise BadRecordError(f"it is no JSON ({str(error)[:80]})") from error
    if not isinstance(found, dict):
        raise BadRecordError("it is no JSON object")
    return found


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _whole(found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_STEPS:
        raise BadRecordError(f"{name} is {_shown(value)}; it must be a whole number from 0 on")
    return value


def _number(found: Mapping[str, Any], name: str) -> float:
    value = found.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadRecordError(f"{name} is {_shown(value)}; it must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise BadRecordError(f"{name} is {_shown(value)}; it must be a finite number from 0 on")
    return number


def _short(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise BadRecordError(f"{name} is {_shown(value)}; it must be a text of at most {_LONGEST_TEXT} characters")
    return value


def _shown(value: Any) -> str:
    """A value in an error; a number of a million digits is not spelled out."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:80]
