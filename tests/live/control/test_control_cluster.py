"""Controllers on real servers: a kubelet that resizes in place, owners that make successors, and the same actions."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.running import PODS, cluster_of, node, pod

from foresail.core.control import Action, Controller, Move, Resize, View
from foresail.kube.api.client import Client, Object
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab
from foresail.lab.images import BASE_IMAGE
from foresail.live.scheduler.run import RunSettings, SchedulerProgram
from foresail.live.serving.server import ServerSettings

pytestmark = [pytest.mark.cluster, pytest.mark.alone]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fs-") as made:
        yield Path(made)


class ToHalf:
    """Lets every pod request half a CPU, and no more."""

    every_s = 1.0

    def act(self, view: View) -> Sequence[Action]:
        return [
            Resize(one.pod, 500, "half a CPU is enough", 500) for one in view.running.values() if one.cpu_milli != 500
        ]


class ToNode:
    """Moves the first pod that it sees to a node, once."""

    every_s = 1.0

    def __init__(self, target: str) -> None:
        self._target = target
        self.moved = ""

    def act(self, view: View) -> Sequence[Action]:
        elsewhere = [one for one in view.running.values() if one.node != self._target and not self.moved]
        if not elsewhere:
            return []
        self.moved = elsewhere[0].pod.name
        return [Move(elsewhere[0].pod, "it is quieter there", self._target)]


@asynccontextmanager
async def steering(lab: Lab, journal: Path, controller: Controller, **more: Any) -> AsyncIterator[Client]:
    """`foresail run` with a controller of the test's."""
    said: list[str] = []
    settings = RunSettings(
        kubeconfig=lab.kubeconfig, server=ServerSettings(port=0), leader_elect=False, journal=journal, **more
    )
    async with Client(find_connection(lab.kubeconfig)) as api, Client(find_connection(lab.kubeconfig)) as own:
        program = SchedulerProgram(settings, own, announce=said.append, controllers={"test": controller})
        task = asyncio.create_task(program.run())
        try:
            yield api
        finally:
            program.stop()
            await asyncio.wait_for(task, 60)


async def until(look: Callable[[], Any], reached: Callable[[Any], object], within_s: float = 90.0) -> Any:
    until_s = time.monotonic() + within_s
    while True:
        found = await look()
        if reached(found):
            return found
        assert time.monotonic() < until_s, f"not within {within_s} s: {json.dumps(found)[:3000]}"
        await asyncio.sleep(0.2)


def actions_in(journal: Path) -> list[tuple[str, str, str]]:
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [(one["what"], one["node"], one["detail"]) for one in lines if one["by"] == "test"]


def container(found: Object) -> Object:
    return dict((found["status"].get("containerStatuses") or [{}])[0])


@needs_root
def test_a_running_pod_is_resized_in_place_by_its_kubelet_and_in_a_dry_run_nothing_happens(
    folder: Path, tmp_path: Path
) -> None:
    async def live(lab: Lab) -> None:
        name = lab.kubelet_nodes[0].name
        amounts = {"cpu": "200m", "memory": "32Mi"}
        made = pod("works", requests=amounts)
        made["spec"]["containers"][0] |= {
            "image": BASE_IMAGE,
            "imagePullPolicy": "Never",
            "command": ["sleep", "3600"],
            "resources": {"requests": amounts, "limits": amounts},
        }
        async with steering(lab, tmp_path / "wet", _Nothing()) as api:
            await until(lambda: api.list("/api/v1/namespaces/default/serviceaccounts"), lambda found: found[0])
            await api.post(PODS, made)
            before = await until(
                lambda: api.get(f"{PODS}/works"), lambda found: found["status"].get("phase") == "Running"
            )
        async with steering(lab, tmp_path / "dry", ToHalf(), dry_run=True) as api:
            await until(lambda: asyncio.sleep(0, (tmp_path / "dry").read_text()), lambda text: text.count("resize") > 1)
            dry = await api.get(f"{PODS}/works")
            assert dry["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        async with steering(lab, tmp_path / "journal", ToHalf()) as api:
            after = await until(
                lambda: api.get(f"{PODS}/works"),
                lambda found: container(found).get("allocatedResources", {}).get("cpu") == "500m",
            )
        assert container(after)["restartCount"] == 0
        assert container(after)["containerID"] == container(before)["containerID"]
        how = "200 → 500 milli-CPU, limit 500: half a CPU is enough"
        assert actions_in(tmp_path / "journal")[0] == ("resize", name, how)
        assert actions_in(tmp_path / "dry")[0] == ("resize", name, f"dry run: {how}")
        assert "declined" not in (tmp_path / "journal").read_text(encoding="utf-8")

    with Lab("resize", kubelets=1, node_cpu="1", scheduler=False, base=folder) as lab:
        asyncio.run(live(lab))


class _Nothing:
    every_s = 60.0

    def act(self, _view: View) -> Sequence[Action]:
        return []


def test_a_deployments_pod_is_moved_to_the_node_that_is_held_for_its_successor(folder: Path, tmp_path: Path) -> None:
    """Others want that node as well: without the hold the first of them would have it."""

    async def live(lab: Lab) -> None:
        async with cluster_of(lab, node("a", cpu="4"), node("b", cpu="4"), node("c", cpu="1")) as api:
            template = pod("x", requests={"cpu": "3"}, labels={"app": "web"})
            spec = {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
            }
            controller = ToNode("b")
            async with steering(lab, tmp_path / "first", _Nothing()):
                blocker = pod("blocker", requests={"cpu": "4"}, nodeName="b", scheduler="nobody")
                await api.post(PODS, blocker)
                await api.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
                first = await until(lambda: _of(api, "web"), lambda found: found and found[0]["spec"].get("nodeName"))
                assert first[0]["spec"]["nodeName"] == "a"
                await api.delete(f"{PODS}/blocker", {"gracePeriodSeconds": 0})
            async with steering(lab, tmp_path / "journal", controller):
                await until(lambda: asyncio.sleep(0, controller.moved), bool)
                await api.post(PODS, pod("stranger", requests={"cpu": "3"}))
                second = await until(
                    lambda: _of(api, "web"),
                    lambda found: [one for one in found if one["spec"].get("nodeName") == "b"] and len(found) == 1,
                )
                assert second[0]["metadata"]["uid"] != first[0]["metadata"]["uid"]
                await until(lambda: api.get(f"{PODS}/stranger"), lambda found: found["spec"].get("nodeName") == "a")
            assert actions_in(tmp_path / "journal")[0] == ("move", "b", "from a: it is quieter there")
            await api.delete(f"{DEPLOYMENTS}/web")

    with Lab("move", scheduler=False, base=folder) as lab:
        asyncio.run(live(lab))


async def _of(api: Client, app: str) -> list[Object]:
    items, _ = await api.list(PODS, labelSelector=f"app={app}")
    return [one for one in items if "deletionTimestamp" not in one["metadata"]]
