"""How much work a job has left, and how sure that is: from the CPU it has used and the steps it has reported.

With c CPU-seconds a step, a job that has reported step s of S has R = c · (S − s) left. Where all is known from its
beginning, c = used / s, and with the part f = s / S that is done R = used · (1 − f) / f.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable
from typing import NamedTuple, TypeGuard

import numpy as np

_SURE = 1.645
"""Standard deviations on either side: nine of ten forecasts hold."""
_GUESSED_SPREAD = 0.3
"""How far the cost of a stretch of steps is taken to vary, as a part of itself, before anything is known of it."""
_GUESS_COUNTS_FOR = 2
"""As many stretches as this guess counts for."""
_ENOUGH_STRETCHES = 3
_DISAGREES = 1.5
_SILENT = 3.0
"""A job that has used so many times the CPU of a report since its last one has stopped reporting."""
_MOST_REMEMBERED = 256
_MOST, _LEAST, _LEAST_PART = 1e15, 1e-6, 1e-9
"""What is said beyond this is nonsense, and would make numbers that no float holds."""


class TimeLeft(NamedTuple):
    """Seconds that a job still runs, and between which bounds."""

    s: float
    low_s: float
    high_s: float


class Remaining(NamedTuple):
    """CPU-seconds that a job still needs; in nine of ten cases from `low_cpu_s` to `high_cpu_s`."""

    cpu_s: float
    low_cpu_s: float
    high_cpu_s: float
    is_reported: bool
    """Whether its own reports say so, and not what other jobs were like."""

    def time(self, cpus: float) -> TimeLeft:
        """How long that takes with so many CPUs."""
        if not cpus > 0:
            return TimeLeft(math.inf, math.inf, math.inf)
        return TimeLeft(self.cpu_s / cpus, self.low_cpu_s / cpus, self.high_cpu_s / cpus)


class WorkLeft:
    """What one job's readings say of the work before it.

    The cost of a step is what has been used over what has been reported, stretch by stretch: a stretch lies between two
    reports of one pod. Whatever happens between pods (CPU of the last moments that nobody read, steps that a restart
    did again, the restart itself) belongs to no stretch. The first stretch begins with nothing used at step 0; if the
    later ones disagree with it by more than half, as for a job that had been moved before anybody looked, it does not
    count.
    """

    __slots__ = ("_first", "_gap", "_more", "_pod", "_reported_at", "_step", "_steps", "_used", "spent_cpu_s")

    def __init__(self) -> None:
        self.spent_cpu_s = 0.0
        """CPU-seconds used by all of its pods, as far as it was seen."""
        self._pod: Hashable = None
        self._used = 0.0
        self._step = 0.0
        self._steps: float | None = None
        """Its last step, as it says; None while it has not said anything usable."""
        self._reported_at: float | None = 0.0
        """What it had spent when its last report was seen; None until the first of a new pod."""
        self._gap = math.inf
        """Fewest steps between two reports that were seen."""
        self._first = _Stretches()
        self._more = _Stretches()

    def observe(self, pod: Hashable, used_cpu_s: float | None, step: float | None, steps: float | None) -> None:
        """Take in readings of the job's pod: CPU-seconds since the pod was made, its last report's step, of how many.

        What cannot be (no number, less than nothing, more steps than there are) is taken as not said.
        """
        self._spend(pod, used_cpu_s)
        if not _is_amount(step) or not _is_amount(steps) or not _LEAST_PART * steps <= step <= steps or steps < _LEAST:
            return
        if not _is_amount(used_cpu_s):
            return  # a step without the CPU that it took says nothing
        self._steps = steps
        if step != self._step:  # else it is the report that was seen before, be it an earlier pod's
            self._report(step)

    def _spend(self, pod: Hashable, used_cpu_s: float | None) -> None:
        if pod != self._pod:
            if self._pod is not None:
                self._reported_at = None
            self._pod, self._used = pod, 0.0
        if not _is_amount(used_cpu_s):
            return
        if used_cpu_s < self._used:  # its container has started anew, and its counter with it
            self._used = 0.0
            self._reported_at = None
        self.spent_cpu_s += used_cpu_s - self._used
        self._used = used_cpu_s

    def _report(self, step: float) -> None:
        spent, since, more = self.spent_cpu_s, self._reported_at, step - self._step
        self._step, self._reported_at = step, spent
        if since is None or more <= 0 or not spent > since:
            return
        stretches = self._more if self._first.count else self._first
        stretches.add(spent - since, more)
        self._gap = min(self._gap, more)

    @property
    def stretches(self) -> _Stretches:
        """Those that count."""
        first, more = self._first, self._more
        if more.count >= _ENOUGH_STRETCHES and not 1 / _DISAGREES < first.cost / more.cost < _DISAGREES:
            return more
        return first.and_(more)

    @property
    def whole_cpu_s(self) -> float | None:
        """What the job is altogether, as far as it has said."""
        known = self.stretches
        return None if self._steps is None or not known.count else known.cost * self._steps

    def forecast(self) -> Remaining | None:
        """What is left; None before the first report."""
        known, steps = self.stretches, self._steps
        if steps is None or not known.count:
            return None
        # Since the last report it has got on, but not as far as the next one: that would have come.
        since = self.spent_cpu_s - (self.spent_cpu_s if self._reported_at is None else self._reported_at)
        cost = max(known.cost, (known.cpu_s + since) / (known.steps + self._gap))
        left = max(0.0, steps - self._step - min(since / cost, self._gap))
        cpu_s = cost * left
        if since > _SILENT * cost * self._gap:
            cpu_s = max(cpu_s, since)  # what has gone on so long for nothing may go on as long
        spread = known.spread
        deviation = math.sqrt(left * left * spread / known.steps + left * spread + (cost * self._gap) ** 2 / 12)
        return Remaining(cpu_s, max(0.0, cpu_s - _SURE * deviation), cpu_s + _SURE * deviation, is_reported=True)


class _Stretches:
    """Steps that were reported and the CPU-seconds that they took, summed up."""

    __slots__ = ("count", "cpu_s", "squares", "steps")

    def __init__(self, count: int = 0, cpu_s: float = 0.0, steps: float = 0.0, squares: float = 0.0) -> None:
        self.count, self.cpu_s, self.steps, self.squares = count, cpu_s, steps, squares

    def add(self, cpu_s: float, steps: float) -> None:
        self.count += 1
        self.cpu_s += cpu_s
        self.steps += steps
        self.squares += cpu_s * cpu_s / steps

    def and_(self, other: _Stretches) -> _Stretches:
        return _Stretches(
            self.count + other.count,
            self.cpu_s + other.cpu_s,
            self.steps + other.steps,
            self.squares + other.squares,
        )

    @property
    def cost(self) -> float:
        """CPU-seconds a step."""
        return self.cpu_s / self.steps

    @property
    def spread(self) -> float:
        """Variance of what one step takes, if steps vary independently of each other."""
        around = max(0.0, self.squares - self.cpu_s * self.cost)
        guessed = (_GUESSED_SPREAD * self.cost) ** 2 * self.steps / self.count
        return (around + _GUESS_COUNTS_FOR * guessed) / (self.count - 1 + _GUESS_COUNTS_FOR)


class Forecasts:
    """The work left of many jobs; one that has not reported yet is taken to be like the others."""

    def __init__(self) -> None:
        self._of: dict[Hashable, WorkLeft] = {}
        self._ended: deque[float] = deque(maxlen=_MOST_REMEMBERED)
        """CPU-seconds that jobs which are gone were altogether."""

    def observe(
        self, job: Hashable, pod: Hashable, used_cpu_s: float | None, step: float | None, steps: float | None
    ) -> None:
        """See `WorkLeft.observe`."""
        self._of.setdefault(job, WorkLeft()).observe(pod, used_cpu_s, step, steps)

    def keep(self, jobs: Iterable[Hashable]) -> None:
        """All other jobs are gone; what they were is remembered for those that come."""
        there = set(jobs)
        for job in [job for job in self._of if job not in there]:
            whole = self._of.pop(job).whole_cpu_s
            if whole is not None:
                self._ended.append(whole)

    def __contains__(self, job: Hashable) -> bool:
        return job in self._of

    def spent_cpu_s(self, job: Hashable) -> float:
        """What the job has used so far, as far as it was seen."""
        known = self._of.get(job)
        return 0.0 if known is None else known.spent_cpu_s

    def forecast(self, job: Hashable) -> Remaining | None:
        """What the job has left; None where neither it nor any other has said anything."""
        known = self._of.get(job)
        said = None if known is None else known.forecast()
        return said or self._like_others(0.0 if known is None else known.spent_cpu_s)

    def _like_others(self, spent_cpu_s: float) -> Remaining | None:
        running = (one.whole_cpu_s for one in self._of.values())
        wholes = np.array([*self._ended, *(whole for whole in running if whole is not None)])
        if not len(wholes):
            return None
        left = wholes[wholes > spent_cpu_s] - spent_cpu_s
        if not len(left):
            # It is larger than all that were seen; what has lasted so long may last as long again.
            return Remaining(spent_cpu_s, 0.0, 3 * spent_cpu_s, is_reported=False)
        low, high = np.quantile(left, (0.05, 0.95)).tolist()
        return Remaining(float(left.mean()), low, high, is_reported=False)


def _is_amount(value: float | None) -> TypeGuard[float]:
    return value is not None and 0 <= value <= _MOST
