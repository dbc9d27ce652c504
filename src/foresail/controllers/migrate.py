"""Move jobs that have stopped improving away from where others still do: the published rule."""

from __future__ import annotations

import math
from collections.abc import Hashable

from foresail.controllers.moving import Room, jobs_by_node, may_be_moved
from foresail.controllers.outlook import evaluation
from foresail.core.control import STEPS_DONE, Action, Candidate, Move, RunningPod, View
from foresail.forecast.growth import Growth, GrowthClass


class Migrate:
    """Move jobs that have stopped improving away from where others still do: the published rule.

    Every `every_s` the growth of each job is measured: P = |E(t_k) − E(t_{k−1})| / (t_k − t_{k−1}) of its evaluation
    value E, a loss or an accuracy, and g = P / the largest P of this job. g < `threshold` twice in a row makes it
    converged, and g ≥ `threshold` progressing again. In a round, every `round_s`, the converged jobs that were never
    moved are looked at, those first that stand beside most progressing jobs, then where least CPU is free. The target
    is the node with fewest progressing jobs, then with most CPU free, that has room; a job moves only where there are
    fewer than beside it now. Moves are told, and once for each time that it converges that a job was kept.
    """

    def __init__(
        self,
        *,
        threshold: float = 0.1,
        every_s: float = 10.0,
        round_s: float = 30.0,
        moves_a_round: int = 1,
        moves_a_job: int = 1,
    ) -> None:
        """`threshold`: growth below this part of a job's largest is little. `every_s`: time between two measurements,
        `round_s`: between two rounds of moves, both in seconds. `moves_a_round` and `moves_a_job` are the most there
        are.
        """
        for name, value in (("every_s", every_s), ("round_s", round_s)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; it is a number of seconds above 0")
        for name, count in (("moves_a_round", moves_a_round), ("moves_a_job", moves_a_job)):
            if count < 1:
                raise ValueError(f"{name} is {count}; it is 1 or more")
        Growth(threshold=threshold, interval_s=every_s)  # says at once what is wrong with a threshold
        self.every_s = every_s
        self._threshold, self._round_s = threshold, round_s
        self._moves_a_round, self._moves_a_job = moves_a_round, moves_a_job
        self._growth: dict[Hashable, Growth] = {}
        self._moves: dict[Hashable, int] = {}
        self._kept: set[Hashable] = set()
        """Converged jobs of which it was told that they stay."""
        self._next_round_s = -math.inf
        self._considered: list[Candidate] = []

    def considered(self) -> list[Candidate]:
        return self._considered

    def act(self, view: View) -> list[Action]:
        self._considered = []
        self._measure(view)
        if view.now_s < self._next_round_s:
            return []
        self._next_round_s = view.now_s + self._round_s
        return self._round(view)

    def _measure(self, view: View) -> None:
        there = {one.job for one in view.running.values()}
        self._growth = {job: growth for job, growth in self._growth.items() if job in there}
        self._moves = {job: count for job, count in self._moves.items() if job in there}
        for uid, one in view.running.items():
            value = evaluation(view, uid)
            step = view.telemetry.reading(uid, STEPS_DONE)
            if value is not None and step is not None:
                growth = self._growth.setdefault(one.job, Growth(threshold=self._threshold, interval_s=self.every_s))
                growth.observe(view.now_s, value, step)

    def _round(self, view: View) -> list[Action]:
        room = Room(view)
        on = jobs_by_node(view, view.running.values())
        growing = {node: sum(self._is(one, GrowthClass.PROGRESSING) for one in jobs) for node, jobs in on.items()}
        converged = [
            one
            for one in view.running.values()
            if self._is(one, GrowthClass.CONVERGED)
            and self._moves.get(one.job, 0) < self._moves_a_job
            and may_be_moved(one)
            and one.node in growing
        ]
        converged.sort(key=lambda one: (-growing[one.node], room.free_cpu_milli(one.node)))
        self._kept &= {one.job for one in converged}
        moves: list[Action] = []
        for one in converged:
            target = "" if len(moves) >= self._moves_a_round else self._target(one, growing, room)
            if target:
                why = f"converged beside {growing[one.node]} progressing jobs; {target} has {growing[target]}"
                moves.append(Move(one.pod, why, target))
                self._moves[one.job] = self._moves.get(one.job, 0) + 1
                room.take(one.pod, target)
            else:
                full = len(moves) >= self._moves_a_round
                why = "this round has its moves" if full else "no node with room has fewer progressing jobs"
            if target or one.job not in self._kept:
                self._considered.append(Candidate(one.pod, target, why))
                self._kept.add(one.job)
        return moves

    def _is(self, one: RunningPod, state: GrowthClass) -> bool:
        growth = self._growth.get(one.job)
        # A job that has told nothing yet is at its beginning.
        return (GrowthClass.PROGRESSING if growth is None else growth.state) is state

    def _target(self, one: RunningPod, growing: dict[str, int], room: Room) -> str:
        better = [
            node
            for node, count in growing.items()
            if node != one.node and count < growing[one.node] and room.takes(one.pod, node)
        ]
        return min(better, key=lambda node: (growing[node], -room.free_cpu_milli(node)), default="")
