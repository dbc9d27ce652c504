"""Who moves is killed in every phase, or loses the lead: the next one finishes, or undoes, what it began."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.live.moves.players import Habits
from tests.live.moves.stage import Stage, make_job, owned_by

from foresail.live.moves.record import MovePhase

OVER = ""


def with_owner(stage: Stage, kind: str) -> None:
    if kind == "none":
        stage.put("pods", stage.pod("train-x", job="train"))
        return
    if kind == "Job":
        owner = make_job("train")
        stage.put("jobs", owner)
    else:
        owner = {"metadata": {"name": "train", "namespace": "default", "uid": "uid-train"}, "spec": {"replicas": 1}}
        stage.put(f"{kind.lower()}s", owner)
    pod = owned_by(owner, kind, stage.pod("train-x", job="train"))
    more: dict[str, Any] = {"names": lambda _: "train-x"} if kind == "StatefulSet" else {}
    stage.owner(pod, at_once=kind == "ReplicaSet", **more)


@pytest.mark.parametrize("owner", ["Job", "ReplicaSet", "StatefulSet", "none"])
@pytest.mark.parametrize("phase", [MovePhase.CHECKPOINT, MovePhase.EVICT, MovePhase.REPLACE, MovePhase.RESUME])
def test_the_next_leader_finishes_what_a_killed_one_began(server, virtual, tmp_path, phase, owner):
    stage = Stage(tmp_path, {"train-x": "b"})
    stage.nodes("a", "b")
    stage.kill_at = phase.value
    with_owner(stage, owner)

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            # Somebody else wants the room while nobody leads.
            stage.put("pods", stage.pod("stranger", "4", node=""))
            await asyncio.sleep(20)
            second = stage.start(api)
            await stage.until(lambda: stage.phases[-1][1] == OVER)
            await second.stop()

    stage.tell(server, virtual, story)
    before, after = stage.stays("train")
    assert after.node == "b"
    assert after.first_step >= after.on_disk > 0
    assert owner == "ReplicaSet" or after.begun_s >= before.ended_s
    assert len([name for name in stage.pods if name.startswith("train")]) == 1
    assert not stage.told.objects["configmaps"]
    assert len(stage.told.asked("POST", "/eviction")) <= 2


def test_a_move_whose_time_for_a_checkpoint_is_over_when_the_next_leader_comes_is_undone(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"train-x": "b"}, checkpoint_s=60.0)
    stage.nodes("a", "b")
    with_owner(stage, "Job")
    stage.kill_at = "checkpoint"
    stage.habits["train"] = Habits(answers=False)

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            await asyncio.sleep(100)
            stage.habits["train"].answers = True
            second = stage.start(api)
            await stage.until(lambda: stage.phases[-1][1] == OVER)
            await second.stop()

    stage.tell(server, virtual, story)
    assert len(stage.stays("train")) == 1
    assert [phase for _, phase in stage.phases] == ["checkpoint", "undo", OVER]
    assert not (stage.volume.root / "default" / "train" / "checkpoint-request").exists()


def test_of_two_that_drive_one_move_the_one_that_was_replaced_does_nothing_more(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"train-x": "b"})
    stage.nodes("a", "b")
    with_owner(stage, "none")
    stage.habits["train"] = Habits(answers=False)

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until_phase(MovePhase.CHECKPOINT)
            # The first does not notice that it is no longer to lead.
            second = stage.start(api)
            await asyncio.sleep(30)
            stage.habits["train"].answers = True
            await stage.until(lambda: stage.phases[-1][1] == OVER)
            assert not stage.programs[0].moves.tasks
            await second.stop()

    stage.tell(server, virtual, story)
    assert len(stage.stays("train")) == 2
    assert len(stage.pods) == 1
    assert len(stage.told.asked("POST", "/eviction")) == 1


@pytest.mark.parametrize("asked", ["once more", "never again"])
def test_a_move_that_is_written_down_when_another_leads_already_is_brought_to_its_end(server, virtual, tmp_path, asked):
    """The request was long on its way: whoever sent it is dead, and who leads has found no record."""
    stage = Stage(tmp_path, {"train-x": "b"})
    stage.nodes("a", "b")
    with_owner(stage, "Job")
    stage.kill_at = "checkpoint"

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            late = stage.told.objects["configmaps"].copy()
            stage.told.objects["configmaps"].clear()
            second = stage.start(api)
            await asyncio.sleep(10)
            stage.told.objects["configmaps"].update(late)
            if asked == "once more":
                stage.controller.moves["train-x"] = "b"
            await stage.until(lambda: stage.phases[-1][1] == OVER)
            await second.stop()

    stage.tell(server, virtual, story)
    assert not stage.told.objects["configmaps"]
    assert len(stage.pods) == 1
    if asked == "once more":
        assert [stay.node for stay in stage.stays("train")] == ["a", "b"]


def test_a_record_that_cannot_be_read_is_left_alone_and_others_are_taken_over(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"train-x": "b"})
    stage.nodes("a", "b")
    with_owner(stage, "Job")
    stage.kill_at = "replace"

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            labels = {"foresail.dev/record": "move", "foresail.dev/scheduler": "foresail"}
            for name, data in {"no-json": {"move.json": "{"}, "no-data": {}}.items():
                stage.told._version += 1
                value = {"metadata": {"name": name, "labels": labels, "resourceVersion": "1"}, "data": data}
                stage.told.objects["configmaps"][name] = value
            second = stage.start(api)
            await stage.until(lambda: stage.noted[-1][0] == "moved")
            await second.stop()

    stage.tell(server, virtual, story)
    assert sorted(stage.told.objects["configmaps"]) == ["no-data", "no-json"]


def test_records_that_cannot_be_listed_are_told_and_no_move_is_begun(server, virtual, tmp_path):
    stage = Stage(tmp_path, {"train-x": "b"})
    stage.nodes("a", "b")
    with_owner(stage, "Job")
    stage.told._script = lambda _method, path: 403 if path.endswith("/configmaps") else 0
    problems: list[str] = []

    async def story() -> None:
        await stage.until(lambda: stage.noted)
        problems.append(stage.programs[0].program.ready()["moves"]())

    stage.tell(server, virtual, story)
    assert "records of moves cannot be read" in stage.noted[0][3]
    assert 'resources: ["configmaps"]' in problems[0]
