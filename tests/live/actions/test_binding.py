"""The binder against an API server that follows a script: whole histories of what was asked and how it ended."""

import asyncio
import functools
import json

import pytest
import structlog
from aiohttp import web
from tests.live.cluster import make_cache, make_pod

from foresail.core.spec import PodSpec
from foresail.kube.api.errors import ClusterError
from foresail.kube.objects.values import GPU_DEVICES
from foresail.live.actions.binding import Binder, BindResult, Ending
from foresail.live.cache.pods import CachedPod
from foresail.live.extender import service as extender_service
from foresail.live.extender.app import PodRef

POD = CachedPod(uid="uid-1", namespace="default", name="p", spec=PodSpec(), labels={}, version="1")
PATH = "/api/v1/namespaces/default/pods/p"
BOUND = BindResult(Ending.BOUND)


class Server:
    """One pod, and for each request the next word of the script.

    A word is a status to refuse with, "ok", "lost" (it has its effect, nobody hears), "dropped" (it has none),
    "late" (dropped, but it arrives once the pod has been looked at), "adrift" (dropped, but it arrives when all is
    over), or a function that changes the pod first. Every change gives the pod its next version.
    """

    def __init__(self, *script, uid="uid-1", node="", conditions=()):
        self.pod = {
            "metadata": {"uid": uid, "name": "p", "resourceVersion": "1"},
            "spec": {"nodeName": node} if node else {},
            "status": {"conditions": list(conditions)},
        }
        self.log = []
        self.bodies = []
        self.patches = []
        self._script = list(script)
        self._late = []
        self._adrift = []

    async def __call__(self, request):
        word = self._script.pop(0) if self._script else "ok"
        if callable(word):
            word = word(self) or "ok"
        self.log.append(f"{request.method} {word}")
        arrive = self._read
        if request.method != "GET":
            body = json.loads(await request.read())
            bodies, act = (self.bodies, self._bind) if request.method == "POST" else (self.patches, self._patch)
            bodies.append(body)
            arrive = functools.partial(act, body)
        if word == "dropped":
            return self._hang_up(request)
        if word in {"late", "adrift"}:
            (self._late if word == "late" else self._adrift).append(arrive)
            return self._hang_up(request)
        if isinstance(word, int):
            after = {"Retry-After": "7"} if word == 429 else {}
            return web.json_response({"message": "no", "reason": "", "code": word}, status=word, headers=after)
        answer = arrive()
        return self._hang_up(request) if word == "lost" else answer

    def change(self):
        """The pod becomes another in a way that matters to nobody here."""
        self.pod["metadata"]["resourceVersion"] = str(int(self.pod["metadata"]["resourceVersion"]) + 1)

    def arrive(self):
        """What was adrift arrives; returns the answers."""
        adrift, self._adrift = self._adrift, []
        return [arrive().status for arrive in adrift]

    def _refusal(self, body):
        if self.pod is None:
            return web.json_response({"message": "not found"}, status=404)
        for name in ("uid", "resourceVersion"):
            if body["metadata"][name] != self.pod["metadata"][name]:
                return web.json_response({"message": f"Precondition failed: {name} in precondition"}, status=409)
        return None

    def _bind(self, body):
        if refusal := self._refusal(body):
            return refusal
        if self.pod["spec"].get("nodeName"):
            return web.json_response({"message": "pod p is already assigned to node"}, status=409)
        if self.pod["metadata"].get("deletionTimestamp"):
            return web.json_response({"message": "pod p is being deleted"}, status=409)
        self.pod["spec"]["nodeName"] = body["target"]["name"]
        self.change()
        return web.json_response({"kind": "Status", "status": "Success"}, status=201)

    def _patch(self, body):
        if refusal := self._refusal(body):
            return refusal
        [now] = body["status"]["conditions"]
        before = next(iter(self.pod["status"]["conditions"]), {})
        if before | now != before:
            self.pod["status"]["conditions"] = [before | now]
            self.change()
        return web.json_response(self.pod)

    def _read(self):
        if self.pod is None:
            return web.json_response({"message": "not found"}, status=404)
        answer = web.json_response(self.pod)
        late, self._late = self._late, []
        for arrive in late:
            arrive()
        return answer

    def _hang_up(self, request):
        request.transport.abort()
        return web.Response()


def bind(server, *script, obstacle=lambda: "", devices=(), version="1", **pod):
    """How it ended, the requests, the pauses' lower limits, and where the pod is."""
    story = Server(*script, **pod)
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    async def run():
        async with server(story) as api:
            binder = Binder(api, sleep=sleep)
            return await binder.bind(POD, "a", devices, version=version, obstacle=obstacle)

    return asyncio.run(run()), story, pauses


def test_a_bind_that_succeeds_asks_once_and_names_uid_version_node_and_gpus(server):
    ended, story, pauses = bind(server, devices=(0, 2))
    assert (ended, story.log, pauses) == (BOUND, ["POST ok"], [])
    about = {"name": "p", "namespace": "default", "uid": "uid-1", "resourceVersion": "1"}
    about["annotations"] = {GPU_DEVICES: "0,2"}
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
    assert (ended, story.log) == (BindResult(Ending.GONE, "the pod was deleted"), ["POST ok", "GET ok"])


def test_a_pod_that_is_being_deleted_is_gone(server):
    def delete(story):
        story.pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    ended, story, _ = bind(server, delete)
    assert (ended, story.log) == (BindResult(Ending.GONE, "the pod is being deleted"), ["POST ok", "GET ok"])


def test_another_pod_of_the_same_name_is_left_alone(server):
    ended, story, _ = bind(server, uid="uid-2")
    assert (ended, story.log) == (BindResult(Ending.GONE, "another pod has taken the name"), ["POST ok", "GET ok"])
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
    assert (ended.ending, story.log) == (Ending.FAILED, [*["POST 500", "GET ok"] * 6, "PATCH ok"])
    assert (len(pauses), story.pod["spec"]) == (6, {})


def test_the_last_attempt_may_take_effect_after_the_look_too(server):
    ended, story, _ = bind(server, *[500, "ok"] * 5, "late")
    assert (ended, story.log[-4:]) == (BOUND, ["POST late", "GET ok", "PATCH ok", "GET ok"])


def test_nothing_is_asked_when_something_speaks_against_it(server):
    ended, story, _ = bind(server, obstacle=lambda: "node a went away")
    assert (ended, story.log) == (BindResult(Ending.FAILED, "node a went away"), [])


def test_a_bind_is_not_repeated_when_something_speaks_against_it_by_then(server):
    against = iter(["", "another replica may lead by now"])
    ended, story, _ = bind(server, 500, obstacle=lambda: next(against))
    assert ended == BindResult(Ending.FAILED, "another replica may lead by now")
    assert story.log == ["POST 500", "GET ok", "PATCH ok"]


def test_what_speaks_against_a_bind_does_not_hide_that_it_has_had_its_effect(server):
    against = iter(["", "node a was filled by another scheduler before the pod was bound to it"])
    ended, story, _ = bind(server, "late", obstacle=lambda: next(against))
    assert (ended, story.log) == (BOUND, ["POST late", "GET ok", "PATCH ok", "GET ok"])
    assert (story.pod["spec"]["nodeName"], story.pod["status"]) == ("a", {"conditions": []})


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


# --- pods that change ------------------------------------------------------------------------------------------------


def test_a_pod_that_has_changed_since_it_was_heard_of_is_bound_at_once_as_it_is_now(server):
    ended, story, pauses = bind(server, Server.change)
    assert (ended, story.log, pauses) == (BOUND, ["POST ok", "GET ok", "POST ok"], [])
    assert [body["metadata"]["resourceVersion"] for body in story.bodies] == ["1", "2"]


def test_a_pod_that_changes_all_the_time_is_bound_in_the_end_and_not_asked_about_without_pause(server):
    ended, story, pauses = bind(server, *[Server.change, "ok"] * 11)
    assert (ended, story.log) == (BOUND, [*["POST ok", "GET ok"] * 11, "POST ok"])
    assert len(pauses) == 5
    ended, story, pauses = bind(server, *[Server.change, "ok"] * 12)
    assert (ended.ending, story.log) == (Ending.FAILED, ["POST ok", "GET ok"] * 12)
    assert len(pauses) == 6


def test_a_pod_of_unknown_version_is_read_first(server):
    ended, story, _ = bind(server, version="")
    assert (ended, story.log) == (BOUND, ["GET ok", "POST ok"])
    ended, story, _ = bind(server, version="", node="b")
    assert (ended.ending, story.log) == (Ending.TAKEN, ["GET ok"])
    ended, story, _ = bind(server, 403, version="")
    assert (ended.ending, story.log) == (Ending.FAILED, ["GET 403"])


# --- requests that arrive when nobody waits for them any more --------------------------------------------------------


def probed(story):
    """The pod's condition, without the times."""
    [found] = story.pod["status"]["conditions"]
    assert found["lastProbeTime"]
    return {name: value for name, value in found.items() if not name.endswith("Time")}


def test_what_arrives_after_a_bind_has_failed_has_no_effect(server):
    ended, story, _ = bind(server, "adrift", "ok", 403)
    assert (ended.ending, story.log) == (Ending.FAILED, ["POST adrift", "GET ok", "POST 403", "GET ok", "PATCH ok"])
    assert "403" in ended.why
    assert (story.arrive(), story.pod["spec"]) == ([409], {})
    assert probed(story) == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulerError",
        "message": ended.why,
    }
    assert story.pod["status"]["conditions"][0]["lastTransitionTime"]
    assert story.patches[0]["metadata"] == {"uid": "uid-1", "resourceVersion": "1"}


@pytest.mark.parametrize("word", ["adrift", 500, 502, 503, 504])
def test_a_bind_that_fails_is_called_off_if_its_fate_is_not_known(server, word):
    ended, story, _ = bind(server, word, "ok", 422)
    assert (ended.ending, story.log[-2:]) == (Ending.FAILED, ["GET ok", "PATCH ok"])


def test_a_bind_that_was_refused_each_time_needs_not_be_called_off(server):
    ended, story, _ = bind(server, *[429, "ok", 409, "ok"] * 3)
    assert (ended.ending, story.log) == (Ending.FAILED, ["POST 429", "GET ok", "POST 409", "GET ok"] * 3)


def test_a_change_by_anybody_calls_a_bind_off(server):
    ended, story, _ = bind(server, "adrift", Server.change, 403)
    assert (ended.ending, story.log) == (Ending.FAILED, ["POST adrift", "GET ok", "POST 403", "GET ok"])
    assert (story.arrive(), story.pod["spec"]) == ([409], {})
    ended, story, _ = bind(server, "adrift", "ok", 403, "ok", Server.change)
    assert (ended.ending, story.log[-2:]) == (Ending.FAILED, ["PATCH ok", "GET ok"])
    assert (story.arrive(), story.pod["status"]) == ([409], {"conditions": []})


def test_what_a_pod_was_told_before_stays(server):
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    ended, story, _ = bind(server, 500, "ok", 403, conditions=[told])
    assert (ended.ending, story.log[-1]) == (Ending.FAILED, "PATCH ok")
    assert probed(story) == told
    assert story.patches[0]["status"]["conditions"][0].keys() == {"type", "lastProbeTime"}


def test_a_call_off_is_repeated_until_it_is_answered(server):
    script = ["adrift", "ok", 403, "ok", "dropped", 500, "ok", 503, "ok", 409, "ok", "adrift", "ok"]
    ended, story, pauses = bind(server, *script)
    dropped, refused = ["PATCH dropped", "GET 500", "GET ok"], ["PATCH 503", "GET ok", "PATCH 409", "GET ok"]
    assert story.log[4:] == [*dropped, *refused, "PATCH adrift", "GET ok", "PATCH ok"]
    assert (ended.ending, len(pauses), story.arrive(), story.pod["spec"]) == (Ending.FAILED, 6, [409, 409], {})


def test_a_call_off_whose_answer_was_lost_is_found_by_looking(server):
    ended, story, _ = bind(server, "adrift", "ok", 403, "ok", "lost")
    assert (ended.ending, story.log[4:]) == (Ending.FAILED, ["PATCH lost", "GET ok"])
    assert story.arrive() == [409]


def test_a_pod_that_goes_while_its_bind_is_called_off_is_gone(server):
    def delete(story):
        story.pod = None

    ended, story, _ = bind(server, "adrift", "ok", 403, "ok", delete)
    assert (ended, story.log[4:]) == (BindResult(Ending.GONE, "the pod was deleted"), ["PATCH ok", "GET ok"])


def test_a_bind_that_arrives_before_it_is_called_off_has_had_its_effect(server):
    ended, story, _ = bind(server, "adrift", "ok", 403, "ok", lambda story: story.arrive() and None)
    assert (ended, story.log[4:]) == (BOUND, ["PATCH ok", "GET ok"])
    assert story.pod["status"] == {"conditions": []}


def test_two_in_one_second_are_called_off_both(server):
    """Times are whole seconds, and a patch that says nothing new changes no version."""
    before = None
    for _ in range(3):  # of which two are in one second
        _, story, _ = bind(server, "adrift", "ok", 403, conditions=[before] if before else [])
        assert story.arrive() == [409]
        [before] = story.pod["status"]["conditions"]


@pytest.mark.parametrize("status", [401, 403, 422])
def test_a_bind_that_cannot_be_called_off_fails_as_it_is_and_the_log_tells(server, status):
    with structlog.testing.capture_logs() as logged:
        ended, story, _ = bind(server, "adrift", "ok", 403, "ok", status)
    assert (ended.ending, story.log[4:]) == (Ending.FAILED, [f"PATCH {status}", "GET ok"])
    assert [(one["event"], one["pod"], one["node"]) for one in logged] == [("bind_not_called_off", "default/p", "a")]


def test_a_bind_of_a_pod_that_may_not_be_read_cannot_be_called_off_and_the_log_tells(server):
    with structlog.testing.capture_logs() as logged:
        ended, story, _ = bind(server, "adrift", 403)
    assert (ended.ending, story.log) == (Ending.FAILED, ["POST adrift", "GET 403"])
    assert [(one["event"], one["pod"], one["node"]) for one in logged] == [("bind_not_called_off", "default/p", "a")]


# --- binds for kube-scheduler ----------------------------------------------------------------------------------------


def asked_by_kube_scheduler(server, *script, version):
    story = Server(*script)
    cache, _ = make_cache()
    if version:
        pod = make_pod("p", uid="uid-1")
        pod["metadata"]["resourceVersion"] = version
        cache.put_pod(pod)

    async def run():
        async with server(story) as api:
            await extender_service.binder(api, cache)(PodRef("uid-1", "default", "p"), "a", ())

    return story, run


def test_an_extender_binds_a_pod_of_the_version_in_its_cache_and_reads_one_that_it_does_not_know(server):
    for version, log in (("1", ["POST ok"]), ("", ["GET ok", "POST ok"])):
        story, run = asked_by_kube_scheduler(server, version=version)
        asyncio.run(run())
        assert (story.log, story.pod["spec"]) == (log, {"nodeName": "a"})


@pytest.mark.parametrize("version", ["1", ""])
def test_nothing_arrives_after_kube_scheduler_was_told_that_a_bind_failed(server, version):
    first = [] if version else ["ok"]
    story, run = asked_by_kube_scheduler(server, *first, "adrift", "ok", 403, version=version)
    with pytest.raises(ClusterError, match="403"):
        asyncio.run(run())
    assert (story.arrive(), story.pod["spec"]) == ([409], {})
