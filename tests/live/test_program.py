"""What all programs on a cluster have in common: the road from the first list to the orderly end."""

import asyncio
import os
import signal

import pytest
from tests.live.api_server import ApiServer
from tests.live.cluster import make_cache, make_node

from foresail.errors import PolicyError
from foresail.kube.api.errors import Forbidden
from foresail.kube.api.lease import LeaderSettings
from foresail.live.program import Part, Program, run_until_signal

LEASE = LeaderSettings(name="test")


class Noting(Program):
    """Writes down what happens to it."""

    def __init__(self, api, **more):
        self.log = []
        self.fails = asyncio.Event()
        super().__init__(api, make_cache()[0], announce=self.log.append, **more)

    def parts(self):
        return [
            Part("a", lambda: self._go_on("a"), ready=lambda: "a is late" if self.fails.is_set() else ""),
            Part("b", lambda: self._go_on("b")),
            Part("c", self._fail, alive=lambda: "c broke" if self.fails.is_set() else ""),
        ]

    async def _go_on(self, name):
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append(f"{name} ended")

    async def _fail(self):
        await self.fails.wait()
        raise PolicyError("it broke")

    def known(self):
        self.log.append(f"{self.cache.table.count} nodes")

    def lead(self, *, leads):
        self.log.append("leads" if leads else "leads no more")

    async def finish(self):
        self.log.append("finish")

    async def flush(self):
        self.log.append("flush")


ROAD = ["1 nodes", "leads", "leads no more", "finish", "flush", "a ended", "b ended"]


def soon(what):
    asyncio.get_running_loop().call_later(0.5, what)


def story(server, virtual, act, told=None, **more):
    told = told or ApiServer()

    async def live():
        told.answers.set()
        told.put("nodes", make_node("n"))
        async with server(told) as api:
            program = Noting(api, **more)
            await act(program)
            return program.log

    return virtual(live())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_program_in_order(server, virtual, number):
    async def act(program):
        soon(lambda: os.kill(os.getpid(), number))
        await run_until_signal(program)

    assert story(server, virtual, act) == ROAD


def test_stop_ends_it_too_and_gives_the_lease_back_before_the_last_is_told(server, virtual):
    told = ApiServer()

    async def act(program):
        soon(program.stop)
        await program.run()

    log = story(server, virtual, act, told, lease=LEASE)
    # The lead ends twice: when all is to end, and when the lease is given back.
    assert log == [*ROAD[:4], "leads no more", *ROAD[4:]]
    assert told.objects["leases"]["test"]["spec"]["holderIdentity"] == ""


def test_a_program_that_is_stopped_before_it_knows_the_cluster_does_nothing(server, virtual):
    async def act(program):
        program.stop()
        await program.run()

    assert story(server, virtual, act) == []


def test_an_error_of_a_part_is_raised_once_the_others_have_ended(server, virtual):
    async def act(program):
        soon(program.fails.set)
        with pytest.raises(PolicyError, match="it broke"):
            await program.run()

    assert story(server, virtual, act) == ["1 nodes", "leads", "a ended", "b ended"]


def test_what_may_not_be_read_ends_it_with_the_refusal(server, virtual):
    async def act(program):
        with pytest.raises(Forbidden):
            await program.run()

    told = ApiServer(lambda _method, path: 403 * path.endswith("/pods"))
    assert story(server, virtual, act, told) == []


def test_checks_of_parts_are_those_of_health(server, virtual):
    async def act(program):
        assert list(program.alive()) == ["c"]
        assert list(program.ready()) == ["watches", "leader", "a"]
        assert (program.ready()["a"](), program.alive()["c"](), program.ready()["leader"]()) == ("", "", "")
        program.fails.set()
        assert (program.ready()["a"](), program.alive()["c"]()) == ("a is late", "c broke")

    story(server, virtual, act, lease=LEASE)


def test_a_lead_that_lapses_comes_back_after_a_fresh_list(server, virtual):
    told = ApiServer()

    async def act(program):
        task = asyncio.create_task(program.run())
        await asyncio.sleep(1)
        may_act = [program.may_act()]
        told.answers.clear()
        await asyncio.sleep(12)
        may_act.append(program.may_act())
        told.answers.set()
        await asyncio.sleep(20)
        may_act.append(program.may_act())
        program.stop()
        await task
        assert may_act == [True, False, True]

    log = story(server, virtual, act, told, lease=LEASE)
    assert log[:4] == ["1 nodes", "leads", "leads no more", "leads"]
