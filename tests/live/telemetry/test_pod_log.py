"""Progress from logs as a kubelet gives them out: nothing is lost or told twice, and silent pods are seldom asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.scripted_server import serving
from tests.live.telemetry.reporting import NOW_S, Reporting

from foresail.live.telemetry.pod_log import PodLogs, StampedLine, new_lines, stamp_of

JOB = "team/train"
START = datetime.fromtimestamp(NOW_S - 5000, UTC)


class Kubelet:
    """Logs of pods, given out as kubelets do: from a whole second on, or the last lines; cut after so many bytes."""

    def __init__(self) -> None:
        self.lines: dict[str, list[tuple[datetime, str]]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.refuses: Callable[[str], tuple[int, str] | None] = lambda _path: None

    def write(self, pod: str, after_s: float, text: str) -> None:
        self.lines.setdefault(pod, []).append((START + timedelta(seconds=after_s), text))

    async def __call__(self, request: web.Request) -> web.Response:
        *_, pod, part = request.path.split("/")
        assert part == "log"
        query = dict(request.query)
        self.asked.append((pod, query))
        refused = self.refuses(pod)
        if refused is not None:
            return web.json_response({"kind": "Status", "message": refused[1]}, status=refused[0])
        assert query["timestamps"] == "true"
        lines = self.lines.get(pod, [])
        if "sinceTime" in query:
            since = datetime.fromisoformat(query["sinceTime"])
            lines = [line for line in lines if line[0] >= since]
        if "tailLines" in query:
            lines = lines[-int(query["tailLines"]) :]
        text = "".join(f"{_nano(at)} {said}\n" for at, said in lines)
        return web.Response(body=text.encode()[: int(query["limitBytes"])])


def _nano(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z"


class Logged(Reporting):
    """A pod whose log is looked at."""

    def __init__(self, **annotations: str) -> None:
        super().__init__()
        self.kubelet = Kubelet()
        stated = {f"foresail.dev/progress-{name}": text for name, text in annotations.items()}
        self.run("pod-1", job="train", began_s=NOW_S - 5000, annotations=stated)
        self.logs: Any = None

    def look(self, *at_s: float) -> None:
        async def looks() -> None:
            async with serving(self.kubelet) as api:
                if self.logs is None:
                    self.logs = PodLogs(api, self.jobs, self.store, self.clock)
                self.logs._api = api
                for one in at_s or (self.clock.now(),):
                    self.clock.advance_to(one)
                    await self.logs.look()

        asyncio.run(looks())


def report(step: int, more: str = "") -> str:
    return f"foresail progress step={step} total=1000 loss=0.5{more}"


def test_reported_lines_count_once_at_the_time_the_kubelet_gives_them():
    one = Logged()
    one.kubelet.write("pod-1", 1.25, "starting")
    one.kubelet.write("pod-1", 2.5, report(10))
    one.look(0.0)
    known = one.store.of(JOB)
    assert (known.row.step, known.total, known.loss, known.row.time_s) == (10, 1000, 0.5, NOW_S - 5000 + 2.5)
    one.kubelet.write("pod-1", 2.5, report(20))
    one.kubelet.write("pod-1", 2.75, report(30))
    one.kubelet.write("pod-1", 3.0, report(40, " note=checkpoint:r1"))
    one.look(10.0)
    one.look(20.0)
    assert (known.row.step, known.confirmed) == (40, {"r1": 40})
    assert one.counted() == {("log", "taken"): 4}
    assert [asked.get("sinceTime", asked.get("tailLines")) for _, asked in one.kubelet.asked] == [
        "500",
        (START + timedelta(seconds=2)).isoformat().replace("+00:00", "Z"),
        (START + timedelta(seconds=3)).isoformat().replace("+00:00", "Z"),
    ]


def test_a_pattern_reads_jobs_that_report_nothing_and_sees_that_they_began_anew():
    one = Logged(pattern="Epoch {step}\nloss: {loss} - acc: {accuracy}", total="10")
    for at_s, text in enumerate(
        ["loss: 9 - acc: 0", "Epoch 1", "loss: 3 - acc: 0.5", "Epoch 2", "loss: 2 - acc: 0.6", "nothing", "Epoch 3"]
    ):
        one.kubelet.write("pod-1", float(at_s), text)
    one.look(0.0)
    known = one.store.of(JOB)
    assert (known.row.step, known.total, known.loss, known.accuracy) == (3, 10, 2.0, 0.6)
    assert one.counted() == {("log", "taken"): 5}
    one.kubelet.write("pod-1", 100.0, "Epoch 1")
    one.look(10.0)
    assert (known.row.step, known.row.note) == (1, "resume")


def test_a_pattern_that_is_none_is_told_and_the_reporters_lines_are_read():
    one = Logged(pattern="{epoch}")
    one.kubelet.write("pod-1", 1.0, report(10))
    with structlog.testing.capture_logs() as logs:
        one.look(0.0)
    assert one.step(JOB) == 10
    assert logs[0]["row"] == "annotation foresail.dev/progress-pattern"
    assert logs[0]["why"].startswith("'{epoch}': {epoch} is none of")


def test_who_tells_nothing_is_asked_more_and_more_seldom_and_who_did_keeps_being_asked():
    one = Logged()
    one.run("plain", began_s=NOW_S - 5000)
    one.look(*(float(second) for second in range(2000)))
    asked = [pod for pod, _ in one.kubelet.asked]
    assert asked.count("plain") == 10, "after 20, 40, 80, 160 s and then every 320 s"
    assert asked.count("pod-1") == 51, "it says that it is a job: after 20 s and then every 40 s"
    one.end("uid-team-plain")
    one.kubelet.write("pod-1", 100.0, report(10))
    one.look(*(float(second) for second in range(2000, 3000)))
    asked = len(one.kubelet.asked)
    assert one.step(JOB) == 10
    one.look(*(float(second) for second in range(3000, 4000)))
    assert len(one.kubelet.asked) - asked == 100


def test_pods_that_do_not_run_are_not_asked_for():
    one = Logged()
    one.run("waits")
    one.run("stranger", began_s=NOW_S, schedulerName="x")
    one.look(0.0)
    assert [pod for pod, _ in one.kubelet.asked] == ["pod-1"]
    one.end("uid-team-pod-1")
    one.look(1000.0)
    assert one.logs._readings == {}


@pytest.mark.parametrize(
    ("refused", "problem", "remark"),
    [
        ((403, "no"), 'resources: ["pods/log"], verbs: ["get"]', ""),
        ((400, "container main is waiting to start: ContainerCreating"), "", ""),
        ((400, "a container name must be specified for pod x"), "", "name the one that trains in the annotation"),
        ((404, "gone"), "", ""),
        ((500, "Get https://node:10250: connection refused"), "", "connection refused"),
    ],
)
def test_a_log_that_cannot_be_read_is_told_as_it_deserves_and_tried_again(refused, problem, remark):
    one = Logged()
    one.kubelet.refuses = lambda _pod: refused
    with structlog.testing.capture_logs() as logs:
        one.look(0.0)
    assert problem in one.logs.problem
    assert bool(one.logs.problem) == bool(problem)
    assert [remark in log["why"] for log in logs] == [True] * bool(remark)
    one.kubelet.refuses = lambda _pod: None
    one.kubelet.write("pod-1", 1.0, report(10))
    one.look(20.0)
    assert (one.step(JOB), one.logs.problem) == (10, "")


def test_the_container_that_is_named_is_asked_for():
    one = Logged(container="trainer")
    one.look(0.0)
    assert one.kubelet.asked[0][1]["container"] == "trainer"


def test_a_flood_within_a_second_is_passed_over_and_what_follows_is_read():
    one = Logged()
    one.kubelet.write("pod-1", 0.0, report(1))
    one.look(0.0)
    for number in range(400):
        one.kubelet.write("pod-1", 0.5, f"{number} " + "x" * 1000)
    one.kubelet.write("pod-1", 2.0, report(10))
    one.look(10.0, 20.0, 30.0)
    assert one.step(JOB) == 10
    assert one.counted() == {("log", "taken"): 2}


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123456, UTC)),
        ("2026-01-02T03:04:05.5Z", datetime(2026, 1, 2, 3, 4, 5, 500000, UTC)),
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, 0, UTC)),
        ("2026-01-02T03:04:05.000001+01:00", datetime(2026, 1, 2, 2, 4, 5, 1, UTC)),
        ("2026-01-02T03:04:05", None),
        ("nonsense", None),
        ("", None),
        ("2026-01-02T03:04:05.xZ", None),
    ],
)
def test_stamps_are_kubelets(text, at):
    assert stamp_of(text) == at


def test_a_line_that_has_not_ended_and_one_without_a_stamp_are_none():
    text = "2026-01-02T03:04:05Z one\nnonsense\n2026-01-02T03:04:06Z tw"
    assert new_lines(text, None, 0) == [StampedLine(datetime(2026, 1, 2, 3, 4, 5, 0, UTC), "one")]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0, 3.0]), min_size=1, max_size=25), st.data())
def test_however_looks_fall_between_lines_each_is_read_once(gaps, data):
    one = Logged()
    at_s, look_s = 0.0, 0.0
    for step, gap in enumerate(gaps):
        at_s += gap
        one.kubelet.write("pod-1", at_s, report(step))
        if data.draw(st.booleans()):
            look_s += 400.0
            one.look(look_s)
    one.look(look_s + 400.0)
    assert one.counted() == {("log", "taken"): len(gaps)}
    assert one.step(JOB) == len(gaps) - 1
