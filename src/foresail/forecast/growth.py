"""How fast a training job still improves, and whether that is worth mentioning."""

from __future__ import annotations

import math
from enum import StrEnum


class GrowthClass(StrEnum):
    """What a job's growth makes of it."""

    PROGRESSING = "progressing"
    WATCHING = "watching"
    """It grew little of late; once more and it is converged."""
    CONVERGED = "converged"


class Growth:
    """The growth of one job's evaluation value E, a loss or an accuracy.

    Between two samples P = |E(t_k) − E(t_{k−1})| / (t_k − t_{k−1}), and g = P / the largest P of this job so far (0 as
    long as nothing has ever changed). g < threshold makes a progressing job watching, and a watching one converged;
    g ≥ threshold makes it progressing again. A sample is taken when a report has come since the last one, and at least
    `interval_s` after it: a job that is too starved to report is not taken for one that has nothing more to learn.
    """

    __slots__ = ("_report", "_time_s", "_value", "interval_s", "largest", "rate", "relative", "state", "threshold")

    def __init__(self, *, threshold: float = 0.1, interval_s: float = 10.0) -> None:
        """`threshold`: growth below this part of the job's largest is little. `interval_s`: between two samples."""
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold is {threshold}; it is a part of a job's largest growth, above 0 and at most 1")
        if not 0 <= interval_s < math.inf:
            raise ValueError(f"interval_s is {interval_s}; samples lie a number of seconds apart")
        self.threshold, self.interval_s = threshold, interval_s
        self.state = GrowthClass.PROGRESSING
        self.rate: float | None = None
        """P, a second; None before there are two samples."""
        self.largest = 0.0
        self.relative: float | None = None
        """g, from 0 to 1; None before there are two samples."""
        self._time_s = math.nan
        self._value = math.nan
        self._report = -math.inf

    def observe(self, time_s: float, value: float, report: float) -> GrowthClass:
        """Take in what a job evaluated to at `time_s`, in its report of that step; say what it is now.

        What is no number is not looked at. A step before the last one is a restart: growth is measured from there on.
        """
        if not (math.isfinite(time_s) and math.isfinite(value) and math.isfinite(report)):
            return self.state
        if not math.isfinite(self._time_s) or report < self._report or time_s < self._time_s:
            self._keep(time_s, value, report)
        elif report > self._report and time_s - self._time_s >= self.interval_s and time_s > self._time_s:
            self._grow(abs(value - self._value) / (time_s - self._time_s))
            self._keep(time_s, value, report)
        return self.state

    def _grow(self, rate: float) -> None:
        if rate == math.inf:  # a difference that no number holds says nothing
            return
        self.rate, self.largest = rate, max(self.largest, rate)
        self.relative = rate / self.largest if self.largest > 0 else 0.0
        self.state = self._next(self.relative)

    def _keep(self, time_s: float, value: float, report: float) -> None:
        self._time_s, self._value, self._report = time_s, value, report

    def _next(self, relative: float) -> GrowthClass:
        if relative >= self.threshold:
            return GrowthClass.PROGRESSING
        return GrowthClass.WATCHING if self.state is GrowthClass.PROGRESSING else GrowthClass.CONVERGED
