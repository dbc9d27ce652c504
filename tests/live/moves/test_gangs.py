"""Gangs are moved whole or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.live.moves.players import Habits
from tests.live.moves.stage import Stage, make_job, owned_by

from foresail.live.moves.record import MovePhase

OVER = ""
INDEX = "batch.kubernetes.io/job-completion-index"


def gang_stage(tmp_path, moves: dict[str, str], size: int = 2, target_cpu: str = "4", **settings: Any) -> Stage:
    """A gang of an Indexed Job on node a; b is the other node."""
    stage = Stage(tmp_path, moves, **settings)
    stage.nodes("a")
    stage.nodes("b", cpu=target_cpu)
    job = make_job("train", completionMode="Indexed", completions=size)
    stage.put("jobs", job)
    for index in range(size):
        pod = stage.pod(
            f"train-{index}-x",
            job=f"train-{index}",
            labels={INDEX: str(index), "foresail.dev/gang": "train"},
            annotations={"foresail.dev/gang-min": str(size)},
        )
        stage.owner(owned_by(job, "Job", pod))
    return stage


def is_over(stage: Stage) -> bool:
    return bool(stage.phases) and stage.phases[-1][1] == OVER


def test_a_member_that_is_to_be_moved_takes_its_gang_along(server, virtual, tmp_path):
    stage = gang_stage(tmp_path, {"train-0-x": "b"})

    async def story() -> None:
        await stage.until(lambda: stage.records)
        assert [one["target"] for one in stage.records[0]["pods"]] == ["b", "b"]
        # Somebody else would have the room, in part.
        stage.put("pods", stage.pod("stranger", "3", node=""))
        await stage.until(lambda: is_over(stage))

    stage.tell(server, virtual, story)
    assert {name: node for name, node in stage.pods.items() if name != "stranger"} == {
        "train-0-x-1": "b",
        "train-1-x-1": "b",
    }
    for job in ("train-0", "train-1"):
        before, after = stage.stays(job)
        assert after.begun_s >= before.ended_s
        assert after.first_step == before.last_step
    assert sorted(one[:3] for one in stage.noted if one[0] == "moved") == [
        ("moved", "train-0-x-1", "b"),
        ("moved", "train-1-x-1", "b"),
    ]


def test_members_that_a_controller_moves_in_one_turn_are_one_move_to_the_nodes_it_names(server, virtual, tmp_path):
    stage = gang_stage(tmp_path, {"train-0-x": "b", "train-1-x": "c"})
    stage.nodes("c")

    async def story() -> None:
        await stage.until(lambda: stage.records)
        assert len(stage.records) == 1
        await stage.until(lambda: is_over(stage))

    stage.tell(server, virtual, story)
    assert stage.pods == {"train-0-x-1": "b", "train-1-x-1": "c"}


def test_without_room_for_all_nobody_goes(server, virtual, tmp_path):
    stage = gang_stage(tmp_path, {"train-0-x": "b"}, target_cpu="1")
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.noted))
    assert stage.pods == {"train-0-x": "a", "train-1-x": "a"}
    assert stage.noted[0][3].startswith("move declined: default/train-1-x of its gang cannot go along:")
    assert not stage.phases
    assert not stage.programs[0].steering._scheduler.holds


def test_one_that_confirms_no_checkpoint_undoes_the_move_of_all(server, virtual, tmp_path):
    stage = gang_stage(tmp_path, {"train-0-x": "b"}, checkpoint_s=20.0)
    stage.habits["train-1"] = Habits(answers=False)
    stage.tell(server, virtual, lambda: stage.until(lambda: is_over(stage)))
    assert [phase for _, phase in stage.phases] == ["checkpoint", "undo", OVER]
    assert stage.pods == {"train-0-x": "a", "train-1-x": "a"}
    assert len([one for one in stage.noted if "confirmed no checkpoint" in one[3]]) == 2
    assert not stage.told.asked("POST", "/eviction")


def test_one_that_a_budget_keeps_undoes_the_move_of_all(server, virtual, tmp_path):
    stage = gang_stage(tmp_path, {"train-0-x": "b"}, budget_s=20.0)
    stage.told.budget_allows = False
    stage.tell(server, virtual, lambda: stage.until(lambda: is_over(stage)))
    assert [phase for _, phase in stage.phases] == ["checkpoint", "evict", "undo", OVER]
    assert stage.pods == {"train-0-x": "a", "train-1-x": "a"}


def test_one_that_is_not_to_be_moved_keeps_its_gang(server, virtual, tmp_path):
    stage = gang_stage(tmp_path, {"train-0-x": "b"})
    pod = stage.told.objects["pods"]["train-1-x"]
    pod["metadata"]["annotations"]["foresail.dev/no-move"] = "true"
    stage.put("pods", pod)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.noted))
    assert stage.noted[0][3] == "move declined: its annotation foresail.dev/no-move says so"


@pytest.mark.parametrize("phase", [MovePhase.CHECKPOINT, MovePhase.EVICT, MovePhase.REPLACE, MovePhase.RESUME])
def test_a_gangs_move_whose_leader_is_killed_is_finished_by_the_next(server, virtual, tmp_path, phase):
    stage = gang_stage(tmp_path, {"train-0-x": "b"})
    stage.kill_at = phase.value

    async def story() -> None:
        async with server(stage.told) as api:
            await stage.until(stage.killed.is_set)
            await asyncio.sleep(10)
            second = stage.start(api)
            await stage.until(lambda: is_over(stage))
            await second.stop()

    stage.tell(server, virtual, story)
    assert stage.pods == {"train-0-x-1": "b", "train-1-x-1": "b"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"spec": {"nodeName": None, "schedulerName": "nobody"}},
            "its gang default/train is not whole: default/train-1-x",
        ),
        ({"spec": {"schedulerName": "default-scheduler"}}, "default/train-1-x of its gang default/train is placed by"),
        (
            {"metadata": {"labels": {INDEX: "0"}}},
            "Job train of its gang default/train has pods that nothing tells apart",
        ),
    ],
)
def test_a_gang_that_cannot_be_moved_whole_is_refused_with_the_reason(server, virtual, tmp_path, change, why):
    stage = gang_stage(tmp_path, {"train-0-x": "b"})
    pod = stage.told.objects["pods"]["train-1-x"]
    for part, values in change.items():
        for name, value in values.items():
            if isinstance(value, dict):
                pod[part][name] |= value
            elif value is None:
                pod[part].pop(name)
            else:
                pod[part][name] = value
    stage.put("pods", pod)
    stage.tell(server, virtual, lambda: stage.until(lambda: stage.noted))
    assert stage.noted[0][3].startswith(f"move declined: {why}")
    assert stage.node_of("train-0-x") == "a"
