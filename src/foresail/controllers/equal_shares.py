"""Give the jobs of a node equal shares of its CPU."""

from __future__ import annotations

from collections.abc import Sequence

from foresail.controllers.moving import SYSTEM_NAMESPACE
from foresail.core.control import Action, Resize, RunningPod, View


class EqualShares:
    """Give the jobs of a node equal shares of its CPU.

    What jobs on a node request together, and what is free there, is divided by their number. A job whose limit is below
    its share gets its limit, and the others share what is left. CPU of pods that are no jobs stays theirs, so that the
    node never gives more than it has.
    """

    def __init__(self, *, every_s: float = 10.0, namespace: str = "") -> None:
        """`every_s` is the time between two turns. Jobs are the pods of `namespace`; if that is empty, the pods of all
        namespaces but kube-system.
        """
        if not every_s > 0:
            raise ValueError(f"every_s is {every_s}; turns lie a number of seconds above 0 apart")
        self.every_s = every_s
        self._namespace = namespace

    def act(self, view: View) -> list[Action]:
        actions: list[Action] = []
        for node, pods in view.by_node():
            jobs = [one for one in pods if self._is_job(one)]
            room_milli = node.cpu_free_milli + sum(one.cpu_milli for one in jobs)
            for one, share_milli in zip(jobs, shares(room_milli, jobs), strict=True):
                if 0 < share_milli != one.cpu_milli:
                    why = f"{len(jobs)} jobs share {room_milli} milli-CPU"
                    actions.append(Resize(one.pod, share_milli, why))
        return actions

    def _is_job(self, one: RunningPod) -> bool:
        namespace = one.pod.spec.namespace
        return namespace == self._namespace if self._namespace else namespace != SYSTEM_NAMESPACE


def shares(room_milli: int, jobs: Sequence[RunningPod]) -> list[int]:
    """Milli-CPU of each job: all the same, except where a limit is below that."""
    share_milli = [0] * len(jobs)
    limits = [one.cpu_limit_milli or room_milli for one in jobs]
    left_milli = max(0, room_milli)
    # The tightest limit first: what it leaves over goes to those that may use more.
    for done, at in enumerate(sorted(range(len(jobs)), key=limits.__getitem__)):
        share_milli[at] = min(limits[at], left_milli // (len(jobs) - done))
        left_milli -= share_milli[at]
    return share_milli
