"""Real servers that boards stand on, and what may happen to them."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from kazoo.client import KazooClient

from foresail.lab import Lab
from foresail.live.boards import api_access
from foresail.workloads.supersteps.board import BoardTimeoutError, CoordinatorBoard, TaskBoard
from foresail.workloads.supersteps.leases import JOB_LABEL, RECORD, LeaseStore
from foresail.workloads.supersteps.records import StepResult
from foresail.workloads.supersteps.zookeeper import ZooKeeperStore

WITHIN_S = 60.0
"""Long enough for everything that happens at all, on a busy machine."""
_numbers = itertools.count()


def until(so, within_s=WITHIN_S):
    deadline = time.monotonic() + within_s
    while not (found := so()):
        assert time.monotonic() < deadline, "never came"
        time.sleep(0.02)
    return found


@dataclass
class Server:
    """A component of a lab."""

    lab: Lab
    component = ""

    def restart(self):
        self.lab.restart(self.component)

    @contextmanager
    def stopped(self):
        """It listens, and answers nobody."""
        pid = self.lab.state.processes[self.component].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


class ZooKeeperServer(Server):
    component = "zookeeper"

    def store(self, job, **more):
        return ZooKeeperStore(self.lab.zookeeper, f"/tests/{job}", **more)

    def scribble(self, job, task, text):
        """What somebody with the right to write puts in place of a record."""
        path = f"/tests/{job}/tasks/{task}" if task else f"/tests/{job}/job"
        with self.client() as client:
            client.ensure_path(path)
            client.set(path, text.encode())

    @contextmanager
    def client(self):
        client = KazooClient(self.lab.zookeeper)
        client.start(WITHIN_S)
        try:
            yield client
        finally:
            client.stop()
            client.close()


class LeaseServer(Server):
    component = "kube-apiserver"

    def store(self, job):
        with self.lab.api() as api:
            return LeaseStore(api_access(api.connection), "default", job)

    def scribble(self, job, task, text):
        """What somebody with the right to write puts in place of a record."""
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        name = f"{job}.{task}" if task else job
        about = {"name": name, "labels": {JOB_LABEL: job}, "annotations": {RECORD: text}}
        with self.lab.api() as api:
            if name in [one["metadata"]["name"] for one in api.items(path)]:
                api.patch(f"{path}/{name}", {"metadata": about}, "application/merge-patch+json")
            else:
                made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about, "spec": {}}
                api.create(path, made)


@dataclass
class Job:
    """One job on a server: boards that are closed at the end, and what they told."""

    server: Server
    name: str = field(default_factory=lambda: f"job-{next(_numbers)}")
    told: list[str] = field(default_factory=list)
    _boards: list[object] = field(default_factory=list)

    def coordinator(self, run=""):
        return self._kept(CoordinatorBoard(self.server.store(self.name), run=run, tell=self.told.append))

    def task(self, name="a", uid="u1", run=""):
        return self._kept(TaskBoard(self.server.store(self.name), name, pod_uid=uid, run=run, tell=self.told.append))

    def _kept(self, board):
        self._boards.append(board)
        return board

    def close(self):
        for board in self._boards:
            board.close()


def made(step, seconds=1.5, task="a"):
    return StepResult(task, step, seconds, 10, 1.0, 2.5)


def says(pattern, call):
    """The error of a call whose time runs out; on a busy machine a short time may be over before anything is known."""
    for timeout_s in (0.5, 5.0, 30.0):
        with pytest.raises(BoardTimeoutError) as error:
            call(timeout_s)
        if re.search(pattern, str(error.value)):
            break
    else:
        pytest.fail(str(error.value))
    return error.value


class Later:
    """A call in a thread of its own."""

    def __init__(self, call, *arguments):
        self._answer = []

        def run():
            try:
                self._answer.append((call(*arguments), None))
            except Exception as error:  # noqa: BLE001 - told to whoever asks
                self._answer.append((None, error))

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def get(self):
        self._thread.join(2 * WITHIN_S)
        assert self._answer, "no end"
        answer, error = self._answer[0]
        if error is not None:
            raise error
        return answer
