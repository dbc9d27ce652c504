"""A run that is stepped from outside: `next` gives the pod to be decided, `answer` takes where it goes.

The run is the protocol's own, with its queue, gangs, preemption, faults and controllers; only `decide` is somebody
else's. So whoever learns to decide needs no loop of their own.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from foresail.core.decide import Decision
from foresail.core.decide import decide as decide_alone
from foresail.core.gang import Questions
from foresail.core.model import Declined, Mask, Nodes, NoFit, Placement, Pod, Scores
from foresail.core.profile import Profile, UsedScore
from foresail.core.scheduler import Scheduler
from foresail.core.table import NodeTable
from foresail.errors import PolicyError
from foresail.results.result import RunResult

DECLINED = "were declined by whoever was asked"
"""Why a pod waits, or has failed, that was refused although nodes would take it."""


class AskingRun(Protocol):
    """A run that stops at each decision."""

    @property
    def scheduler(self) -> Scheduler: ...

    def go(self) -> Questions[None]:
        """All of the run, asking where each pod goes."""

    def result(self) -> RunResult:
        """What came out, once the run is over."""


class Episode:
    """One run, decision by decision.

    A pod for which a node is held, or for which others have just been made to go, gets that node without a question;
    so does a pod that a controller moves.
    """

    def __init__(self, run: AskingRun) -> None:
        self._run = run
        self._scheduler = run.scheduler
        self.table: NodeTable = run.scheduler.table
        """The nodes as they are now."""
        self._questions = run.go()
        self._pod: Pod | None = None
        self._answer: Placement | NoFit | None = None
        self._own: Placement | NoFit | None = None
        """An answer that was given out here, and so need not be checked."""
        self._started = self._over = False
        self._any: Profile | None = None

    @property
    def time_s(self) -> float:
        """Where the run is in virtual time."""
        return self._scheduler.queue.clock.now()

    # --- questions and answers -------------------------------------------------------------------------------------

    def next(self) -> Pod | None:
        """The pod to be decided, the same until it is answered; None once the run is over."""
        if self._over or (self._pod is not None and self._answer is None):
            return self._pod
        try:
            if self._started:
                self._pod = self._questions.send(self._answer)  # type: ignore[arg-type]  # there is one, see above
            else:
                self._started = True
                self._pod = next(self._questions)
        except StopIteration:
            self._pod, self._over = None, True
        except BaseException:
            self._pod, self._over = None, True
            raise
        self._answer = self._own = None
        return self._pod

    def answer(self, outcome: Placement | NoFit | None) -> None:
        """Say where the pod goes: a placement, or a refusal, for which None will do.

        A pod that is refused although nodes would take it has been declined: it waits with all who request the same
        until room becomes free that it would pass for, and nobody is made to go for it; in a protocol where nobody
        waits it has failed. One that no node takes is refused for the reasons that the nodes have.

        What cannot be is an error, and the pod is still to be answered then.
        """
        pod = self._asked()
        if self._answer is not None:
            raise PolicyError(f"{pod.name} has its answer already; next() gives the next pod")
        if outcome is not self._own or outcome is None:
            if isinstance(outcome, Placement):
                self._check(pod, outcome)
            else:
                outcome = self._refusal(pod)
        self._answer = outcome

    def result(self) -> RunResult:
        """What came out, once the run is over."""
        if not self._over:
            raise PolicyError("the run is not over yet; answer until next() gives None")
        return self._run.result()

    # --- what could be answered ------------------------------------------------------------------------------------

    def decide(self) -> Placement | NoFit:
        """What the profile would answer."""
        self._own = self._scheduler.decide(self._asked())
        return self._own

    def on(self, row: int, devices: tuple[int, ...] | None = None) -> Placement:
        """The answer that puts the pod on the node at a row, on these GPUs or on those that the profile picks."""
        pod, table = self._asked(), self.table
        self._check_row(pod, row)
        if devices is None:
            placement = Placement(int(row), table.names[row], self._scheduler.profile.devices_on(row, pod, table.all))
        else:
            placement = Placement(int(row), table.names[row], devices)
            self._check_devices(pod, placement)
        self._own = placement
        return placement

    def feasible(self) -> Mask:
        """Which nodes would take the pod now; shape (all nodes,)."""
        pod, table = self._asked(), self.table
        passes: Mask = Decision(pod, table, self._anywhere()).verdict == 0
        if self._scheduler.domain is not None:
            passes = passes & self._scheduler.domain.is_open
        for row in self._scheduler.holds.holders(pod, table):
            passes[row] = passes[row] and not self._scheduler.refusal(pod, row)
        return passes

    def _anywhere(self) -> Profile:
        """The profile's filters alone: asked by somebody who does not want to know what its scores say."""
        if self._any is None:
            profile = self._scheduler.profile
            self._any = Profile(
                profile.name,
                filters=[(used.name, used.plugin) for used in profile.filters],
                scores=[UsedScore("anywhere", _Anywhere())],
                devices=_NoDevices(),
                devices_given=True,
            )
        return self._any

    # --- checks ----------------------------------------------------------------------------------------------------

    def _asked(self) -> Pod:
        if self._pod is None:
            what = "the run is over" if self._over else "nobody has been asked about yet; next() gives the first pod"
            raise PolicyError(f"there is no pod to answer for: {what}")
        return self._pod

    def _refusal(self, pod: Pod) -> NoFit:
        outcome = self._scheduler.holds.deciding(decide_alone)(pod, self.table, self._anywhere())
        if isinstance(outcome, NoFit):
            return outcome
        return Declined(pod.name, self.table.count, {DECLINED: self.table.count})

    def _check(self, pod: Pod, placement: Placement) -> None:
        self._check_row(pod, placement.row)
        if placement.node != self.table.names[placement.row]:
            raise PolicyError(
                f"the answer for {pod.name} names {placement.node} and row {placement.row}, which is "
                f"{self.table.names[placement.row]}; Episode.on(row) makes an answer of a row"
            )
        self._check_devices(pod, placement)

    def _check_row(self, pod: Pod, row: int) -> None:
        table = self.table
        if not 0 <= row < table.count:
            raise PolicyError(f"the answer for {pod.name} is row {row}; rows go from 0 to {table.count - 1}")
        refusal = self._scheduler.refusal(pod, row)
        if refusal:
            raise PolicyError(
                f"{table.names[row]} does not take {pod.name}: {refusal}; Episode.feasible() tells which nodes do"
            )

    def _check_devices(self, pod: Pod, placement: Placement) -> None:
        row, devices, table = placement.row, placement.devices, self.table
        free = table.gpu_free[row].tolist()
        wrong = ""
        if len(devices) != pod.gpu_count or len(set(devices)) != len(devices):
            wrong = f"it requests {pod.gpu_count} different ones"
        elif not all(0 <= device < table.gpu_count[row] for device in devices):
            wrong = f"the node has {table.gpu_count[row]}, counted from 0"
        elif not all(free[device] >= pod.gpu_milli for device in devices):
            wrong = f"it requests {pod.gpu_milli} milli of each, and free are {[free[device] for device in devices]}"
        if wrong:
            raise PolicyError(f"{pod.name} cannot have the GPUs {list(devices)} of {placement.node}: {wrong}")


class _Anywhere:
    """All nodes are the same."""

    row_wise = True

    def score(self, _pod: Pod, nodes: Nodes) -> Scores:
        return np.zeros(len(nodes))


class _NoDevices:
    """For a choice of node that nobody will be placed by."""

    def devices(self, _pod: Pod, _nodes: Nodes, _row: int) -> tuple[int, ...]:
        return ()
