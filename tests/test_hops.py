"""Few steps lie between the loop of a world and what a plug-in is asked: a reader can follow them.

A step is a call of a function of ours. They are counted from the function that gives pods, or requests, their turns one
after the other, down to the policy's `score` or the controller's `act`.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import Any

import numpy as np
import pytest
from tests.live.cluster import make_node, make_pod
from tests.live.extender.test_extender import Bench
from tests.live.scheduler.test_scheduler import Server, deciding, put
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.experiments.what_if import WhatIfRequest, what_if
from foresail.live.snapshot import PodChoice, snapshot_of
from foresail.policies.plain.least_allocated import LeastAllocated
from foresail.traces.snapshot import write_snapshot

MOST_HOPS = 7
POLICY = "least-allocated"

Stack = list[str]


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


def hops(stack: Stack, loop: str) -> int:
    assert loop in stack, stack
    return stack.index(loop) + 1


def check(stacks: list[Stack], loop: str) -> None:
    assert stacks
    longest = max(stacks, key=lambda stack: hops(stack, loop))
    way = " → ".join(reversed(longest[: hops(longest, loop)]))
    assert hops(longest, loop) <= MOST_HOPS, f"{hops(longest, loop)} hops: {way}"


def run(command: str) -> None:
    result = CliRunner().invoke(app, shlex.split(command), catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.fixture
def trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("trace generate --nodes 4 --pods 60 --seed 1 --out .")
    return "--nodes nodes.csv --pods pods.csv --no-html --out run"


@pytest.mark.parametrize("policy", [POLICY, f"{POLICY}:1+random:1"])
@pytest.mark.parametrize(
    ("options", "loop"),
    [
        ("--protocol openb", "run_openb"),
        ("--protocol clock", "Scheduler.run_until_idle"),
        ("--protocol clock --preemption", "Scheduler.run_until_idle"),
    ],
)
def test_simulate(stacks, trace, options, loop, policy):
    run(f"simulate {trace} --policy {policy} {options}")
    check(stacks, loop)


def test_explain(stacks, trace):
    run(f"simulate {trace} --policy {POLICY} --protocol clock")
    stacks.clear()
    run("explain run pod-0000053")
    check(stacks, "Scheduler.run_until_idle")


def test_compare(stacks, trace):
    run(f"compare --nodes nodes.csv --pods pods.csv --out compared --policy {POLICY} --policy random")
    check(stacks, "run_openb")


def test_what_if(stacks, tmp_path):
    path = tmp_path / "cluster.yaml"
    lists = {"Node": [make_node("a"), make_node("b")], "Pod": [make_pod("p"), make_pod("q")]}
    write_snapshot(path, snapshot_of(lists, PodChoice()))
    what_if(WhatIfRequest(str(path), policy=POLICY))
    check(stacks, "place_all")


def test_extender(stacks):
    bench = Bench(POLICY)
    bench.scores(make_pod("p"))
    bench.filter(make_pod("p"))
    check(stacks, "ExtenderApp.__call__")


def test_run(stacks, server, virtual):
    told = Server()

    async def story() -> None:
        async with deciding(server, told, make_node("a"), make_node("b"), policy=POLICY) as live:
            put(live, make_pod("p"), make_pod("q"))
            await asyncio.sleep(0.5)

    virtual(story())
    assert len(told.binds) == 2
    check(stacks, "LiveScheduler._work")
