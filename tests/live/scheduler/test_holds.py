"""A node that is held for a pod is held no longer than somebody makes room there, whatever the API server does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.live.api_server import ApiServer
from tests.live.cluster import make_node, make_pod
from tests.live.scheduler.test_scheduler import LoopClock

from foresail.core.backoff import Backoff
from foresail.kube.api.lease import LeaderSettings
from foresail.live.scheduler.run import RunSettings, SchedulerProgram

SETTINGS = RunSettings(backoff=Backoff(1.0, 1.0), lease=LeaderSettings(name="test"))
STALL_S = 12.0
"""Longer than a leader may go without renewing its lease, shorter than a client waits for an answer."""


class Stalling(ApiServer):
    """Gives no answers for a while from the first request on that is of this method and ends so."""

    def __init__(self, method: str, end: str) -> None:
        super().__init__(self._stall)
        self._from = (method, end)
        self.stalled = False

    def _stall(self, method: str, path: str) -> int:
        if method == self._from[0] and path.endswith(self._from[1]) and not self.stalled:
            self.stalled = True
            self.answers.clear()
            asyncio.get_running_loop().call_later(STALL_S, self.answers.set)
        return 0


@pytest.mark.parametrize(
    ("method", "end"), [("PATCH", "/high/status"), ("PATCH", "/low/status"), ("DELETE", "/low"), ("POST", "/binding")]
)
def test_who_preempts_gets_its_node_after_a_stall_in_which_the_lead_lapsed(
    server: Any, virtual: Any, method: str, end: str
) -> None:
    said: list[str] = []
    told = Stalling(method, end)

    async def story() -> tuple[str, list[str]]:
        told.put("nodes", make_node("a", "4"))
        told.put("pods", make_pod("low", "4", "a"), make_pod("high", "3", priority=100))
        async with server(told) as api:
            program = SchedulerProgram(SETTINGS, api, announce=said.append, clock=LoopClock())
            program._server = None  # nobody asks it, and it looks at the time ten times a second
            task = asyncio.create_task(program.run())
            await asyncio.sleep(120)
            held = [held.node for held in program.live.cluster.preemption.holds]
            program.stop()
            await task
            return told.node_of("high"), held

    assert virtual(story()) == ("a", [])
    assert told.stalled
    assert said.count("places pods now") == 2
    assert set(told.asked("DELETE")) == {"pods/low"}
