"""The barrier's promises, on the real servers that it may stand on."""

from __future__ import annotations

import re
import time

import pytest
from tests.workloads.supersteps.servers import WITHIN_S, Job, Later, LeaseServer, ZooKeeperServer, made, says, until

from foresail.lab import Lab
from foresail.workloads.supersteps.board import (
    BarrierTimeoutError,
    BoardError,
    BoardTimeoutError,
    Finished,
    Reported,
    Superstep,
    TaskReplacedError,
)

pytestmark = pytest.mark.cluster
SLACK_S = 60.0
"""What a busy machine may take to notice that time is over."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    lab = Lab("board", base=tmp_path_factory.mktemp("labs"), scheduler=False, controllers=False, zookeeper=True)
    with lab:
        yield {"lease": LeaseServer(lab), "zookeeper": ZooKeeperServer(lab)}


@pytest.fixture(params=["lease", "zookeeper"])
def server(request, servers):
    return servers[request.param]


@pytest.fixture
def job(server):
    job = Job(server)
    yield job
    job.close()


def test_a_step_is_opened_done_and_collected(job):
    coordinator, task = job.coordinator(), job.task()
    assert coordinator.standing() is None
    opened = coordinator.open(0, {"a": 12.25, "b": 1e-3})
    assert (opened.step, opened.works, opened.finished) == (0, {"a": 12.25, "b": 1e-3}, None)
    assert task.await_step(-1, WITHIN_S) == Superstep(0, 12.25)
    assert task.report(made(0)) is Reported.TAKEN
    assert coordinator.wait_for_all(0, ["a"], WITHIN_S) == coordinator.results(0)
    (result,) = coordinator.results(0).values()
    assert (result.task, result.step, result.seconds, result.pod_uid, result.attempt) == ("a", 0, 1.5, "u1", 1)
    coordinator.finish("enough")
    assert task.await_step(0, WITHIN_S) == Finished("enough")


def test_a_task_that_waits_hears_of_the_next_step_and_a_coordinator_of_the_last_report(job):
    coordinator, task = job.coordinator(), job.task()
    for step in range(3):
        awaited = Later(task.await_step, step - 1, WITHIN_S)
        coordinator.open(step, {"a": step / 7})
        assert awaited.get() == Superstep(step, step / 7)
        collected = Later(coordinator.wait_for_all, step, ["a"], WITHIN_S)
        task.report(made(step))
        assert collected.get()["a"].step == step
    awaited = Later(task.await_step, 2, WITHIN_S)
    coordinator.finish("over")
    assert awaited.get() == Finished("over")


def test_every_call_of_the_coordinator_may_be_made_again_by_another(job):
    first, task = job.coordinator(), job.task()
    first.open(4, {"a": 1.0})
    again = job.coordinator()
    # What was opened first stays, whatever the next one would have opened.
    assert again.open(4, {"a": 2.0}).works == {"a": 1.0}
    task.await_step(-1, WITHIN_S)
    task.report(made(4))
    assert again.wait_for_all(4, ["a"], WITHIN_S) == first.wait_for_all(4, ["a"], WITHIN_S)
    again.open(5, {"a": 3.0})
    assert first.open(4, {"a": 9.0}).step == first.open(5, {"a": 9.0}).step == 5
    # The results of the step before are still there for one that was away.
    assert first.results(4)["a"].seconds == 1.5
    with pytest.raises(BoardError, match=r"step 7 cannot be opened.*which is at 5; the next is 6"):
        first.open(7, {"a": 1.0})
    first.finish("one reason")
    again.finish("another reason")
    assert again.open(6, {"a": 1.0}).finished == "one reason"


def test_doubled_and_late_reports_change_nothing(job):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    assert task.report(made(0)) is Reported.TAKEN
    assert task.report(made(0)) is Reported.TAKEN  # the same again: the first answer may have been lost
    assert task.report(made(0, seconds=9.0)) is Reported.DOUBLED
    coordinator.open(1, {"a": 1.0})
    coordinator.open(2, {"a": 1.0})
    assert task.report(made(1)) is Reported.LATE
    with pytest.raises(BoardError, match="step 3 was never opened"):
        task.report(made(3))
    assert (coordinator.results(0)["a"].seconds, coordinator.results(1), coordinator.results(2)) == (1.5, {}, {})


def test_a_pod_that_takes_the_place_of_another_goes_on_and_the_other_is_sent_away(job):
    coordinator, old = job.coordinator(), job.task(uid="old")
    coordinator.open(0, {"a": 1.0})
    old.await_step(-1, WITHIN_S)
    old.report(made(0))
    coordinator.open(1, {"a": 2.0})
    assert old.await_step(0, WITHIN_S) == Superstep(1, 2.0)
    new = job.task(uid="new")
    # It knows of nothing, and is given the step that was not reported.
    assert new.await_step(-1, WITHIN_S) == Superstep(1, 2.0)
    with pytest.raises(TaskReplacedError, match="pod new's now, the 2"):
        old.report(made(1, seconds=99.0))
    with pytest.raises(TaskReplacedError):
        old.await_step(0, WITHIN_S)
    new.report(made(1))
    assert [(one.pod_uid, one.attempt, one.seconds) for one in coordinator.results(1).values()] == [("new", 2, 1.5)]


def test_a_step_that_was_reported_is_not_done_again_by_the_next_pod(job):
    coordinator, old = job.coordinator(), job.task(uid="old")
    coordinator.open(0, {"a": 1.0})
    old.await_step(-1, WITHIN_S)
    old.report(made(0))
    new = job.task(uid="new")
    says(r"task a waited .* s .* after -1 on .*it is at step 0, opened .* ago", lambda s: new.await_step(-1, s))


def test_waiting_ends_in_time_and_says_for_whom(job):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0, "b": 1.0, "c": 1.0})
    task.await_step(-1, WITHIN_S)
    task.report(made(0))
    late = says(
        r"step 0 on .*: 2 of 3 tasks have not reported within .* s: b, c",
        lambda s: coordinator.wait_for_all(0, ["a", "b", "c"], s),
    )
    assert isinstance(late, BarrierTimeoutError)
    assert (late.missing, list(late.results)) == (("b", "c"), ["a"])
    with pytest.raises(BoardTimeoutError):
        task.await_step(0, 0.0)


def test_a_server_that_stops_answering_holds_nobody_beyond_the_time(job, server):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    begun_s = time.monotonic()
    with server.stopped():
        calls = [
            (BarrierTimeoutError, Later(coordinator.wait_for_all, 0, ["a"], 1.0)),
            (BoardTimeoutError, Later(task.await_step, 0, 1.0)),
            (BoardTimeoutError, Later(job.task("b").await_step, 0, 1.0)),
            (BoardTimeoutError, Later(job.coordinator().open, 1, {"a": 1.0}, 1.0)),
        ]
        for kind, call in calls:
            with pytest.raises(kind):
                call.get()
    assert time.monotonic() - begun_s < SLACK_S
    assert task.report(made(0), WITHIN_S) is Reported.TAKEN
    assert coordinator.wait_for_all(0, ["a"], WITHIN_S)["a"].attempt == task.attempt


def test_a_server_that_is_killed_and_started_again_loses_nothing(job, server):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    task.report(made(0))
    coordinator.wait_for_all(0, ["a"], WITHIN_S)
    awaited = Later(task.await_step, 0, WITHIN_S)
    server.restart()
    assert coordinator.open(1, {"a": 2.0}, WITHIN_S).step == 1
    assert awaited.get() == Superstep(1, 2.0)
    collected = Later(coordinator.wait_for_all, 1, ["a"], WITHIN_S)
    assert task.report(made(1), WITHIN_S) is Reported.TAKEN
    assert collected.get()["a"].attempt == 1


def test_whatever_somebody_writes_on_the_board_is_told_and_skipped(job, server):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0, "b": 1.0})
    task.await_step(-1, WITHIN_S)
    result = '{"step":0,"seconds":NaN,"ops":1,"started_s":0,"ended_s":0,"pod_uid":"","attempt":1}'
    nan = f'{{"run":"","pod_uid":"","attempt":1,"results":[{result}]}}'
    server.scribble(job.name, "b", nan)
    server.scribble(job.name, "mallory", nan.replace("NaN", "1"))
    server.scribble(job.name, "a", "[" * 100_000)
    assert coordinator.results(0) == {}
    told = "\n".join(job.told)
    for word in ("record of task b .* is skipped: it is no JSON", '"mallory", no task of the job, is skipped'):
        assert re.search(word, told)
    # Who has a task writes over it, and the barrier goes on.
    assert task.report(made(0)) is Reported.TAKEN
    other = job.task("b")
    other.await_step(-1, WITHIN_S)
    other.report(made(0, task="b"))
    assert sorted(coordinator.wait_for_all(0, ["a", "b"], WITHIN_S)) == ["a", "b"]
    count = len(job.told)
    coordinator.results(0)
    assert len(job.told) == count, "each thing is told once"
    server.scribble(job.name, "", '{"run":"","step":1e999}')
    assert coordinator.open(1, {"a": 1.0}).step == 1


def test_several_threads_may_ask_one_board(job):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    task.report(made(0))

    def asking():
        return {(coordinator.standing(WITHIN_S).step, *coordinator.results(0, WITHIN_S)) for _ in range(10)}

    waiting = Later(coordinator.wait_for_all, 1, ["a"], WITHIN_S)
    assert [call.get() for call in [Later(asking) for _ in range(4)]] == [{(0, "a")}] * 4
    coordinator.open(1, {"a": 1.0}, WITHIN_S)
    task.await_step(0, WITHIN_S)
    asked = Later(lambda: until(lambda: coordinator.results(1, WITHIN_S)))
    task.report(made(1))
    # That somebody else has read it already keeps nobody from hearing of it.
    assert asked.get() == waiting.get()


def test_what_another_run_left_behind_does_not_count(job):
    old, task = job.coordinator("one"), job.task(run="one")
    old.open(7, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    task.report(made(7))
    new = job.coordinator("two")
    assert new.standing() is None
    new.open(7, {"a": 5.0})
    assert new.results(7) == {}
    # A pod of the old run gets no work of the new one, and takes nobody's task.
    says("no job of this run is there", lambda s: task.await_step(6, s))
    says('there is no job of run "one"', lambda s: task.report(made(7), s))
    assert job.task(run="two").await_step(-1, WITHIN_S) == Superstep(7, 5.0)


def test_sixty_four_tasks_meet(job):
    names = [f"task-{number:02}" for number in range(64)]
    coordinator = job.coordinator()
    coordinator.open(0, {name: number / 3 for number, name in enumerate(names)})
    for number, name in enumerate(names):
        task = job.task(name)
        assert task.await_step(-1, WITHIN_S).workload == number / 3
        task.report(made(0, task=name))
        task.close()
    assert len(coordinator.wait_for_all(0, names, WITHIN_S)) == 64


def test_a_job_that_is_removed_leaves_nothing(job):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(3, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    task.close()
    coordinator.remove()
    coordinator.remove()
    assert (coordinator.standing(), coordinator.present()) == (None, frozenset())
    assert coordinator.open(0, {"a": 1.0}).step == 0


def test_who_is_there_is_seen(job):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0, "b": 1.0})
    assert coordinator.present() == frozenset()
    task.await_step(-1, WITHIN_S)
    assert coordinator.present() == {"a"}
