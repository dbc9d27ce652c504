"""What jobs have before them, by forecast, node by node: what controllers that look ahead go by."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import NamedTuple

from foresail.controllers.moving import SYSTEM_NAMESPACE, jobs_by_node, may_be_moved
from foresail.core.columns import CPU
from foresail.core.control import ACCURACY, CPU_USED_S, LOSS, STEPS_DONE, STEPS_TOTAL, RunningPod, View
from foresail.forecast.remaining import Forecasts


def evaluation(view: View, uid: Hashable) -> float | None:
    """What a job evaluates to by its last report: its loss, or its accuracy if it tells no loss."""
    loss = view.telemetry.reading(uid, LOSS)
    return view.telemetry.reading(uid, ACCURACY) if loss is None else loss


class JobOutlook(NamedTuple):
    """A running job and what it has before it."""

    one: RunningPod
    left_cpu_s: float
    limit: float
    """CPUs that it can use at most."""
    is_reported: bool
    """Whether its own reports say what is left, and not what other jobs were like."""
    may_move: bool = True
    ready_s: float = 0.0
    """From now; it stands still until then."""

    def after_standing_still(self, for_s: float) -> JobOutlook:
        """As if it had so much more to do, at its full speed."""
        return self._replace(left_cpu_s=self.left_cpu_s + self.limit * for_s)


class Outlook:
    """Takes in what is read of running pods, and says what each job of a node has left."""

    def __init__(self) -> None:
        self.forecasts = Forecasts()

    def look(self, view: View) -> tuple[dict[str, list[JobOutlook]], dict[str, float]]:
        """The jobs on each node of which something is known, and the nodes' CPUs.

        Pods of the system and of gangs are not among them: a gang gets on no faster than its slowest member.
        """
        read, running = view.telemetry.reading, view.running.values()
        for uid, one in view.running.items():
            self.forecasts.observe(one.job, uid, read(uid, CPU_USED_S), read(uid, STEPS_DONE), read(uid, STEPS_TOTAL))
        self.forecasts.keep(one.job for one in running)
        table = view.table
        cpus = {name: float(table.allocatable[row, CPU]) / 1000 for name, row in table.row_of.items()}
        return {node: list(self._known(on, cpus[node])) for node, on in jobs_by_node(view, running).items()}, cpus

    def _known(self, on: list[RunningPod], cpus: float) -> Iterator[JobOutlook]:
        for one in on:
            left = self.forecasts.forecast(one.job)
            limit = min(one.cpu_limit_milli / 1000 or math.inf, cpus)
            is_job = one.pod.gang is None and one.pod.spec.namespace != SYSTEM_NAMESPACE
            if left is not None and limit > 0 and is_job:
                yield JobOutlook(one, left.cpu_s, limit, left.is_reported, may_be_moved(one))
