"""Labs as a user has them: real servers, real containers, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.live.console import ANY_PORT, serving, until

from foresail.errors import OptionError
from foresail.kube.api.errors import ApiError
from foresail.lab import Lab, cgroups, components
from foresail.lab.build import build
from foresail.lab.fake_nodes import DURATION_S
from foresail.lab.images import BASE_IMAGE
from foresail.lab.processes import kill, marked
from foresail.lab.state import load

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

COMMAND = [sys.executable, "-c", "from foresail.cli.main import main; main()", "lab"]
PODS = "/api/v1/namespaces/default/pods"
MEASURED_S = 6.0
GO_CACHE = os.environ.get("GOCACHE") or str(
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "go-build"
)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root")


def make_pod(name: str, script: str = "sleep 3600", *, cpu: str = "100m", **more: object) -> dict[str, object]:
    """A pod whose CPU request and limit are the same."""
    amounts = {"cpu": cpu, "memory": "32Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **more.pop("metadata", {})},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": BASE_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", script],
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
            **more,
        },
    }


def phase_is(phase):
    return lambda pod: pod["status"].get("phase") == phase


def cpu_milli(path, seconds=MEASURED_S):
    """CPU that a control group uses, measured over some seconds."""
    used_s, begun_s = cgroups.cpu_used_s(path), time.monotonic()
    until(lambda: time.monotonic() - begun_s >= seconds)
    return 1000 * (cgroups.cpu_used_s(path) - used_s) / (time.monotonic() - begun_s)


def test_pods_on_fake_nodes_are_scheduled_run_and_finish(labs, nothing_left):
    with Lab("fake", fake_nodes=5, base=labs) as lab, lab.api() as api:
        nodes = {node["metadata"]["name"]: node["status"]["allocatable"]["cpu"] for node in api.items("/api/v1/nodes")}
        assert nodes == {f"fake-{index:05}": "32" for index in range(5)}

        api.create(PODS, make_pod("short", metadata={"annotations": {DURATION_S: "1.5"}}))
        api.create(PODS, make_pod("endless"))
        done = api.wait(f"{PODS}/short", phase_is("Succeeded"))
        assert done["spec"]["nodeName"] in nodes
        assert {one["type"]: one["status"] for one in done["status"]["conditions"]}["PodScheduled"] == "True"
        ended = done["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], ended["startedAt"] < ended["finishedAt"]) == (0, True)
        assert api.wait(f"{PODS}/endless", phase_is("Running"))["status"]["hostIP"] == "127.0.0.1"

        # KWOK renews the leases, without which the controller manager would call the nodes lost.
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/fake-00004"
        first = api.wait(lease, lambda found: "renewTime" in found["spec"])["spec"]["renewTime"]
        api.wait(lease, lambda found: found["spec"]["renewTime"] > first)
        # It is told of pods, and does not find them in a list later and later.
        assert "watch ended with error" not in lab.logs()["kwok"].read_text()

        # Up again: nothing is started twice; with other settings it is refused.
        before = lab.status().components
        lab.up()
        assert lab.status().components == before
        assert None not in before.values()
        with pytest.raises(OptionError, match="lab fake is up with fake_nodes 5"):
            Lab("fake", fake_nodes=6, base=labs).up()

        # A component that died is started again, on what etcd kept.
        kill([lab.state.processes["kube-apiserver"]])
        lab.up()
        assert api.get(f"{PODS}/short")["status"]["phase"] == "Succeeded"


def test_the_api_server_knows_its_own_and_nobody_else(labs, nothing_left):
    with Lab("door", base=labs, scheduler=False) as lab, lab.api() as api:
        assert "kube-scheduler" not in lab.status().components
        stranger = ssl.create_default_context(cafile=str(lab.ca))
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(f"{lab.url}/api/v1/nodes", context=stranger)  # noqa: S310 - our own https
        # A service account's token is known, and may do nothing until a role says so.
        asked = api.create(
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        )
        headers = {"Authorization": f"Bearer {asked['status']['token']}"}
        request = urllib.request.Request(f"{lab.url}/api/v1/nodes", headers=headers)  # noqa: S310 - our own https
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(request, context=stranger)  # noqa: S310 - our own https
        assert 'User "system:serviceaccount:default:default" cannot list' in json.load(refused.value)[
            "message"
        ].replace("\\", "")
        with pytest.raises(ApiError, match="404"):
            api.get(f"{PODS}/none")
        config = json.loads(lab.kubeconfig.read_text())
        assert config["clusters"][0]["cluster"]["server"] == lab.url


@needs_root
def test_a_pod_that_foresail_binds_gets_its_cpu_and_not_more_and_is_resized_in_place(labs, nothing_left, tmp_path):
    with (
        Lab("real", kubelets=1, node_cpu="1", scheduler=False, base=labs) as lab,
        lab.api() as api,
        serving(tmp_path, "run", "--kubeconfig", lab.kubeconfig, *ANY_PORT),
    ):
        node = lab.kubelet_nodes[0]
        assert api.get(f"/api/v1/nodes/{node.name}")["status"]["allocatable"]["cpu"] == "1"
        api.create(PODS, make_pod("busy", "while :; do :; done", cpu="200m", schedulerName="foresail"))
        pod = api.wait(f"{PODS}/busy", phase_is("Running"))
        path = cgroups.pod_path(node.cgroup, pod)
        assert cpu_milli(path) == pytest.approx(200, rel=0.15)

        amounts = {"cpu": "500m", "memory": "32Mi"}
        resized = {"spec": {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}}
        api.patch(f"{PODS}/busy/resize", resized)

        def has_500m(pod):
            return pod["status"]["containerStatuses"][0].get("resources", {}).get("limits", {}).get("cpu") == "500m"

        pod = api.wait(f"{PODS}/busy", has_500m)
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert cpu_milli(path) == pytest.approx(500, rel=0.15)

        # What the pod has now is what counts: of the node's 1000m there are 500m left.
        api.create(PODS, make_pod("large", cpu="600m", schedulerName="foresail"))
        api.create(PODS, make_pod("small", cpu="400m", schedulerName="foresail"))
        api.wait(f"{PODS}/small", phase_is("Running"))
        told = api.wait(f"{PODS}/large", lambda pod: pod["status"].get("conditions"))["status"]["conditions"]
        assert [one["message"] for one in told] == ["0/1 nodes are available: 1 Insufficient cpu."]


@needs_root
def test_pods_of_two_kubelets_reach_each_other_and_nothing_outside(labs, nothing_left):
    with Lab("net", kubelets=2, base=labs) as lab, lab.api() as api:
        first, second = (node.name for node in lab.kubelet_nodes)
        api.create(PODS, make_pod("server", "echo served > index.html; httpd -f -p 8080", nodeName=first))
        address = api.wait(f"{PODS}/server", phase_is("Running"))["status"]["podIP"]
        script = f"wget -qO- http://{address}:8080/ && ! ip route | grep default"
        api.create(
            PODS, make_pod("client", f"until {script}; do sleep 0.2; done", nodeName=second, restartPolicy="Never")
        )
        api.wait(f"{PODS}/client", phase_is("Succeeded"))
        assert api.text(f"{PODS}/client/log").strip().endswith("served")
        # Deleted pods leave their node while the lab goes on.
        api.delete(f"{PODS}/client")
        until(lambda: [pod["metadata"]["name"] for pod in api.items(PODS)] == ["server"])


@needs_root
def test_two_labs_stand_side_by_side_and_fall_one_by_one(labs, nothing_left):
    one, two = Lab("one", fake_nodes=2, base=labs), Lab("two", kubelets=1, base=labs)
    with one, two:
        with one.api() as api_one, two.api() as api_two:
            assert [node["metadata"]["name"] for node in api_one.items("/api/v1/nodes")] == ["fake-00000", "fake-00001"]
            assert [node["metadata"]["name"] for node in api_two.items("/api/v1/nodes")] == ["two-kubelet-0"]
        one.down()
        assert all(two.status().nodes.values())
        assert None not in two.status().components.values()


@needs_root
@pytest.mark.parametrize("after", ["", "etcd", "kube-apiserver", "containerd-0", "kubelet-0"])
def test_down_cleans_up_after_an_up_that_was_killed(labs, nothing_left, after):
    options = ["--name", "killed", "--dir", str(labs)]
    folder = labs / "killed"
    with subprocess.Popen([*COMMAND, "up", "--kubelets", "1", "--fake-nodes", "2", *options]) as starting:
        until(lambda: (state := load(folder)) is not None and (not after or after in state.processes))
        starting.send_signal(signal.SIGKILL)
    assert folder.is_dir()
    if after == "kube-apiserver":
        # It may as well go on.
        ran = subprocess.run([*COMMAND, "up", "--kubelets", "1", "--fake-nodes", "2", *options], check=False)
        assert (ran.returncode, len(Lab("killed", base=labs).status().nodes)) == (0, 3)
    ran = subprocess.run([*COMMAND, "down", *options], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, folder.exists()) == (0, "lab killed is gone\n", False)


@needs_root
def test_down_cleans_up_after_its_processes_were_killed(labs, nothing_left):
    lab = Lab("dead", kubelets=1, base=labs)
    lab.up()
    try:
        with lab.api() as api:
            api.create(PODS, make_pod("orphan"))
            api.wait(f"{PODS}/orphan", phase_is("Running"))
        # A pod in a container touches all that is counted, so each count can tell that something is left.
        assert nothing_left.changed() == {
            *("processes", "mounts", "cgroups", "links", "network_namespaces", "outside", "kernel_settings")
        }
        recorded = list(lab.state.processes.values())
        kill(recorded)
        # Containers and their shims live on.
        assert cgroups.processes_in(lab.state.cgroups[0])
        assert {process.pid for process in marked(lab.state.lab_id)}.isdisjoint(process.pid for process in recorded)
        assert set(lab.status().components.values()) == {None}
    finally:
        lab.down()


def test_an_interrupted_up_removes_what_it_had_made(labs, nothing_left):
    command = [*COMMAND, "up", "--name", "stopped", "--fake-nodes", "2", "--dir", str(labs)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as starting:
        until(lambda: (state := load(labs / "stopped")) is not None and "kube-apiserver" in state.processes)
        starting.send_signal(signal.SIGINT)
        said = starting.communicate()[1]
    assert (starting.returncode, "interrupted" in said, (labs / "stopped").exists()) == (130, True, False)


def test_the_guides_example_runs(labs, nothing_left, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(labs))
    guide = Path(__file__).resolve().parents[2] / "docs" / "guides" / "lab.md"
    example = re.search(
        r"```text\n(from foresail\.lab import Lab\n.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL
    )
    assert example is not None
    exec(compile(example[1], guide, "exec"), {})  # noqa: S102 - our own page


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go on PATH")
def test_a_build_that_was_killed_goes_on(labs, monkeypatch):
    """KWOK into an empty cache: Go still knows what it has compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(labs / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    # Go's caches stay where they are; they would follow XDG_CACHE_HOME.
    monkeypatch.setenv("GOCACHE", GO_CACHE)
    script = "from foresail.lab import build, components; build.build([components.KWOK])"
    with subprocess.Popen([sys.executable, "-c", script], start_new_session=True) as building:
        until((labs / "cache/foresail/lab/modules/kwok-0.8.0/go.sum").is_file, within_s=300)
        os.killpg(building.pid, signal.SIGKILL)
    assert components.find("kwok") is None
    found = build([components.KWOK])["kwok"]
    ran = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
    assert (found, "0.8.0" in ran.stdout) == (components.cached("kwok"), True)
