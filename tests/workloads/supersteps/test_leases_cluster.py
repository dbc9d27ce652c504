"""What is the Lease's alone: signs of life while a task works, and none once it is gone."""

from __future__ import annotations

import pytest
from tests.workloads.supersteps.servers import WITHIN_S, Job, LeaseServer, until

from foresail.lab import Lab
from foresail.workloads.supersteps import leases

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Lab("leases", base=tmp_path_factory.mktemp("labs"), scheduler=False, controllers=False) as lab:
        yield LeaseServer(lab)


@pytest.fixture
def job(server, monkeypatch):
    monkeypatch.setattr(leases, "_RENEW_S", 0.2)
    job = Job(server)
    yield job
    job.close()


def test_a_task_that_works_gives_signs_of_life_and_is_missed_without(job, server, monkeypatch):
    coordinator, task = job.coordinator(), job.task()
    coordinator.open(0, {"a": 1.0})
    task.await_step(-1, WITHIN_S)
    assert coordinator.present() == {"a"}

    def sign():
        with server.lab.api() as api:
            spec = api.get(f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{job.name}.a")["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("u1", 1)
        return spec["renewTime"]

    first = sign()
    # Nobody calls the board: the task is busy with its work.
    until(lambda: sign() != first)
    task.close()
    monkeypatch.setattr(leases, "LEASE_S", 1)
    until(lambda: coordinator.present() == frozenset())


def test_one_that_was_replaced_gives_no_more_signs(job, server):
    coordinator, old = job.coordinator(), job.task(uid="old")
    coordinator.open(0, {"a": 1.0})
    old.await_step(-1, WITHIN_S)
    new = job.task(uid="new")
    new.await_step(-1, WITHIN_S)
    until(lambda: not old._store._keeper._thread.is_alive())
    until(lambda: coordinator.present() == {"a"})
    assert new._store._keeper._thread.is_alive()
