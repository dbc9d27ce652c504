"""Fixed durations: a pod runs for as long as its trace says, whoever runs beside it."""

from __future__ import annotations

import math

from foresail.core.clock import Clock
from foresail.core.spec import Workload
from foresail.core.table import NodeTable
from foresail.sim.agenda import RESUME, Agenda
from foresail.sim.work.work import Floats, Interruptions, of_jobs


class FixedTime:
    """Work that is a time. A resize changes what a pod requests, not how long it runs."""

    def __init__(
        self,
        workload: Workload,
        _table: NodeTable,
        clock: Clock,
        agenda: Agenda,
        interruptions: Interruptions,
    ) -> None:
        self._workload = workload
        self._clock = clock
        self._agenda = agenda
        self._interruptions = interruptions
        self._left_s: list[float] = workload.duration_s.tolist()
        """How long a pod still had to run when it began to work on its node; infinity for one that never ends."""
        self._works_from_s = [math.nan] * len(workload)
        """When it began to work there, or will; not a number for a pod without a node."""
        self._came = [0] * len(workload)
        """How often a pod has been given a node."""
        self._of_job = of_jobs(workload)
        self._lost_s = [0.0] * len(workload)

    def start(self, index: int, row: int) -> None:  # noqa: ARG002 - a time does not depend on the node
        self._go_on(index)

    def _go_on(self, index: int) -> None:
        pause_s = self._interruptions.pause_s(self._came[index], of_job=self._of_job[index])
        self._came[index] += 1
        self._works_from_s[index] = from_s = self._clock.now() + pause_s
        if self._left_s[index] < math.inf:
            self._agenda.plan(index, from_s + self._left_s[index])

    def resume(self, index: int) -> None:
        raise AssertionError(f"event {RESUME} of pod {index}: a fixed time is planned with its pauses")

    def end(self, index: int) -> None:
        self._left_s[index] = 0.0
        self._leave(index)

    def stop(self, index: int) -> None:
        interruptions, had_s = self._interruptions, self._done_s(index)
        if interruptions.keeps_progress:
            worked_s, every_s = self._worked_s(index), interruptions.checkpoint_every_s
            kept_s = math.floor(worked_s / every_s) * every_s if every_s else worked_s
            self._left_s[index] = max(0.0, self._left_s[index] - kept_s)
        else:
            self._left_s[index] = float(self._workload.duration_s[index])
        self._works_from_s[index] = math.nan
        self._lost_s[index] += had_s - self._done_s(index)
        self._leave(index)

    def move(self, index: int, row: int) -> None:  # noqa: ARG002 - as in start
        self._left_s[index] = max(0.0, self._left_s[index] - self._worked_s(index))
        self._leave(index)
        self._go_on(index)

    def _leave(self, index: int) -> None:
        self._agenda.call_off(index)
        self._works_from_s[index] = math.nan

    def resize(self, index: int, cpu_milli: int, cpu_limit_milli: int) -> None:
        pass

    def settle(self) -> None:
        pass

    def busy_milli(self) -> None:
        return None

    def used_milli(self, index: int) -> float:
        """What the trace says that it requests."""
        return float(self._workload.spec(index).cpu_milli)

    def used_cpu_s(self, index: int) -> float:
        return (self._done_s(index) + self._lost_s[index]) * self.used_milli(index) / 1000

    def done_cpu_s(self, index: int) -> float:
        return self._done_s(index) * self.used_milli(index) / 1000

    def _done_s(self, index: int) -> float:
        done_s = self._worked_s(index)
        if self._left_s[index] < math.inf:
            done_s += float(self._workload.duration_s[index]) - self._left_s[index]
        return done_s

    def left_cpu_s(self, index: int) -> float:
        cpu = self.used_milli(index) / 1000
        return max(0.0, self._left_s[index] - self._worked_s(index)) * cpu if cpu else 0.0

    def end_s(self, index: int) -> float:
        from_s = self._works_from_s[index]
        if math.isnan(from_s):
            from_s = self._clock.now() + self._interruptions.pause_s(self._came[index], of_job=self._of_job[index])
        return from_s + self._left_s[index]

    def target_s(self) -> Floats | None:
        return None

    def alone_s(self) -> Floats:
        return self._workload.duration_s

    def _worked_s(self, index: int) -> float:
        from_s = self._works_from_s[index]
        return 0.0 if math.isnan(from_s) else max(0.0, self._clock.now() - from_s)
