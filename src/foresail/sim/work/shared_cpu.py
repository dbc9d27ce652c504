"""Shared CPU: the pods of a node divide its CPU by weight, nobody above its limit, and get on as fast as that gives.

When somebody starts, leaves or is resized, the pods of that node alone are timed anew; the others' plans hold.
"""

from __future__ import annotations

import math

import numpy as np

from foresail.core.clock import Clock
from foresail.core.columns import CPU
from foresail.core.kubernetes import UNSTATED_CPU_MILLI
from foresail.core.spec import Workload
from foresail.core.table import NodeTable
from foresail.forecast.sharing import LEAST_WEIGHT, share
from foresail.sim.agenda import RESUME, Agenda
from foresail.sim.work.targets import target_fractions
from foresail.sim.work.work import Floats, Interruptions, of_jobs


class SharedCpu:
    """Work that is CPU-seconds, done at the rate that sharing gives."""

    def __init__(
        self,
        workload: Workload,
        table: NodeTable,
        clock: Clock,
        agenda: Agenda,
        interruptions: Interruptions,
        *,
        oversubscription_loss: float = 0.0,
    ) -> None:
        """`oversubscription_loss` λ: where the pods of a node could use D of its C CPUs, D > C, CPU does
        1 / (1 + λ(D/C − 1)) of the work that it would do otherwise.
        """
        count = len(workload)
        self._table, self._clock, self._agenda = table, clock, agenda
        self._interruptions, self._loss = interruptions, oversubscription_loss
        request_milli = np.array([spec.cpu_milli for spec in workload.specs], dtype=np.float64)[workload.spec_of]
        self._work: list[float] = work_cpu_s(workload).tolist()
        """CPU-seconds that a pod is; infinity for one that never ends."""
        by_request = np.maximum(request_milli, LEAST_WEIGHT)
        self._first_weight: list[float] = np.where(workload.cpu_weight > 0, workload.cpu_weight, by_request).tolist()
        limits = workload.cpu_limit_milli / 1000
        self._first_limit: list[float] = np.where(limits > 0, limits, math.inf).tolist()
        self._weight, self._limit = list(self._first_weight), list(self._first_limit)
        self._done = [0.0] * count
        """CPU-seconds done up to when the pod's row was last brought up to date."""
        self._saved = [0.0] * count
        """Those of the last checkpoint."""
        self._lost = [0.0] * count
        self._used = [0.0] * count
        """CPU-seconds used, as far as `_done` is brought up to date."""
        work = np.array(self._work)
        self._target: list[float] = (target_fractions(workload) * np.where(work > 0, work, math.nan)).tolist()
        """CPU-seconds after which a training job has its target; not a number for one that has it, or has none."""
        self._target_s = [math.nan] * count
        """When it first had."""
        self._checkpoint_due_s = [math.inf] * count
        self._rate = [0.0] * count
        """CPU-seconds of work a second."""
        self._granted = [0.0] * count
        """CPUs that the pod has."""
        self._end_s = [math.inf] * count
        """When the pod would end if its row stayed as it is."""
        self._row = [-1] * count
        self._came = [0] * count
        """How often the pod has been given a node."""
        self._of_job = of_jobs(workload)
        self._start: list[float] = start_cpu_s(workload).tolist()
        self._ahead = [0.0] * count
        """CPU-seconds that the pod needs before it gets on, up to when its row was last brought up to date."""
        self._working: list[dict[int, None]] = [{} for _ in range(table.count)]
        """The pods that work on each row, in the order in which they began."""
        self._since_s = [0.0] * table.count
        """Up to when the pods of a row are accounted for."""
        self._planned: list[list[int]] = [[] for _ in range(table.count)]
        """Whose end is in the agenda: of each row the pods that end first."""
        self._changed: dict[int, None] = {}
        self._busy_milli = np.zeros(table.count)

    # --- coming, going and changing --------------------------------------------------------------------------------

    def start(self, index: int, row: int) -> None:
        self._row[index] = row
        pause_s = self._interruptions.pause_s(self._came[index], of_job=self._of_job[index])
        self._came[index] += 1
        if pause_s:
            self._agenda.plan(index, self._clock.now() + pause_s, RESUME)
        else:
            self.resume(index)

    def resume(self, index: int) -> None:
        row = self._row[index]
        self._bring_up_to_date(row)
        self._working[row][index] = None
        self._saved[index] = self._done[index]
        self._ahead[index] = self._start[index]
        every_s = self._interruptions.checkpoint_every_s
        self._checkpoint_due_s[index] = self._clock.now() + every_s if every_s else math.inf

    def end(self, index: int) -> None:
        self._leave(index)
        self._done[index] = self._work[index]

    def stop(self, index: int) -> None:
        self._leave(index)
        interruptions = self._interruptions
        kept = 0.0
        if interruptions.keeps_progress:
            kept = self._saved[index] if interruptions.checkpoint_every_s else self._done[index]
        self._lost[index] += self._done[index] - kept
        self._done[index] = self._saved[index] = kept
        # Whoever makes it anew makes it as it was asked for at first.
        self._weight[index], self._limit[index] = self._first_weight[index], self._first_limit[index]

    def move(self, index: int, row: int) -> None:
        self._leave(index)
        self.start(index, row)

    def resize(self, index: int, cpu_milli: int, cpu_limit_milli: int) -> None:
        self._bring_up_to_date(self._row[index])
        self._weight[index] = max(float(cpu_milli), LEAST_WEIGHT)
        self._limit[index] = cpu_limit_milli / 1000 if cpu_limit_milli else math.inf

    def _leave(self, index: int) -> None:
        row = self._row[index]
        self._bring_up_to_date(row)
        self._working[row].pop(index, None)  # it may still have been getting ready
        if index in self._planned[row]:
            self._planned[row].remove(index)
        self._agenda.call_off(index)
        self._row[index] = -1
        self._rate[index] = self._granted[index] = 0.0
        self._end_s[index] = math.inf

    # --- time ------------------------------------------------------------------------------------------------------

    def _bring_up_to_date(self, row: int) -> None:
        """Account for what the row's pods have done so far, before anything changes there."""
        now_s, since_s = self._clock.now(), self._since_s[row]
        self._since_s[row] = now_s
        self._changed[row] = None
        if now_s == since_s:
            return
        every_s = self._interruptions.checkpoint_every_s
        for index in self._working[row]:
            due_s = self._checkpoint_due_s[index]
            if due_s <= now_s:
                last_s = due_s + math.floor((now_s - due_s) / every_s) * every_s
                self._saved[index] = self._done_by(index, last_s - since_s)
                self._checkpoint_due_s[index] = last_s + every_s
            # One that ends now has done all of its work, whatever rounding has made of the last bit.
            ends = self._end_s[index] <= now_s
            done = self._work[index] if ends else self._done_by(index, now_s - since_s)
            if done >= self._target[index]:
                lacked = self._ahead[index] + self._target[index] - self._done[index]
                self._target_s[index] = since_s + lacked / self._rate[index]
                self._target[index] = math.nan
            self._done[index] = done
            self._ahead[index] = max(0.0, self._ahead[index] - self._rate[index] * (now_s - since_s))
            self._used[index] += self._granted[index] * (now_s - since_s)

    def _done_by(self, index: int, after_s: float) -> float:
        gained = max(0.0, self._rate[index] * after_s - self._ahead[index])
        return min(self._work[index], self._done[index] + gained)

    def settle(self) -> None:
        for row in self._changed:
            self._time(row)
        self._changed.clear()

    def _time(self, row: int) -> None:
        """Find out how fast the row's pods go from now on, and plan the first end among them."""
        for index in self._planned[row]:
            self._agenda.call_off(index)
        pods = list(self._working[row])
        capacity = float(self._table.allocatable[row, CPU]) / 1000
        limits = [min(self._limit[index], capacity) for index in pods]
        grants = share(capacity, [self._weight[index] for index in pods], limits)
        efficiency = 1.0
        if self._loss and (demand := math.fsum(limits)) > capacity > 0:
            efficiency = 1.0 / (1.0 + self._loss * (demand / capacity - 1.0))
        self._busy_milli[row] = 1000 * math.fsum(grants)
        now_s = self._since_s[row]
        first_s = math.inf
        for index, granted in zip(pods, grants, strict=True):
            self._granted[index] = granted
            self._rate[index] = rate = granted * efficiency
            left = self._work[index] - self._done[index]
            left += self._ahead[index] if left > 0 else 0.0
            if left > 0:
                self._end_s[index] = now_s + left / rate if rate > 0 else math.inf
            else:
                self._end_s[index] = now_s
            first_s = min(first_s, self._end_s[index])
        self._planned[row] = []
        if first_s < math.inf:
            # All that end together: they leave before anybody else is decided about, as at any instant.
            self._planned[row] = [index for index in pods if self._end_s[index] == first_s]
            for index in self._planned[row]:
                self._agenda.plan(index, first_s)

    # --- what is known ---------------------------------------------------------------------------------------------

    def busy_milli(self) -> Floats:
        return self._busy_milli

    def used_milli(self, index: int) -> float:
        return 1000 * self._granted[index]

    def used_cpu_s(self, index: int) -> float:
        return self._used[index] + self._granted[index] * self._unaccounted_s(index)

    def done_cpu_s(self, index: int) -> float:
        return self._done_by(index, self._unaccounted_s(index))

    def _unaccounted_s(self, index: int) -> float:
        """How long the pod has worked since its row was last brought up to date."""
        if self._rate[index] == 0.0:
            return 0.0  # it has no node, or is getting ready, or gets nothing there
        return self._clock.now() - self._since_s[self._row[index]]

    def left_cpu_s(self, index: int) -> float:
        return self._work[index] - self.done_cpu_s(index)

    def end_s(self, index: int) -> float:  # noqa: ARG002 - it depends on who comes to its node
        return math.inf

    def target_s(self) -> Floats:
        for row, pods in enumerate(self._working):
            if pods:
                self._bring_up_to_date(row)
        return np.array(self._target_s)

    def lost_cpu_s(self, index: int) -> float:
        """CPU-seconds that the pod had done and lost again with its node."""
        return self._lost[index]

    def alone_s(self) -> Floats:
        """Alone on the largest node."""
        most = float(self._table.allocatable[:, CPU].max()) / 1000 if self._table.count else 0.0
        cpus, work = np.minimum(self._first_limit, most), np.array(self._work) + np.array(self._start)
        alone_s = np.where(work > 0, math.inf, 0.0)
        np.divide(work, cpus, out=alone_s, where=cpus > 0)
        return alone_s


def work_cpu_s(workload: Workload) -> Floats:
    """CPU-seconds that each pod is: as stated, else its duration at what it requests; infinity if it never ends."""
    request_milli = np.array([spec.cpu_milli for spec in workload.specs], dtype=np.float64)[workload.spec_of]
    at_request = workload.duration_s * np.where(request_milli > 0, request_milli, UNSTATED_CPU_MILLI) / 1000
    return np.where(np.isnan(workload.work_cpu_s), at_request, workload.work_cpu_s)


def start_cpu_s(workload: Workload) -> Floats:
    """CPU-seconds that each pod needs whenever it starts, before it gets on."""
    # The last stands for pods that train nothing, whose index is -1.
    by_training = np.array([*(training.start_cpu_s for training in workload.trainings), 0.0])
    return by_training[workload.training_of]
