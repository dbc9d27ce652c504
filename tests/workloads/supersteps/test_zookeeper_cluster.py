"""What is ZooKeeper's alone: sessions that end, nodes that stay few, and nodes that not everybody may read."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kazoo.exceptions import NoAuthError
from tests.workloads.supersteps.servers import WITHIN_S, Job, Later, ZooKeeperServer, made, says, until

from foresail.lab import Lab
from foresail.workloads.supersteps.board import CoordinatorBoard, Reported, Superstep, TaskBoard

LOST = """
import sys
from foresail.workloads.supersteps.board import TaskBoard
from foresail.workloads.supersteps.zookeeper import ZooKeeperStore
board = TaskBoard(ZooKeeperStore(sys.argv[1], sys.argv[2], session_s=1.0), "a", pod_uid="u1")
board.await_step(-1, 60.0)
sys.stdin.read()
"""
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("labs")
    with Lab("zoo", base=base, scheduler=False, controllers=False, zookeeper=True) as lab:
        yield ZooKeeperServer(lab)


@pytest.fixture
def job(server):
    job = Job(server)
    yield job
    job.close()


def expire(server, board):
    """End a session on the server: a second client takes it over and closes it."""
    client = board._store._client
    was = client.client_id
    thief = type(client)(server.lab.zookeeper, client_id=was)
    thief.start(WITHIN_S)
    thief.stop()
    thief.close()
    until(lambda: client.connected and client.client_id not in {None, was})


def test_sessions_that_expire_are_opened_anew_and_presence_with_them(job, server):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    assert coordinator.present() == {"a"}
    expire(server, task)
    until(lambda: coordinator.present() == {"a"})
    expire(server, coordinator)
    assert task.report(made(0), WITHIN_S) is Reported.TAKEN
    assert coordinator.wait_for_all(0, ["a"], WITHIN_S)["a"].attempt == 1


def test_whoever_waits_while_a_session_expires_still_hears(job, server):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    collected = Later(coordinator.wait_for_all, 0, ["a"], WITHIN_S)
    expire(server, coordinator)
    task.report(made(0))
    assert collected.get()["a"].step == 0
    awaited = Later(task.await_step, 0, WITHIN_S)
    expire(server, task)
    coordinator.open(1, {"a": 2.0}, WITHIN_S)
    assert awaited.get() == Superstep(1, 2.0)


def test_a_task_that_is_lost_is_noticed_by_its_session(job, server):
    coordinator = job.coordinator()
    coordinator.open(0, {"a": 1.0, "b": 1.0})
    command = [sys.executable, "-c", LOST, server.lab.zookeeper, root(job)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as lost:
        until(lambda: coordinator.present() == {"a"})
        job.task("b").await_step(-1, WITHIN_S)
        lost.kill()
    until(lambda: coordinator.present() == {"b"})
    # Who takes its place is present at once.
    job.task("a", uid="u2").await_step(-1, WITHIN_S)
    assert coordinator.present() == {"a", "b"}


def test_a_hundred_steps_leave_no_more_nodes_than_one(job, server):
    coordinator, task = job.coordinator(), job.task()
    sizes = set()
    for step in range(100):
        coordinator.open(step, {"a": 1.0})
        task.await_step(step - 1, WITHIN_S)
        task.report(made(step))
        if step >= 10:
            client = coordinator._store._client
            names = [
                f"{folder}/{name}"
                for folder in ("", "/tasks", "/present")
                for name in client.get_children(root(job, folder))
            ]
            sizes.add((len(names), len(client.get(root(job, "/tasks/a"))[0]) // 100))
    assert len({count for count, _size in sizes}) == 1
    assert max(size for _count, size in sizes) <= 8
    assert sorted(coordinator.results(99)) == ["a"]
    assert coordinator.results(10) == {}


def test_with_a_login_nodes_are_for_its_holders_alone(job, server):
    def store(login):
        return server.store(job.name, login=login)

    with CoordinatorBoard(store("us:secret")) as ours, TaskBoard(store("us:secret"), "a") as task:
        ours.open(0, {"a": 1.0})
        assert task.await_step(-1, WITHIN_S) == Superstep(0, 1.0)
        with server.client() as stranger, pytest.raises(NoAuthError):
            stranger.get(root(job, "/job"))
        other = CoordinatorBoard(store("us:guessed"), tell=job.told.append)
        with other:
            says("NoAuthError", other.standing)
        assert "secret" not in ours._store.address
        ours.remove()


def root(job, below=""):
    return f"/tests/{job.name}{below}"
