"""Elections against a Lease with versions, in virtual time."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web

from foresail.errors import OptionError
from foresail.kube.api.lease import Leader, LeaderSettings

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Leases:
    """One Lease, kept as an API server keeps it; may be made deaf."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.deaf = False
        self.holders = []

    async def answer(self, request):
        if self.deaf:
            await asyncio.sleep(3600)
        if request.method == "GET":
            return web.json_response(self.lease) if self.lease else web.json_response({}, status=404)
        body = await request.json()
        known = self.lease["metadata"]["resourceVersion"] if self.lease else ""
        if body["metadata"].get("resourceVersion", "") != known:
            return web.json_response({"reason": "Conflict"}, status=409)
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        holder = body["spec"]["holderIdentity"]
        if not self.holders or self.holders[-1] != holder:
            self.holders.append(holder)
        return web.json_response(self.lease)


class Election:
    """Leaders that note when they lead."""

    def __init__(self, api):
        self.api = api
        self.log = []
        self.tasks = {}

    def join(self, name, api=None):
        now = asyncio.get_running_loop().time
        leader = Leader(api or self.api, identity=name)
        self.tasks[name] = asyncio.create_task(
            leader.run(
                lambda: self.log.append((now(), name, "starts")), lambda: self.log.append((now(), name, "stops"))
            )
        )
        return leader

    async def until(self, name, what):
        async with asyncio.timeout(600):
            while (name, what) not in [(who, event) for _, who, event in self.log]:
                await asyncio.sleep(0.1)

    async def leave(self, *names):
        for name in names:
            self.tasks[name].cancel()
        await asyncio.gather(*(self.tasks[name] for name in names), return_exceptions=True)

    def story(self):
        return [(who, event) for _, who, event in self.log]


def play(virtual, server, story):
    async def whole():
        leases = Leases()
        async with server(leases.answer) as api:
            election = Election(api)
            try:
                await story(leases, election)
            finally:
                await election.leave(*election.tasks)
        return leases, election

    return virtual(whole())


def test_the_first_one_leads_and_keeps_the_lead(virtual, server):
    async def story(leases, election):
        first = election.join("a")
        await election.until("a", "starts")
        second = election.join("b")
        await asyncio.sleep(120)
        assert (first.leading, second.leading, second.holder) == (True, False, "a")
        spec = leases.lease["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
        # Renewed every two seconds, and nothing else written.
        assert 55 <= leases.version <= 62

    _, election = play(virtual, server, story)
    assert election.story()[0] == ("a", "starts")


def test_a_leader_that_leaves_lets_the_next_start_at_once(virtual, server):
    async def story(leases, election):
        election.join("a")
        await election.until("a", "starts")
        election.join("b")
        await asyncio.sleep(30)
        await election.leave("a")
        assert (leases.lease["spec"]["holderIdentity"], leases.lease["spec"]["leaseDurationSeconds"]) == ("", 1)
        await election.until("b", "starts")
        assert leases.lease["spec"]["leaseTransitions"] == 1

    leases, election = play(virtual, server, story)
    assert election.story() == [("a", "starts"), ("a", "stops"), ("b", "starts"), ("b", "stops")]
    (_, stopped, started, _) = [time_s for time_s, _, _ in election.log]
    assert started - stopped <= 2 * 2.2
    assert leases.holders == ["a", "", "b", ""]


def test_a_leader_without_an_api_server_stops_before_another_can_start(virtual, server):
    async def story(leases, election):
        # The two ask over doors of their own: the first one's door closes.
        door = Leases()

        async def through(request):
            if door.deaf:
                await asyncio.sleep(3600)
            return await leases.answer(request)

        async with server(through) as behind:
            election.join("a", behind)
            await election.until("a", "starts")
            election.join("b")
            await asyncio.sleep(20)
            door.deaf = True
            await election.until("b", "starts")

    _, election = play(virtual, server, story)
    assert election.story()[:3] == [("a", "starts"), ("a", "stops"), ("b", "starts")]
    stopped_s, started_s = election.log[1][0], election.log[2][0]
    assert started_s - stopped_s >= 3


def test_a_leader_that_died_is_replaced_when_its_lease_ran_out_on_our_own_clock(virtual, server):
    async def story(leases, election):
        # Its clock was far ahead of ours; that must not make its Lease last longer, nor shorter.
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z"}
        leases.lease = {"metadata": {"name": "foresail", "resourceVersion": "7"}, "spec": spec}
        election.join("a")
        await election.until("a", "starts")

    _, election = play(virtual, server, story)
    assert 15 <= election.log[0][0] <= 15 + 2 * 2.2 + 0.1


def test_a_short_outage_costs_no_lead(virtual, server):
    async def story(leases, election):
        leader = election.join("a")
        await election.until("a", "starts")
        await asyncio.sleep(5)
        leases.deaf = True
        await asyncio.sleep(6)
        leases.deaf = False
        await asyncio.sleep(30)
        assert leader.leading
        assert leader.failed is None

    _, election = play(virtual, server, story)
    assert election.story() == [("a", "starts"), ("a", "stops")]


def test_a_leader_whose_lease_was_taken_stops(virtual, server):
    async def story(leases, election):
        election.join("a")
        await election.until("a", "starts")
        leases.lease["spec"]["holderIdentity"] = "thief"
        leases.lease["metadata"]["resourceVersion"] = "99"
        await election.until("a", "stops")
        # Nothing of the thief's was overwritten on the way out.
        assert leases.lease["metadata"]["resourceVersion"] == "99"
        assert election.tasks["a"].done() or not await asyncio.sleep(1)
        assert election.tasks["a"].exception() is None

    play(virtual, server, story)


def test_a_leader_that_slept_is_not_sure_even_before_it_comes_to_notice(server):
    async def story():
        leases = Leases()
        async with server(leases.answer) as api:
            leader = Leader(api, LeaderSettings(lease_s=2, renew_s=1.0, retry_s=0.1), identity="a")
            assert not leader.is_sure
            started = asyncio.Event()
            running = asyncio.create_task(leader.run(started.set, lambda: None))
            await started.wait()
            assert leader.is_sure
            time.sleep(1.1)  # the whole process stands still, as after SIGSTOP
            assert (leader.leading, leader.is_sure) == (True, False)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert not leader.is_sure

    asyncio.run(story())


def test_of_many_who_try_at_once_one_leads(virtual, server):
    async def story(leases, election):
        leaders = [election.join(name) for name in "abcdefgh"]
        await asyncio.sleep(60)
        assert sum(leader.leading for leader in leaders) == 1

    _, election = play(virtual, server, story)
    now = set()
    for _, who, event in election.log:
        if event == "starts":
            now.add(who)
        else:
            now.remove(who)
        assert len(now) <= 1


def test_times_that_would_allow_two_leaders_are_refused():
    with pytest.raises(OptionError, match="lease_s is 10, renew_s 10"):
        LeaderSettings(lease_s=10)
