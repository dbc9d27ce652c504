"""Move jobs where that saves the pool more of its time than is the moved job's part of it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from foresail.controllers.moving import Room
from foresail.controllers.outlook import JobOutlook, Outlook
from foresail.core.control import Action, Candidate, Move, View
from foresail.forecast.sharing import LEAST_WEIGHT, fair_ends_s

_ROUNDING = 1e-9
_MOST_TOLD = 100
"""Candidates of a round that are told, the best first."""


class Gain:
    """Move jobs where that saves the pool more of its time than is the moved job's part of it.

    With the CPU-seconds that each job still needs, and sharing by weight within limits, it is known when each job of a
    node would be done. A move is weighed by the ends of all jobs on both nodes: saved = Σ ends before − Σ ends after,
    where the job that moves stands still for `move_cost_s` first. It is made if the part of the pool's time that it
    saves exceeds `ratio` times the part of the pool that it disturbs, (saved ÷ Σ of all ends) ÷ (1 ÷ jobs) > `ratio`,
    and the job that moves is done no later than it would be. So nothing depends on how long jobs are, or how many. The
    best is taken first and the others are weighed anew; no job is moved again within `rest_s`.
    """

    def __init__(
        self,
        *,
        every_s: float = 30.0,
        move_cost_s: float = 15.0,
        ratio: float = 0.1,
        moves_a_round: int = 4,
        rest_s: float = 60.0,
    ) -> None:
        """`every_s`: time between two rounds; `move_cost_s`: how long a moved job stands still; `rest_s`: how long it
        is left alone then; all in seconds. `ratio`: the part of the pool's time that a move must save, in multiples of
        the part of the pool that it disturbs. `moves_a_round` is the most there are in a round.
        """
        for name, value, least in (("every_s", every_s, False), ("move_cost_s", move_cost_s, True)):
            if not (value > 0 or (least and value == 0)) or value == math.inf:
                raise ValueError(f"{name} is {value}; it is a number of seconds")
        if not ratio >= 0:
            raise ValueError(f"ratio is {ratio}; it is 0 or more")
        if moves_a_round < 1:
            raise ValueError(f"moves_a_round is {moves_a_round}; it is 1 or more")
        self.every_s = every_s
        self._cost_s, self._ratio, self._moves_a_round, self._rest_s = move_cost_s, ratio, moves_a_round, rest_s
        self._outlook = Outlook()
        self._moved_s: dict[Hashable, float] = {}
        self._considered: list[Candidate] = []

    def considered(self) -> list[Candidate]:
        return self._considered

    def act(self, view: View) -> list[Action]:
        self._moved_s = {job: at_s for job, at_s in self._moved_s.items() if view.now_s - at_s < self._rest_s}
        jobs, cpus = self._outlook.look(view)
        room = Room(view)
        weighed: dict[Hashable, Candidate] = {}
        moves: list[Action] = []
        while len(moves) < self._moves_a_round:
            found = self._best(jobs, cpus, room, weighed)
            if found is None:
                break
            job, target = found
            moves.append(Move(job.one.pod, weighed[job.one.pod.uid].why, target))
            self._moved_s[job.one.job] = view.now_s
            room.take(job.one.pod, target)
            jobs[job.one.node].remove(job)
            jobs[target].append(job.after_standing_still(self._cost_s))
        self._considered = sorted(weighed.values(), key=lambda one: -one.gain)[:_MOST_TOLD]
        return moves

    def _best(
        self,
        jobs: dict[str, list[JobOutlook]],
        cpus: dict[str, float],
        room: Room,
        weighed: dict[Hashable, Candidate],
    ) -> tuple[JobOutlook, str] | None:
        """The move that saves most, if one saves enough. Notes what the best move of every job would save."""
        best, best_s = None, -math.inf
        ends_s = {node: _ends_s(cpus[node], on) for node, on in jobs.items()}
        pool_s, count = math.fsum(end_s for ends in ends_s.values() for end_s in ends), sum(map(len, ends_s.values()))
        for source, on in jobs.items():
            if math.fsum(job.limit for job in on) <= cpus[source]:
                continue  # everybody has all that it can use
            for at, job in enumerate(on):
                if not job.may_move or job.one.job in self._moved_s:
                    continue
                most_s = -math.inf
                rest = _ends_s(cpus[source], [other for other in on if other is not job])
                for target, there in jobs.items():
                    if target == source or not room.takes(job.one.pod, target):
                        continue
                    after = _ends_s(cpus[target], [*there, job.after_standing_still(self._cost_s)])
                    saved_s = math.fsum((*ends_s[source], *ends_s[target])) - math.fsum((*rest, *after))
                    is_late = after[-1] > ends_s[source][at]
                    # Of equals the first: what differs by rounding alone must not decide.
                    if saved_s > most_s + _ROUNDING * abs(saved_s):
                        most_s = saved_s
                        why = (
                            f"saves {saved_s:.0f} of {pool_s:.0f} job-seconds" + is_late * ", but would itself be late"
                        )
                        weighed[job.one.pod.uid] = Candidate(job.one.pod, target, why, saved_s, self._cost_s)
                    worth = saved_s * count > self._ratio * pool_s and not is_late
                    if worth and saved_s > best_s + _ROUNDING * abs(saved_s):
                        best, best_s = (job, target), saved_s
        if best is not None:
            job, target = best
            why = f"saves {best_s:.0f} of {pool_s:.0f} job-seconds"
            weighed[job.one.pod.uid] = Candidate(job.one.pod, target, why, best_s, self._cost_s)
        return best


def _ends_s(cpus: float, jobs: Sequence[JobOutlook]) -> list[float]:
    weights = [max(float(job.one.cpu_milli), LEAST_WEIGHT) for job in jobs]
    return fair_ends_s(cpus, [job.left_cpu_s for job in jobs], weights, [job.limit for job in jobs])
