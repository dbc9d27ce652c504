"""The binder against an API server that follows a script: whole histories of what was asked and how it ended."""

import asyncio
import json

import pytest
from aiohttp import web

from foresail.core.spec import PodSpec
from foresail.live.binding import Bind, Binder, Ending
from foresail.live.pods import CachedPod
from foresail.traces.kubernetes_values import GPU_DEVICES

POD = CachedPod(uid="uid-1", namespace="default", name="p", spec=PodSpec(), labels={})
PATH = "/api/v1/namespaces/default/pods/p"
BOUND = Bind(Ending.BOUND)


class Server:
    """One pod, and for each request the next word of the script.

    A word is a status to refuse with, "ok", "lost" (it has its effect, nobody hears), "dropped" (it has none),
    "late" (dropped, but it has its effect once the pod has been looked at), or a function that changes the pod first.
    """

    def __init__(self, *script, uid="uid-1", node=""):
        self.pod = {"metadata": {"uid": uid, "name": "p"}, "spec": {"nodeName": node} if node else {}}
        self.log = []
        self.bodies = []
        self._script = list(script)
        self._on_its_way = None

    async def __call__(self, request):
        word = self._script.pop(0) if self._script else "ok"
        if callable(word):
            word = word(self) or "ok"
        post = request.method == "POST"
        self.log.append(f"{request.method} {word}")
        if post:
            self.bodies.append(json.loads(await request.read()))
        if word == "dropped" or (word == "late" and not post):
            return self._hang_up(request)
        if word == "late":
            self._on_its_way = self.bodies[-1]
            return self._hang_up(request)
        if isinstance(word, int):
            after = {"Retry-After": "7"} if word == 429 else {}
            return web.json_response({"message": "no", "reason": "", "code": word}, status=word, headers=after)
        answer = self._bind(self.bodies[-1]) if post else self._read()
        return self._hang_up(request) if word == "lost" else answer

    def _bind(self, body):
        if self.pod is None:
            return web.json_response({"message": "not found"}, status=404)
        if body["metadata"]["uid"] != self.pod["metadata"]["uid"]:
            return web.json_response({"message": "Precondition failed: UID in precondition"}, status=409)
        if self.pod["spec"].get("nodeName"):
            return web.json_response({"message": "pod p is already assigned to node"}, status=409)
        if self.pod["metadata"].get("deletionTimestamp"):
            return web.json_response({"message": "pod p is being deleted"}, status=409)
        self.pod["spec"]["nodeName"] = body["target"]["name"]
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    def _read(self):
        if self.pod is None:
            return web.json_response({"message": "not found"}, status=404)
        answer = web.json_response(self.pod)
        if self._on_its_way is not None:
            self._bind(self._on_its_way)
            self._on_its_way = None
        return answer

    def _hang_up(self, request):
        request.transport.abort()
        return web.Response()


def bind(server, *script, obstacle=lambda: "", devices=(), **pod):
    """How it ended, the requests, the pauses' lower limits, and where the pod is."""
    story = Server(*script, **pod)
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    async def run():
        async with server(story) as api:
            return await Binder(api, sleep=sleep).bind(POD, "a", devices, obstacle=obstacle)

    return asyncio.run(run()), story, pauses


def test_a_bind_that_succeeds_asks_once_and_names_uid_node_and_gpus(server):
    ended, story, pauses = bind(server, devices=(0, 2))
    assert (ended, story.log, pauses) == (BOUND, ["POST ok"], [])
    about = {"name": "p", "namespace": "default", "uid": "uid-1", "annotations": {GPU_DEVICES: "0,2"}}
    target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
    assert story.bodies == [{"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": target}]


def test_an_answer_lost_after_its_effect_is_found_by_looking(server):
    ended, story, pauses = bind(server, "lost")
    assert (ended, story.log, pauses) == (BOUND, ["POST lost", "GET ok"], [])


def test_a_request_lost_before_its_effect_is_sent_again(server):
    ended, story, pauses = bind(server, "dropped")
    assert (ended, story.log, len(pauses)) == (BOUND, ["POST dropped", "GET ok", "POST ok"], 1)


def test_a_request_that_takes_effect_after_the_look_is_met_by_the_next_attempt(server):
    ended, story, _ = bind(server, "late")
    assert (ended, story.log) == (BOUND, ["POST late", "GET ok", "POST ok", "GET ok"])
    assert story.pod["spec"]["nodeName"] == "a"


def test_nothing_is_given_back_before_the_pod_could_be_read(server):
    ended, story, pauses = bind(server, "lost", 500, 502, 503, "ok")
    assert (ended, story.log) == (BOUND, ["POST lost", "GET 500", "GET 502", "GET 503", "GET ok"])
    assert len(pauses) == 3


def test_a_pod_that_another_scheduler_has_bound_is_taken(server):
    ended, story, _ = bind(server, node="b")
    assert (ended.ending, story.log) == (Ending.TAKEN, ["POST ok", "GET ok"])
    assert ended.why == "another scheduler has bound the pod to b"


def test_a_pod_that_was_deleted_is_gone(server):
    def delete(story):
        story.pod = None

    ended, story, _ = bind(server, delete)
    assert (ended, story.log) == (Bind(Ending.GONE, "the pod was deleted"), ["POST ok", "GET ok"])


def test_a_pod_that_is_being_deleted_is_gone(server):
    def delete(story):
        story.pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    ended, story, _ = bind(server, delete)
    assert (ended, story.log) == (Bind(Ending.GONE, "the pod is being deleted"), ["POST ok", "GET ok"])


def test_another_pod_of_the_same_name_is_left_alone(server):
    ended, story, _ = bind(server, uid="uid-2")
    assert (ended, story.log) == (Bind(Ending.GONE, "another pod has taken the name"), ["POST ok", "GET ok"])
    assert story.pod["spec"] == {}


def test_a_conflict_that_was_only_a_race_is_tried_again(server):
    ended, story, _ = bind(server, 409)
    assert (ended, story.log) == (BOUND, ["POST 409", "GET ok", "POST ok"])


def test_a_busy_server_is_left_alone_for_as_long_as_it_says(server):
    ended, story, pauses = bind(server, 429)
    assert (ended, story.log, pauses) == (BOUND, ["POST 429", "GET ok", "POST ok"], [7.0])


@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_refusal_is_not_repeated(server, status):
    ended, story, pauses = bind(server, status)
    assert (ended.ending, story.log, pauses) == (Ending.FAILED, [f"POST {status}", "GET ok"], [])


def test_a_right_that_was_withdrawn_after_a_lost_answer_does_not_hide_its_effect(server):
    ended, story, _ = bind(server, "late", "ok", 403)
    assert (ended, story.log) == (BOUND, ["POST late", "GET ok", "POST 403", "GET ok"])


def test_it_gives_up_after_a_while_and_the_pod_waits_as_before(server):
    ended, story, pauses = bind(server, *[500, "ok"] * 6)
    assert (ended.ending, story.log) == (Ending.FAILED, [*["POST 500", "GET ok"] * 6, "GET ok"])
    assert (len(pauses), story.pod["spec"]) == (6, {})


def test_the_last_attempt_may_take_effect_after_the_look_too(server):
    ended, story, _ = bind(server, *[500, "ok"] * 5, "late")
    assert (ended, story.log[-3:]) == (BOUND, ["POST late", "GET ok", "GET ok"])


def test_nothing_is_asked_when_something_speaks_against_it(server):
    ended, story, _ = bind(server, obstacle=lambda: "node a went away")
    assert (ended, story.log) == (Bind(Ending.FAILED, "node a went away"), [])


def test_a_bind_is_not_repeated_when_something_speaks_against_it_by_then(server):
    against = iter(["", "another replica may lead by now"])
    ended, story, _ = bind(server, 500, obstacle=lambda: next(against))
    assert ended == Bind(Ending.FAILED, "another replica may lead by now")
    assert story.log == ["POST 500", "GET ok", "GET ok"]


def test_what_speaks_against_a_bind_does_not_hide_that_it_has_had_its_effect(server):
    against = iter(["", "node a was filled by another scheduler before the pod was bound to it"])
    ended, story, _ = bind(server, "late", obstacle=lambda: next(against))
    assert (ended, story.log) == (BOUND, ["POST late", "GET ok", "GET ok"])
    assert story.pod["spec"]["nodeName"] == "a"


def test_a_bind_that_is_cancelled_in_the_instant_in_which_its_time_runs_out_ends(virtual, server):
    async def hang(request):
        await asyncio.sleep(3600)

    async def run():
        async with server(hang, timeout_s=1.0) as api:
            task = asyncio.create_task(Binder(api).bind(POD, "a"))
            loop = asyncio.get_running_loop()
            # Later than the client's own timer for the same instant, so that its turn comes first.
            loop.call_at(loop.time() + 0.5, loop.call_at, loop.time() + 1.0, task.cancel)
            await asyncio.wait([task], timeout=60)
            return task.cancelled(), loop.time()

    assert virtual(run()) == (True, 1.0)
