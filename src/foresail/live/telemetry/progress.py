"""How far training jobs have come, by their own word: every row is judged here, whichever way it came.

    taken         it tells something new
    doubled       it was told before, by this way or another
    late          it is older than what is known
    out of order  it goes back to an earlier step, and nobody said that the job began anew
    damaged       it is no row

All but the first are skipped, counted and told. What a skipped row says of a checkpoint counts unless it is damaged: a
checkpoint is on disk, however late one hears of it.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from foresail.core.clock import Clock
from foresail.core.control import ACCURACY, LOSS, STEPS_DONE, STEPS_TOTAL
from foresail.live.telemetry.jobs import Jobs
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.live.telemetry.rows import DONE, RESUME, BadRow, ReportedRow, read_row, shown
from foresail.logs import get_logger

_SKEW_S = 60.0
"""How far apart the clocks of nodes and ours may be."""
_SAME_RESUME_S = 5.0
"""How far apart two ways tell of one restart."""
_MOST_JOBS = 1 << 14
_MOST_CONFIRMED = 16
_RECENT = 16
_KEEP_S = 3600.0
"""How long a job is known without a pod: its owner may take its time to make the next."""
_TELL_EVERY_S = 60.0
_MOST_TOLD = 100
"""Lines in the log within that time, of all jobs together."""


class Verdict(StrEnum):
    """What becomes of a row."""

    TAKEN = "taken"
    DOUBLED = "doubled"
    LATE = "late"
    OUT_OF_ORDER = "out_of_order"
    DAMAGED = "damaged"


@dataclass(slots=True)
class JobProgress:
    """What is known of a job."""

    row: ReportedRow
    """The last that was taken."""
    source: str
    """The way it came."""
    total: int | None = None
    loss: float | None = None
    accuracy: float | None = None
    resumed: ReportedRow | None = None
    """The row with which it last began anew."""
    checkpoint_step: int | None = None
    """Step of the last checkpoint that is known to be on disk."""
    confirmed: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """Requests for checkpoints to the step of the one that answers each, the last few."""
    recent: deque[ReportedRow] = field(default_factory=lambda: deque(maxlen=_RECENT))
    beginnings: deque[ReportedRow] = field(default_factory=lambda: deque(maxlen=_RECENT))
    """The first row of each of its last pods, and of each of its last restarts."""

    def first_step_since(self, since_s: float) -> int | None:
        """The step of the first row at or after a time, as far back as one remembers; None if there is none."""
        since = [row for row in (*self.recent, *self.beginnings) if row.time_s >= since_s]
        return min(since, key=lambda row: row.time_s).step if since else None


def judge(
    row: ReportedRow, source: str, last: JobProgress | None, *, began_s: float, now_s: float
) -> tuple[Verdict, str]:
    """What becomes of a row, and why. `began_s` is when the job's youngest pod began; times are seconds since 1970."""
    if row.time_s > now_s + _SKEW_S:
        return Verdict.DAMAGED, f"its time lies {row.time_s - now_s:.0f} s ahead of ours; check the clock of its node"
    if last is None:
        return Verdict.TAKEN, ""
    if row.total is None and last.total is not None and row.step > last.total:
        return Verdict.DAMAGED, f"step is {row.step}, beyond the total of {last.total}"
    return _judge_resume(row, last) if row.note == RESUME else _judge_next(row, source, last, began_s)


def _judge_resume(row: ReportedRow, last: JobProgress) -> tuple[Verdict, str]:
    before, older_s = last.resumed, last.row.time_s - row.time_s
    if before is not None and before.step == row.step and abs(before.time_s - row.time_s) <= _SAME_RESUME_S:
        return Verdict.DOUBLED, f"that it resumed at step {row.step} was told before"
    # The node it resumes on may have a clock that is a little behind that of the last one.
    if older_s > _SKEW_S or (before is not None and row.time_s < before.time_s):
        return Verdict.LATE, f"it is {older_s:.3f} s older than the last row, of step {last.row.step}"
    return Verdict.TAKEN, ""


def _judge_next(row: ReportedRow, source: str, last: JobProgress, began_s: float) -> tuple[Verdict, str]:
    known = last.row
    if row.time_s < known.time_s:
        return Verdict.LATE, f"it is {known.time_s - row.time_s:.3f} s older than the last row, of step {known.step}"
    is_new_pod = known.time_s < began_s <= row.time_s + _SKEW_S
    if row.step < known.step and not is_new_pod and known.note != DONE:
        return Verdict.OUT_OF_ORDER, f'it goes back from step {known.step} to {row.step} without the note "{RESUME}"'
    # Two ways tell of one step in different words: digits are rounded, and times are those of a log.
    is_other_way = source != last.source and row.note in {"", known.note}
    if row.step == known.step and (row[1:] == known[1:] or is_other_way):
        return Verdict.DOUBLED, f"step {row.step} was told before"
    return Verdict.TAKEN, ""


class ProgressStore:
    """The latest of every job; a job without a pod is forgotten after an hour."""

    def __init__(
        self, jobs: Jobs, clock: Clock, metrics: TelemetryMetrics, *, unix_s: Callable[[], float] = time.time
    ) -> None:
        self._jobs = jobs
        self._clock = clock
        self._metrics = metrics
        self._unix_s = unix_s
        self._known: OrderedDict[str, JobProgress] = OrderedDict()
        """Those heard of last come last."""
        self._gone_s: dict[str, float] = {}
        """Jobs without a pod, and since when."""
        self._told = _Told(clock)

    # --- rows ------------------------------------------------------------------------------------------------------

    def offer(self, job: str, source: str, values: Mapping[str, object], written: object = None) -> Verdict:
        """Take a row in, if it is one; `written` is what stood there, for whoever wants to see it."""
        written = dict(values) if written is None else written
        last = self._known.get(job)
        try:
            row = read_row(values)
        except BadRow as bad:
            return self.skip(job, source, Verdict.DAMAGED, written, str(bad))
        verdict, why = judge(row, source, last, began_s=self._jobs.began_s(job), now_s=self._unix_s())
        if verdict is Verdict.TAKEN:
            self._metrics.rows.labels(source, verdict).inc()
            last = self._take(job, source, row, last)
        else:
            self.skip(job, source, verdict, written, why, quietly=last is not None and source != last.source)
        if verdict is not Verdict.DAMAGED and last is not None:
            self._note_checkpoint(job, row, last)
        return verdict

    def skip(
        self, job: str, source: str, verdict: Verdict, written: object, why: str, *, quietly: bool = False
    ) -> Verdict:
        """Count and tell what was not taken. `quietly`: it is what one expects of a second way."""
        self._metrics.rows.labels(source, verdict).inc()
        if not quietly or verdict is Verdict.DAMAGED:
            self._told.tell("progress_row_skipped", job, source, verdict, shown(written), why)
        return verdict

    def remark(self, job: str, source: str, what: str, why: str) -> None:
        """Tell something odd about the very way that a job reports by: which file or request, and what of it."""
        self._told.tell("progress_source_odd", job, source, what, what, why)

    def _take(self, job: str, source: str, row: ReportedRow, last: JobProgress | None) -> JobProgress:
        is_first = last is None
        if last is None:
            last = self._known[job] = JobProgress(row, source, resumed=row if row.note == RESUME else None)
            if len(self._known) > _MOST_JOBS:
                self._known.popitem(last=False)
        resumes = row.note == RESUME or row.step < last.row.step
        if is_first or resumes or last.row.time_s < self._jobs.began_s(job) <= row.time_s:
            last.beginnings.append(row)
        if resumes and not is_first:
            last.resumed = row
            if last.checkpoint_step is not None and last.checkpoint_step > row.step:
                last.checkpoint_step = None  # whatever became of it, the job did not go on from there
        last.row, last.source = row, source
        last.recent.append(row)
        last.total = row.total or last.total
        last.loss = last.loss if row.loss is None else row.loss
        last.accuracy = last.accuracy if row.accuracy is None else row.accuracy
        self._known.move_to_end(job)
        return last

    def _note_checkpoint(self, job: str, row: ReportedRow, known: JobProgress) -> None:
        request = row.checkpoint
        if request is None or (known.resumed is not None and row.time_s < known.resumed.time_s):
            return
        known.checkpoint_step = max(row.step, known.checkpoint_step or 0)
        if request and request not in known.confirmed:
            known.confirmed[request] = row.step
            if len(known.confirmed) > _MOST_CONFIRMED:
                known.confirmed.popitem(last=False)
            get_logger().info("checkpoint_confirmed", job=job, request=request, step=row.step)

    # --- what is known ---------------------------------------------------------------------------------------------

    def of(self, job: str) -> JobProgress | None:
        return self._known.get(job)

    def reading(self, job: str, name: str) -> float | None:
        """The latest value of a reading, see `foresail.core.control`."""
        known = self._known.get(job)
        if known is None:
            return None
        of = {STEPS_DONE: known.row.step, STEPS_TOTAL: known.total, LOSS: known.loss, ACCURACY: known.accuracy}
        value = of.get(name)
        return None if value is None else float(value)

    def forget_gone(self) -> list[str]:
        """Forget jobs that have had no pod for long; which ones."""
        now_s = self._clock.now()
        self._gone_s = {job: self._gone_s.get(job, now_s) for job in self._known if job not in self._jobs}
        forgotten = [job for job, since_s in self._gone_s.items() if now_s - since_s >= _KEEP_S]
        for job in forgotten:
            del self._known[job], self._gone_s[job]
        self._metrics.jobs.set(len(self._known))
        return forgotten


class _Told:
    """Lines in the log about rows that were skipped: of each job and kind one a minute, and not too many in all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = float("-inf")
        self._said: dict[tuple[str, ...], int] = {}
        """What was said in this minute, and how many more like it there were since."""
        self._before: dict[tuple[str, ...], int] = {}
        """The same for the minute before."""

    def tell(self, event: str, job: str, source: str, kind: str, written: str, why: str) -> None:
        now_s = self._clock.now()
        if now_s - self._since_s >= _TELL_EVERY_S:
            self._before, self._said, self._since_s = self._said, {}, now_s
        key = (event, job, source, kind)
        if key in self._said:
            self._said[key] += 1
        elif len(self._said) < _MOST_TOLD:
            self._said[key] = 0
            more = self._before.get(key, 0)
            get_logger().warning(event, job=job, source=source, row=written, why=why, unsaid_before=more)
