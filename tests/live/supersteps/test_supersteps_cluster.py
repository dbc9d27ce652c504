"""A bulk-synchronous job on a real kubelet: stress-ng tasks, barriers, resizes in place, and what may go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from tests.deploy.charts import DEPLOY
from tests.deploy.test_deploy_cluster import Account, apply

from foresail.experiments.supersteps.on_kube import ROWS
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.connect import find_connection
from foresail.kube.api.errors import ClusterError
from foresail.lab import Lab
from foresail.live.supersteps.job import RowFile, SuperstepRow

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root"),
]
TASKS = {"bsearch": 0.45, "memcpy": 0.5, "vecmath": 4.0}
LENGTH = 10


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fs-") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab("bsp", kubelets=1, node_cpu="1500m", workload_image=True, zookeeper=True, base=folder) as up:
        yield up


def experiment(folder: Path, name: str, **more: str) -> Path:
    """Work divided by CPU, roughly as stress-ng has it: planners need no more to change splits."""
    rows = ["task,workload,cpu_milli,seconds"]
    rows += [
        f"{task},{work},{milli},{0.01 * work * 1000 / milli}"
        for task in TASKS
        for work in (5, 20, 40, 60)
        for milli in (100, 200, 400, 900)
    ]
    (folder / "profile.csv").write_text("\n".join(rows) + "\n")
    said = {"length": str(LENGTH), "barrier": '"lease"', **more}
    lines = [f'name = "{name}"', 'profile = "profile.csv"', "cpu_milli = 900", 'strategy = "static"', "window = 2"]
    lines += ['forecast = "perfect"', 'penalty = "measured"', *(f"{key} = {value}" for key, value in said.items())]
    for task, modifier in TASKS.items():
        lines += ["[[tasks]]", f'name = "{task}"', f"modifier = {modifier}"]
    lines += ["[cluster]", 'scheduler = "default-scheduler"', "superstep_within_s = 120.0"]
    path = folder / f"{name}.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Running:
    """`foresail bsp run` as a process of its own, and the rows that it writes."""

    def __init__(self, lab: Lab, path: Path, *more: str) -> None:
        self.out = path.parent / path.stem
        self.rows = RowFile(self.out / ROWS)
        self._said = (path.parent / f"{path.stem}-{time.monotonic_ns()}.log").open("w+")
        words = ["bsp", "run", str(path), "--lab", lab.name, "--lab-dir", str(lab.folder.parent), *more, "--out"]
        command = [sys.executable, "-c", "from foresail.cli.main import main; main()", *words, str(self.out)]
        self.process = subprocess.Popen(command, stdout=self._said, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.process.kill()
        self.process.wait()
        self._said.close()

    @property
    def said(self) -> str:
        self._said.seek(0)
        return self._said.read()

    def until(self, reached: Callable[[], Any], within_s: float = 120.0) -> Any:
        until_s = time.monotonic() + within_s
        while True:
            found = reached()
            if found:
                return found
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until_s, f"not within {within_s} s: {self.said}"
            time.sleep(0.1)

    def done(self) -> list[SuperstepRow]:
        """Until it has ended well."""
        assert self.process.wait(120) == 0, self.said
        return self.rows.rows()


def pods(api: BlockingClient, job: str) -> dict[str, dict[str, Any]]:
    with contextlib.suppress(ClusterError):
        found = api.items(f"/api/v1/namespaces/default/pods?labelSelector=foresail.dev/superstep-job%3D{job}")
        return {one["metadata"]["labels"]["foresail.dev/superstep-task"]: one for one in found}
    return {}


def check_whole(rows: list[SuperstepRow], length: int) -> None:
    assert [row.step for row in rows] == list(range(length))
    for row in rows:
        assert set(row.seconds) == set(TASKS)
        assert all(seconds > 0 for seconds in row.seconds.values())
        assert sum(row.cpu_milli.values()) <= 900


def as_runner(lab: Lab, folder: Path) -> Path:
    """A kubeconfig with no more rights than deploy/supersteps gives the runner; its namespace and tasks are there."""
    with lab.api() as api:
        for name in ("namespace", "runner"):
            text = (DEPLOY / "supersteps" / f"{name}.yaml").read_text(encoding="utf-8")
            for manifest in yaml.safe_load_all(text):
                if manifest["kind"] == "Namespace":
                    # Pods of a lab reach its API server by their node's network, which restricted namespaces refuse.
                    del manifest["metadata"]["labels"]
                if manifest["kind"] not in {"Job", "PersistentVolumeClaim"}:
                    apply(api, manifest, dry_run=False)
        token = api.create(
            "/api/v1/namespaces/foresail-jobs/serviceaccounts/foresail-runner/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
    path = folder / "runner.kubeconfig"
    path.write_text(json.dumps(Account(lab, token["status"]["token"]).kubeconfig(lab)))
    return path


def test_splits_change_in_place_between_supersteps_on_leases_by_the_rights_of_the_runner(lab, folder):
    path = experiment(folder, "lease")
    path.write_text(f'{path.read_text()}namespace = "foresail-jobs"\n')
    with Running(lab, path, "--kubeconfig", str(as_runner(lab, folder))) as running:
        rows = running.done()
        said = running.said
    check_whole(rows, LENGTH)
    ends = [one.outcome for row in rows for one in row.resizes]
    assert len(ends) >= 3
    assert set(ends) == {"done"}, ends
    # Nobody was made anew for it: each task was one pod from the beginning to the end.
    assert {attempt for row in rows for attempt in row.attempt.values()} == {1}
    assert not any(row.recreated for row in rows)
    # What a change took is what the next plan was told, and what was measured stands in the page.
    assert any(row.changed and row.changing_s > 0 for row in rows)
    assert (running.out / "overlay.html").is_file(), said
    with BlockingClient(find_connection(lab.kubeconfig)) as api:
        leases = api.items("/apis/coordination.k8s.io/v1/namespaces/foresail-jobs/leases")
        assert [one["metadata"]["name"] for one in leases if "superstep" in str(one["metadata"].get("labels"))] == []


def test_supersteps_meet_on_zookeeper_and_go_on_after_it_was_killed(lab, folder):
    path = experiment(folder, "zoo", barrier='"zookeeper"')
    with Running(lab, path) as running:
        running.until(lambda: len(running.rows.rows()) >= 3)
        lab.restart("zookeeper")
        rows = running.done()
    check_whole(rows, LENGTH)
    assert sum(one.outcome == "done" for row in rows for one in row.resizes) >= 3


@pytest.mark.parametrize("name", ["namespace", "zookeeper", "profiler", "runner"])
def test_the_api_server_takes_every_manifest(lab, name):
    text = (DEPLOY / "supersteps" / f"{name}.yaml").read_text(encoding="utf-8")
    with lab.api() as api:
        with contextlib.suppress(ClusterError):
            api.create("/api/v1/namespaces", {"metadata": {"name": "foresail-jobs"}})
        for manifest in yaml.safe_load_all(text):
            assert apply(api, manifest, dry_run=True)["metadata"]["name"] == manifest["metadata"]["name"]


def test_a_lost_task_a_killed_coordinator_and_a_restarted_api_server_cost_no_superstep(lab, folder):
    path = experiment(folder, "faults", length="12")
    with BlockingClient(find_connection(lab.kubeconfig)) as api:
        with Running(lab, path) as first:
            first.until(lambda: len(first.rows.rows()) >= 2)
            (killed,) = [one for task, one in pods(api, "faults").items() if task == "memcpy"]
            api.delete(f"/api/v1/namespaces/default/pods/{killed['metadata']['name']}?gracePeriodSeconds=0")
            first.until(
                lambda: (
                    (there := pods(api, "faults").get("memcpy"))
                    and there["metadata"]["uid"] != killed["metadata"]["uid"]
                )
            )
            before = len(first.rows.rows())
            first.until(lambda: len(first.rows.rows()) > before)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait()
            known, first_said = len(first.rows.rows()), first.said
        with Running(lab, path) as second:
            second.until(lambda: len(second.rows.rows()) > known)
            lab.restart("kube-apiserver")
            rows = second.done()
            said = first_said + second.said
    check_whole(rows, 12)
    # The task whose pod was killed is another pod's since, and has gone on where the first one was.
    assert max(row.attempt["memcpy"] for row in rows) >= 2, said


def without_resizes(api: BlockingClient) -> None:
    """The coordinator may do all that it needs but resize pods: the API server refuses that, as an older one would."""
    rule: dict[str, Any] = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-resizes"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/resize"]}
                ]
            },
            "validations": [{"expression": "false", "message": "no resizes here"}],
        },
    }
    binding = {"policyName": "no-resizes", "validationActions": ["Deny"]}
    api.create("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", rule)
    api.create(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        {"metadata": {"name": "no-resizes"}, "spec": binding},
    )


def test_where_resizes_are_refused_pods_are_made_anew_and_lose_no_superstep(lab, folder):
    path = experiment(folder, "anew", length="3")
    path.write_text(f"{path.read_text()}resize_within_s = 3.0\n")
    with BlockingClient(find_connection(lab.kubeconfig)) as api:
        without_resizes(api)
        try:
            with Running(lab, path) as running:
                rows = running.done()
                said = running.said
        finally:
            for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
                api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}/no-resizes")
    check_whole(rows, 3)
    assert [row.recreated for row in rows] == [True, False, True], said
    assert rows[0].cpu_milli != rows[2].cpu_milli
    # Once is enough to know: later changes ask for no resize.
    assert said.count("so they are made anew") == 1
    assert [bool(row.resizes) for row in rows] == [True, False, False]


def test_a_job_whose_work_takes_too_long_ends_with_the_reason(lab, folder):
    path = experiment(folder, "late", length="3")
    path.write_text(path.read_text().replace("modifier = 0.5", "modifier = 5000.0").replace("120.0", "4.0"))
    with Running(lab, path) as running:
        assert running.process.wait(120) == 2, running.said
        assert "superstep 0 was not done within 4 s" in running.said
        assert "memcpy is still at work" in running.said
