"""The controller of bulk-synchronous jobs: what it answers when, and that it is the planner's word."""

from collections.abc import Sequence

import numpy as np
import pytest

from foresail.controllers import load_controllers
from foresail.controllers.supersteps.controller import Supersteps
from foresail.controllers.supersteps.feeds import MatrixFeed
from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.core.control import SUPERSTEPS_DONE, SUPERSTEPS_JOB, SUPERSTEPS_TASK, SUPERSTEPS_TOTAL, WORKLOAD, View
from foresail.core.control_loop import checked
from foresail.errors import OptionError
from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.monotone import MonotoneRuntime
from foresail.testing import make_pod, make_table, make_view

TASKS = ("a", "b", "c")
GRID = ShareGrid(3, 1000, 500, 6000)


class Noting:
    """A planner that says what it is told to say, and notes what it was asked."""

    horizon, scenarios = 2, 0

    def __init__(self, *splits):
        self.splits, self.asked = list(splits), []
        self.penalty_s = 15.0

    def plan(self, outlook: SplitOutlook):
        self.asked.append(outlook)
        return self.splits.pop(0)


class NotingFeed(MatrixFeed):
    """Forecasts that note what they are told."""

    def __init__(self) -> None:
        super().__init__(np.arange(3 * 10 * 4, dtype=np.float64).reshape(3, 10, 4) + 10)
        self.told: list[list[float]] = []

    def observe(self, workloads) -> None:
        self.told.append(workloads.tolist())


def splitter(*splits: Sequence[int] | None) -> tuple[JobSplitter, Noting, NotingFeed]:
    planner = Noting(*(None if one is None else np.array(one) for one in splits))
    feed = NotingFeed()
    curves = MonotoneRuntime(generate_profile(TASKS)).curves(GRID.shares_milli)
    return JobSplitter(TASKS, planner, feed, curves, GRID), planner, feed


def view_of(
    cpu_milli: Sequence[int], done: Sequence[float], *, works: Sequence[float] = (20, 30, 40), limits: bool = False
) -> View:
    table = make_table(allocatable=[(20000, 8, 0)])
    pods = [make_pod(f"job-{task}", cpu=milli, nodes=table) for task, milli in zip(TASKS, cpu_milli, strict=False)]
    readings = {(pod.uid, SUPERSTEPS_TOTAL): 10.0 for pod in pods}
    readings |= {(pod.uid, SUPERSTEPS_DONE): count for pod, count in zip(pods, done, strict=False)}
    readings |= {(pod.uid, WORKLOAD): work for pod, work in zip(pods, works, strict=False)}
    limits_milli = {pod.name: pod.spec.cpu_milli for pod in pods} if limits else {}
    seen = make_view(table, {"node-0": pods}, readings=readings, limits_milli=limits_milli)
    for task, pod in zip(TASKS, pods, strict=False):
        about = {SUPERSTEPS_JOB: "job", SUPERSTEPS_TASK: task}
        seen.running[pod.uid] = seen.running[pod.uid]._replace(annotations=about)
    return seen


def answered(controller: Supersteps, view: View) -> dict[str, tuple[int, int | None]]:
    found = checked("supersteps", controller.act(view), view)
    return {one.pod.name: (one.cpu_milli, one.cpu_limit_milli) for one in found}


def test_the_planners_split_becomes_resizes_of_the_pods_that_differ_from_it():
    made, planner, feed = splitter([2, 2, 2], [4, 2, 0], None)
    controller = Supersteps.of({"job": made})
    assert answered(controller, view_of([2000] * 3, [0] * 3)) == {}
    assert planner.asked[0].current is None
    assert answered(controller, view_of([2000] * 3, [1] * 3, limits=True)) == {
        "job-a": (3000, 3000),
        "job-c": (1000, 1000),
    }
    assert planner.asked[1].current.tolist() == [2, 2, 2]
    assert [one.why.partition(":")[0] for one in controller.considered()] == [
        "2000 → 3000 milli-CPU",
        "2000 → 2000 milli-CPU",
        "2000 → 1000 milli-CPU",
    ]
    assert {one.cost for one in controller.considered()} == {15.0}
    assert answered(controller, view_of([3000, 2000, 1000], [2] * 3, works=[1, 2, 3])) == {}
    assert (planner.asked[2].step, planner.asked[2].left) == (2, 8)
    assert feed.told == [[20, 30, 40], [1, 2, 3]]


@pytest.mark.parametrize(
    ("milli", "done"),
    [
        ([2000] * 3, [1, 1, 0]),  # one is still at work
        ([2000] * 2, [1, 1]),  # one has no pod
        ([2000] * 3, [10] * 3),  # all is done
        ([2000] * 3, []),  # nobody has told
    ],
)
def test_nothing_is_said_before_all_tasks_have_come_to_the_barrier_or_after_the_last_one(milli, done):
    made, planner, _ = splitter()
    assert answered(Supersteps.of({"job": made}), view_of(milli, done)) == {}
    assert planner.asked == []


def test_pods_of_another_namespace_that_name_the_job_change_nothing():
    made, planner, _ = splitter([4, 2, 0])
    controller = Supersteps.of({"job": made}, namespace="theirs")
    answered(controller, view_of([2000] * 3, [0] * 3))
    assert planner.asked == []
    assert controller.decided("job", "theirs") is None
    assert controller.decided("job") is not None, "a job of its own, in its own namespace"


def test_one_superstep_is_decided_once():
    made, planner, _ = splitter([2, 2, 2])
    controller = Supersteps.of({"job": made})
    for _ in range(3):
        answered(controller, view_of([2000] * 3, [0] * 3))
    assert len(planner.asked) == 1


def test_supersteps_that_were_missed_count_as_they_were_expected():
    made, _, feed = splitter(None)
    answered(Supersteps.of({"job": made}), view_of([2000] * 3, [3] * 3, works=[7, 8, 9]))
    first, second = feed.look(0, 1, 0)[0][:, 0], feed.look(1, 1, 0)[0][:, 0]
    assert feed.told == [first.tolist(), second.tolist(), [7, 8, 9]]


def test_a_split_that_was_not_given_is_seen_as_it_is():
    """A resize that was rolled back: the planner is told what pods have, not what they were to have."""
    made, planner, _ = splitter([2, 2, 2], [4, 2, 0], None)
    controller = Supersteps.of({"job": made})
    for step in range(2):
        answered(controller, view_of([2000] * 3, [step] * 3))
    answered(controller, view_of([2000, 2000, 1500], [2] * 3))
    assert planner.asked[2].current.tolist() == [2, 2, 1]


def test_the_penalty_that_was_measured_is_what_planners_weigh():
    made, planner, _ = splitter()
    made.penalty_s = 2.5
    assert (planner.penalty_s, made.penalty_s) == (2.5, 2.5)


@pytest.mark.parametrize("split", [[9, 0, 0], [3, 3, 3], [-1, 1, 1], [1, 1]])
def test_a_split_that_the_job_has_no_cpu_for_is_an_error(split):
    made, _, _ = splitter(split)
    with pytest.raises(ValueError, match="the planner gave"):
        Supersteps.of({"job": made}).act(view_of([2000] * 3, [0] * 3))


def test_jobs_that_nobody_prepared_are_split_by_their_work():
    (controller,) = load_controllers(["supersteps:penalty_s=0,step_milli=100"]).values()
    assert answered(controller, view_of([2000] * 3, [0] * 3)) == {}
    got = answered(controller, view_of([2000] * 3, [1] * 3, works=[10, 20, 30]))
    assert {name: milli for name, (milli, _) in got.items()} == {"job-a": 1000, "job-c": 3000}


def test_a_strategy_that_is_not_there_is_told_at_once():
    with pytest.raises(OptionError, match='no strategy "evn"; did you mean "even"'):
        load_controllers(["supersteps:strategy=evn"])
