"""The status of gangs' objects: written once, by the leader's pods alone, and seldom while nothing comes of it."""

from aiohttp import web
from tests.live.cluster import OURS, make_cache, make_group, make_node, make_pod

from foresail.live.actions.gang_status import GangStatuses


class Server:
    """Notes what is patched; `answers` are those of the first requests."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.log = []

    async def __call__(self, request):
        body = await request.json()
        assert body["metadata"] == {"uid": "uid-g"}
        [condition] = body["status"]["conditions"]
        self.log.append((request.path.rpartition("namespaces/")[2], condition["status"], condition["message"]))
        answer = self.answers.pop(0) if self.answers else 200
        return web.json_response({"reason": "Scripted"} if answer != 200 else {}, status=answer)

    def since(self):
        log, self.log = self.log, []
        return log


class Gang:
    """A gang of two with a group, and what its waiting pods are told."""

    def __init__(self, api, *, scheduler=OURS):
        self.cache, _ = make_cache()
        self.why = "no room"
        self.writer = GangStatuses(
            api,
            self.cache,
            scheduler_name=OURS,
            told=lambda _: ("Unschedulable", self.why) if self.why else None,
            may_write=lambda: True,
        )
        self.cache.tell(self.writer)
        self.scheduler = scheduler
        self.cache.handler("Node").replace([make_node("a")])
        self.put_group()
        for name in "pq":
            self.put_pod(name)

    def put_group(self, status=None):
        group = make_group("g", 2)
        group["metadata"]["uid"] = "uid-g"
        self.cache.handler("PodGroup").apply("MODIFIED", {**group, "status": status or {}})

    def put_pod(self, name, node=""):
        pod = make_pod(name, node=node, schedulingGroup={"podGroupName": "g"}, schedulerName=self.scheduler)
        self.cache.handler("Pod").apply("MODIFIED", pod)


PATH = "default/podgroups/g/status"


def condition(status, message):
    reason = "Scheduled" if status == "True" else "Unschedulable"
    return {"conditions": [{"type": "PodGroupScheduled", "status": status, "reason": reason, "message": message}]}


def lived(virtual, server, answers, story, **more):
    async def live():
        answering = Server(*answers)
        async with server(answering) as api:
            await story(Gang(api, **more), answering)

    virtual(live())


def test_a_group_is_told_once_and_its_words_change_seldom(virtual, server):
    async def story(gang, told):
        assert await gang.writer.turn(0.0) == 1
        assert told.since() == [(PATH, "False", "no room")]
        gang.put_group(condition("False", "no room"))
        for at in range(1, 10):
            gang.why = f"no room, {at}"
            gang.put_pod("p")
            assert await gang.writer.turn(float(at)) == 0
        assert await gang.writer.turn(10.0) == 1
        assert told.since() == [(PATH, "False", "no room, 9")]
        gang.put_group(condition("False", "no room, 9"))
        # That it is placed is told at once, and only when the minimum is.
        gang.put_pod("p", node="a")
        assert await gang.writer.turn(11.0) == 0
        gang.put_pod("q", node="a")
        assert await gang.writer.turn(12.0) == 1
        assert told.since() == [(PATH, "True", "")]
        # Neither before nor after the watch tells of it is it written again.
        gang.put_pod("q", node="a")
        assert await gang.writer.turn(13.0) == 0
        gang.put_group(condition("True", ""))
        assert await gang.writer.turn(99.0) == 0

    lived(virtual, server, (), story)


def test_nothing_is_said_before_anybody_was_told_anything(virtual, server):
    async def story(gang, told):
        gang.why = ""
        assert await gang.writer.turn(0.0) == 0
        gang.why = "no room"
        assert await gang.writer.turn(1.0) == 1
        assert told.since() == [(PATH, "False", "no room")]

    lived(virtual, server, (), story)


def test_gangs_of_other_schedulers_are_theirs(virtual, server):
    async def story(gang, told):
        gang.put_pod("p", node="a")
        gang.put_pod("q", node="a")
        assert await gang.writer.turn(0.0) == 0
        assert told.since() == []

    lived(virtual, server, (), story, scheduler="another")


def test_what_may_pass_is_written_again_and_a_missing_right_ends_it(virtual, server):
    async def story(gang, told):
        assert await gang.writer.turn(0.0) == 1
        assert await gang.writer.turn(1.0) == 1
        assert told.since() == [(PATH, "False", "no room")] * 2
        gang.why = "less room"
        assert await gang.writer.turn(20.0) == 1
        gang.put_pod("p", node="a")
        gang.put_pod("q", node="a")
        assert await gang.writer.turn(21.0) == 0
        assert told.since() == [(PATH, "False", "less room")]

    lived(virtual, server, (500, 200, 403), story)
