"""A move from beginning to end, by owner: what is asked of whom and in which order, and where the job goes on."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tests.live.moves.players import Habits
from tests.live.moves.stage import Stage, make_job, owned_by
from tests.live.volumes import fill, small_volume

from foresail.live.moves.record import MovePhase

CHECKPOINT, EVICT, REPLACE, RESUME, UNDO, OVER = "checkpoint", "evict", "replace", "resume", "undo", ""


def phases(stage: Stage) -> list[str]:
    return [phase for _, phase in stage.phases]


def job_stage(tmp_path, job: dict[str, Any] | None = None, **settings) -> Stage:
    """Two nodes, and a Job whose pod trains on the first of them."""
    stage = Stage(tmp_path, {"train-x": "b"}, **settings)
    stage.nodes("a", "b")
    job = make_job("train") if job is None else job
    stage.put("jobs", job)
    stage.owner(owned_by(job, "Job", stage.pod("train-x", job="train")))
    return stage


def test_a_jobs_pod_is_checkpointed_then_evicted_and_its_successor_goes_on_in_the_held_room(server, virtual, tmp_path):
    stage = job_stage(tmp_path)

    async def story() -> None:
        # Somebody else comes as soon as the move has begun, and would have the room.
        await stage.until(lambda: stage.records)
        stage.put("pods", stage.pod("stranger", "4", node=""))
        await stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    before, after = stage.stays("train")
    assert phases(stage) == [CHECKPOINT, EVICT, REPLACE, RESUME, OVER]
    assert stage.node_of("train-x-1") == "b"
    assert after.begun_s >= before.ended_s
    assert (before.exit_code, after.first_step) == (143, before.last_step)
    body = next(one for one in stage.told.bodies if one.get("kind") == "Eviction")
    assert body["deleteOptions"]["preconditions"]["uid"] == "uid-train-x"
    moves = [one for one in stage.noted if one[1].startswith("train")]
    assert [one[:3] for one in moves] == [("move", "train-x", "b"), ("moved", "train-x-1", "b")]
    assert "0 steps lost: because" in moves[1][3]
    assert not stage.told.objects["configmaps"]


def test_of_an_indexed_jobs_pods_the_one_with_the_same_index_gets_the_room(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"train-1-x": "b"})
    stage.nodes("a")
    stage.nodes("b", cpu="1")  # room for one: whoever takes it keeps the other out
    job = make_job("train", completionMode="Indexed", completions=2)
    stage.put("jobs", job)
    index = "batch.kubernetes.io/job-completion-index"
    for at in "01":
        pod = owned_by(job, "Job", stage.pod(f"train-{at}-x", labels={index: at}))
        stage.owner(pod, names=lambda n, at=at: f"train-{at}-x{n}")

    async def story() -> None:
        await stage.until(lambda: stage.records)
        # The other index fails and comes back in the same moment: it is not the one that was moved.
        stage.told.drop("pods", "train-0-x")
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    assert (stage.node_of("train-1-x1"), stage.node_of("train-0-x1")) == ("b", "a")


def test_a_replica_sets_successor_comes_at_once_and_counts_only_when_the_old_pod_has_gone(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"web-x": "b"})
    stage.nodes("a", "b")
    owner = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-web"}, "spec": {"replicas": 1}}
    stage.put("replicasets", owner)
    stage.owner(owned_by(owner, "ReplicaSet", stage.pod("web-x", job="web")), at_once=True, after_s=0.2)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    before, after = stage.stays("web")
    assert (stage.node_of("web-x-1"), before.exit_code) == ("b", 143)
    assert after.first_step == before.last_step
    assert stage.noted[-1][0] == "moved"


def test_a_stateful_sets_successor_has_the_same_name_and_is_known_by_its_uid(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"db-0": "b"})
    stage.nodes("a", "b")
    owner = {"metadata": {"name": "db", "namespace": "default", "uid": "uid-db"}, "spec": {"replicas": 1}}
    stage.put("statefulsets", owner)
    stage.owner(owned_by(owner, "StatefulSet", stage.pod("db-0", job="db")), names=lambda _: "db-0")
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    before, after = stage.stays("db")
    assert (before.node, after.node, before.uid != after.uid) == ("a", "b", True)
    assert phases(stage) == [CHECKPOINT, EVICT, REPLACE, RESUME, OVER]


# --- pods without an owner -------------------------------------------------------------------------------------------


def test_a_pod_without_an_owner_is_made_anew_once_it_has_gone_from_what_was_written_down_before(
    server, virtual, tmp_path
):
    stage = Stage(tmp_path, {"solo": "b"})
    stage.nodes("a", "b")
    stage.put("pods", stage.pod("solo", job="solo", annotations={"note": "kept"}, restartPolicy="Never"))
    seen: list[Any] = []

    def script(method: str, path: str) -> int:
        if path.endswith("/eviction"):
            seen.append(stage.records[0]["pods"][0]["expected"]["metadata"]["annotations"])
        if method == "POST" and path.endswith("/pods"):
            seen.append("solo" in stage.told.objects["pods"])
        return 0

    stage.told._script = script
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    assert seen == [{"note": "kept"}, False]
    (made,) = stage.told.objects["pods"].values()
    assert made["metadata"]["name"] != "solo"
    assert made["metadata"]["name"].startswith("solo-m")
    assert made["metadata"]["labels"] == {"foresail.dev/job": "solo"}
    assert made["spec"] | {"nodeName": "a"} == {
        "schedulerName": "foresail",
        "containers": make_job("x")["spec"]["template"]["spec"]["containers"],
        "restartPolicy": "Never",
        "nodeName": "a",
        "hostname": "solo",
    }
    before, after = stage.stays("solo")
    assert (made["spec"]["nodeName"], after.first_step) == ("b", before.last_step)
    assert after.begun_s >= before.ended_s


def test_a_successor_that_cannot_be_made_is_tried_again_until_it_is_there(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"solo": "b"})
    stage.nodes("a", "b")
    stage.put("pods", stage.pod("solo", job="solo"))
    refused: list[int] = []

    def script(method: str, path: str) -> int:
        if method == "POST" and path.endswith("/pods") and len(refused) < 200:
            refused.append(1)
            return [500, 403, 422][len(refused) % 3]
        return 0

    stage.told._script = script
    stage.tell(
        server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER, within_s=5000)
    )
    assert len(refused) == 200
    assert len(stage.stays("solo")) == 2


def test_work_that_is_done_in_the_grace_period_is_not_begun_again(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"solo": "b"})
    stage.nodes("a", "b")
    stage.put("pods", stage.pod("solo", job="solo"))
    stage.habits["solo"] = Habits(ends_on_sigterm=True)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    (only,) = stage.stays("solo")
    assert only.exit_code == 0
    assert stage.pods == {}
    assert stage.noted[-1][3] == "it did all its work before it left; nobody has to go on elsewhere"


def test_a_successor_that_its_kubelet_would_not_have_is_made_once_more(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"solo": "b"})
    stage.nodes("a", "b")
    stage.put("pods", stage.pod("solo", job="solo"))

    async def story() -> None:
        stage.kubelets.full.add("b")
        await stage.until(lambda: any(one["status"].get("phase") == "Failed" for one in _all(stage)))
        stage.kubelets.full.clear()
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    running = [one for one in _all(stage) if one["status"]["phase"] == "Running"]
    assert len(running) == 1
    assert stage.noted[-1][0] == "moved"


def _all(stage: Stage) -> list[Any]:
    return list(stage.told.objects["pods"].values())


def test_a_successor_that_somebody_deletes_is_not_made_again(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"solo": "b"}, resume_s=30.0)
    stage.nodes("a", "b")
    stage.put("pods", stage.pod("solo", job="solo"))

    async def story() -> None:
        stage.kubelets.slow.add("b")
        await stage.until_phase(MovePhase.RESUME)
        stage.told.drop("pods", next(iter(stage.told.objects["pods"])))
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    assert stage.pods == {}


# --- what is undone --------------------------------------------------------------------------------------------------


def test_a_job_that_confirms_no_checkpoint_stays_and_is_left_alone_for_a_while(server, virtual, tmp_path):
    stage = job_stage(tmp_path, checkpoint_s=20.0, rest_s=100.0)
    stage.habits["train"] = Habits(answers=False)
    asked: list[bool] = []

    async def story() -> None:
        request = stage.volume.root / "default" / "train" / "checkpoint-request"
        await stage.until(request.exists)
        asked.append(request.exists())
        await stage.until(lambda: stage.phases[-1][1] == OVER)
        await asyncio.sleep(5)
        asked.append(request.exists())
        assert list(stage.programs[0].program.live.core.holds) == []
        stage.controller.moves = {"train-x": "b"}
        await stage.until(lambda: len(stage.noted) == 3)
        await asyncio.sleep(100)
        stage.controller.moves = {"train-x": "b"}
        await stage.until(lambda: len(stage.noted) == 4)

    stage.tell(server, virtual, story)
    assert asked == [True, False]
    assert phases(stage)[:3] == [CHECKPOINT, UNDO, OVER]
    assert stage.told.asked("POST", "/eviction") == []
    assert [one[0] for one in stage.noted] == ["move", "decline", "decline", "move"]
    assert stage.noted[1][3] == "move undone: default/train-x confirmed no checkpoint within 20 s"
    assert "as its last move came to nothing: default/train-x confirmed no" in stage.noted[2][3]
    assert len(stage.stays("train")) == 1


def test_a_job_whose_volume_is_full_stays_where_it_is_and_the_volume_is_named(server, virtual, tmp_path):
    with small_volume(tmp_path / "volume"):
        stage = job_stage(tmp_path, rest_s=4.0)

        async def story() -> None:
            filler = fill(stage.volume.root)
            await stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER)
            assert stage.told.asked("POST", "/eviction") == []
            filler.unlink()
            await asyncio.sleep(5)
            stage.controller.moves = {"train-x": "b"}
            await stage.until(lambda: "moved" in [one[0] for one in stage.noted])

        stage.tell(server, virtual, story)
        assert phases(stage)[:3] == [CHECKPOINT, UNDO, OVER]
        assert stage.noted[1][3] == (
            f"move undone: its checkpoint cannot be asked for: the volume of {stage.volume.root}/default/train is full "
            "(No space left on device); make room on it"
        )
        before, after = stage.stays("train")
        assert after.first_step == before.last_step


def test_a_budget_is_waited_for_and_the_move_undone_if_it_never_allows_it(server, virtual, tmp_path):
    stage = job_stage(tmp_path, budget_s=60.0)
    stage.told.budget_allows = False
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    assert phases(stage) == [CHECKPOINT, EVICT, UNDO, OVER]
    assert len(stage.told.asked("POST", "/eviction")) >= 10
    assert "a disruption budget does not allow it now" in stage.noted[-1][3]
    assert stage.pods == {"train-x": "a"}


def test_a_budget_that_allows_it_in_time_lets_the_pod_go(server, virtual, tmp_path):
    stage = job_stage(tmp_path, budget_s=60.0)
    stage.told.budget_allows = False

    async def story() -> None:
        await stage.until_phase(MovePhase.EVICT)
        await asyncio.sleep(30)
        stage.told.budget_allows = True
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    assert phases(stage) == [CHECKPOINT, EVICT, REPLACE, RESUME, OVER]
    assert stage.node_of("train-x-1") == "b"


@pytest.mark.parametrize("how", ["ends", "is deleted", "target goes", "room goes"])
def test_what_makes_a_move_pointless_before_the_pod_has_gone_undoes_it(server, virtual, tmp_path, how):
    stage = job_stage(tmp_path)
    stage.habits["train"] = habits = Habits(answers=False)

    async def story() -> None:
        await stage.until_phase(MovePhase.CHECKPOINT)
        if how == "ends":
            habits.total = 1
        elif how == "is deleted":
            stage.told.drop("pods", "train-x")
        elif how == "target goes":
            stage.told.drop("nodes", "b")
        else:
            first = stage.pod("first", "4", node="", priority=10)
            stage.put("pods", first)
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    assert phases(stage) == [CHECKPOINT, UNDO, OVER]
    assert stage.told.asked("POST", "/eviction") == []
    said = {
        "ends": "default/train-x has ended meanwhile",
        "is deleted": "default/train-x was deleted meanwhile",
        "target goes": "node b is gone",
        "room goes": "b does not take it: Insufficient cpu",
    }
    assert [one[3] for one in stage.noted if one[0] == "decline"] == [f"move undone: {said[how]}"]


# --- what goes on nevertheless ---------------------------------------------------------------------------------------


def test_a_job_that_reports_nothing_gets_sigterm_and_its_grace(server, virtual, tmp_path):
    stage = job_stage(tmp_path)
    stage.habits["train"] = Habits(reports=False)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    before, after = stage.stays("train")
    assert (before.exit_code, after.first_step, after.node) == (143, before.last_step, "b")
    assert stage.noted[-1][0] == "moved"
    assert "step" not in stage.noted[-1][3]


def test_a_job_that_ignores_sigterm_is_killed_after_its_grace_and_loses_no_more_than_since_its_checkpoint(
    server, virtual, tmp_path
):
    stage = job_stage(tmp_path)
    stage.habits["train"] = Habits(heeds_sigterm=False, checkpoint_every=1000)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    before, after = stage.stays("train")
    lost = before.last_step - after.first_step
    assert before.exit_code is None
    assert after.first_step > 0
    assert 0 < lost <= (30 + 3) / 0.2
    told = int(re.search(r"(\d+) steps lost", stage.noted[-1][3])[1])
    assert lost - 10 <= told <= lost  # reports are read once a second: the last few steps of a killed job are not seen


def test_a_pod_that_outlives_its_successors_start_is_seen_to_have_moved(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"train-x": "b"})
    stage.nodes("a", "b")
    owner = {"metadata": {"name": "train", "namespace": "default", "uid": "uid-train"}, "spec": {"replicas": 1}}
    stage.put("replicasets", owner)
    stage.owner(owned_by(owner, "ReplicaSet", stage.pod("train-x", job="train")), at_once=True)
    stage.habits["train"] = Habits(leaves_after_s=20.0, checkpoint_every=1000)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.phases and stage.phases[-1][1] == OVER))
    before, after = stage.stays("train")
    assert 0 < before.ended_s - after.begun_s < 30
    assert (before.exit_code, before.fenced) == (75, True)
    assert stage.noted[-1][0] == "moved"
    assert "unconfirmed" not in str(stage.noted)


def test_when_the_target_is_lost_after_the_pod_has_gone_the_successor_goes_elsewhere(server, virtual, tmp_path):
    stage = job_stage(tmp_path)

    async def story() -> None:
        await stage.until_phase(MovePhase.REPLACE)
        stage.told.drop("nodes", "b")
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    assert stage.node_of("train-x-1") == "a"
    assert stage.noted[-1][:3] == ("moved", "train-x-1", "a")


def test_an_owner_that_makes_no_successor_is_told_of_and_the_room_given_back(server, virtual, tmp_path):
    stage = job_stage(tmp_path, successor_s=60.0)
    free: list[str] = []

    async def story() -> None:
        stage.owners[0].stops = True
        await stage.until_phase(MovePhase.REPLACE)
        stage.put("pods", stage.pod("stranger", "4", node=""), stage.pod("other", "4", node=""))
        await asyncio.sleep(60)
        free.append(stage.node_of("other"))
        await asyncio.sleep(60)
        free.append(stage.node_of("other"))
        await stage.until(lambda: stage.phases[-1][1] == OVER, within_s=2000)

    stage.tell(server, virtual, story)
    assert free == ["", "b"]
    assert "its Job train made no successor that has a node within 690 s" in stage.noted[-1][3]


def test_the_room_is_for_what_the_template_requests_not_for_what_the_pod_was_resized_to(server, virtual, tmp_path):
    job = make_job("train")
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    stage = Stage(tmp_path, {"train-x": "b", "small-x": "b"})
    stage.nodes("a", "b")
    stage.put("jobs", job)
    pod = owned_by(job, "Job", stage.pod("train-x", "100m", job="train"))
    owner = stage.owner(pod)
    owner._pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"

    async def story() -> None:
        await stage.until(lambda: stage.records)
        stage.put("pods", stage.pod("stranger", "2", node="", nodeSelector={}))
        await stage.until(lambda: stage.phases[-1][1] == OVER)

    stage.tell(server, virtual, story)
    assert (stage.node_of("train-x-1"), stage.node_of("stranger")) == ("b", "a")


def test_a_pod_that_pretends_to_be_the_successor_closes_no_node_with_more_than_was_held(server, virtual, tmp_path):
    stage = job_stage(tmp_path)

    async def story() -> None:
        stage.owners[0].stops = True
        await stage.until_phase(MovePhase.REPLACE)
        await stage.until(lambda: "train-x" not in stage.told.objects["pods"])
        stage.put("pods", owned_by(make_job("train"), "Job", stage.pod("forged", "40", node="", job="train")))
        await asyncio.sleep(2)
        stage.put("pods", stage.pod("filler", "4", node=""), stage.pod("honest", "4", node=""))
        await asyncio.sleep(5)

    stage.tell(server, virtual, story)
    assert sorted([stage.node_of("filler"), stage.node_of("honest")]) == ["a", "b"]
    assert stage.node_of("forged") == ""
