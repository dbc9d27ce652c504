"""What the controller is told of a job's pods: how many supersteps are done, and what the last one had to do."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from foresail.core.control import SUPERSTEPS_DONE, SUPERSTEPS_TOTAL, WORKLOAD


class GangReadings:
    """Telemetry of one job, as of the last barrier."""

    def __init__(self, total: int) -> None:
        self._total = float(total)
        self._done: float | None = None
        self._workloads: Mapping[Hashable, float] = {}

    def between(self, done: int, workloads: Mapping[Hashable, float]) -> None:
        """So many supersteps are done; the pods of the tasks, by uid, had these workloads in the last one."""
        self._done, self._workloads = float(done), dict(workloads)

    def working(self) -> None:
        """A superstep goes on: nobody is between two."""
        self._done = None

    def reading(self, uid: Hashable, name: str) -> float | None:
        if uid not in self._workloads:
            return None
        if name == WORKLOAD:
            return self._workloads[uid]
        return {SUPERSTEPS_DONE: self._done, SUPERSTEPS_TOTAL: self._total}.get(name)
