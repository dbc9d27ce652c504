"""Runs on a real API server whose nodes KWOK plays: what happened is told as in a simulated run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.running import node
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.core.spec import NodeSpec
from foresail.experiments.kube.objects import Submitting
from foresail.experiments.kube.run import KubeSettings, run_on_kube
from foresail.experiments.request import RunRequest
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab
from foresail.live.scheduler.run import RunSettings
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.testing import make_workload
from foresail.traces.trace import Trace

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fake_nodes=0, scheduler=False) as lab:
        with lab.api() as api:
            for at in range(3):
                api.create("/api/v1/nodes", node(f"n{at}", cpu="4"))
            for at in range(3):
                # A new node is tainted until the controller manager has seen that it is ready.
                api.wait(f"/api/v1/nodes/n{at}", lambda found: not found["spec"].get("taints"))
        yield lab


def settings_for(lab: Lab, **more) -> KubeSettings:
    connection = find_connection(lab.kubeconfig, None)
    return KubeSettings(connection, Submitting(), RunSettings(policy="kubernetes"), sample_every_s=0.5, **more)


def test_the_same_pods_go_where_they_go_in_simulation_and_end_when_they_should(lab):
    workload = make_workload(
        {
            f"job-{at}": {
                "cpu_milli": 1000 + 100 * at,
                "memory_bytes": 1 << 20,
                "arrival_s": 0.4 * at,
                "duration_s": 4.0,
            }
            for at in range(6)
        }
    )
    trace = Trace("six", [NodeSpec(f"n{at}", 4000, 16 << 30, max_pods=110) for at in range(3)], workload, {})
    request = RunRequest(nodes="-", pods="-", policy="kubernetes", protocol="clock")
    happened = run_on_kube(request, trace, settings_for(lab, give_up_s=120.0))
    simulated = run_clock(trace, load_profile("kubernetes"))
    placed = dict(happened.frame("placements").select("pod", "node").iter_rows())
    assert placed == dict(simulated.frame("placements").select("pod", "node").iter_rows())
    pods = happened.frame("pods")
    assert set(pods["outcome"]) == {"finished"}
    took = (pods["end_s"] - pods["submit_s"]).to_list()
    assert all(4.0 <= one <= 12.0 for one in took), took
    assert {"arrive", "start"} <= set(happened.frame("journal")["what"])
    assert happened.frame("jobs").height > 0
    assert happened.summary["finished"] == 6
    with lab.api() as api:
        namespaces = [one["metadata"]["name"] for one in api.items("/api/v1/namespaces")]
    assert not [name for name in namespaces if name.startswith("foresail-run-")]


def test_compare_on_kube_runs_both_worlds_and_says_how_far_they_are_apart(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{at},4000,16384,0,\n" for at in range(3))
    )
    rows = "".join(f"job-{at},{1500 - 100 * at},64,0,0,{at},6\n" for at in range(3))
    Path("pods.csv").write_text(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,duration_s\n{rows}")
    words = "--nodes nodes.csv --pods pods.csv --protocol clock --policy kubernetes --policy most-allocated --seeds 1"
    done = CliRunner().invoke(app, ["compare", *words.split(), "--on", "kube", "--kubeconfig", str(lab.kubeconfig)])
    assert done.exit_code == 0, done.output
    assert "Simulated against real completion" in done.output
    lines = Path("comparison/agreement.csv").read_text().splitlines()
    assert lines[0] == "policy,seed,job,simulated_s,real_s,error_pct"
    assert len(lines) == 1 + 2 * 3
    assert {line.split(",")[3] for line in lines[1:]} == {"6.0"}
    assert "on the cluster" in Path("comparison/agreement.html").read_text()
    assert json.loads(Path("comparison/kube/runs/pods/kubernetes/seed-1/manifest.json").read_text())["world"] == "kube"
    # What is finished is kept in both worlds: nothing runs again.
    again = CliRunner().invoke(app, ["compare", *words.split(), "--on", "kube", "--kubeconfig", str(lab.kubeconfig)])
    assert again.exit_code == 0, again.output
    assert Path("comparison/agreement.csv").read_text().splitlines() == lines


def test_a_run_that_is_ended_leaves_nothing_and_what_a_killed_one_left_is_removed_by_the_next(lab, tmp_path):
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,4000,16384,0,\n")
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,duration_s\n"
    words = "--nodes nodes.csv --pods pods.csv --protocol clock --policy kubernetes --seeds 1 --on kube --overwrite"
    options = ["--kubeconfig", str(lab.kubeconfig), "--shared-folder", str(tmp_path / "shared")]
    program = [sys.executable, "-c", "from foresail.cli.main import main; main()", "compare", *words.split(), *options]
    # As a shell starts what runs in the background: deaf to Ctrl-C.
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *program]
    # Nobody waits for its end: it is told to go, or killed, as soon as its pod is there.
    (tmp_path / "pods.csv").write_text(f"{head}job,100,64,0,0,0,3600\n")
    polite = _ended_by(signal.SIGTERM, command, tmp_path, lab)
    assert polite.returncode == 130
    assert "nothing is left of this one on the cluster" in polite.stderr
    assert _runs(lab) == []
    assert list((tmp_path / "shared").iterdir()) == []
    assert _ended_by(signal.SIGKILL, command, tmp_path, lab).returncode == -signal.SIGKILL
    assert len(_runs(lab)) == len(list((tmp_path / "shared").iterdir())) == 1
    (tmp_path / "pods.csv").write_text(f"{head}job,100,64,0,0,0,1\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert _runs(lab) == []
    assert list((tmp_path / "shared").iterdir()) == []


def _runs(lab: Lab) -> list[str]:
    with lab.api() as api:
        names = [one["metadata"]["name"] for one in api.items("/api/v1/namespaces")]
    return [name for name in names if name.startswith("foresail-run-")]


def _ended_by(number: int, command: list[str], folder: Path, lab: Lab) -> subprocess.CompletedProcess[str]:
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until_s = time.monotonic() + 90
        with lab.api() as api:
            while not any(api.items(f"/api/v1/namespaces/{name}/pods") for name in _runs(lab)):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < until_s
                time.sleep(0.1)
        os.kill(process.pid, number)
        out, error = process.communicate(timeout=120)
    return subprocess.CompletedProcess(command, process.returncode, out, error)
