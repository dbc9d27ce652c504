"""Give CPU in place to jobs that are nearly done, as far as others can wait, and move jobs to even out the ends."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

from foresail.controllers.moving import Room
from foresail.controllers.outlook import JobOutlook, Outlook, evaluation
from foresail.core.columns import CPU
from foresail.core.control import STEPS_DONE, STEPS_TOTAL, Action, Candidate, Move, Resize, View
from foresail.forecast.growth import Growth, GrowthClass
from foresail.forecast.sharing import LEAST_WEIGHT, DueJob, earliest_s, in_order, rates_in_time, shortest_first_ends_s
from foresail.forecast.undisturbed import SeenJob, Undisturbed

COMPLETION, ACCURACY_AIM = "completion", "accuracy"
_SAMPLE = 0.02
"""Part of a job's steps between two samples of its growth: shorter ones tell more of noise than of growth."""
_LONG = 2.0
"""A job is worth a move that has more than so many times as long to run as a move takes."""
_MOST_TOLD = 100
"""Candidates of a round that are told, the best first."""


class Focus:
    """Give CPU in place to jobs that are nearly done, as far as others can wait, and move jobs to even out the ends.

    R is the work that a job has left by forecast, in CPU-seconds, l the most CPU it can use, C what its node has. The
    jobs of a node can all be done at max(ΣR / C, max R / l), not earlier; T is the latest of these times of all nodes.

    Every job is due at (1 − `margin`) · T: without a margin, one that is longer than it seems would begin too late. It
    is also due once it has taken `patience` times as long as it would have without a controller. For this the jobs go
    on in thought where they were first seen, sharing by what they requested then, and each is as long as is forecast.

    Shares, every `every_s` = δ: what cannot wait until after δ if nobody is to be late is given now. Backwards from the
    latest time on, of those that are not due before, the longest wait. Up to `urgent` of the CPU is given so; the
    rest goes to those with least left, up to their limits. Shares become requests, which are weights where pods
    compete: the jobs of a node request together what they did when they were first seen, as far as the node has it,
    nobody gets less than `floor` of an equal part, limits stay as they are, and changes of less than `dead_band` of a
    request are not made.

    With `aim=accuracy` jobs learn in the first `learning` part of their work, and after it as long as their growth is a
    tenth of the largest they had; growth is |ΔE| / Δstep of the loss or accuracy E. Those that learn come first, with
    the least to do until that part is over; the others share what is left as above.

    Moves, every `move_every_s`: where Σ of all ends under shortest-first + `makespan_weight` · T falls by more than
    `least_gain_s`, although the job stands still for `move_cost_s`. Only from nodes whose jobs could use more than
    there is, only jobs that have more than twice as long to run as a move takes, none twice within `rest_s`. With
    `aim=accuracy` those that learn are moved where their own ends fall, the ends of learning; others as above.
    """

    def __init__(
        self,
        *,
        every_s: float = 5.0,
        move_every_s: float = 20.0,
        move_cost_s: float = 15.0,
        moves_a_round: int = 4,
        rest_s: float = 60.0,
        least_gain_s: float = 10.0,
        makespan_weight: float = 3.0,
        floor: float = 0.02,
        dead_band: float = 0.25,
        margin: float = 0.06,
        patience: float = 1.25,
        urgent: float = 0.75,
        learning: float = 0.25,
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
        for name, value in (("floor", floor), ("margin", margin), ("learning", learning)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}; it is a part of 1, 0 or more and below 1")
        if not 0 <= urgent <= 1:
            raise ValueError(f"urgent is {urgent}; it is a part of the CPU, from 0 to 1")
        if not patience >= 1:
            raise ValueError(f"patience is {patience}; it is 1 or more: nobody can be sure to be done sooner")
        if aim not in (COMPLETION, ACCURACY_AIM):
            raise ValueError(f'aim is "{aim}"; it is {COMPLETION} or {ACCURACY_AIM}')
        self.every_s = every_s
        self._aims_at_accuracy, self._learning = aim == ACCURACY_AIM, learning
        self._growth: dict[Hashable, Growth] = {}
        self._move_every_s, self._move_cost_s, self._moves_a_round = move_every_s, move_cost_s, moves_a_round
        self._rest_s, self._least_gain_s, self._makespan_weight = rest_s, least_gain_s, makespan_weight
        self._floor, self._dead_band = floor, dead_band
        self._margin, self._patience, self._urgent = margin, patience, urgent
        self._outlook = Outlook()
        self._undisturbed = Undisturbed()
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
        self._imagine(view.now_s, jobs, cpus)
        actions: list[Action] = []
        if view.now_s >= self._next_moves_s:
            self._next_moves_s = view.now_s + self._move_every_s
            actions += self._moves(view, jobs, cpus)
        moving = {action.pod.uid for action in actions}
        due_s = self._due_s(view.now_s, jobs, cpus)
        for node, on in jobs.items():
            there = [job for job in on if job.one.pod.uid not in moving]
            free_milli = max(0.0, float(view.table.free[view.table.row_of[node], CPU]))
            actions += self._shares(cpus[node], there, due_s, free_milli)
        return actions

    def _imagine(self, now_s: float, jobs: Mapping[str, Sequence[JobOutlook]], cpus: Mapping[str, float]) -> None:
        spent = self._outlook.forecasts.spent_cpu_s
        seen = [
            SeenJob(
                job.one.job, node, job.one.cpu_milli, job.limit, job.one.since_s, spent(job.one.job), job.left_cpu_s
            )
            for node, on in jobs.items()
            for job in on
        ]
        self._undisturbed.look(now_s, seen, cpus)

    def _due_s(
        self, now_s: float, jobs: Mapping[str, Sequence[JobOutlook]], cpus: Mapping[str, float]
    ) -> dict[Hashable, float]:
        """By when each job is to be done, from now."""
        all_s = (1 - self._margin) * max((_earliest_s(cpus[node], on) for node, on in jobs.items()), default=0.0)
        undisturbed = self._undisturbed.ends_s(cpus)
        return {
            job: min(all_s, since_s + self._patience * (end_s - since_s) - now_s)
            for job, (since_s, end_s) in undisturbed.items()
        }

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

    def _shares(
        self, cpus: float, on: Sequence[JobOutlook], due_s: Mapping[Hashable, float], free_milli: float
    ) -> list[Action]:
        jobs = [job for job in on if job.is_reported or self._aims_at_accuracy]
        if len(jobs) < 2:
            return []
        rates = self._rates(cpus, jobs, due_s)
        # What the favoured ones had when they ended goes to those that are left, or newcomers would outweigh them all.
        first_milli = math.fsum(self._undisturbed.request_milli(job.one.job) for job in jobs)
        together = min(first_milli, sum(job.one.cpu_milli for job in jobs) + free_milli)
        floor = self._floor * together / len(jobs)
        given = math.fsum(rates) or 1.0
        actions: list[Action] = []
        for job, rate in zip(jobs, rates, strict=True):
            wanted = floor + (together - floor * len(jobs)) * rate / given
            most = job.one.cpu_limit_milli or together
            milli = int(max(LEAST_WEIGHT, min(wanted, most)))
            if abs(milli - job.one.cpu_milli) > self._dead_band * job.one.cpu_milli:
                why = f"{job.left_cpu_s:.0f} CPU-seconds left, {rate:.2f} CPU of {cpus:g}"
                actions.append(Resize(job.one.pod, milli, why))
        return actions

    def _rates(self, cpus: float, jobs: Sequence[JobOutlook], due_s: Mapping[Hashable, float]) -> list[float]:
        to_learn = [self._to_learn_cpu_s(job) for job in jobs]
        order = sorted((at for at, left in enumerate(to_learn) if left < math.inf), key=to_learn.__getitem__)
        rates = in_order(cpus, order, [job.limit for job in jobs])
        left = cpus - math.fsum(rates)
        if left > 0:
            others = [at for at in range(len(jobs)) if to_learn[at] == math.inf]
            known = [DueJob(jobs[at].left_cpu_s, min(jobs[at].limit, left), due_s[jobs[at].one.job]) for at in others]
            for at, rate in zip(others, rates_in_time(left, known, self.every_s, urgent=self._urgent), strict=True):
                rates[at] = rate
        return rates

    def _to_learn_cpu_s(self, job: JobOutlook) -> float:
        """CPU-seconds until the job has learnt most; infinity if it has, or if nobody aims at that."""
        if not self._aims_at_accuracy:
            return math.inf
        spent, growth = self._outlook.forecasts.spent_cpu_s(job.one.job), self._growth.get(job.one.job)
        whole = spent + job.left_cpu_s
        if spent < self._learning * whole:
            return self._learning * whole - spent
        learns_on = growth is not None and growth.rate is not None and growth.state is GrowthClass.PROGRESSING
        # Nobody knows for how long, so it comes after those that are sure to learn.
        return whole if learns_on else math.inf

    # --- moves -----------------------------------------------------------------------------------------------------

    def _moves(self, view: View, jobs: dict[str, list[JobOutlook]], cpus: dict[str, float]) -> list[Action]:
        self._moved_s = {job: at_s for job, at_s in self._moved_s.items() if view.now_s - at_s < self._rest_s}
        room, weighed = Room(view), dict[Hashable, Candidate]()
        learning: dict[str, list[JobOutlook]] = {}
        others: dict[str, list[JobOutlook]] = {}
        for node, there in jobs.items():
            to_learn = [(job, self._to_learn_cpu_s(job)) for job in there]
            learning[node] = [job._replace(left_cpu_s=left) for job, left in to_learn if left < math.inf]
            others[node] = [job._replace(may_move=job.may_move and left == math.inf) for job, left in to_learn]
        moves = self._batch(view.now_s, learning, cpus, room, weighed, self._moves_a_round)
        moves += self._batch(view.now_s, others, cpus, room, weighed, self._moves_a_round - len(moves))
        self._considered = sorted(weighed.values(), key=lambda one: -one.gain)[:_MOST_TOLD]
        return moves

    def _batch(
        self,
        now_s: float,
        on: dict[str, list[JobOutlook]],
        cpus: dict[str, float],
        room: Room,
        weighed: dict[Hashable, Candidate],
        most: int,
    ) -> list[Action]:
        moves: list[Action] = []
        while len(moves) < most:
            found = self._best(on, cpus, room, weighed)
            if found is None:
                break
            job, target = found
            moves.append(Move(job.one.pod, weighed[job.one.pod.uid].why, target))
            self._moved_s[job.one.job] = now_s
            room.take(job.one.pod, target)
            on[job.one.node].remove(job)
            on[target].append(job._replace(ready_s=self._move_cost_s))
        return moves

    def _best(
        self,
        on: dict[str, list[JobOutlook]],
        cpus: dict[str, float],
        room: Room,
        weighed: dict[Hashable, Candidate],
    ) -> tuple[JobOutlook, str] | None:
        """The move that gains most, if one gains enough. Notes what the best move of every job would gain."""
        best, best_s = None, self._least_gain_s
        sums_s = {node: _sum_of_ends_s(cpus[node], there) for node, there in on.items()}
        last_s = {node: _earliest_s(cpus[node], there) for node, there in on.items()}
        latest_s = max(last_s.values(), default=0.0)
        for source, there in on.items():
            if math.fsum(job.limit for job in there) <= cpus[source]:
                continue  # everybody has all that it can use
            for job in there:
                if not job.may_move or job.one.job in self._moved_s:
                    continue
                if job.left_cpu_s / job.limit <= _LONG * self._move_cost_s:
                    continue
                rest = [other for other in there if other is not job]
                rest_sum_s, rest_last_s = _sum_of_ends_s(cpus[source], rest), _earliest_s(cpus[source], rest)
                most_s = -math.inf
                for target, beside in on.items():
                    if target == source or last_s[target] >= last_s[source] or not room.takes(job.one.pod, target):
                        continue
                    grown = [*beside, job._replace(ready_s=self._move_cost_s)]
                    others_s = [last_s[node] for node in on if node not in (source, target)]
                    then_s = max(rest_last_s, _earliest_s(cpus[target], grown), *others_s)
                    saved_s = sums_s[source] + sums_s[target] - rest_sum_s - _sum_of_ends_s(cpus[target], grown)
                    gain_s = saved_s + self._makespan_weight * (latest_s - then_s)
                    if gain_s > most_s:
                        most_s = gain_s
                        why = f"ends fall by {saved_s:.0f} s in all, the last by {latest_s - then_s:.0f} s"
                        weighed[job.one.pod.uid] = Candidate(job.one.pod, target, why, gain_s, self._move_cost_s)
                    if gain_s > best_s:
                        best, best_s = (job, target), gain_s
        return best


def _check(*, every_s: float, move_every_s: float, moves_a_round: int) -> None:
    for name, value in (("every_s", every_s), ("move_every_s", move_every_s)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} is {value}; it is a number of seconds above 0")
    if moves_a_round < 0:
        raise ValueError(f"moves_a_round is {moves_a_round}; it is 0 or more")


def _columns(jobs: Sequence[JobOutlook]) -> tuple[list[float], list[float], list[float]]:
    return [job.left_cpu_s for job in jobs], [job.limit for job in jobs], [job.ready_s for job in jobs]


def _sum_of_ends_s(cpus: float, jobs: Sequence[JobOutlook]) -> float:
    return math.fsum(shortest_first_ends_s(cpus, *_columns(jobs)))


def _earliest_s(cpus: float, jobs: Sequence[JobOutlook]) -> float:
    return earliest_s(cpus, *_columns(jobs))
