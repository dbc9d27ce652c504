"""A real cluster recorded: what the file foretells is what kube-scheduler then does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.console import until
from tests.live.running import PODS
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.core.explain import explain
from foresail.core.model import Placement
from foresail.experiments.request import WhatIfRequest
from foresail.experiments.what_if import what_if
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.errors import ApiError
from foresail.lab import Lab
from foresail.live.snapshot import cluster_of
from foresail.policies.kubernetes import FILTERS
from foresail.policies.profiles.load import load_profile
from foresail.traces.snapshot import read_snapshot

pytestmark = pytest.mark.cluster

GATE = "foresail.dev/later"


def make_pod(name, cpu, *, gated=False, **spec):
    container = {
        "name": "main",
        "image": "none",
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
    }
    more = {"schedulingGates": [{"name": GATE}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name.partition("-")[0]}, "annotations": {"password": "hunter2"}},
        "spec": {"containers": [container], **spec, **more},
    }


def create(api: BlockingClient, *pods):
    for pod in pods:
        # Pods are refused until the controller manager has made their service account.
        def created(pod=pod):
            try:
                return api.create(PODS, pod)
            except ApiError as error:
                if error.status != 403:
                    raise
                return None

        until(created)


def node_of(api: BlockingClient, name: str) -> str:
    return api.get(f"{PODS}/{name}")["spec"].get("nodeName", "")


def is_refused(api: BlockingClient, name: str) -> bool:
    conditions = api.get(f"{PODS}/{name}")["status"].get("conditions", ())
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def foresail(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.fixture(scope="module")
def lab():
    with Lab(fake_nodes=10, fake_cpu="8") as started:
        yield started


def tied_best(path: Path, name: str) -> set[str]:
    """The nodes that share the best total for a waiting pod of the file."""
    profile = load_profile("kubernetes", filters=FILTERS)
    cache = cluster_of(read_snapshot(path), profile.devices)
    pod = next(cache.as_waiting(uid) for uid, cached in cache.pods.items() if cached.name == name)
    decision = explain(pod, cache.table, profile, top=cache.table.count)
    return {one.node for one in decision.candidates[: decision.tied]}


def test_the_file_foretells_what_kube_scheduler_does(lab, tmp_path):
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
            ]
        }
    }
    with lab.api() as api:
        names = [f"web-{at}" for at in range(6)] + [f"db-{at}" for at in range(4)]
        for name in names:
            spec = {"affinity": apart} if name.startswith("db") else {}
            create(api, make_pod(name, f"{500 * (1 + int(name[-1]))}m", **spec))
        until(lambda: all(node_of(api, name) for name in names))
        create(api, make_pod("huge-0", "64"))
        until(lambda: is_refused(api, "huge-0"))
        waiting = {
            "web-7": {},
            "db-8": {"affinity": apart},
            "web-9": {"nodeSelector": {"kubernetes.io/hostname": "fake-00003"}},
        }
        # A gate holds each pod back until it has been foretold; the snapshot then has it without its gate.
        for at, (name, spec) in enumerate(waiting.items()):
            create(api, make_pod(name, "3", gated=True, **spec))
            gated = tmp_path / f"gated-{at}.yaml"
            out = foresail("trace", "snapshot", "--out", gated, "--kubeconfig", lab.kubeconfig)
            assert out.startswith("10 Node, ")
            text = gated.read_text()
            assert "hunter2" not in text
            path = tmp_path / f"cluster-{at}.yaml"
            path.write_text(text.replace(f"  schedulingGates:\n  - name: {GATE}\n", ""))
            answers = {one.pod.name: one for one in what_if(WhatIfRequest(str(path))).answers}
            assert answers.keys() == {"default/huge-0", f"default/{name}"}
            assert answers["default/huge-0"].why == "10 Insufficient cpu"
            foretold = answers[f"default/{name}"].placement
            assert isinstance(foretold, Placement)
            api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}}, "application/merge-patch+json")
            chosen = until(lambda name=name: node_of(api, name))
            tied = tied_best(path, name)
            assert foretold.node in tied
            assert chosen in tied
        assert node_of(api, "web-9") == "fake-00003"


def test_one_state_gives_one_file_and_the_commands_agree_on_it(lab, tmp_path):
    with lab.api() as api:
        create(api, make_pod("stands-0", "1"), make_pod("waits-0", "64"))
        node = until(lambda: node_of(api, "stands-0"))
        until(lambda: api.get(f"{PODS}/stands-0")["status"]["phase"] == "Running")
        until(lambda: is_refused(api, "waits-0"))
    paths = [tmp_path / name for name in ("a.yaml", "b.yaml")]
    for path in paths:
        foresail("trace", "snapshot", "--out", path, "--kubeconfig", lab.kubeconfig)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    out = foresail("simulate", "--from-snapshot", paths[0], "--out", tmp_path / "results")
    assert "default/waits-0" in out
    assert f"wrote {tmp_path / 'results'}" in out
    stands = foresail("explain", "stands-0", "--live", "--kubeconfig", lab.kubeconfig)
    assert stands.startswith(f"default/stands-0 stands on {node}, number ")
    waits = foresail("explain", "default/waits-0", "--live", "--kubeconfig", lab.kubeconfig, "--top", "2")
    assert waits.startswith("0/10 nodes fit default/waits-0: 10 Insufficient cpu\n")
    gone = CliRunner().invoke(app, ["explain", "wait-0", "--live", "--kubeconfig", str(lab.kubeconfig)])
    assert 'did you mean "default/waits-0"?' in str(gone.exception)
