"""A one-replica Deployment's pod stays until its successor is ready beside it; one replica is left in any case."""

from __future__ import annotations

from typing import Any

import pytest
from tests.live.cluster import make_pod
from tests.live.moves.deployments import COST, deployed, make_deployment
from tests.live.moves.stage import Stage, owned_by

from foresail.live.moves.record import MovePhase
from foresail.live.moves.subjects import Subject
from foresail.live.moves.surging import may_surge

OVER = ""


def web(tmp_path, **settings) -> Stage:
    stage = Stage(tmp_path, {"web-x": "b"}, **settings)
    stage.nodes("a", "b")
    return stage


def replicas(stage: Stage) -> int:
    return int(stage.told.objects["deployments"]["web"]["spec"]["replicas"])


def is_over(stage: Stage) -> bool:
    return bool(stage.phases) and stage.phases[-1][1] == OVER


def phases(stage: Stage) -> list[str]:
    return [phase for _, phase in stage.phases]


def ran(stage: Stage) -> list[str]:
    return [name for name, one in stage.told.objects["pods"].items() if "deletionTimestamp" not in one["metadata"]]


async def settled(stage: Stage) -> None:
    await stage.until(lambda: is_over(stage) and len(stage.told.objects["pods"]) == 1)


def test_the_successor_is_ready_before_the_pod_goes_and_the_fence_is_the_successors(server, virtual, tmp_path):
    stage = web(tmp_path)
    deployed(stage)
    fence = stage.volume.root / "default/web/fence"

    async def story() -> None:
        await settled(stage)
        # Should the old one have been started again, it has taken the fence for a while.
        await stage.until(lambda: fence.read_text() == "uid-web-x-1")

    stage.tell(server, virtual, story)
    before = stage.stays("web")[0]
    ended_s = max(stay.ended_s for stay in stage.stays("web") if stay.uid == "uid-web-x")
    begun_s = min(stay.begun_s for stay in stage.stays("web") if stay.uid == "uid-web-x-1")
    assert phases(stage) == ["checkpoint", "surge", "shrink", "replace", "resume", OVER]
    assert (stage.pods, replicas(stage)) == ({"web-x-1": "b"}, 1)
    assert begun_s < ended_s
    # The one that was there first found the fence of its successor, and wrote nothing.
    assert (before.fenced, before.exit_code) == (True, 75)
    assert stage.noted[-1][:3] == ("moved", "web-x-1", "b")
    assert not [one for one in stage.told.log if one[1].endswith("eviction")]


def test_a_successor_that_does_not_get_ready_is_the_one_to_go(server, virtual, tmp_path):
    stage = web(tmp_path, resume_s=30.0)
    deployed(stage)

    async def story() -> None:
        stage.kubelets.slow.add("b")
        await settled(stage)

    stage.tell(server, virtual, story)
    assert phases(stage) == ["checkpoint", "surge", "undo", OVER]
    assert (stage.pods, replicas(stage), len(stage.stays("web"))) == ({"web-x": "a"}, 1, 1)
    assert "its successor was not ready beside it within 30 s" in stage.noted[-1][3]
    assert COST not in stage.told.objects["pods"]["web-x"]["metadata"].get("annotations", {})


@pytest.mark.parametrize("to", [1, 3])
def test_somebody_else_who_scales_the_deployment_has_the_last_word(server, virtual, tmp_path, to):
    stage = web(tmp_path)
    deployed(stage)

    async def story() -> None:
        stage.kubelets.slow.add("b")
        await stage.until_phase(MovePhase.SURGE)
        await stage.until(lambda: "web-x-1" in stage.pods)
        found = stage.told.objects["deployments"]["web"]
        changed = {**found, "spec": {**found["spec"], "replicas": to}}
        changed["metadata"] = {**found["metadata"], "managedFields": []}
        stage.put("deployments", changed)
        await stage.until(lambda: is_over(stage) and len(ran(stage)) == to)

    stage.tell(server, virtual, story)
    assert phases(stage)[-2:] == ["undo", OVER]
    assert replicas(stage) == to
    assert "web-x" in stage.pods
    assert f"somebody else scaled its Deployment to {to}" in stage.noted[-1][3]


def test_without_the_right_to_scale_the_pod_is_evicted(server, virtual, tmp_path):
    stage = web(tmp_path)
    deployed(stage)
    stage.told._script = lambda method, path: 403 if method == "PATCH" and "/deployments/" in path else 0
    stage.tell(server, virtual, lambda: settled(stage))
    assert phases(stage) == ["checkpoint", "surge", "evict", "replace", "resume", OVER]
    assert (stage.pods, replicas(stage)) == ({"web-x-1": "b"}, 1)


def test_a_pod_that_goes_by_itself_meanwhile_is_succeeded_and_the_replica_taken_back(server, virtual, tmp_path):
    stage = web(tmp_path)
    deployed(stage)

    async def story() -> None:
        stage.kubelets.slow.add("b")
        await stage.until(lambda: "web-x-1" in stage.pods)
        stage.told._change("DELETE", "pods", stage.told.objects["pods"]["web-x"], "", {})
        stage.kubelets.slow.clear()
        await settled(stage)

    stage.tell(server, virtual, story)
    assert phases(stage) == ["checkpoint", "surge", "shrink", "replace", "resume", OVER]
    assert replicas(stage) == 1


@pytest.mark.parametrize("phase", [MovePhase.SURGE, MovePhase.SHRINK, MovePhase.REPLACE, MovePhase.RESUME])
def test_a_surge_whose_leader_is_killed_is_finished_by_the_next(server, virtual, tmp_path, phase):
    stage = web(tmp_path)
    deployed(stage)
    stage.kill_at = phase.value

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            second = stage.start(api)
            await settled(stage)
            await second.stop()

    stage.tell(server, virtual, story)
    assert (stage.pods, replicas(stage)) == ({"web-x-1": "b"}, 1)


def test_a_surge_that_is_undone_when_its_leader_is_killed_is_undone_by_the_next(server, virtual, tmp_path):
    stage = web(tmp_path, resume_s=10.0)
    deployed(stage)
    stage.kill_at = "undo"

    async def story() -> None:
        stage.kubelets.slow.add("b")
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            assert replicas(stage) == 2
            second = stage.start(api)
            await settled(stage)
            await second.stop()

    stage.tell(server, virtual, story)
    assert (stage.pods, replicas(stage)) == ({"web-x": "a"}, 1)


# --- who may ---------------------------------------------------------------------------------------------------------


def subject(
    mode: str = "ReadWriteMany", ready: str = "True", volumes: Any = (), status: Any = None, **spec: Any
) -> Subject:
    above, below = make_deployment("web", **spec)
    above["metadata"]["generation"] = 2
    above["status"] = {"observedGeneration": 2, "replicas": 1, **(status or {})}
    pod = owned_by(below, "ReplicaSet", make_pod("web-x", node="a", phase="Running", volumes=list(volumes)))
    pod["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return Subject(pod, below, above, claims={"data": {"spec": {"accessModes": [mode]}}})


@pytest.mark.parametrize(
    ("about", "may"),
    [
        (subject(), True),
        (subject(mode="ReadWriteOnce"), False),
        (subject(mode="ReadWriteOncePod"), False),
        (subject(ready="False"), False),
        (subject(volumes=[{"name": "disk", "rbd": {}}]), False),
        (subject(replicas=2), False),
        (subject(paused=True), False),
        (subject(strategy={"type": "Recreate"}), False),
        (subject(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}), False),
        (subject(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}), True),
        (subject(status={"observedGeneration": 1}), False),
        (subject(status={"replicas": 2}), False),
        (Subject(subject().pod), False),
    ],
)
def test_a_pod_surges_where_volumes_and_strategy_allow_two_and_nothing_else_is_under_way(about, may):
    assert may_surge(about) is may
