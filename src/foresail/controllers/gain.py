"""Move jobs where the time that all of them save, by forecast, exceeds what the move costs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from foresail.controllers.moving import Room
from foresail.controllers.outlook import JobOutlook, Outlook
from foresail.core.control import Action, Candidate, Move, View
from foresail.forecast.sharing import fair_ends_s

_ROUNDING = 1e-9


class Gain:
    """Move jobs where the time that all of them save, by forecast, exceeds what the move costs.

    With the CPU-seconds that each job still needs, and sharing by weight within limits, it is known when each job of a
    node would be done. A move is weighed by the ends of all jobs on both nodes: saved = Σ ends before − Σ ends after,
    where the job that moves stands still for `move_cost_s` first, which is its cost. It is made if saved > `ratio` ·
    cost and the job that moves is done no later than it would be. The best is taken first and the others are weighed
    anew; no job is moved again within `rest_s`. Both sides are job-seconds, so nothing depends on how long jobs are.
    """

    def __init__(
        self,
        *,
        every_s: float = 30.0,
        move_cost_s: float = 15.0,
        ratio: float = 1.5,
        moves_a_round: int = 4,
        rest_s: float = 60.0,
    ) -> None:
        """`every_s`: time between two rounds; `move_cost_s`: how long a moved job stands still; `rest_s`: how long it
        is left alone then; all in seconds. `ratio`: what a move must save at least, in multiples of its cost.
        `moves_a_round` is the most there are in a round.
        """
        for name, value, least in (("every_s", every_s, False), ("move_cost_s", move_cost_s, True)):
            if not (value > 0 or (least and value == 0)) or value == math.inf:
                raise ValueError(f"{name} is {value}; it is a number of seconds")
        if not ratio >= 0:
            raise ValueError(f"ratio is {ratio}; a move saves at least 0 times its cost")
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
        self._considered = []
        self._moved_s = {job: at_s for job, at_s in self._moved_s.items() if view.now_s - at_s < self._rest_s}
        jobs, cpus = self._outlook.look(view)
        ends_s = {node: _ends_s(cpus[node], on) for node, on in jobs.items()}
        room = Room(view)
        moves: list[Action] = []
        while len(moves) < self._moves_a_round:
            found = self._best(jobs, cpus, ends_s, room)
            if found is None:
                break
            job, source, target, saved_s = found
            why = f"saves {saved_s:.0f} job-seconds for {self._cost_s:g}"
            moves.append(Move(job.one.pod, why, target))
            self._considered.append(Candidate(job.one.pod, target, why, gain=saved_s, cost=self._cost_s))
            self._moved_s[job.one.job] = view.now_s
            room.take(job.one.pod, target)
            jobs[source].remove(job)
            jobs[target].append(job.after_standing_still(self._cost_s))
            for node in (source, target):
                ends_s[node] = _ends_s(cpus[node], jobs[node])
        return moves

    def _best(
        self,
        jobs: dict[str, list[JobOutlook]],
        cpus: dict[str, float],
        ends_s: dict[str, list[float]],
        room: Room,
    ) -> tuple[JobOutlook, str, str, float] | None:
        best: tuple[JobOutlook, str, str, float] | None = None
        for source, on in jobs.items():
            if math.fsum(job.limit for job in on) <= cpus[source]:
                continue  # everybody has all that it can use
            for at, job in enumerate(on):
                if job.one.job in self._moved_s:
                    continue
                rest = _ends_s(cpus[source], [other for other in on if other is not job])
                for target, there in jobs.items():
                    if target == source or not room.takes(job.one.pod, target):
                        continue
                    after = _ends_s(cpus[target], [*there, job.after_standing_still(self._cost_s)])
                    saved_s = math.fsum((*ends_s[source], *ends_s[target])) - math.fsum((*rest, *after))
                    worth = saved_s > self._ratio * self._cost_s and after[-1] <= ends_s[source][at]
                    # Of equals the first: what differs by rounding alone must not decide.
                    if worth and (best is None or saved_s > best[3] * (1 + _ROUNDING)):
                        best = (job, source, target, saved_s)
        return best


def _ends_s(cpus: float, jobs: Sequence[JobOutlook]) -> list[float]:
    weights = [max(float(job.one.cpu_milli), 2.0) for job in jobs]
    return fair_ends_s(cpus, [job.left_cpu_s for job in jobs], weights, [job.limit for job in jobs])
