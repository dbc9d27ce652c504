"""`foresail run --shadow` beside a real kube-scheduler: what it would have done, and that it does nothing."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.console import serving, until
from tests.live.running import PODS, clear, pod

from foresail.kube.api.blocking import BlockingClient
from foresail.lab import Lab

pytestmark = pytest.mark.cluster

COUNT = 30
CHOICE = {"pod", "theirs", "ours", "agree", "feasible", "our_score", "their_score", "why"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(fake_nodes=10, fake_cpu="8", fake_memory="32Gi", scheduler=True) as lab:
        yield lab


@pytest.fixture
def api(lab: Lab) -> Iterator[BlockingClient]:
    with lab.api() as api:
        yield api
        clear(api)


def create_pods(api: BlockingClient) -> None:
    """One after the other, each once the one before has its node: then both schedulers see the same cluster."""
    for number in range(COUNT):
        requests = {"cpu": f"{(250, 500, 1000)[number % 3]}m", "memory": f"{(256, 512, 2048, 1024)[number % 4]}Mi"}
        name = f"pod-{number:02}"
        api.create(PODS, pod(name, scheduler="default-scheduler", requests=requests))
        until(lambda name=name: api.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def choices(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def shadowing(lab: Lab, folder: Path, *more: object) -> Any:
    return serving(folder, "run", "--shadow", "--kubeconfig", lab.kubeconfig, "--out", folder / "choices.jsonl", *more)


def nothing_is_ours(api: BlockingClient) -> None:
    for found in api.items(PODS):
        managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
        assert not {name for name in managers if name.startswith("foresail")}, managers
    controllers = {one.get("reportingController") for one in api.items("/apis/events.k8s.io/v1/events")}
    assert "default-scheduler" in controllers
    assert "foresail.dev/scheduler" not in controllers
    leases = {one["metadata"]["name"] for one in api.items("/apis/coordination.k8s.io/v1/leases")}
    assert not leases & {"foresail", "shadow"}


def test_the_kubernetes_profile_agrees_with_kube_scheduler_on_every_pod(lab: Lab, api: BlockingClient, tmp_path: Path):
    with shadowing(lab, tmp_path, "--policy", "kubernetes", "--pods", COUNT) as found:
        found.until_said("nothing is bound by us")
        create_pods(api)
        assert found.process.wait(60) == 0, found.err
    told = choices(tmp_path / "choices.jsonl")
    bound = {f"default/{one['metadata']['name']}": one["spec"]["nodeName"] for one in api.items(PODS)}
    assert {one["pod"]: one["theirs"] for one in told} == bound
    assert all(set(one) == CHOICE for one in told)
    assert [one for one in told if not one["agree"]] == []
    same = sum(one["ours"] == one["theirs"] for one in told)
    assert found.out == (
        f"{COUNT} pods bound by the other scheduler; agreed on {COUNT} (100.0 %): {same} on the same node, "
        f"{COUNT - same} on one as good; 0 on a node that we score lower, 0 on one that our filters refuse, "
        "0 that we would have let wait\n"
    )
    nothing_is_ours(api)


def test_another_policy_disagrees_and_ctrl_c_prints_the_summary(lab: Lab, api: BlockingClient, tmp_path: Path):
    out = tmp_path / "choices.jsonl"
    with shadowing(lab, tmp_path, "--policy", "most-allocated") as found:
        found.until_said("nothing is bound by us")
        create_pods(api)
        until(lambda: out.exists() and len(choices(out)) == COUNT, what=lambda: found.err)
        assert found.stop(signal.SIGINT) == 0, found.err
    told = choices(out)
    worse = [one for one in told if not one["agree"]]
    assert len(worse) > COUNT // 2
    assert all(one["feasible"] and one["their_score"] < one["our_score"] and not one["why"] for one in worse)
    assert f"{COUNT} pods bound by the other scheduler; agreed on {COUNT - len(worse)} " in found.out
    assert f"{len(worse)} on a node that we score lower, 0 on one that our filters refuse" in found.out
    nothing_is_ours(api)
