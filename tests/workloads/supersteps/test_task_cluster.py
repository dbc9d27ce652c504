"""The program that runs inside pods: killed, replaced and sent away, against real servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from tests.workloads.supersteps.servers import WITHIN_S, Job, LeaseServer, ZooKeeperServer, until

from foresail.lab import Lab

pytestmark = pytest.mark.cluster
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
VERBS = ["get", "list", "watch", "create", "update", "patch"]


class Tasks:
    """Starts the task program as a pod would, and ends what is left."""

    def __init__(self, job, options):
        self.job, self.options, self.started = job, options, []

    def start(self, uid, *more):
        command = [sys.executable, "-m", "foresail.workloads.supersteps.task", "--task", "a", "--pod-uid", uid]
        process = subprocess.Popen(
            [*command, *self.options, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end(self):
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with Lab("task", base=tmp_path_factory.mktemp("labs"), scheduler=False, controllers=False, zookeeper=True) as lab:
        yield {"lease": LeaseServer(lab), "zookeeper": ZooKeeperServer(lab)}


@pytest.fixture(scope="module")
def lease_options(servers, tmp_path_factory):
    """Who the task is to the API server: an account that may do what the manual says, and no more."""
    lab = servers["lease"].lab
    with lab.api() as api:
        api.create(ACCOUNTS, {"metadata": {"name": "task"}})
        rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": VERBS}
        api.create(f"{ROLES}/roles", {"metadata": {"name": "task"}, "rules": [rule]})
        binding = {
            "metadata": {"name": "task"},
            "subjects": [{"kind": "ServiceAccount", "name": "task", "namespace": "default"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "task"},
        }
        api.create(f"{ROLES}/rolebindings", binding)
        token = api.create(f"{ACCOUNTS}/task/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    path = tmp_path_factory.mktemp("account") / "token"
    path.write_text(f"{token}\n")
    return ["--api-server", lab.url, "--api-ca", str(lab.ca), "--api-token-file", str(path)]


@pytest.fixture(params=["lease", "zookeeper"])
def tasks(request, servers):
    job = Job(servers[request.param])
    more = request.getfixturevalue("lease_options") if request.param == "lease" else []
    tasks = Tasks(job, ["--board", job.coordinator()._store.address, "--timeout-s", str(WITHIN_S), *more])
    yield tasks
    tasks.end()
    job.close()


def test_a_task_works_step_by_step_until_the_job_is_over(tasks):
    coordinator = tasks.job.coordinator()
    process = tasks.start("u1", "--method", "spin", "--modifier", "2")
    for step in range(3):
        coordinator.open(step, {"a": 4.0 + step})
        result = coordinator.wait_for_all(step, ["a"], WITHIN_S)["a"]
        assert (result.ops, result.pod_uid, result.attempt) == (8 + 2 * step, "u1", 1)
        assert 0 < result.seconds == pytest.approx(result.ended_s - result.started_s, abs=1e-5)
    coordinator.finish("enough")
    said, told = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, told) == (0, "")
    lines = said.splitlines()
    assert [line.split()[2] for line in lines[:3]] == ["step=0", "step=1", "step=2"]
    assert lines[3:] == ["foresail superstep finished: enough"]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_step_whose_pod_is_killed_is_done_by_the_next(tasks, how, code):
    coordinator = tasks.job.coordinator()
    coordinator.open(0, {"a": 1.0})
    first = tasks.start("u1", "--modifier", "1e12")
    until(lambda: coordinator.present() == {"a"})
    os.killpg(first.pid, how)
    first.communicate(timeout=WITHIN_S)
    assert first.returncode == code
    tasks.start("u2", "--modifier", "1")
    result = coordinator.wait_for_all(0, ["a"], WITHIN_S)["a"]
    assert (result.pod_uid, result.attempt) == ("u2", 2)


def test_a_task_in_the_middle_of_stress_ng_leaves_at_sigterm(tasks):
    coordinator = tasks.job.coordinator()
    coordinator.open(0, {"a": 1.0})
    process = tasks.start("u1", "--method", "bsearch", "--workers", "1", "--modifier", "1e8")
    until(lambda: children_of(process.pid))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WITHIN_S)
    assert process.returncode == 143
    tasks.start("u2", "--method", "bsearch", "--workers", "1", "--modifier", "5")
    assert coordinator.wait_for_all(0, ["a"], WITHIN_S)["a"].ops == 5


def test_a_pod_whose_task_is_anothers_leaves(tasks):
    coordinator = tasks.job.coordinator()
    coordinator.open(0, {"a": 1.0})
    old = tasks.start("u1")
    coordinator.wait_for_all(0, ["a"], WITHIN_S)
    tasks.start("u2")
    until(
        lambda: (
            (record := coordinator._store.read_tasks(time.monotonic() + WITHIN_S)["a"])
            and '"attempt":2,"results"' in record.text
        )
    )
    coordinator.open(1, {"a": 1.0})
    assert coordinator.wait_for_all(1, ["a"], WITHIN_S)["a"].pod_uid == "u2"
    _said, told = old.communicate(timeout=WITHIN_S)
    assert (old.returncode, "task a is pod u2's now" in told) == (0, True)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123 - no file on disk
        return file.read().split()
