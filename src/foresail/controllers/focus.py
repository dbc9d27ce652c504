"""Give CPU in place to jobs that are nearly done, as far as no end suffers, and move jobs to even out the ends."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from foresail.controllers.moving import Room
from foresail.controllers.outlook import JobOutlook, Outlook, evaluation
from foresail.core.control import STEPS_DONE, STEPS_TOTAL, Action, Candidate, Move, Resize, View
from foresail.forecast.growth import Growth
from foresail.forecast.sharing import in_order, shortest_first_ends_s

COMPLETION, ACCURACY_AIM = "completion", "accuracy"
_LITTLE = 0.1
"""Growth below this part of the largest: most has been learnt."""
_SAMPLE = 0.02
"""Part of a job's steps between two samples of its growth: shorter ones tell more of noise than of growth."""
_BEGINNING = 0.2
"""Part of its work after which a job that has reported nothing is taken to have learnt most."""
_LEAST_MILLI = 2
"""What the kubelet makes of a request that is smaller."""


class Focus:
    """Give CPU in place to jobs that are nearly done, as far as no end suffers, and move jobs to even out the ends.

    R is the work that a job has left by forecast, in CPU-seconds, l the most CPU it can use, C what its node has. The
    jobs of a node can all be done at T = max(ΣR / C, max R / l), not earlier.

    Shares, every `every_s` = δ: what cannot wait until after δ, if all are to be done by T' = (1 − `margin`) · T, is
    given now. Without a margin a job that is longer than it seems would begin too late. The longest jobs wait most:
    later = min(R, l · (T' − δ)), as far as C · (T' − δ) goes. The rest of the CPU goes to those with
    least left, up to their limits. Shares become requests, which are weights where pods compete: what the jobs of a
    node request together stays what it was, nobody gets less than `floor` of an equal part, limits stay as they are,
    and changes of less than `dead_band` of a request are not made.

    With `aim=accuracy` the CPU goes to those that have least to do until they have learnt most. Growth is |ΔE| / Δstep
    of the loss or accuracy E; where it is g of the job's largest after w CPU-seconds, and falls as it has fallen, a
    tenth is reached after w · ln(10 g) / −ln g more. Who has not reported twice comes first, who is past it comes last.

    Moves, every `move_every_s`: where Σ of all ends under shortest-first + `makespan_weight` · the latest T of all
    nodes falls by more than `least_gain_s`, although the job stands still for `move_cost_s`. Only from nodes whose jobs
    could use more than there is, only jobs that have more than twice as long to run as a move takes, none twice within
    `rest_s`.
    """

    def __init__(
        self,
        *,
        every_s: float = 10.0,
        move_every_s: float = 30.0,
        move_cost_s: float = 15.0,
        moves_a_round: int = 4,
        rest_s: float = 60.0,
        least_gain_s: float = 10.0,
        makespan_weight: float = 10.0,
        floor: float = 0.02,
        dead_band: float = 0.25,
        margin: float = 0.04,
        aim: str = COMPLETION,
    ) -> None:
        """Times in seconds: `every_s` between two rounds of shares, `move_every_s` between two rounds of moves,
        `move_cost_s` that a moved job stands still, `rest_s` that it is left alone then. `moves_a_round` is the most
        there are. `aim`: completion, or accuracy for the time until jobs have learnt most of what they learn.
        """
        _check(every_s=every_s, move_every_s=move_every_s, moves_a_round=moves_a_round)
        for name, value in (("move_cost_s", move_cost_s), ("rest_s", rest_s), ("dead_band", dead_band)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; it is 0 or more")
        for name, value in (("floor", floor), ("margin", margin)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}; it is a part of 1, 0 or more and below 1")
        if aim not in (COMPLETION, ACCURACY_AIM):
            raise ValueError(f'aim is "{aim}"; it is {COMPLETION} or {ACCURACY_AIM}')
        self.every_s = every_s
        self._aims_at_accuracy = aim == ACCURACY_AIM
        self._growth: dict[Hashable, Growth] = {}
        self._move_every_s, self._move_cost_s, self._moves_a_round = move_every_s, move_cost_s, moves_a_round
        self._rest_s, self._least_gain_s, self._makespan_weight = rest_s, least_gain_s, makespan_weight
        self._floor, self._dead_band, self._margin = floor, dead_band, margin
        self._outlook = Outlook()
        self._moved_s: dict[Hashable, float] = {}
        self._next_moves_s = -math.inf
        self._considered: list[Candidate] = []

    def considered(self) -> list[Candidate]:
        return self._considered

    def act(self, view: View) -> list[Action]:
        self._considered = []
        jobs, cpus = self._outlook.look(view)
        if self._aims_at_accuracy:
            self._measure_growth(view)
        actions: list[Action] = []
        if view.now_s >= self._next_moves_s:
            self._next_moves_s = view.now_s + self._move_every_s
            actions += self._moves(view, jobs, cpus)
        moving = {action.pod.uid for action in actions}
        for node, on in jobs.items():
            actions += self._shares(cpus[node], [job for job in on if job.one.pod.uid not in moving])
        return actions

    def _measure_growth(self, view: View) -> None:
        there = {one.job for one in view.running.values()}
        self._growth = {job: growth for job, growth in self._growth.items() if job in there}
        for uid, one in view.running.items():
            value, step = evaluation(view, uid), view.telemetry.reading(uid, STEPS_DONE)
            steps = view.telemetry.reading(uid, STEPS_TOTAL)
            if value is not None and step is not None and steps:
                # By steps and not by time: one that is given little must not look as if it had nothing more to learn.
                growth = self._growth.setdefault(one.job, Growth(interval_s=_SAMPLE))
                growth.observe(step / steps, value, step)

    # --- shares ----------------------------------------------------------------------------------------------------

    def _shares(self, cpus: float, on: Sequence[JobOutlook]) -> list[Action]:
        jobs = [job for job in on if job.is_reported or self._aims_at_accuracy]
        if len(jobs) < 2:
            return []
        rates = self._rates(cpus, jobs)
        together = sum(job.one.cpu_milli for job in jobs)
        floor = self._floor * together / len(jobs)
        given = math.fsum(rates) or 1.0
        actions: list[Action] = []
        for job, rate in zip(jobs, rates, strict=True):
            wanted = floor + (together - floor * len(jobs)) * rate / given
            most = job.one.cpu_limit_milli or together
            milli = max(_LEAST_MILLI, min(int(wanted), most))
            if abs(milli - job.one.cpu_milli) > self._dead_band * job.one.cpu_milli:
                why = f"{job.left_cpu_s:.0f} CPU-seconds left, {rate:.2f} CPU of {cpus:g}"
                actions.append(Resize(job.one.pod, milli, why))
        return actions

    def _rates(self, cpus: float, jobs: Sequence[JobOutlook]) -> list[float]:
        if not self._aims_at_accuracy:
            known = [(job.left_cpu_s, job.limit) for job in jobs]
            return rates_for(cpus, known, self.every_s, margin=self._margin)
        to_target = [self._to_target_cpu_s(job) for job in jobs]
        order = sorted(range(len(jobs)), key=lambda at: (to_target[at], jobs[at].left_cpu_s))
        return in_order(cpus, order, [job.limit for job in jobs])

    def _to_target_cpu_s(self, job: JobOutlook) -> float:
        """CPU-seconds until growth is a tenth of what it was, if it falls as it has fallen; infinity after it."""
        growth, spent = self._growth.get(job.one.job), self._outlook.forecasts.spent_cpu_s(job.one.job)
        if growth is None and spent > _BEGINNING * (spent + job.left_cpu_s):
            return math.inf
        if growth is None or growth.relative is None or growth.relative >= 1:
            return 0.0  # nothing is known yet: it is at its beginning, where jobs learn most
        if growth.relative <= _LITTLE:
            return math.inf
        return spent * math.log(growth.relative / _LITTLE) / -math.log(growth.relative)

    # --- moves -----------------------------------------------------------------------------------------------------

    def _moves(self, view: View, jobs: dict[str, list[JobOutlook]], cpus: dict[str, float]) -> list[Action]:
        self._moved_s = {job: at_s for job, at_s in self._moved_s.items() if view.now_s - at_s < self._rest_s}
        on = {node: list(there) for node, there in jobs.items()}
        sums_s = {node: _sum_of_ends_s(cpus[node], there) for node, there in on.items()}
        last_s = {node: _earliest_s(cpus[node], there) for node, there in on.items()}
        room, moves = Room(view), list[Action]()
        while len(moves) < self._moves_a_round:
            found = self._best(on, cpus, sums_s, last_s, room)
            if found is None:
                break
            job, target, gain_s = found
            source = job.one.node
            why = f"ends fall by {gain_s:.0f} s in all"
            moves.append(Move(job.one.pod, why, target))
            self._considered.append(Candidate(job.one.pod, target, why, gain=gain_s, cost=self._move_cost_s))
            self._moved_s[job.one.job] = view.now_s
            room.take(job.one.pod, target)
            on[source].remove(job)
            on[target].append(job.after_standing_still(self._move_cost_s))
            for node in (source, target):
                sums_s[node], last_s[node] = _sum_of_ends_s(cpus[node], on[node]), _earliest_s(cpus[node], on[node])
        return moves

    def _best(
        self,
        on: dict[str, list[JobOutlook]],
        cpus: dict[str, float],
        sums_s: dict[str, float],
        last_s: dict[str, float],
        room: Room,
    ) -> tuple[JobOutlook, str, float] | None:
        best: tuple[JobOutlook, str, float] | None = None
        latest_s = max(last_s.values(), default=0.0)
        for source, there in on.items():
            if math.fsum(job.limit for job in there) <= cpus[source]:
                continue  # everybody has all that it can use
            for job in there:
                if job.one.job in self._moved_s or job.left_cpu_s / job.limit <= 2 * self._move_cost_s:
                    continue
                rest = [other for other in there if other is not job]
                rest_sum_s, rest_last_s = _sum_of_ends_s(cpus[source], rest), _earliest_s(cpus[source], rest)
                for target, beside in on.items():
                    if target == source or last_s[target] >= last_s[source] or not room.takes(job.one.pod, target):
                        continue
                    grown = [*beside, job.after_standing_still(self._move_cost_s)]
                    others_s = [last_s[node] for node in on if node not in (source, target)]
                    then_s = max(rest_last_s, _earliest_s(cpus[target], grown), *others_s)
                    saved_s = sums_s[source] + sums_s[target] - rest_sum_s - _sum_of_ends_s(cpus[target], grown)
                    gain_s = saved_s + self._makespan_weight * (latest_s - then_s)
                    if gain_s > self._least_gain_s and (best is None or gain_s > best[2]):
                        best = (job, target, gain_s)
        return best


def rates_for(cpus: float, jobs: Sequence[tuple[float, float]], lasts_s: float, *, margin: float = 0.0) -> list[float]:
    """CPUs for each job, given as work left and limit, for the next while: as many as it needs for all to be done as
    early as they can be, and beyond that the shortest first. With a `margin` they are to be done by that part of the
    time earlier.
    """
    done_s = max([math.fsum(left for left, _ in jobs) / cpus, *(left / limit for left, limit in jobs)])
    after_s = max(0.0, (1 - margin) * done_s - lasts_s)
    later_cpu_s = cpus * after_s
    rates = [0.0] * len(jobs)
    for at in sorted(range(len(jobs)), key=lambda at: -jobs[at][0] / jobs[at][1]):
        left, limit = jobs[at]
        later = min(left, limit * after_s, later_cpu_s)
        later_cpu_s -= later
        rates[at] = min(limit, (left - later) / lasts_s)
    wanted = math.fsum(rates)
    if wanted > cpus:  # the margin asks for more than there is: everybody waits a little
        return [rate * cpus / wanted for rate in rates]
    free = cpus - wanted
    for at in sorted(range(len(jobs)), key=lambda at: jobs[at][0]):
        more = min(jobs[at][1] - rates[at], free)
        if more > 0:
            rates[at] += more
            free -= more
    return rates


def _check(*, every_s: float, move_every_s: float, moves_a_round: int) -> None:
    for name, value in (("every_s", every_s), ("move_every_s", move_every_s)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} is {value}; it is a number of seconds above 0")
    if moves_a_round < 0:
        raise ValueError(f"moves_a_round is {moves_a_round}; it is 0 or more")


def _sum_of_ends_s(cpus: float, jobs: Sequence[JobOutlook]) -> float:
    return math.fsum(shortest_first_ends_s(cpus, [job.left_cpu_s for job in jobs], [job.limit for job in jobs]))


def _earliest_s(cpus: float, jobs: Sequence[JobOutlook]) -> float:
    """When the jobs of a node can all be done."""
    if not jobs:
        return 0.0
    return max(math.fsum(job.left_cpu_s for job in jobs) / cpus, *(job.left_cpu_s / job.limit for job in jobs))
