"""`foresail control` beside the real kube-scheduler: a pod without an owner is moved there and back, others stay."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from tests.live.control.test_control_cluster import until
from tests.live.moves.players import Habits, Kubelets, Volume
from tests.live.moves.stage import MoveOnce
from tests.live.running import PODS, cluster_of, node, pod

from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.serving.server import ServerSettings

pytestmark = [pytest.mark.cluster, pytest.mark.alone]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
Object = dict[str, Any]


def test_what_kube_scheduler_has_placed_is_moved_where_that_can_be_done_and_refused_where_not(tmp_path: Path) -> None:
    async def live(lab: Lab) -> None:
        controller = MoveOnce({})
        controller.begins = True
        settings = ControlSettings(
            controllers=(),
            scheduler_name="default-scheduler",
            kubeconfig=lab.kubeconfig,
            server=ServerSettings(port=0),
            leader_elect=False,
            journal=tmp_path / "journal",
        )
        async with cluster_of(lab, node("a"), node("b")) as api, Client(find_connection(lab.kubeconfig)) as own:
            kubelets = Kubelets(
                api,
                Volume(tmp_path / "volume"),
                now_s=time.time,
                job_of=lambda found: str(found["metadata"]["labels"]["foresail.dev/job"]),
                habits={"solo": Habits(step_s=0.1)},
            )
            program = ControlProgram(settings, own, announce=lambda _: None, controllers={"test": controller})
            await api.patch("/api/v1/nodes/b", {"spec": {"unschedulable": True}})
            task = asyncio.create_task(program.run())
            async with kubelets:
                await _make(api)
                placed = await until(lambda: _standing(api), lambda found: len(found) == 2)
                assert {one["spec"]["nodeName"] for one in placed.values()} == {"a"}
                await api.patch("/api/v1/nodes/b", {"spec": {"unschedulable": None}})
                await until(lambda: asyncio.sleep(0, _rows_open(program)), lambda count: count == 2)
                (of_job,) = [name for name in placed if name != "solo"]
                controller.moves |= {"solo": "b", of_job: "b"}
                there = await until(lambda: _of_solo(api), lambda found: found["spec"].get("nodeName") == "b")
                await until(lambda: asyncio.sleep(0, _moved(tmp_path)), lambda found: found == ["b"])
                # What has sent it there does not keep it there.
                controller.moves[there["metadata"]["name"]] = "a"
                await until(lambda: _of_solo(api), lambda found: found["spec"].get("nodeName") == "a")
                await until(lambda: asyncio.sleep(0, _moved(tmp_path)), lambda found: found == ["b", "a"])
                stays = kubelets.history.of("solo")
                assert [stay.node for stay in stays] == ["a", "b", "a"]
                assert all(one.begun_s >= (before.ended_s or 0.0) for before, one in itertools.pairwise(stays))
                assert of_job in await _standing(api)
                # While there is somebody who lets pods end.
                await api.delete(f"{JOBS}/train", {"propagationPolicy": "Background"})
                await until(lambda: _standing(api), lambda found: of_job not in found)
                program.stop()
                await asyncio.wait_for(task, 60)
        refused = [one["detail"] for one in _lines(tmp_path) if one["what"] == "decline"]
        assert [one for one in refused if "made by its Job and placed by default-scheduler" in one], refused

    with tempfile.TemporaryDirectory(prefix="fs-") as base, Lab("beside", base=Path(base)) as lab:
        asyncio.run(live(lab))


async def _make(api: Client) -> None:
    """A pod without an owner, and a Job that could be moved if Foresail placed its pods."""
    await until(lambda: api.list("/api/v1/namespaces/default/serviceaccounts"), lambda found: found[0])
    solo = pod("solo", requests={"cpu": "1"}, scheduler="default-scheduler", labels={"foresail.dev/job": "solo"})
    solo["spec"]["restartPolicy"] = "Never"
    await api.post(PODS, solo)
    spec = {**pod("x", requests={"cpu": "1"}, scheduler="default-scheduler")["spec"], "restartPolicy": "Never"}
    ignore = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    template = {"metadata": {"labels": {"foresail.dev/job": "train"}}, "spec": spec}
    await api.post(
        JOBS, {"metadata": {"name": "train"}, "spec": {"template": template, "podFailurePolicy": {"rules": ignore}}}
    )


async def _standing(api: Client) -> dict[str, Object]:
    items, _ = await api.list(PODS)
    return {one["metadata"]["name"]: one for one in items if one["status"].get("phase") == "Running"}


async def _of_solo(api: Client) -> Object:
    items, _ = await api.list(PODS, labelSelector="foresail.dev/job=solo")
    alive = [one for one in items if "deletionTimestamp" not in one["metadata"]]
    return dict(alive[0]) if alive else {"spec": {}}


def _rows_open(program: ControlProgram) -> int:
    """Nodes that take pods, as the program knows by now."""
    table = program.cache.table
    return table.count - int(table.unschedulable[: table.count].sum())


def _lines(folder: Path) -> list[Object]:
    return [json.loads(line) for line in (folder / "journal").read_text(encoding="utf-8").splitlines()]


def _moved(folder: Path) -> list[str]:
    return [one["node"] for one in _lines(folder) if one["what"] == "moved"]
