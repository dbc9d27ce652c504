"""The cluster of a dry run: decisions are made and noted, and nothing reaches the API server."""

from __future__ import annotations

from foresail.core.control_loop import DRY_RUN
from foresail.core.journal import What
from foresail.core.lifecycle import State
from foresail.core.model import Placement, Pod
from foresail.core.preemption import Preemption
from foresail.live.scheduler.cluster import LiveCluster


class DryCluster(LiveCluster):
    """Pods that would be bound count on their node from then on, until a watch names another or they are gone."""

    def bind(self, pod: Pod, placement: Placement) -> None:
        self.policy_error = ""
        # What comes next must see this pod where it would be, as it would if it had been bound.
        self.lives.turn(pod.uid, State.BINDING)
        self.lives.turn(pod.uid, State.RUNNING)
        self.journal.note(What.START, pod=pod.name, node=placement.node, detail=f"{DRY_RUN}would be bound")

    def preempt(self, pod: Pod, plan: Preemption) -> None:
        self.journal.note(What.PREEMPT, pod=pod.name, node=plan.node, detail=f"{DRY_RUN}{plan}")
        self.preemption.withdraw(pod.uid, why="")  # nobody leaves, so nothing was ever held
