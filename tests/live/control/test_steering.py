"""Controllers on an API server: what they see, what becomes of their answers, and what is not done to pods."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.live.cluster import make_node, make_pod
from tests.live.resizes.kubelets import KubeletServer
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.core.backoff import Backoff
from foresail.core.control import Action, Hold, Move, Resize, View
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.scheduler.run import RunSettings, SchedulerProgram

Act = Callable[[View], Sequence[Action]]
OWNED = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
WEB = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-web"}, "spec": {"replicas": 1}}


class Once:
    """A controller whose answer is the test's, at its first turn alone."""

    every_s = 5.0

    def __init__(self, act: Act) -> None:
        self._act = act
        self.turns = 0

    def act(self, view: View) -> Sequence[Action]:
        self.turns += 1
        return self._act(view) if self.turns == 1 else []


def owned(pod: dict[str, Any], **changes: Any) -> dict[str, Any]:
    pod["metadata"]["ownerReferences"] = [{**OWNED, **changes}]
    return pod


class Story:
    """A server, the controller that looks at it, and what was noted."""

    def __init__(
        self, tmp_path: Path, act: Act, *, dry_run: bool = False, alone: bool = False, **settings: Any
    ) -> None:
        self.told = KubeletServer()
        self.controller = Once(act)
        self.path = tmp_path / "journal.jsonl"
        self.dry_run = dry_run
        self.alone = alone
        self.settings = settings
        self.problem: list[str] = []
        self.said: list[str] = []

    def run(self, server: Any, virtual: Any, *objects: tuple[str, dict[str, Any]], during: Any = None) -> None:
        async def story() -> None:
            for plural, value in objects:
                self.told.put(plural, value)
            async with server(self.told) as api:
                program = self._program(api)
                program._server = None  # nobody asks it, and it looks at the time ten times a second
                task = asyncio.create_task(program.run())
                await asyncio.sleep(4)
                if during is not None:
                    await during(program)
                self.problem.append(program.ready()["controllers"]())
                await asyncio.sleep(60)
                program.stop()
                await task

        virtual(story())

    def _program(self, api: Any) -> Any:
        common = {"leader_elect": False, "dry_run": self.dry_run, "journal": self.path, **self.settings}
        more: dict[str, Any] = {
            "announce": self.said.append,
            "clock": LoopClock(),
            "controllers": {"test": self.controller},
        }
        if self.alone:
            return ControlProgram(ControlSettings(controllers=(), **common), api, **more)
        return SchedulerProgram(RunSettings(backoff=Backoff(1.0, 1.0), **common), api, **more)

    @property
    def noted(self) -> list[tuple[str, str, str, str]]:
        lines = map(json.loads, self.path.read_text().splitlines())
        return [(one["what"], one["pod"].removeprefix("default/"), one["node"], one["detail"]) for one in lines]

    @property
    def asked_by(self) -> list[tuple[str, str]]:
        return [(one["what"], one["by"]) for one in map(json.loads, self.path.read_text().splitlines())]

    @property
    def actions(self) -> list[tuple[str, str, str, str]]:
        return [one for one in self.noted if one[0] in {"resize", "move", "hold", "decline"}]


NO_OWNER = (
    "it has no owner that would make a successor; with the label foresail.dev/job it is made anew here, under another "
    "name"
)


def nodes(*names: str) -> list[tuple[str, dict[str, Any]]]:
    return [("nodes", make_node(name, "4")) for name in names]


def pods(*values: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [("pods", value) for value in values]


def resize_to(cpu_milli: int, limit_milli: int | None = None) -> Act:
    return lambda view: [Resize(one.pod, cpu_milli, "because", limit_milli) for one in view.running.values()]


def move_to(node: str) -> Act:
    return lambda view: [Move(one.pod, "because", node) for one in view.running.values()]


def test_controllers_know_a_pod_by_its_job(server, virtual, tmp_path):
    seen = []
    story = Story(tmp_path, lambda view: seen.extend((one.pod.uid, one.job) for one in view.running.values()) or [])
    story.run(server, virtual, *nodes("a"), *pods(owned(make_pod("p", node="a")), make_pod("q", node="a")))
    assert seen == [("uid-p", "default/uid-web"), ("uid-q", "default/uid-q")]


# --- resize ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [False, True], ids=["run", "control"])
def test_a_resize_is_asked_for_with_uid_and_version_and_noted(server, virtual, tmp_path, alone):
    story = Story(tmp_path, resize_to(500, 800), alone=alone)
    story.run(
        server, virtual, *nodes("a"), *pods(make_pod("p", "200m", "a"), make_pod("o", "1", "a", schedulerName="x"))
    )
    assert story.told.asked("PATCH", "/resize") == ["pods/p/resize"]
    body = story.told.bodies[story.told.log.index(("PATCH", "pods/p/resize"))]
    assert body == {
        "metadata": {"uid": "uid-p", "resourceVersion": "2"},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "800m"}}}]
        },
    }
    assert story.actions == [("resize", "p", "a", "200 → 500 milli-CPU, limit 800: because")]


def test_what_a_node_has_not_left_is_declined_also_for_two_at_once(server, virtual, tmp_path):
    story = Story(tmp_path, resize_to(2500))
    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", "1", "a"), make_pod("q", "1", "a")))
    assert story.told.asked("PATCH", "/resize") == ["pods/p/resize"]
    assert story.actions[1:] == [
        ("decline", "q", "a", "resize declined: a has 500 milli-CPU left, and it would take 1500 more"),
    ]


def test_a_kubelet_that_calls_it_infeasible_is_quoted_and_the_pod_asks_for_what_it_had(server, virtual, tmp_path):
    story = Story(tmp_path, resize_to(500))
    story.told.never.add("p")
    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", "200m", "a")))
    assert [one[3] for one in story.actions] == [
        "200 → 500 milli-CPU: because",
        "resize declined: infeasible: not so much",
    ]
    assert story.told.asks("p") == (200, 0)


def test_a_pod_with_two_containers_is_not_resized(server, virtual, tmp_path):
    pod = make_pod("p", "200m", "a")
    pod["spec"]["containers"].append({**pod["spec"]["containers"][0], "name": "second"})
    story = Story(tmp_path, resize_to(500))
    story.run(server, virtual, *nodes("a"), *pods(pod))
    assert story.told.asked("PATCH", "/resize") == []
    assert story.actions[-1][3].startswith("resize declined: 2 of its containers request CPU")


def test_room_that_a_growth_is_about_to_take_is_not_given_to_a_pod_that_waits(server, virtual, tmp_path):
    def act(view: View) -> list[Action]:
        by_name = {one.pod.name: one.pod for one in view.running.values()}
        return [Resize(by_name["default/p"], 3000, "more"), Resize(by_name["default/q"], 1000, "less")]

    # Between q's end and p's beginning a scheduler has time.
    story = Story(tmp_path, act, resizes=ResizeSettings(most_a_second=0.1))

    async def during(_program: Any) -> None:
        story.told.put("pods", make_pod("waits", "1"))

    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", "2", "a"), make_pod("q", "2", "a")), during=during)
    assert (story.told.asks("p"), story.told.asks("q"), story.told.node_of("waits")) == ((3000, 0), (1000, 0), "")
    resized = [one[1:] for one in story.noted if one[0] == "resized"]
    assert [(pod, detail.partition(" in effect")[0]) for pod, _, detail in resized] == [
        ("q", "2000 → 1000 milli-CPU"),
        ("p", "2000 → 3000 milli-CPU"),
    ]


def test_what_ends_is_counted_with_how_long_it_took(server, virtual, tmp_path):
    text: list[str] = []
    story = Story(tmp_path, resize_to(500), alone=True)

    async def during(program: Any) -> None:
        await asyncio.sleep(10)
        text.append(program.metrics.text().decode())

    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", "200m", "a")), during=during)
    assert 'foresail_resizes_total{outcome="done"} 1.0' in text[0]
    assert 'foresail_resize_seconds_count{outcome="allocated"} 1.0' in text[0]
    assert 'foresail_resize_seconds_count{outcome="done"} 1.0' in text[0]


# --- move ------------------------------------------------------------------------------------------------------------


def test_a_moved_pods_successor_gets_the_node_that_was_held_for_it(server, virtual, tmp_path):
    story = Story(tmp_path, move_to("b"))

    async def during(_program: Any) -> None:
        # Another comes first, and node b would be its choice as well.
        story.told.put("pods", make_pod("stranger", "3"), owned(make_pod("web-2", "3")))

    story.run(
        server,
        virtual,
        *nodes("a", "b"),
        ("replicasets", WEB),
        *pods(owned(make_pod("web-1", "3", "a")), make_pod("filler", "1", "a", schedulerName="x")),
        during=during,
    )
    evictions = [body for body in story.told.bodies if body.get("kind") == "Eviction"]
    assert [one["deleteOptions"]["preconditions"]["uid"] for one in evictions] == ["uid-web-1"]
    assert (story.told.node_of("web-2"), story.told.node_of("stranger")) == ("b", "a")
    assert story.actions == [("move", "web-1", "b", "from a: because")]


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (make_pod("p", "1", "a"), NO_OWNER),
        (owned(make_pod("p", "1", "a"), kind="DaemonSet"), "a DaemonSet makes its successor for the same node"),
        (owned(make_pod("p", "1", "a"), kind="Node"), "it is a static pod of its node"),
        (owned(make_pod("p", "8", "a")), "b does not take it: Insufficient cpu"),
    ],
    ids=["no owner", "daemon set", "static", "no room"],
)
def test_a_pod_that_would_not_come_back_or_has_no_room_there_stays(server, virtual, tmp_path, pod, why):
    story = Story(tmp_path, move_to("b"))
    story.run(server, virtual, *nodes("a", "b"), *pods(pod))
    assert story.told.asked("POST", "/eviction") == []
    assert story.actions == [("decline", "p", "b", f"move declined: {why}")]


def test_beside_another_scheduler_no_node_is_promised(server, virtual, tmp_path):
    story = Story(tmp_path, move_to("b"), alone=True)
    story.run(server, virtual, *nodes("a", "b"), *pods(owned(make_pod("p", "1", "a"))))
    assert story.told.asked("POST", "/eviction") == []
    assert "no node can be held from here" in story.actions[0][3]


# --- hold, dry runs and failures -------------------------------------------------------------------------------------


def test_held_room_is_left_to_whom_it_is_held_for_until_the_hold_ends(server, virtual, tmp_path):
    def act(view: View) -> list[Action]:
        return [Hold(one.pod, "b", "soon to come", 20.0) for one in view.running.values()]

    story = Story(tmp_path, act)
    seen: list[str] = []

    async def during(_program: Any) -> None:
        story.told.put("pods", make_pod("q", "3"))
        await asyncio.sleep(5)
        seen.append(story.told.node_of("q"))

    story.run(server, virtual, *nodes("a", "b"), *pods(make_pod("p", "3", "a")), during=during)
    assert (seen, story.told.node_of("q")) == ([""], "b")
    assert story.actions == [("hold", "p", "b", "for 20 s: soon to come")]
    assert ("release", "p", "b", "its time is over") in story.noted


def test_a_resize_does_not_take_room_that_is_held_for_another(server, virtual, tmp_path):
    def act(view: View) -> list[Action]:
        by_name = {one.pod.name: one.pod for one in view.running.values()}
        return [Hold(by_name["default/q"], "a", "soon to come", 20.0), Resize(by_name["default/p"], 2000, "more")]

    story = Story(tmp_path, act)
    story.run(server, virtual, *nodes("a", "b"), *pods(make_pod("p", "1", "a"), make_pod("q", "3", "b")))
    declined = "resize declined: a has 0 milli-CPU left, and it would take 1000 more"
    assert story.actions == [("hold", "q", "a", "for 20 s: soon to come"), ("decline", "p", "a", declined)]


@pytest.mark.parametrize("alone", [False, True], ids=["run", "control"])
def test_a_dry_run_notes_what_it_would_do_and_asks_for_nothing(server, virtual, tmp_path, alone):
    story = Story(tmp_path, resize_to(500), dry_run=True, alone=alone)
    waiting = [] if alone else pods(make_pod("w", "3", priority=100), make_pod("high", "4", priority=200))
    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", "200m", "a")), *waiting)
    assert story.told.log == []
    assert ("resize", "p", "a", "dry run: 200 → 500 milli-CPU: because") in story.noted
    if not alone:
        assert ("start", "w", "a", "dry run: would be bound") in story.noted
        assert any(what == "preempt" and detail.startswith("dry run: makes ") for what, _, _, detail in story.noted)
        assert not any(what == "release" for what, _, _, _ in story.noted)  # nothing was held either


@pytest.mark.parametrize("alone", [False, True], ids=["run", "control"])
def test_at_the_start_it_is_told_who_looks_after_whose_pods_and_how_often(server, virtual, tmp_path, alone):
    story = Story(tmp_path, lambda _view: [], alone=alone, dry_run=True)
    objects = [*nodes("a", "b"), *pods(make_pod("p", "1", "a"), make_pod("o", "1", "a", schedulerName="x"))]
    story.run(server, virtual, *objects, *pods(make_pod("waits", "100")))
    assert story.said == [
        "2 nodes, 3 pods, 1 of foresail on nodes" if alone else "2 nodes, 3 pods, 1 of them wait for us",
        "controllers of the pods of foresail: test every 5 s",
        "decides now, and does nothing of it (dry run)",
        "acts no more" if alone else "places no pods any more",
    ]


def test_a_controller_that_fails_is_told_in_health_and_pods_are_placed_all_the_same(server, virtual, tmp_path):
    def act(_view: View) -> list[Action]:
        raise ZeroDivisionError("of somebody else's")

    story = Story(tmp_path, act)
    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", "1")))
    assert story.problem == ['controller "test" raised ZeroDivisionError: of somebody else\'s at 0 s']
    assert story.controller.turns > 1
    assert story.told.node_of("p") == "a"


def test_the_view_has_the_running_pods_of_ours_with_limits_and_annotations(server, virtual, tmp_path):
    views: list[View] = []

    def act(view: View) -> list[Action]:
        views.append(view)
        return []

    pod = make_pod("p", "200m", "a", annotations={"foresail.dev/goal": "7", "other": "x"})
    pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1"}
    leaving = make_pod("leaving", "1", "a", deleted=True)
    story = Story(tmp_path, act, alone=True)
    story.run(server, virtual, *nodes("a"), *pods(pod, leaving, make_pod("o", "1", "a", schedulerName="x")))
    (running,) = views[0].running.values()
    assert (running.pod.name, running.node, running.cpu_milli, running.cpu_limit_milli) == ("default/p", "a", 200, 1000)
    assert running.annotations == {"foresail.dev/goal": "7"}
    assert [(room.name, room.cpu_free_milli) for room, _ in views[0].by_node()] == [("a", 1800)]
