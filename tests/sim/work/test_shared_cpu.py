"""Shared CPU against closed forms, its conservation laws, and a simulation that shares no code with it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.work.slow_sharing import Job, ends_by_hand

from foresail.core.backoff import Backoff
from foresail.core.clock import SimClock
from foresail.core.spec import NodeSpec, PodSpec, Training, Workload
from foresail.core.table import NodeTable
from foresail.sim.agenda import DEPARTURE, RESUME, Agenda
from foresail.sim.work.shared_cpu import SharedCpu, share, work_cpu_s
from foresail.sim.work.work import Interruptions


class World:
    """Nodes of so many CPUs, pods of so many CPU-seconds, and what ended when."""

    def __init__(
        self, cpus, work, *, weights=None, limits=None, requests=None, loss=0.0, starts=None, owners=None, **more
    ) -> None:
        count = len(work)
        starts, owners = starts or [0.0] * count, owners or [""] * count
        self.table = NodeTable([NodeSpec(f"n{at}", round(1000 * cpu), 0) for at, cpu in enumerate(cpus)])
        workload = Workload(
            names=[f"p{at}" for at in range(count)],
            specs=[
                PodSpec(cpu_milli=milli, owner=owner)
                for milli, owner in zip(requests or [1000] * count, owners, strict=True)
            ],
            spec_of=np.arange(count),
            work_cpu_s=np.array(work, dtype=np.float64),
            cpu_weight=np.array(weights or [0.0] * count, dtype=np.float64),
            cpu_limit_milli=np.array([round(1000 * limit) for limit in limits or [0] * count], dtype=np.int64),
            training_of=np.array([at if start_cpu_s else -1 for at, start_cpu_s in enumerate(starts)]),
            trainings=[Training(f"t{at}", 10, 1, start_cpu_s=start_cpu_s) for at, start_cpu_s in enumerate(starts)],
        )
        self.clock = SimClock()
        self.agenda = Agenda(self.clock, count)
        self.work = SharedCpu(
            workload, self.table, self.clock, self.agenda, Interruptions(**more), oversubscription_loss=loss
        )
        self.ended: dict[int, float] = {}

    def at(self, time_s) -> SharedCpu:
        """Let time go on; then say what happens."""
        self.work.settle()
        while (next_s := self.agenda.next_time_s()) <= time_s and next_s < math.inf:
            self.clock.advance_to(next_s)
            while (event := self.agenda.pop()) is not None:
                _, kind, _, index = event
                if kind == RESUME:
                    self.work.resume(index)
                else:
                    assert kind == DEPARTURE
                    self.work.end(index)
                    self.ended[index] = self.clock.now()
            self.work.settle()
        if time_s < math.inf:
            self.clock.advance_to(time_s)
        return self.work

    def ends(self) -> list[float]:
        self.at(math.inf)
        return [self.ended[index] for index in sorted(self.ended)]


def close(*values):
    return pytest.approx(list(values), rel=1e-9, abs=1e-9)


# --- shares ----------------------------------------------------------------------------------------------------------


def test_shares_go_by_weight_and_what_limits_leave_goes_to_the_others():
    assert share(4, [1, 1], [math.inf, math.inf]) == [2, 2]
    assert share(4, [1, 3], [math.inf, math.inf]) == [1, 3]
    assert share(4, [1, 1, 2], [math.inf, 0.5, math.inf]) == pytest.approx([3.5 / 3, 0.5, 7 / 3])
    assert share(9, [1, 1], [2, 3]) == [2, 3]
    assert share(4, [], []) == []


@given(
    capacity=st.floats(0, 64),
    pods=st.lists(st.tuples(st.floats(0.1, 1000), st.floats(0.01, 64) | st.just(math.inf)), max_size=12),
)
def test_nobody_is_above_its_limit_nothing_is_left_over_and_who_has_less_for_its_weight_is_at_its_limit(capacity, pods):
    weights, limits = [weight for weight, _ in pods], [limit for _, limit in pods]
    grants = share(capacity, weights, limits)
    assert all(0 <= grant <= limit * (1 + 1e-12) for grant, limit in zip(grants, limits, strict=True))
    assert math.fsum(grants) == pytest.approx(min(capacity, math.fsum(limits)), rel=1e-9, abs=1e-9)
    most = max((grant / weight for grant, weight in zip(grants, weights, strict=True)), default=0.0)
    for grant, weight, limit in zip(grants, weights, limits, strict=True):
        assert grant / weight == pytest.approx(most, rel=1e-9) or grant == pytest.approx(limit)


# --- closed forms ----------------------------------------------------------------------------------------------------


def test_two_jobs_on_one_node():
    # One CPU: each goes at 1/2 until the shorter ends at 2·4 = 8; the other has 6 left and goes at 1.
    world = World([1], [4, 10])
    world.at(0).start(0, 0)
    world.work.start(1, 0)
    assert world.ends() == close(8, 14)


def test_equal_jobs_end_in_the_same_instant():
    world = World([1], [3, 3, 3])
    for index in range(3):
        world.at(0).start(index, 0)
    assert world.ends() == [9, 9, 9]


def test_one_that_comes_in_the_middle():
    # The first does 3 of 5 alone; then both go at 1/2: the first ends at 3 + 4 = 7, the second has 1 left, at 8.
    world = World([1], [5, 3])
    world.at(0).start(0, 0)
    world.at(3).start(1, 0)
    assert world.ends() == close(7, 8)


def test_a_limit_binds_and_the_other_has_the_rest():
    # Four CPUs: one goes at its limit of 1, the other at 3; after 12/3 = 4 s the first goes on at 1, no faster.
    world = World([4], [10, 12], limits=[1, 0])
    world.at(0).start(0, 0)
    world.work.start(1, 0)
    assert world.ends() == close(10, 4)


def test_weights_count_and_are_the_requests_where_none_are_stated():
    # By weight 1 : 3 of one CPU; the second ends at 3 / 0.75 = 4, then the first has 3 left.
    for made in ({"weights": [1, 3]}, {"requests": [500, 1500]}):
        world = World([1], [4, 3], **made)
        world.at(0).start(0, 0)
        world.work.start(1, 0)
        assert world.ends() == close(7, 4)


def test_a_resize_in_the_middle():
    # Equal until 4 (2 done each), then 3 : 1; the first has 6 left at 3/4: ends at 12, the other has 6 left then: 18.
    world = World([1], [8, 10])
    world.at(0).start(0, 0)
    world.work.start(1, 0)
    world.at(4).resize(0, 3000, 0)
    assert world.ends() == close(12, 18)


def test_a_pod_that_is_resized_to_next_to_nothing_weighs_as_much_as_one_that_requests_nothing():
    world = World([1], [4, 4], requests=[1000, 0])
    world.at(0).start(0, 0)
    world.work.resize(0, 1, 0)
    world.work.start(1, 0)
    assert world.ends() == close(8, 8)


def test_a_new_limit_in_the_middle():
    world = World([4], [8])
    world.at(0).start(0, 0)
    world.at(1).resize(0, 1000, 500)
    assert world.ends() == close(1 + 4 / 0.5)


def test_a_move_loses_time_but_no_work():
    # Until 4 both have 2; the first pays 5 s and goes on at 9 with 6 left, alone on 2 CPUs: 12. The second: 4 + 6 = 10.
    world = World([1, 2], [8, 8], restart_s=5)
    world.at(0).start(0, 0)
    world.work.start(1, 0)
    world.at(4).move(0, 1)
    assert world.ends() == close(12, 10)
    assert world.work.lost_cpu_s(0) == 0


def test_whoever_starts_needs_cpu_before_it_gets_on_each_time():
    # Alone for 2 s: it has started. Both share: until 4 the second has started, too. At 6 the first has 2 of its 5, and
    # moves; there it starts until 8 and has 3 to go: 11. The second has 1 of 4 at 6, and is alone: 9.
    world = World([1, 1], [5, 4], starts=[2.0, 1.0])
    world.at(0).start(0, 0)
    world.at(2).start(1, 0)
    assert world.work.done_cpu_s(0) == 0
    assert world.work.used_cpu_s(0) == pytest.approx(2)
    world.at(4)
    assert (world.work.done_cpu_s(0), world.work.done_cpu_s(1)) == (pytest.approx(1), pytest.approx(0))
    world.at(6).move(0, 1)
    world.at(7)
    assert (world.work.done_cpu_s(0), world.work.left_cpu_s(0)) == (pytest.approx(2), pytest.approx(3))
    assert world.ends() == close(11, 9)
    assert world.work.used_cpu_s(0) == pytest.approx(2 + 5 + 2)
    assert world.work.alone_s().tolist() == [7, 5]


def test_a_first_start_takes_its_own_time():
    world = World([1], [3], start_s=2, restart_s=50)
    world.at(1).start(0, 0)
    assert world.ends() == close(1 + 2 + 3)


def test_a_job_controller_waits_longer_each_time_and_nobody_else_does():
    # Both move at 1, 31 and 91. The Job's pod waits 5 + 10, 5 + 20 and 5 + 30, at most 30; the other 5.
    world = World([1] * 4, [100, 100], owners=["Job/a", "ReplicaSet/b"], restart_s=5, job_backoff=Backoff(10, 30))
    world.at(0).start(0, 0)
    world.work.start(1, 1)
    for time_s, rows in ((1, (2, 3)), (31, (0, 1)), (91, (2, 3))):
        world.at(time_s).move(0, rows[0])
        world.work.move(1, rows[1])
    assert world.ends() == close(100 + 15 + 25 + 35, 100 + 3 * 5)


def test_a_move_does_not_touch_the_plans_of_other_rows():
    world = World([1, 1, 1], [5, 6, 5])
    for index in range(3):
        world.at(0).start(index, index)
    world.at(1)
    plans = world.agenda._planned
    world.work.move(0, 1)
    world.work.settle()
    assert world.agenda._planned == plans + 1  # the first end on row 1; row 0 is empty, row 2 as it was
    assert world.ends() == close(9, 10, 5)


def test_a_lost_node_costs_what_came_after_the_last_checkpoint_and_the_time_to_start_again():
    # Checkpoints at 3 and 6; torn away at 8 with 8 done, 6 are kept. Starts again at 10, works from 12, 4 left: 16.
    world = World([1], [10], keeps_progress=True, checkpoint_every_s=3, restart_s=2)
    world.at(0).start(0, 0)
    world.at(8).stop(0)
    world.at(10).start(0, 0)
    assert world.ends() == close(16)
    assert world.work.lost_cpu_s(0) == pytest.approx(2)


@pytest.mark.parametrize(("keeps_progress", "end_s"), [(True, 12), (False, 20)])
def test_without_checkpoint_times_all_is_kept_or_nothing(keeps_progress, end_s):
    world = World([1], [10], keeps_progress=keeps_progress)
    world.at(0).start(0, 0)
    world.at(8).stop(0)
    world.at(10).start(0, 0)
    assert world.ends() == close(end_s)


def test_a_move_is_a_checkpoint_and_the_next_is_counted_from_there():
    # Checkpoint at 4; moved at 7 with 7 done, so the next is due at 11; torn away at 10: 7 are kept; at 12: 11.
    world = World([1, 1], [20], keeps_progress=True, checkpoint_every_s=4)
    world.at(0).start(0, 0)
    world.at(7).move(0, 1)
    world.at(10).stop(0)
    assert (world.work.done_cpu_s(0), world.work.lost_cpu_s(0)) == (pytest.approx(7), pytest.approx(3))
    world = World([1, 1], [20], keeps_progress=True, checkpoint_every_s=4)
    world.at(0).start(0, 0)
    world.at(7).move(0, 1)
    world.at(12).stop(0)
    assert world.work.done_cpu_s(0) == pytest.approx(11)


def test_a_checkpoint_counts_by_the_rates_that_held_before_it():
    # Alone until 2 (2 done), then half: at the checkpoint at 4 there are 3; torn away at 5.
    world = World([1], [10, 10], keeps_progress=True, checkpoint_every_s=4)
    world.at(0).start(0, 0)
    world.at(2).start(1, 0)
    world.at(5).stop(0)
    assert world.work.done_cpu_s(0) == pytest.approx(3)


def test_a_crowded_node_loses():
    # Two that could use 1 CPU each on one: D/C = 2, so with loss 0.5 CPU does 1/1.5 of its work until one is gone.
    world = World([1], [1, 2], limits=[1, 1], loss=0.5)
    world.at(0).start(0, 0)
    world.work.start(1, 0)
    assert world.ends() == close(3, 4)


def test_what_is_known_of_a_running_pod():
    world = World([2], [8, math.inf], limits=[0, 0.5])
    world.at(0).start(0, 0)
    world.work.start(1, 0)
    work = world.at(2)
    assert [work.used_milli(index) for index in range(2)] == [1500, 500]
    assert [work.done_cpu_s(index) for index in range(2)] == [3, 1]
    assert [work.left_cpu_s(index) for index in range(2)] == [5, math.inf]
    assert work.busy_milli().tolist() == [2000]
    assert world.ends() == close(8 / 1.5)


def test_a_pod_without_work_ends_as_it_starts_and_one_on_a_node_without_cpu_never_does():
    world = World([1, 0], [0, 1])
    world.at(7).start(0, 0)
    world.work.start(1, 1)
    assert (world.ends(), list(world.ended)) == ([7], [0])


def test_work_that_is_not_stated_is_the_duration_at_the_request():
    workload = Workload(
        ["a", "b", "c", "d"],
        [PodSpec(cpu_milli=2000), PodSpec()],
        np.array([0, 0, 1, 0]),
        duration_s=np.array([5.0, 5.0, 5.0, np.inf]),
        work_cpu_s=np.array([np.nan, 3.0, np.nan, np.nan]),
    )
    assert work_cpu_s(workload).tolist() == [10, 3, 0.5, np.inf]


def test_a_stopped_pod_is_made_anew_as_it_was_asked_for():
    world = World([2], [4, 4], weights=[1, 1])
    world.at(0).start(0, 0)
    world.work.resize(0, 5000, 100)
    world.at(1).stop(0)
    world.work.start(0, 0)
    world.work.start(1, 0)
    assert world.ends() == close(5, 5)


# --- any history -----------------------------------------------------------------------------------------------------


@st.composite
def histories(draw):
    cpus = draw(st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0]), min_size=1, max_size=3))
    count = draw(st.integers(1, 6))
    jobs = [
        Job(
            start_s=draw(st.sampled_from([0.0, 0.0, 1.0, 2.5, 7.0])),
            row=draw(st.integers(0, len(cpus) - 1)),
            work=draw(st.floats(0.1, 9.0)),
            weight=draw(st.sampled_from([100.0, 500.0, 1000.0, 1700.0])),
            limit=draw(st.sampled_from([math.inf, 0.3, 1.0, 2.0])),
        )
        for _ in range(count)
    ]
    changes = []
    for time_s in sorted(draw(st.lists(st.floats(0.1, 20.0), max_size=5))):
        index = draw(st.integers(0, count - 1))
        if draw(st.booleans()):
            changes.append((time_s, index, "move", draw(st.integers(0, len(cpus) - 1)), 0.0))
        else:
            limit = draw(st.sampled_from([math.inf, 0.25, 1.5]))
            changes.append((time_s, index, "resize", draw(st.sampled_from([200, 1000, 3000])), limit))
    return cpus, jobs, changes, draw(st.sampled_from([0.0, 1.5])), draw(st.sampled_from([0.0, 0.4]))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_ends_are_those_of_a_simulation_that_shares_no_code(history):
    cpus, jobs, changes, restart_s, loss = history
    world = World(
        cpus,
        [job.work for job in jobs],
        weights=[job.weight for job in jobs],
        limits=[0 if job.limit == math.inf else job.limit for job in jobs],
        restart_s=restart_s,
        loss=loss,
    )
    happenings = [(job.start_s, 0, index, ("start", job.row, 0.0)) for index, job in enumerate(jobs)]
    happenings += [(time_s, 1, index, what) for time_s, index, *what in changes]
    for time_s, _, index, (what, value, limit) in sorted(happenings, key=lambda one: one[:2]):
        work = world.at(time_s)
        if what == "start":
            work.start(index, value)
        elif index not in world.ended and jobs[index].start_s <= time_s:
            if what == "move":
                work.move(index, value)
            else:
                work.resize(index, value, 0 if limit == math.inf else round(1000 * limit))
    world.at(math.inf)
    expected = ends_by_hand(cpus, jobs, changes, restart_s=restart_s, loss=loss)
    assert [world.ended[index] for index in range(len(jobs))] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(histories(), st.lists(st.tuples(st.floats(0.1, 15.0), st.integers(0, 5)), max_size=4), st.floats(0.2, 3.0))
def test_work_done_is_work_asked_for_and_what_was_lost(history, losses, every_s):
    cpus, jobs, _, restart_s, _ = history
    world = World(
        cpus,
        [job.work for job in jobs],
        weights=[job.weight for job in jobs],
        restart_s=restart_s,
        keeps_progress=True,
        checkpoint_every_s=every_s,
    )
    given_cpu_s = [0.0] * len(jobs)
    used_from = [0.0]

    def account() -> None:
        """CPU that pods were given since the last look, between which nothing changes."""
        lasted_s = world.clock.now() - used_from[0]
        used_from[0] = world.clock.now()
        for index in range(len(jobs)):
            given_cpu_s[index] += rates[index] * lasted_s / 1000

    rates = [0.0] * len(jobs)
    happenings = [(job.start_s, 0, index) for index, job in enumerate(jobs)]
    happenings = sorted(happenings + [(time_s, 1, index) for time_s, index in losses if index < len(jobs)])
    while True:
        world.work.settle()
        rates = [world.work.used_milli(index) for index in range(len(jobs))]
        next_s = min(world.agenda.next_time_s(), happenings[0][0] if happenings else math.inf)
        if next_s == math.inf:
            break
        if world.agenda.next_time_s() <= next_s:
            world.at(next_s)
            account()
            continue
        time_s, kind, index = happenings.pop(0)
        world.at(time_s)
        account()
        if kind == 0:
            world.work.start(index, jobs[index].row)
        elif jobs[index].start_s <= time_s and index not in world.ended:
            world.work.stop(index)
            world.work.start(index, jobs[index].row)
    assert sorted(world.ended) == list(range(len(jobs)))
    for index, job in enumerate(jobs):
        assert world.work.done_cpu_s(index) == job.work
        assert given_cpu_s[index] == pytest.approx(job.work + world.work.lost_cpu_s(index), rel=1e-9, abs=1e-9)
