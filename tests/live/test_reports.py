"""What happened on a cluster: one journal, and what people and programs are told from it."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.live.api_server import ApiServer
from tests.live.cluster import make_cache, make_node, make_pod
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.core.clock import WallClock
from foresail.core.control import Candidate, Move, View
from foresail.core.journal import Journal, Record, What
from foresail.core.queue import Backoff
from foresail.errors import ResultsError
from foresail.live.control.program import ControlProgram, ControlSettings
from foresail.live.reports import EventReport, JournalFile, counted, logged
from foresail.live.scheduler.metrics import Metrics
from foresail.live.scheduler.run import RunSettings, SchedulerProgram


def test_a_run_is_told_whole_in_the_journal_and_to_the_pods(server: Any, virtual: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "journal.jsonl"
    told = ApiServer()

    async def story() -> str:
        told.put("nodes", make_node("a", "4"))
        told.put("pods", make_pod("low", "4", "a"), make_pod("huge", "8"), make_pod("high", "3", priority=100))
        async with server(told) as api:
            settings = RunSettings(backoff=Backoff(1.0, 1.0), leader_elect=False, journal=path)
            program = SchedulerProgram(settings, api, announce=lambda _: None, clock=LoopClock())
            program._server = None  # nobody asks it, and it looks at the time ten times a second
            task = asyncio.create_task(program.run())
            await asyncio.sleep(20)
            told.drop("pods", "high")
            await asyncio.sleep(1)
            program.stop()
            await task
            return program.live.metrics.text().decode()

    figures = virtual(story())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line["time"].endswith("Z") and line["by"] == "" for line in lines)
    happened = [(line["what"], line["pod"].removeprefix("default/"), line["node"], line["detail"]) for line in lines]
    nowhere, held = (
        f"0/1 nodes are available: 1 {why}."
        for why in ("Insufficient cpu", "are held for a pod that others are leaving for")
    )
    of = lambda name: [(what, node, detail) for what, pod, node, detail in happened if pod == name]  # noqa: E731
    assert [what for what, *_ in happened[:3]] == ["arrive", "arrive", "preempt"]
    assert of("huge")[:2] == [("arrive", "", ""), ("refuse", "", held)]
    assert of("high") == [
        ("arrive", "", ""),
        ("preempt", "a", "makes default/low go"),
        ("refuse", "", nowhere),
        ("start", "a", ""),
        ("end", "a", ""),
    ]
    # The watch may be quicker than the answer.
    assert sorted(of("low")) == [("end", "a", ""), ("evict", "a", "Preempted by pod uid-high on node a")]
    events = [(one["regarding"]["name"], one["reason"], one["note"]) for one in told.objects["events"].values()]
    refusals = sorted({detail for what, _, detail in of("huge") if what == "refuse"})
    assert sorted(events) == [
        ("high", "FailedScheduling", nowhere),
        ("high", "Scheduled", "Successfully assigned default/high to a"),
        *(("huge", "FailedScheduling", why) for why in refusals),
        ("low", "Preempted", "Preempted by pod uid-high on node a"),
    ]
    for what, count in (("arrive", 2), ("preempt", 1), ("evict", 1), ("start", 1), ("end", 2)):
        assert f'foresail_journal_records_total{{what="{what}"}} {count}.0' in figures
    assert "foresail_preemption_attempts_total 1.0" in figures


def test_only_what_is_out_of_the_ordinary_is_logged_unless_all_is_asked_for() -> None:
    records = [
        Record(1.0, What.START, "default/p", "a"),
        Record(2.0, What.RESIZE, "default/p", "a", "200 → 500 milli-CPU: because", "equal-shares"),
        Record(3.0, What.DECLINE, "default/p", "a", "move declined: no owner", "mover"),
    ]
    with capture_logs() as lines:
        for record in records:
            logged()(record)
    resized = {"event": "pod_resizes", "log_level": "info", "pod": "default/p", "node": "a", "by": "equal-shares"}
    assert lines[0] == {**resized, "detail": "200 → 500 milli-CPU: because"}
    assert [(line["event"], line["log_level"]) for line in lines[1:]] == [("action_declined", "warning")]
    with capture_logs() as lines:
        logged(in_full=True)(records[0])
    assert lines == [{"event": "pod_bound", "log_level": "info", "pod": "default/p", "node": "a", "detail": ""}]


class Weighs:
    """Would move every pod to b, and tells of it."""

    every_s = 60.0

    def __init__(self) -> None:
        self._weighed: list[Candidate] = []

    def act(self, view: View) -> list[Move]:
        self._weighed = [
            Candidate(one.pod, node, "b is quieter", gain, 15.0)
            for one in view.running.values()
            for node, gain in (("b", 20.0), ("", math.nan))
        ]
        return [Move(one.pod, "b is quieter", "b") for one in view.running.values()]

    def considered(self) -> list[Candidate]:
        return self._weighed


@pytest.mark.parametrize("alone", [True, False], ids=["control", "run"])
def test_a_dry_run_prints_what_was_weighed_with_gain_cost_and_reason(
    server: Any, virtual: Any, tmp_path: Path, alone: bool
) -> None:
    path = tmp_path / "journal.jsonl"
    told = ApiServer()

    async def story() -> None:
        told.put("nodes", make_node("a", "4"), make_node("b", "4"))
        told.put("pods", make_pod("p", "1", "a"))
        async with server(told) as api:
            common: dict[str, Any] = {"leader_elect": False, "dry_run": True, "journal": path}
            more: dict[str, Any] = {"announce": lambda _: None, "clock": LoopClock(), "controllers": {"w": Weighs()}}
            program: Any = (
                ControlProgram(ControlSettings(controllers=(), **common), api, **more)
                if alone
                else SchedulerProgram(RunSettings(**common), api, **more)
            )
            program._server = None  # nobody asks it, and it looks at the time ten times a second
            task = asyncio.create_task(program.run())
            await asyncio.sleep(5)
            program.stop()
            await task

    with capture_logs() as lines:
        virtual(story())
    where = {"log_level": "info", "pod": "default/p", "node": "a", "by": "w", "detail": "b is quieter"}
    assert [line for line in lines if line["event"] == "move_weighed"] == [
        {
            "event": "move_weighed",
            **where,
            "to_node": "b",
            "gain": 20.0,
            "cost": 15.0,
            "unit": "s",
            "outcome": "chosen",
        },
        {"event": "move_weighed", **where, "to_node": "", "cost": 15.0, "unit": "s", "outcome": "kept"},
    ]
    written = [json.loads(line) for line in path.read_text().splitlines()]
    weighed = [
        (line["pod"], line["node"], line["to_node"], line["gain"], line["cost"], line["outcome"])
        for line in written
        if line["what"] == "consider"
    ]
    assert weighed == [
        ("default/p", "a", "b", 20.0, 15.0, "chosen"),
        ("default/p", "a", "", None, 15.0, "kept"),
    ]


class Notes:
    """Takes events instead of writing them."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, str, bool]] = []

    def add(self, pod: Any, reason: str, _action: str, note: str, *, warning: bool = False) -> None:
        self.log.append((pod.uid, reason, note, warning))


def test_pods_are_told_who_asked_for_what_is_done_to_them_even_if_they_are_just_gone() -> None:
    cache, _ = make_cache()
    notes = Notes()
    journal = Journal(WallClock(), EventReport(cache, notes), counted(Metrics("test")))
    cache.handler("Node").replace([make_node("a")])
    cache.put_pod(make_pod("p", node="a"))
    journal.note(What.DECLINE, pod="default/p", node="a", detail="move declined: it has no owner", by="mover")
    cache.drop_pod("uid-p")
    journal.note(What.MOVE, pod="default/p", node="b", detail="from a: b is quieter", by="mover")
    journal.note(What.MOVE, pod="default/stranger", node="b", detail="from a: b is quieter", by="mover")
    journal.note(What.FAIL, node="a")
    assert notes.log == [
        ("uid-p", "ActionDeclined", "mover: move declined: it has no owner", True),
        ("uid-p", "Moving", "mover: from a: b is quieter", False),
    ]


def test_a_journal_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot be written \(.*\); give --journal another file"):
        JournalFile(tmp_path / "file" / "journal.jsonl")
