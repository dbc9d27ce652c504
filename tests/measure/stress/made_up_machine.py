"""A machine whose seconds are known, for measurements that are to be told apart from what they measure."""

from __future__ import annotations

from foresail.workloads.stress import StressTook


class MadeUpMachine:
    """Every operation takes a millisecond of CPU, and every start 20 ms; what was done is written down."""

    most_milli = 4000

    def __init__(self, *, breaks_after=None):
        self.done = []
        self.breaks_after = breaks_after

    @property
    def where(self):
        return {"on": "made up"}

    def do(self, cpu_milli, works):
        for task, ops, workers in works:
            if self.breaks_after is not None and len(self.done) >= self.breaks_after:
                raise KeyboardInterrupt
            self.done.append((task, cpu_milli, ops, workers))
            cpu_s = 0.020 + ops / 1000
            yield StressTook(task, ops, cpu_s * 1000 / cpu_milli, cpu_s, 1.0)
