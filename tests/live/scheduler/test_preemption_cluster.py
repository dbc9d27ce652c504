"""Victims as a real kube-scheduler chooses them, on clusters drawn at random."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from foresail.core.decide import decide
from foresail.core.kubernetes import Requirement, Selector
from foresail.core.model import Placement, Pod
from foresail.core.objects import DisruptionBudget
from foresail.core.preemption import Preemption, find_victims
from foresail.core.table import NodeTable
from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.client import Object
from foresail.kube.api.errors import ApiError
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import pod_spec_of
from foresail.lab import Lab
from foresail.policies.profiles.load import load_profile

pytestmark = pytest.mark.cluster

CASES = 60
PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
AT_ONCE = "?gracePeriodSeconds=0"
PRIORITIES = (0, 100, 200, 300)
PREEMPTOR_PRIORITIES = (100, 200, 300, 300, 400, 400)
HOSTNAME = "kubernetes.io/hostname"
WITHIN_S = 30.0


@pytest.fixture(scope="module")
def api() -> Iterator[BlockingClient]:
    """A lab with kube-scheduler, and without what would overwrite budgets and taint nodes that have no kubelet."""
    with tempfile.TemporaryDirectory(prefix="fs-") as folder, Lab(base=Path(folder), fake_nodes=0) as lab:
        pid = lab.status().components["kube-controller-manager"]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with lab.api() as connection:
            for priority in {*PRIORITIES, *PREEMPTOR_PRIORITIES} - {0}:
                connection.create(
                    "/apis/scheduling.k8s.io/v1/priorityclasses",
                    {"metadata": {"name": f"priority-{priority}"}, "value": priority},
                )
            yield connection


class Drawn:
    """A small cluster as API objects, drawn with one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - nothing secret, and the same every time
        draw = self._random
        self.nodes = [self._node(f"n{seed}-{at}") for at in range(draw.randint(1, 4))]
        self.pods = [
            self._pod(f"p{seed}-{at}", draw.choice(PRIORITIES), draw.choice((200, 300, 500, 700)))
            for at in range(draw.randint(3, 6) * len(self.nodes))
        ]
        for pod in self.pods:
            pod["spec"]["nodeName"] = draw.choice(self.nodes)["metadata"]["name"]
        # Whole seconds, all different: kube-scheduler leaves the order of equal ones to chance.
        self.started_s = dict(
            zip(
                [pod["metadata"]["name"] for pod in self.pods],
                draw.sample(range(1_700_000_000, 1_700_001_000), len(self.pods)),
                strict=True,
            )
        )
        self.leaving = {pod["metadata"]["name"] for pod in self.pods if draw.random() < 0.1}
        self.allowed = {app: draw.randint(0, 2) for app in ("web", "db") if draw.random() < 0.6}
        self.preemptor = self._pod(f"preemptor{seed}", draw.choice(PREEMPTOR_PRIORITIES), draw.randint(8, 18) * 100)
        if draw.random() < 0.3:
            self.preemptor["spec"]["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME}
                    ]
                }
            }

    def _node(self, name: str) -> Object:
        draw = self._random
        amounts = {"cpu": "2", "memory": "4Gi", "pods": str(draw.choice((4, 110, 110)))}
        spec: Object = {"unschedulable": True} if draw.random() < 0.1 else {}
        spec["taints"] = [{"key": "keep-off", "effect": "NoSchedule"}] if draw.random() < 0.1 else []
        return {
            "metadata": {"name": name, "labels": {HOSTNAME: name}},
            "spec": spec,
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def _pod(self, name: str, priority: int, cpu_milli: int) -> Object:
        draw = self._random
        container: Object = {
            "name": "c",
            "image": "none",
            "resources": {"requests": {"cpu": f"{cpu_milli}m", "memory": f"{draw.choice((64, 512, 1024))}Mi"}},
        }
        if draw.random() < 0.15:
            container["ports"] = [{"containerPort": 80, "hostPort": 80}]
        spec: Object = {"containers": [container]}
        if priority:
            spec["priorityClassName"] = f"priority-{priority}"
        app = draw.choice(("web", "db", ""))
        return {"metadata": {"name": name, "labels": {"app": app} if app else {}}, "spec": spec}


@dataclass(frozen=True)
class Answer:
    """Where kube-scheduler nominated the pod, and whom it deleted for it."""

    node: str
    victims: frozenset[str]


def ask_kube_scheduler(api: BlockingClient, drawn: Drawn) -> tuple[Answer, NodeTable, Pod]:
    """Make the cluster real, let the preemptor in, and return the answer with a table of the same objects."""
    for node in drawn.nodes:
        api.create(NODES, node)
        # The API server marks a new node as not ready, and nobody is there to take the mark away.
        api.patch(f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": node["spec"]["taints"]}}, MERGE)
    for app, allowed in drawn.allowed.items():
        api.create(
            BUDGETS,
            {"metadata": {"name": app}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}},
        )
        status = {"disruptionsAllowed": allowed, "expectedPods": 9, "currentHealthy": 9, "desiredHealthy": 1}
        api.patch(f"{BUDGETS}/{app}/status", {"status": status}, MERGE)
    for pod in drawn.pods:
        create_pod(api, pod)
        name = pod["metadata"]["name"]
        started = datetime.fromtimestamp(drawn.started_s[name], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "startTime": started}}, MERGE)
        if name in drawn.leaving:
            api.delete(f"{PODS}/{name}")  # there is no kubelet to end it
    table = make_table(api, drawn)
    create_pod(api, drawn.preemptor)
    path = f"{PODS}/{drawn.preemptor['metadata']['name']}"
    tried = api.wait(path, lambda pod: bool(_condition(pod, "PodScheduled")) or bool(pod["spec"].get("nodeName")))
    pod = Pod(
        tried["metadata"]["name"], table.shape(pod_spec_of(tried)), priority=int(tried["spec"].get("priority", 0))
    )
    return Answer(tried["status"].get("nominatedNodeName", ""), frozenset()), table, pod


def create_pod(api: BlockingClient, pod: Object) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            api.create(PODS, pod)
        except ApiError as error:
            # Admission may not have heard of the priority class yet.
            if "PriorityClass" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def make_table(api: BlockingClient, drawn: Drawn) -> NodeTable:
    """What Foresail makes of the objects that the API server has now."""
    nodes = sorted(api.items(NODES), key=lambda node: str(node["metadata"]["name"]))
    table = NodeTable([node_spec(node) for node in nodes])
    for value in api.items(PODS):
        name = value["metadata"]["name"]
        row = table.row_of[value["spec"]["nodeName"]]
        pod = Pod(
            name,
            table.shape(pod_spec_of(value)),
            priority=int(value["spec"].get("priority", 0)),
            arrival_s=float(drawn.started_s[name]),
        )
        table.assume(pod, Placement(row, table.names[row]))
    for value in api.items(BUDGETS):
        name, labels = value["metadata"]["name"], value["spec"]["selector"]["matchLabels"]
        selector = Selector(tuple(Requirement(key, "In", (label,)) for key, label in labels.items()))
        table.objects.budgets["default", name] = DisruptionBudget(
            "default", name, selector, value["status"]["disruptionsAllowed"]
        )
    return table


def wait_for_victims(api: BlockingClient, count: int) -> frozenset[str]:
    """Who has been told to go; kube-scheduler tells them one after the other, after it has nominated the pod."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        leaving = frozenset(
            pod["metadata"]["name"]
            for pod in api.items(PODS)
            if pod["metadata"].get("deletionTimestamp") and _condition(pod, "DisruptionTarget")
        )
        if len(leaving) >= count or time.monotonic() > deadline:
            return leaving
        time.sleep(0.05)


def clear(api: BlockingClient) -> None:
    for path in (PODS, BUDGETS, NODES):
        for value in api.items(path):
            api.delete(f"{path}/{value['metadata']['name']}{AT_ONCE}")


def _condition(pod: Object, kind: str) -> Object | None:
    found: list[Any] = pod.get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == kind), None)


def victims_on(pod: Pod, table: NodeTable, node: str) -> Preemption | None:
    elsewhere = [row for name, row in table.row_of.items() if name != node]
    for row in elsewhere:
        table.set_down(row, down=True)
    try:
        return find_victims(pod, table, load_profile("kubernetes"))
    finally:
        for row in elsewhere:
            table.set_down(row, down=False)


def test_the_node_and_the_victims_are_those_of_kube_scheduler(api):
    profile = load_profile("kubernetes")
    different, plans, none, placed = [], 0, 0, 0
    for seed in range(CASES):
        drawn = Drawn(seed)
        answer, table, pod = ask_kube_scheduler(api, drawn)
        if isinstance(decide(pod, table, profile), Placement):
            # Nobody need go; kube-scheduler must have seen it so, too.
            placed += 1
            if not api.get(f"{PODS}/{pod.name}")["spec"].get("nodeName"):
                different.append((seed, "fits", answer))
            clear(api)
            continue
        ours = find_victims(pod, table, profile)
        expected = ours
        if ours is not None and answer.node and answer.node != ours.node:
            # Among equals kube-scheduler takes whichever its random start comes to first.
            expected = victims_on(pod, table, answer.node)
            if expected is None or expected.harm != ours.harm:
                different.append((seed, ours, answer))
        names = frozenset() if expected is None else frozenset(held.pod.name for held in expected.evictions)
        victims = wait_for_victims(api, len(names)) if answer.node else frozenset()
        if (bool(answer.node), victims) != (ours is not None, names):
            different.append((seed, ours, answer, victims))
        plans, none = plans + (ours is not None), none + (ours is None)
        clear(api)
    assert different == []
    # The draw must be worth it: mostly pods that have to make others go, and some that cannot.
    assert plans >= 20, (plans, none, placed)
    assert none >= 3, (plans, none, placed)
