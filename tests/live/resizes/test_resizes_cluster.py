"""Resizes by a real kubelet: control groups change, room is made first, and what is not given is rolled back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.live.resizes.kubelets import Resizing, counted
from tests.live.running import PODS, pod

from foresail.core.control import Action, Resize, View
from foresail.kube.api.client import Client, Object
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab, cgroups
from foresail.lab.images import BASE_IMAGE
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.serving.server import ServerSettings

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="real kubelets need root"),
]
NODE_MILLI = 2000


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fs-") as made:
        yield Path(made)


class Wanted:
    """Asks once for what each pod is to have: request and limit."""

    every_s = 1.0

    def __init__(self, **amounts: tuple[int, int]) -> None:
        self._amounts = amounts

    def act(self, view: View) -> Sequence[Action]:
        there = {one.pod.name.removeprefix("default/"): one.pod for one in view.running.values()}
        if not self._amounts or not set(self._amounts) <= set(there):
            return []
        asked, self._amounts = self._amounts, {}
        return [Resize(there[name], cpu, "as the test says", limit) for name, (cpu, limit) in asked.items()]


def sleeper(node: str, name: str, cpu: str, limit: str, *, guaranteed: bool = False, **more: Any) -> Object:
    made = pod(name, nodeName=node, **more)
    requests, limits = {"cpu": cpu, "memory": "16Mi"}, {"cpu": limit}
    made["spec"]["containers"][0] |= {
        "image": BASE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sleep", "3600"],
        "resources": {"requests": requests, "limits": {**limits, "memory": "16Mi"} if guaranteed else limits},
    }
    return made


def state_of(found: Object) -> Object:
    return dict((found["status"].get("containerStatuses") or [{}])[0])


def quota_us(lab: Lab, found: Object) -> int:
    """CPU time that the pod's container gets in 100 ms, as its control group has it."""
    container = state_of(found)["containerID"].rpartition("/")[2]
    path = f"{cgroups.pod_path(lab.kubelet_nodes[0].cgroup, found)}/{container}"
    for tree in cgroups.hierarchies():
        if tree.v2:
            return int((tree.at(path) / "cpu.max").read_text(encoding="ascii").split()[0])
        if "cpu" in tree.controllers:
            return int((tree.at(path) / "cpu.cfs_quota_us").read_text(encoding="ascii"))
    raise AssertionError("no tree of control groups counts CPU here")


async def until(reached: Any, within_s: float = 60.0) -> Any:
    until_s = time.monotonic() + within_s
    while True:
        found = await reached()
        if found:
            return found
        assert time.monotonic() < until_s, f"not within {within_s} s"
        await asyncio.sleep(0.1)


@asynccontextmanager
async def sums_of(api: Client) -> AsyncIterator[list[int]]:
    """What all pods request together after every change that a watch of the test's own sees."""
    items, version = await api.list(PODS)
    there = {one["metadata"]["name"]: one for one in items}
    sums = [sum(map(counted, there.values()))]

    async def follow() -> None:
        async for kind, value in api.watch(PODS, version):
            if kind in {"ADDED", "MODIFIED"}:
                there[value["metadata"]["name"]] = value
                sums.append(sum(map(counted, there.values())))

    task = asyncio.create_task(follow())
    try:
        yield sums
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class OutOfDate(Resizing):
    """Resizes by one whose books do not know of every pod, or think too much of the node."""

    def __init__(self, api: Client, *known: str, **settings: Any) -> None:
        self.known = known
        self.values: list[tuple[str, Object]] = []
        super().__init__(SimpleNamespace(followers=[]), api, **settings)  # type: ignore[arg-type]
        self.api = api

    def catch_up(self) -> None:
        for kind, value in self.values:
            self.cache.handler(kind).apply("MODIFIED", value)

    async def follow(self, node: Object) -> None:
        while True:
            items, _ = await self.api.list(PODS)
            self.values = [("Node", node), *(("Pod", one) for one in items if one["metadata"]["name"] in self.known)]
            self.catch_up()
            await asyncio.sleep(0.1)

    async def carry_out(self, node: Object, **cpu_milli: int) -> dict[str, str]:
        """How each of those pods' resizes ended."""
        task = asyncio.create_task(self.follow(node))
        try:
            await until(lambda: asyncio.sleep(0, self.values))
            for name, cpu in sorted(cpu_milli.items(), key=lambda item: item[1]):
                found = self.cache.named(f"default/{name}")
                assert found is not None
                limit = cpu if cpu > found.cpu_limit_milli else None
                assert self.resizes.ask(found, cpu, limit, "test") == ""
            self.resizes.start()
            await self.done(60)
        finally:
            task.cancel()
        return {one: detail for what, one, detail in self.noted if what == "decline"}


def test_a_kubelet_makes_room_first_then_grows_pods_and_what_it_does_not_give_is_rolled_back(
    folder: Path, tmp_path: Path
) -> None:
    async def live(lab: Lab) -> None:
        node = lab.kubelet_nodes[0].name
        async with Client(find_connection(lab.kubeconfig)) as api:

            async def get(name: str) -> Object:
                return await api.get(f"{PODS}/{name}")

            async def run(*made: Object) -> None:
                for one in made:
                    await api.post(PODS, one)
                for one in made:
                    name = one["metadata"]["name"]
                    await until(lambda name=name: _is_running(api, name))

            await until(lambda: _service_account(api))
            await run(
                sleeper(node, "grower", "300m", "800m"),
                sleeper(node, "giver", "900m", "1"),
                sleeper(node, "fixed", "300m", "300m", guaranteed=True),
            )
            before = {name: await get(name) for name in ("grower", "giver", "fixed")}
            assert [quota_us(lab, one) for one in before.values()] == [80_000, 100_000, 30_000]
            async with sums_of(api) as sums:
                journal = tmp_path / "journal"
                async with _controlled(lab, journal, Wanted(grower=(1000, 1500), giver=(400, 1000), fixed=(400, 400))):
                    await until(lambda: asyncio.sleep(0, len(_noted(journal, "resized")) == 3))
                assert max(sums) <= NODE_MILLI
                assert sums[0] == 1500
            after = {name: await get(name) for name in before}
            assert [quota_us(lab, one) for one in after.values()] == [150_000, 100_000, 40_000]
            assert [state_of(one)["resources"]["requests"]["cpu"] for one in after.values()] == ["1", "400m", "400m"]
            for name in before:
                for field in ("containerID", "restartCount"):
                    assert state_of(after[name])[field] == state_of(before[name])[field]
            # The grower needed what the giver gave: more than the node had left.
            ended = [one["pod"].removeprefix("default/") for one in _noted(journal, "resized")]
            assert ended.index("giver") < ended.index("grower")

            # A pod that the books do not know of has the last of the node: the kubelet defers what they allow.
            await run(sleeper(node, "stranger", "200m", "200m", scheduler="nobody"))
            value = await api.get(f"/api/v1/nodes/{node}")
            late = OutOfDate(api, *before, within_s=3.0)
            said = await late.carry_out(value, giver=200, grower=1350)
            assert said["grower"].startswith("resize declined: deferred: Node didn't have enough resource: cpu")
            assert said["giver"] == "resize declined: it had only made room for one that came to nothing"
            assert late.outcomes == ["deferred", "done", "given_back"]
            assert [await _cpu(api, name) for name in before] == ["1", "400m", "400m"]

            # Books that think too much of the node: the API server knows better.
            value["status"]["allocatable"]["cpu"] = "8"
            wrong = OutOfDate(api, *before)
            said = await wrong.carry_out(value, grower=5000)
            assert "infeasible: " in said["grower"]
            assert wrong.outcomes == ["infeasible"]
            assert [await _cpu(api, name) for name in before] == ["1", "400m", "400m"]
            maps, _ = await api.list("/api/v1/namespaces/kube-system/configmaps", labelSelector="foresail.dev/record")
            assert maps == []

    with Lab("resizes", kubelets=1, node_cpu="2", scheduler=False, base=folder) as lab:
        asyncio.run(live(lab))


@asynccontextmanager
async def _controlled(lab: Lab, journal: Path, controller: Wanted) -> AsyncIterator[None]:
    """`foresail control` with a controller of the test's."""
    settings = ControlSettings((), server=ServerSettings(port=0), leader_elect=False, journal=journal)
    async with Client(find_connection(lab.kubeconfig)) as own:
        program = ControlProgram(settings, own, announce=lambda _: None, controllers={"test": controller})
        task = asyncio.create_task(program.run())
        try:
            yield
        finally:
            program.stop()
            await asyncio.wait_for(task, 60)


def _noted(journal: Path, what: str) -> list[Object]:
    if not journal.exists():
        return []
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [one for one in lines if one["what"] == what]


async def _is_running(api: Client, name: str) -> bool:
    return bool((await api.get(f"{PODS}/{name}"))["status"].get("phase") == "Running")


async def _service_account(api: Client) -> object:
    return (await api.list("/api/v1/namespaces/default/serviceaccounts"))[0]


async def _cpu(api: Client, name: str) -> str:
    """What a pod asks for and runs with."""
    found = await api.get(f"{PODS}/{name}")
    asked = found["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    await until(lambda: _runs_with(api, name, asked))
    return str(asked)


async def _runs_with(api: Client, name: str, cpu: str) -> bool:
    state = state_of(await api.get(f"{PODS}/{name}"))
    return bool(state["resources"]["requests"]["cpu"] == state["allocatedResources"]["cpu"] == cpu)
