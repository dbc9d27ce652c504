"""The extender behind a real kube-scheduler: pods go where the policy says."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.live.console import until
from tests.live.running import PODS, clear

from foresail.core.decide import decide
from foresail.core.model import Pod
from foresail.core.table import NodeTable
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import pod_spec_of
from foresail.lab import Lab, components
from foresail.lab.ports import free_ports
from foresail.live.extender.app import VERBS
from foresail.policies.profiles.load import load_profile

pytestmark = pytest.mark.cluster

COMMAND = [sys.executable, "-c", "from foresail.cli.main import main; main()", "extender"]
NODES = "/api/v1/nodes"
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not pytest's own, whose paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="fs-") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab("extended", fake_nodes=6, fake_cpu="16", fake_memory="64Gi", scheduler=False, base=folder) as found:
        yield found


@pytest.fixture
def api(lab: Lab) -> Iterator[Any]:
    with lab.api() as found:
        yield found
        clear(found)


@contextmanager
def process(command: list[Any], log: Path) -> Iterator[None]:
    with log.open("w") as out, subprocess.Popen(list(map(str, command)), stdout=out, stderr=out) as running:
        try:
            yield
            assert running.poll() is None, log.read_text()
        finally:
            running.terminate()
            running.wait(20)


@dataclass
class Asked:
    """A kube-scheduler and the extender that it asks."""

    url: str
    log: Path

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}") as answer:  # noqa: S310 - loopback
            return answer.read().decode()

    def is_ready(self) -> bool:
        try:
            return self.text("/readyz") == "ok\n"
        except OSError:
            return False

    def count(self, verb: str, result: str = "ok") -> float:
        wanted = f'foresail_extender_requests_total{{result="{result}",verb="{verb}"}} '
        lines = [line for line in self.text("/metrics").splitlines() if line.startswith(wanted)]
        return float(lines[0].removeprefix(wanted)) if lines else 0.0

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = [line for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [event for event in map(json.loads, lines) if event["event"] == name]


@contextmanager
def scheduling(lab: Lab, folder: Path, policy: str, *options: str) -> Iterator[Asked]:
    """Start an extender, then a kube-scheduler with the configuration that the extender prints."""
    port, secure = free_ports(2)
    arguments = [*COMMAND, "--policy", policy, "--address", f"127.0.0.1:{port}", *options]
    printed = subprocess.run([*arguments, "--print-config"], capture_output=True, text=True, check=True)
    config = yaml.safe_load(printed.stdout)
    config |= {"clientConnection": {"kubeconfig": str(lab.kubeconfig)}, "leaderElection": {"leaderElect": False}}
    path = folder / f"{port}.yaml"
    path.write_text(yaml.safe_dump(config))
    subprocess.run([*arguments, "--check-config", str(path)], capture_output=True, check=True)
    asked = Asked(f"http://127.0.0.1:{port}", folder / f"{port}.log")
    scheduler = [
        components.need("kube-scheduler"),
        f"--config={path}",
        f"--authentication-kubeconfig={lab.kubeconfig}",
        f"--authorization-kubeconfig={lab.kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={secure}",
        f"--cert-dir={folder / 'scheduler'}",
        *(["--feature-gates=OpportunisticBatching=false"] if "--weight" in options else []),
    ]
    with process([*arguments, "--kubeconfig", lab.kubeconfig, "--config", path], asked.log):
        until(asked.is_ready)
        with process(scheduler, folder / f"{secure}.log"):
            yield asked


def make_pod(name: str, cpu: str = "1", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "image": "pause", "resources": resources}], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def placed(api: Any) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in api.items(PODS)}


def decided(api: Any, policy: str, names: list[str]) -> dict[str, str]:
    """Where `decide` puts the pods, one after the other, on the empty nodes."""
    profile = load_profile(policy)
    table = NodeTable(sorted((node_spec(node) for node in api.items(NODES)), key=lambda node: node.name))
    found = {}
    for name in names:
        pod = Pod(name, table.shape(pod_spec_of(api.get(f"{PODS}/{name}"))))
        placement = decide(pod, table, profile)
        table.assume(pod, placement)
        found[name] = placement.node
    return found


@pytest.mark.parametrize("policy", ["least-allocated", "most-allocated", "best-fit:1+balanced:0.01"])
@pytest.mark.parametrize(
    ("options", "verbs"), [((), {"choose"}), (("--weight", "1000"), {"filter", "prioritize"})], ids=["choose", "score"]
)
def test_pods_that_come_at_once_go_where_the_policy_puts_them_one_by_one(lab, folder, api, policy, options, verbs):
    names = [f"pod-{at:02}" for at in range(24)]
    with scheduling(lab, folder, policy, *options) as asked:
        for at, name in enumerate(names):
            api.create(PODS, make_pod(name, cpu=f"{1 + at % 3}"))
            if at == 0:  # kube-scheduler takes pods that it finds when it starts in any order
                until(lambda: all(placed(api).values()))
        until(lambda: all(placed(api).values()))
        assert placed(api) == decided(api, policy, names)
        assert {verb: asked.count(verb) for verb in VERBS if asked.count(verb)} == dict.fromkeys(verbs, 24)
        assert asked.events("assumed_pod_not_bound") == []


def test_of_a_sample_the_best_node_is_taken(folder):
    with (
        Lab("sampled", fake_nodes=150, fake_cpu="16", fake_memory="64Gi", scheduler=False, base=folder) as lab,
        scheduling(lab, folder, "best-fit", "--sample") as asked,
        lab.api() as api,
    ):
        for at in range(30):
            api.create(PODS, make_pod(f"pod-{at:02}"))
        until(lambda: all(placed(api).values()))
        # A pod sees 100 of the 150 nodes: too many to miss all used ones often, too few to fill one after another.
        assert 2 <= len(set(placed(api).values())) < 15
        assert asked.count("choose") == 30
        assert asked.events("kube_scheduler_sends_a_sample") == []


def test_kube_scheduler_and_the_profile_kubernetes_agree_on_every_node(lab, folder, api):
    for at in range(6):
        labels = {ZONE: f"zone-{at % 3}", "disk": "ssd" if at < 4 else "hdd"}
        api.patch(f"{NODES}/fake-{at:05}", {"metadata": {"labels": labels}, "spec": {"unschedulable": at == 5}})
    near = {"labelSelector": {"matchLabels": {"app": "lonely"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    even = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    lonely, web = ({"metadata": {"labels": {"app": app}}} for app in ("lonely", "web"))
    with scheduling(lab, folder, "kubernetes", "--log-level", "debug") as asked:
        for at in range(4):
            api.create(PODS, make_pod(f"apart-{at}", affinity=apart, **lonely))
            until(lambda: all(placed(api).values()))
        for at in range(4):
            api.create(PODS, make_pod(f"even-{at}", topologySpreadConstraints=[even], **web))
            api.create(PODS, make_pod(f"big-{at}", cpu="11", nodeSelector={"disk": "ssd"}))
            until(lambda: all(placed(api).values()))
        told = asked.events("filtered")
        assert [(one["only_kube_scheduler"], one["only_here"]) for one in told] == [([], [])] * 12
        assert len({one["asked"] for one in told}) > 2
    for at in range(6):
        labels = {ZONE: None, "disk": None}
        api.patch(f"{NODES}/fake-{at:05}", {"metadata": {"labels": labels}, "spec": {"unschedulable": None}})


def test_bound_gpu_shares_carry_their_devices(lab, folder, api):
    for at in range(2):
        gpus = {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
        api.patch(f"{NODES}/fake-{at:05}/status", {"status": gpus})
    share = {"metadata": {"annotations": {"alibabacloud.com/gpu-milli": "400"}}}
    with scheduling(lab, folder, "fgd", "--bind") as asked:
        for at in range(9):
            api.create(PODS, make_pod(f"share-{at}", **share))
        until(lambda: sum(map(bool, placed(api).values())) == 8)
        waiting = [name for name, node in placed(api).items() if not node]
        pods = [pod for pod in api.items(PODS) if pod["metadata"]["name"] not in waiting]
        held = Counter(
            (pod["spec"]["nodeName"], pod["metadata"]["annotations"]["foresail.dev/gpu-devices"]) for pod in pods
        )
        assert held == {(f"fake-{node:05}", str(device)): 2 for node in range(2) for device in range(2)}
        assert asked.count("bind") == 8
        reason = api.wait(f"{PODS}/{waiting[0]}", lambda pod: pod["status"].get("conditions"))["status"]["conditions"][
            0
        ]
        assert "have too little gpu" in reason["message"]
