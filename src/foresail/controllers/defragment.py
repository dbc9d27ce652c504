"""After departures, move GPU pods to where fragmentation falls most for the GPU time that a move loses."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import NamedTuple

from foresail.controllers.moving import may_be_moved
from foresail.controllers.repacking import Repacking
from foresail.core.control import Action, Candidate, Move, RunningPod, View
from foresail.forecast.typical_mix import TypicalMix

_MOST_TOLD = 100
"""Candidates of a round that are told, the best first."""
_UNIT = "GPU-s"


class _Asked(NamedTuple):
    """A move that was asked for."""

    at_s: float
    from_node: str
    to_node: str


class Defragment:
    """After departures, move GPU pods to where fragmentation falls most for the GPU time that a move loses.

    F is fgd's fragmentation: idle GPU that a typical pod could not use; typical are the pods that were seen of late.
    The move of a pod brings gain = fall of F · `lasts_s` and takes cost = its GPUs · `move_cost_s`, in GPU-seconds. In
    a round, which there is if a GPU pod has left since the last turn, moves with gain > cost are made, those first with
    the largest fall for their cost, each as the ones before it leave things. A node that a pod leaves in a round takes
    none in it, so that no move waits for another. Gangs stay, and pods whose annotation foresail.dev/no-move says so.
    """

    def __init__(
        self,
        *,
        every_s: float = 30.0,
        move_cost_s: float = 30.0,
        lasts_s: float = 300.0,
        moves_a_round: int = 4,
        rest_s: float = 600.0,
        remember: int = 1000,
    ) -> None:
        """`every_s`: time between two turns; `move_cost_s`: how long a moved pod does not work; `lasts_s`: how long a
        fall of fragmentation is taken to last; `rest_s`: how long a moved pod is left alone; all in seconds.
        `moves_a_round` is the most there are in a round. `remember`: typical pods are found among so many seen last.
        """
        for name, value in (("every_s", every_s), ("lasts_s", lasts_s)):
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}; it is a number of seconds above 0")
        for name, value in (("move_cost_s", move_cost_s), ("rest_s", rest_s)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; it is a number of seconds, 0 or more")
        if moves_a_round < 1:
            raise ValueError(f"moves_a_round is {moves_a_round}; it is 1 or more")
        self.every_s = every_s
        self._move_cost_s, self._lasts_s, self._rest_s = move_cost_s, lasts_s, rest_s
        self._moves_a_round = moves_a_round
        self._mix = TypicalMix(remember)
        self._there: set[Hashable] = set()
        """GPU pods of the last look, by job: a successor is not one that has left."""
        self._asked: dict[Hashable, _Asked] = {}
        self._refused: dict[Hashable, set[str]] = {}
        """Nodes on which a pod did not arrive, though it was to go there."""
        self._considered: list[Candidate] = []

    def considered(self) -> list[Candidate]:
        return self._considered

    def act(self, view: View) -> list[Action]:
        self._considered = []
        self._mix.see((one.job, one.pod.spec) for one in view.running.values())
        there = {one.job for one in view.running.values() if one.pod.gpu_count}
        has_left, self._there = not self._there <= there, there
        self._asked = {job: asked for job, asked in self._asked.items() if job in there}
        self._refused = {job: nodes for job, nodes in self._refused.items() if job in there}
        return self._round(view) if has_left else []

    def _round(self, view: View) -> list[Action]:
        movable = [one for one in view.running.values() if self._is_movable(one, view)]
        repacking = Repacking(view.table, self._mix.typical(view.table.models), movable, self._may_take)
        moves: list[Action] = []
        weighed: dict[Hashable, tuple[float, Candidate]] = {}
        while True:
            best: tuple[float, RunningPod, str, str] | None = None
            for one, node, fall_milli in repacking.best_targets():
                gpus = one.pod.gpu_count * one.pod.gpu_milli / 1000
                gain, cost = fall_milli / 1000 * self._lasts_s, self._move_cost_s * gpus
                ratio = gain / cost if cost else math.inf
                why = f"{fall_milli:.0f} milli-GPU less fragmented on {one.node} and {node} together"
                weighed[one.pod.uid] = (ratio, Candidate(one.pod, node, why, gain, cost, _UNIT))
                if gain > cost and (best is None or ratio > best[0]):
                    best = (ratio, one, node, why)
            if best is None or len(moves) == self._moves_a_round:
                break
            _, one, node, why = best
            moves.append(Move(one.pod, why, node))
            self._asked[one.job] = _Asked(view.now_s, one.node, node)
            repacking.move(one, node)
        by_ratio = sorted(weighed.values(), key=lambda known: -known[0])
        self._considered = [candidate for _, candidate in by_ratio[:_MOST_TOLD]]
        return moves

    def _is_movable(self, one: RunningPod, view: View) -> bool:
        if not one.pod.gpu_count or not may_be_moved(one) or one.pod.uid not in view.table.placed:
            return False
        asked = self._asked.get(one.job)
        if asked is None:
            return True
        if view.now_s - asked.at_s < self._rest_s:
            return False
        if one.node == asked.from_node:
            self._refused.setdefault(one.job, set()).add(asked.to_node)
        del self._asked[one.job]
        return True

    def _may_take(self, one: RunningPod, node: str) -> bool:
        return node not in self._refused.get(one.job, ())
