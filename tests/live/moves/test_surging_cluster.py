"""A surge with Kubernetes' own controllers: the second replica, who of the two goes, and whose the replicas are."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

import pytest
from tests.live.control.test_control_cluster import ToNode, steering, until
from tests.live.moves.players import Habits, Kubelets, Volume
from tests.live.running import PODS, cluster_of, node, pod

from foresail.lab import Lab

pytestmark = [pytest.mark.cluster, pytest.mark.alone]
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def test_the_old_pod_goes_when_its_successor_is_ready_and_the_deployment_has_one_replica_again(tmp_path: Path) -> None:
    async def live(lab: Lab) -> None:
        labels = {"app": "web", "foresail.dev/job": "web"}
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": labels}, "spec": pod("x", requests={"cpu": "1"})["spec"]},
        }
        controller = ToNode("b")
        controller.moved = "not yet"
        async with cluster_of(lab, node("a"), node("b")) as api:
            kubelets = Kubelets(
                api,
                Volume(tmp_path / "volume"),
                now_s=time.time,
                job_of=lambda found: str(found["metadata"]["labels"]["app"]),
                habits={"web": Habits(step_s=0.1)},
            )
            await api.patch("/api/v1/nodes/b", {"spec": {"unschedulable": True}})
            async with kubelets, steering(lab, tmp_path / "journal", controller):
                await api.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
                first = await until(lambda: api.list(PODS), lambda found: any(_is_ready(one) for one in found[0]))
                await api.patch("/api/v1/nodes/b", {"spec": {"unschedulable": None}})
                await until(lambda: api.get(f"{DEPLOYMENTS}/web"), _is_at_rest)
                controller.moved = ""
                items, _ = await until(
                    lambda: api.list(PODS),
                    lambda found: [one["spec"].get("nodeName") for one in found[0]] == ["b"],
                )
                deployment = await until(lambda: api.get(f"{DEPLOYMENTS}/web"), _is_at_rest)
                assert deployment["spec"]["replicas"] == 1
                assert items[0]["metadata"]["uid"] != first[0][0]["metadata"]["uid"]
                # Each may have been started again by its kubelet, when it found the other's fence.
                stays = kubelets.history.of("web")
                assert {stay.node for stay in stays} == {"a", "b"}
                begun_s = min(stay.begun_s for stay in stays if stay.node == "b")
                assert begun_s < max(stay.ended_s or 0.0 for stay in stays if stay.node == "a")
                # While there is somebody who lets pods end.
                await api.delete(f"{DEPLOYMENTS}/web", {"propagationPolicy": "Background"})
                await until(lambda: api.list(PODS), lambda found: not found[0])

    with tempfile.TemporaryDirectory(prefix="fs-") as base, Lab("surge", scheduler=False, base=Path(base)) as lab:
        asyncio.run(live(lab))


def _is_ready(found: dict) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found["status"].get("conditions", ()))


def _is_at_rest(found: dict) -> bool:
    status = found.get("status") or {}
    at_rest = status.get("observedGeneration") == found["metadata"]["generation"]
    return at_rest and (status.get("replicas"), status.get("readyReplicas")) == (1, 1)
