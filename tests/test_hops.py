"""Few steps lie between the loop of a world and what a plug-in is asked: a reader can follow them.

A step is a call of a function of ours. They are counted from the function that gives pods, or requests, their turns one
after the other, down to the policy's `score` or the controller's `act`.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.live.cluster import make_node, make_pod
from tests.live.control.test_steering import Story, nodes, pods
from tests.live.extender.test_extender import Bench
from tests.live.scheduler.test_scheduler import Server, deciding, put
from tests.live.scheduler.test_shadow import bind, watching
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.controllers.equal_shares import EqualShares
from foresail.experiments.what_if import WhatIfRequest, what_if
from foresail.live.snapshot import PodChoice, snapshot_of
from foresail.policies.plain.least_allocated import LeastAllocated
from foresail.traces.snapshot import write_snapshot

PAGE = Path(__file__).parents[1] / "docs/design.md"
MOST_HOPS = 7
POLICY = "least-allocated"
CONTROLLER = "equal-shares"

Stack = list[str]


class Hops(NamedTuple):
    """How far a plug-in lies from a loop, and the way there."""

    count: int
    way: str

    @classmethod
    def longest(cls, stacks: list[Stack], loop: str) -> Hops:
        assert stacks
        for stack in stacks:
            assert loop in stack, stack
        longest = max((stack[: stack.index(loop) + 1] for stack in stacks), key=len)
        return cls(len(longest), " → ".join(reversed(longest)))


def stack_of_callers() -> Stack:
    """Functions of ours that have led here, the nearest first; comprehensions count for the function they stand in."""
    found: Stack = []
    frame = sys._getframe(2)
    while frame is not None:
        if "/src/foresail/" in frame.f_code.co_filename and not frame.f_code.co_name.startswith("<"):
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back
    return found


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> list[Stack]:
    """How a policy was reached, each time."""
    found: list[Stack] = []

    def score(self: Any, pod: Any, nodes: Any) -> Any:
        found.append(stack_of_callers())
        return np.zeros(len(nodes))

    monkeypatch.setattr(LeastAllocated, "score", score)
    return found


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[Stack]:
    """How a controller was reached, each time."""
    found: list[Stack] = []

    def act(self: Any, view: Any) -> list[Any]:
        found.append(stack_of_callers())
        return []

    monkeypatch.setattr(EqualShares, "act", act)
    return found


def check(stacks: list[Stack], loop: str, row: str) -> None:
    """The way is short, and as long as the page says."""
    hops = Hops.longest(stacks, loop)
    assert hops.count <= MOST_HOPS, f"{hops.count} hops: {hops.way}"
    assert table()[row] == (loop, hops.count), hops.way


def table() -> dict[str, tuple[str, int]]:
    """What the page says: from where, to the loop and the steps from it."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("## Steps from a loop to a plug-in")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {f"{start} → {plugin}": (loop.strip("`"), int(steps)) for start, loop, plugin, steps in rows}


def run(command: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("trace generate --nodes 4 --pods 60 --seed 1 --out .")
    return "--nodes nodes.csv --pods pods.csv --no-html --out"


def test_every_row_of_the_page_is_counted():
    assert list(table()) == [
        "`simulate --protocol openb` → policy",
        "`simulate --protocol clock` → policy",
        "`simulate --from-snapshot` → policy",
        "`run` → policy",
        "`run --shadow` → policy",
        "`extender` → policy",
        "`simulate --protocol clock` → controller",
        "`run` → controller",
        "`control` → controller",
    ]


def test_openb(stacks, trace):
    for at, policy in enumerate((POLICY, f"{POLICY}:1+random:1")):
        run(f"simulate {trace} run-{at} --policy {policy} --protocol openb")
    run(f"compare --nodes nodes.csv --pods pods.csv --out compared --policy {POLICY} --policy random")
    check(stacks, "run_openb", "`simulate --protocol openb` → policy")


def test_clock(stacks, trace):
    for at, options in enumerate(("", "--preemption")):
        for mix in ("", "+random:1"):
            run(f"simulate {trace} run-{at}{bool(mix)} --policy {POLICY}:1{mix} --protocol clock {options}")
    run("explain run-0False pod-0000053")
    check(stacks, "Scheduler.answer", "`simulate --protocol clock` → policy")


def test_what_if(stacks, tmp_path):
    path = tmp_path / "cluster.yaml"
    lists = {"Node": [make_node("a"), make_node("b")], "Pod": [make_pod("p"), make_pod("q")]}
    write_snapshot(path, snapshot_of(lists, PodChoice()))
    what_if(WhatIfRequest(str(path), policy=POLICY))
    check(stacks, "place_all", "`simulate --from-snapshot` → policy")


def test_extender(stacks):
    bench = Bench(POLICY)
    bench.scores(make_pod("p"))
    bench.filter(make_pod("p"))
    check(stacks, "ExtenderApp.__call__", "`extender` → policy")


def test_run(stacks, server, virtual):
    told = Server()

    async def story() -> None:
        async with deciding(server, told, make_node("a"), make_node("b"), policy=POLICY) as live:
            put(live, make_pod("p"), make_pod("q"))
            await asyncio.sleep(0.5)

    virtual(story())
    assert len(told.binds) == 2
    check(stacks, "LiveScheduler._work", "`run` → policy")


def test_shadow(stacks):
    _, pods = watching(POLICY, nodes=[make_node("a"), make_node("b")])
    bind(pods, "p", "a")
    check(stacks, "Shadow.pod_bound", "`run --shadow` → policy")


def test_controllers_in_virtual_time(turns, trace):
    run(f"simulate {trace} run --policy {POLICY} --protocol clock --controller {CONTROLLER}")
    check(turns, "Engine.step", "`simulate --protocol clock` → controller")


@pytest.mark.parametrize(
    ("alone", "loop", "row"),
    [
        (False, "LiveScheduler.run", "`run` → controller"),
        (True, "ControlProgram._give_turns", "`control` → controller"),
    ],
)
def test_controllers_on_a_cluster(turns, server, virtual, tmp_path, alone, loop, row):
    story = Story(tmp_path, EqualShares().act, alone=alone)
    story.run(server, virtual, *nodes("a"), *pods(make_pod("p", node="a")))
    check(turns, loop, row)
