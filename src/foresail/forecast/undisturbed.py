"""When jobs would be done if nobody touched them: where they were first seen, sharing by what they requested then."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from foresail.forecast.sharing import LEAST_WEIGHT, fair_ends_s, fair_progress


class SeenJob(NamedTuple):
    """A job as it is seen now."""

    job: Hashable
    node: str
    request_milli: float
    limit: float
    """CPUs that it can use at most."""
    since_s: float
    """When it got its node."""
    spent_cpu_s: float
    left_cpu_s: float
    """By forecast; infinity where nothing is known."""


class Undisturbed:
    """The same jobs in a world without a controller, which goes on beside the real one.

    A job that is first seen is there as it is then. What it is altogether follows the forecast; whoever has ended in
    the real world goes on there until it is done, since it would take CPU from the others for as long.
    """

    def __init__(self) -> None:
        self._of: dict[Hashable, _Imagined] = {}
        self._now_s = -math.inf

    def look(self, now_s: float, seen: Iterable[SeenJob], cpus: Mapping[str, float]) -> None:
        """Go on to `now_s`, and take in who is there; `cpus` of the nodes."""
        self._go_on(now_s, cpus)
        there = set()
        for one in seen:
            there.add(one.job)
            known = self._of.get(one.job)
            if known is None:
                self._of[one.job] = known = _Imagined(one)
            if one.left_cpu_s < math.inf:
                known.whole_cpu_s = one.spent_cpu_s + one.left_cpu_s
        self._of = {
            job: known
            for job, known in self._of.items()
            if job in there or (known.end_s == math.inf and known.whole_cpu_s < math.inf and known.node in cpus)
        }

    def _go_on(self, now_s: float, cpus: Mapping[str, float]) -> None:
        passed_s = now_s - self._now_s
        if 0 < passed_s < math.inf:
            for node, jobs in self._by_node().items():
                done, ends_s = fair_progress(cpus.get(node, 0.0), *_columns(jobs), passed_s)
                for known, more, end_s in zip(jobs, done, ends_s, strict=True):
                    known.done_cpu_s += more
                    if end_s < math.inf:
                        known.end_s = self._now_s + end_s
        self._now_s = max(self._now_s, now_s)

    def ends_s(self, cpus: Mapping[str, float]) -> dict[Hashable, tuple[float, float]]:
        """When each job came to its node, and when it would be done or was."""
        ends = {}
        for node, jobs in self._by_node().items():
            left_s = fair_ends_s(cpus.get(node, 0.0), *_columns(jobs))
            for known, end_s in zip(jobs, left_s, strict=True):
                ends[known.job] = (known.since_s, self._now_s + end_s)
        ends |= {job: (known.since_s, known.end_s) for job, known in self._of.items() if known.end_s < math.inf}
        return ends

    def request_milli(self, job: Hashable) -> float:
        """What the job requested when it was first seen."""
        return self._of[job].request_milli

    def _by_node(self) -> dict[str, list[_Imagined]]:
        on: dict[str, list[_Imagined]] = {}
        for known in self._of.values():
            if known.end_s == math.inf:
                on.setdefault(known.node, []).append(known)
        return on


class _Imagined:
    """A job in the world without a controller."""

    __slots__ = ("done_cpu_s", "end_s", "job", "limit", "node", "request_milli", "since_s", "whole_cpu_s")

    def __init__(self, seen: SeenJob) -> None:
        self.job, self.node, self.request_milli, self.limit = seen.job, seen.node, seen.request_milli, seen.limit
        self.since_s, self.done_cpu_s = seen.since_s, seen.spent_cpu_s
        self.whole_cpu_s = math.inf
        self.end_s = math.inf


def _columns(jobs: list[_Imagined]) -> tuple[list[float], list[float], list[float]]:
    left = [max(0.0, known.whole_cpu_s - known.done_cpu_s) for known in jobs]
    return left, [max(known.request_milli, LEAST_WEIGHT) for known in jobs], [known.limit for known in jobs]
