"""Even out the number of jobs on nodes by moving them."""

from __future__ import annotations

import math
from collections.abc import Hashable

from foresail.controllers.moving import Room, jobs_by_node, may_be_moved
from foresail.core.columns import CPU
from foresail.core.control import Action, Candidate, Move, RunningPod, View


class Balance:
    """Even out the number of jobs on nodes by moving them.

    A node's load is its jobs for each CPU it has. As long as moving one job from the node with most load to the one
    with least makes the larger of the two loads smaller, the job goes that has been there for the shortest time and was
    not moved within `rest_s`.
    """

    def __init__(self, *, every_s: float = 30.0, moves_a_round: int = 4, rest_s: float = 60.0) -> None:
        """`every_s`: time between two rounds; `rest_s`: how long a moved job is left alone, both in seconds.
        `moves_a_round` is the most there are in a round.
        """
        if not 0 < every_s < math.inf:
            raise ValueError(f"every_s is {every_s}; rounds lie a number of seconds above 0 apart")
        if moves_a_round < 1:
            raise ValueError(f"moves_a_round is {moves_a_round}; it is 1 or more")
        self.every_s = every_s
        self._moves_a_round, self._rest_s = moves_a_round, rest_s
        self._moved_s: dict[Hashable, float] = {}
        self._considered: list[Candidate] = []

    def considered(self) -> list[Candidate]:
        return self._considered

    def act(self, view: View) -> list[Action]:
        self._considered = []
        self._moved_s = {job: at_s for job, at_s in self._moved_s.items() if view.now_s - at_s < self._rest_s}
        room, table = Room(view), view.table
        jobs = jobs_by_node(view, view.running.values())
        counts = {node: float(len(on)) for node, on in jobs.items()}
        cpus = {node: max(1.0, float(table.allocatable[table.row_of[node], CPU])) / 1000 for node in jobs}
        moves: list[Action] = []
        while len(moves) < self._moves_a_round:
            best = self._best(jobs, counts, cpus, room)
            if best is None:
                break
            one, target = best
            load = counts[one.node] / cpus[one.node]
            why = f"{one.node} has {counts[one.node]:.0f} jobs, {target} {counts[target]:.0f}"
            moves.append(Move(one.pod, why, target))
            gain = load - max(counts[one.node] - 1, 0) / cpus[one.node]
            self._considered.append(Candidate(one.pod, target, why, gain=gain, cost=0.0, unit="jobs/CPU"))
            self._moved_s[one.job] = view.now_s
            counts[one.node] -= 1
            counts[target] += 1
            jobs[one.node].remove(one)
            room.take(one.pod, target)
        return moves

    def _best(
        self, jobs: dict[str, list[RunningPod]], counts: dict[str, float], cpus: dict[str, float], room: Room
    ) -> tuple[RunningPod, str] | None:
        by_load = sorted(jobs, key=lambda node: counts[node] / cpus[node])
        for source in reversed(by_load):
            load = counts[source] / cpus[source]
            movable = [one for one in jobs[source] if may_be_moved(one) and one.job not in self._moved_s]
            for one in sorted(movable, key=lambda one: -one.since_s):
                for target in by_load:
                    if (counts[target] + 1) / cpus[target] >= load:
                        break
                    if room.takes(one.pod, target):
                        return one, target
        return None
