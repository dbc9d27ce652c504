"""The PodScheduled condition: the latest reason, written once, and written in the end."""

import asyncio

import pytest
from aiohttp import web
from tests.live.cluster import make_pod

from foresail.live.cache.pods import PodReader
from foresail.live.scheduler.conditions import SCHEDULER_ERROR, UNSCHEDULABLE, PodConditions


class Cluster:
    """Pods that wait, and a server that patches them; `answers` are those of the first requests."""

    def __init__(self, *answers, names=("p",), takes_s=0.0):
        self.pods = {f"uid-{name}": PodReader().read(make_pod(name)) for name in names}
        self.answers = list(answers)
        self.takes_s = takes_s
        self.log = []
        self.bodies = []
        self.under_way = 0

    async def __call__(self, request):
        body = await request.json()
        [condition] = body["status"]["conditions"]
        self.under_way += 1
        await asyncio.sleep(self.takes_s)
        self.under_way -= 1
        answer = self.answers.pop(0) if self.answers else 200
        self.log.append((request.path.split("/")[-2], condition["message"], answer))
        self.bodies.append(body)
        return web.json_response({"reason": "Scripted"} if answer != 200 else {}, status=answer)


def lived(virtual, server, cluster, story):
    async def live():
        async with server(cluster) as api:
            conditions = PodConditions(api, cluster.pods.get)
            task = asyncio.create_task(conditions.run())
            await story(conditions)
            await asyncio.sleep(60)
            task.cancel()
            return conditions

    return virtual(live())


def test_a_pod_is_told_once_what_has_not_changed(virtual, server):
    cluster = Cluster()

    async def story(conditions):
        assert conditions.tell("uid-p", UNSCHEDULABLE, "no room")
        assert not conditions.tell("uid-p", UNSCHEDULABLE, "no room")
        await asyncio.sleep(1)
        assert not conditions.tell("uid-p", UNSCHEDULABLE, "no room")
        assert conditions.tell("uid-p", SCHEDULER_ERROR, "no room")
        await asyncio.sleep(1)
        conditions.forget("uid-p")
        assert conditions.told("uid-p") is None

    lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "no room", 200)] * 2
    first, second = cluster.bodies
    # The uid is a precondition, and the time is when it began.
    [condition] = first["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert first == {
        "metadata": {"uid": "uid-p"},
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}]
        },
    }
    assert "lastTransitionTime" not in second["status"]["conditions"][0]


def test_of_many_reasons_the_latest_arrives_last_and_the_others_may_not(virtual, server):
    cluster = Cluster(takes_s=2.0)

    async def story(conditions):
        conditions.tell("uid-p", UNSCHEDULABLE, "first")
        await asyncio.sleep(0.5)
        for words in ("second", "third", "fourth"):
            conditions.tell("uid-p", UNSCHEDULABLE, words)
            await asyncio.sleep(0.1)
            assert cluster.under_way == 1

    conditions = lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "first", 200), ("p", "fourth", 200)]
    assert conditions.told("uid-p") == (UNSCHEDULABLE, "fourth")


def test_pods_are_told_in_parallel(virtual, server):
    names = [f"p{number}" for number in range(8)]
    cluster = Cluster(names=names, takes_s=1.0)

    async def story(conditions):
        for name in names:
            conditions.tell(f"uid-{name}", UNSCHEDULABLE, "no room")
        await asyncio.sleep(0.5)
        assert cluster.under_way == 4

    lived(virtual, server, cluster, story)
    assert sorted(name for name, *_ in cluster.log) == names


@pytest.mark.parametrize("status", [401, 403, 409, 429, 500, 503])
def test_what_may_pass_is_tried_again_and_told_meanwhile(virtual, server, status):
    cluster = Cluster(status, status)

    async def story(conditions):
        conditions.tell("uid-p", UNSCHEDULABLE, "no room")
        await asyncio.sleep(0.5)
        assert str(status) in conditions.failure
        assert not conditions.tell("uid-p", UNSCHEDULABLE, "no room")

    conditions = lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "no room", status)] * 2 + [("p", "no room", 200)]
    assert conditions.failure == ""


def test_while_one_is_tried_again_newer_words_take_its_place(virtual, server):
    cluster = Cluster(500)

    async def story(conditions):
        conditions.tell("uid-p", UNSCHEDULABLE, "old")
        await asyncio.sleep(0.5)
        conditions.tell("uid-p", UNSCHEDULABLE, "new")

    lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "old", 500), ("p", "new", 200)]


def test_what_the_server_calls_wrong_is_not_repeated(virtual, server):
    cluster = Cluster(422)

    async def story(conditions):
        conditions.tell("uid-p", UNSCHEDULABLE, "no room")
        await asyncio.sleep(10)
        assert "422" in conditions.failure
        conditions.tell("uid-p", UNSCHEDULABLE, "other words")

    conditions = lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "no room", 422), ("p", "other words", 200)]
    assert conditions.failure == ""


def test_a_pod_that_was_deleted_is_let_go(virtual, server):
    cluster = Cluster(404)

    async def story(conditions):
        conditions.tell("uid-p", UNSCHEDULABLE, "no room")

    conditions = lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "no room", 404)]
    assert (conditions.told("uid-p"), conditions.failure) == (None, "")


def test_a_failure_is_forgotten_with_the_last_pod_it_was_about(virtual, server):
    cluster = Cluster(*[403] * 100)

    async def story(conditions):
        conditions.tell("uid-p", UNSCHEDULABLE, "no room")
        await asyncio.sleep(7)
        assert "403" in conditions.failure
        cluster.pods.clear()

    conditions = lived(virtual, server, cluster, story)
    assert cluster.log == [("p", "no room", 403)] * 2
    assert conditions.failure == ""
