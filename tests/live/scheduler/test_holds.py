"""A node that is held for a pod is held no longer than somebody makes room there, whatever the API server does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
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
        self.may_act: Callable[[], bool] = lambda: True
        self.without_lead: list[str] = []
        """Requests to delete that were sent while another might have led."""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE" and not self.may_act():
            self.without_lead.append(request.path)
        return await super().__call__(request)

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
            told.may_act = program.may_act
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
    assert told.without_lead == []


def test_a_victim_that_cannot_be_deleted_holds_no_node_for_the_one_that_wanted_it(server: Any, virtual: Any) -> None:
    told = ApiServer(lambda method, path: 403 if method == "DELETE" and path.endswith("/low") else 0)

    async def story() -> tuple[list[str], int]:
        told.put("nodes", make_node("a", "4"))
        told.put("pods", make_pod("low", "4", "a"), make_pod("high", "3", priority=100))
        async with server(told) as api:
            program = SchedulerProgram(SETTINGS, api, announce=lambda _: None, clock=LoopClock())
            program._server = None
            task = asyncio.create_task(program.run())
            await asyncio.sleep(5)
            held = [held.node for held in program.live.cluster.preemption.holds]
            await asyncio.sleep(20)
            program.stop()
            await task
            return held, len(told.asked("DELETE"))

    held, asked = virtual(story())
    assert held == []
    assert asked > 1  # it is tried again, not given up
