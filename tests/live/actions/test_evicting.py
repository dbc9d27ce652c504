"""Preemptions carried to a scripted API server, request by request."""

import pytest
from aiohttp import web
from tests.live.cluster import make_cache, make_node, make_pod

from foresail.core.clock import WallClock
from foresail.core.journal import Journal
from foresail.core.preemption import Preemption
from foresail.live.actions.evicting import Evictor
from foresail.live.reports import EventReport

PODS = "/api/v1/namespaces/default/pods"


class Notes:
    """Takes events instead of writing them."""

    def __init__(self):
        self.log = []

    def add(self, pod, reason, action, note, *, warning=False):
        self.log.append((pod.name, reason, action, note, warning))


class Server:
    """Answers with a status for a method and path, 200 for all others; notes the requests by their end.

    A list of statuses is for as many requests, and 200 for later ones. "lost" is answered by hanging up.
    """

    def __init__(self, answers=(), *, gone=(), leaving=()):
        self.answers = {key: list(said) if isinstance(said, list) else said for key, said in dict(answers).items()}
        self.gone = set(gone)
        self.leaving = set(leaving)
        self.log = []
        self.bodies = {}

    async def __call__(self, request):
        key = (request.method, request.path.removeprefix(f"{PODS}/"))
        self.log.append(key)
        if request.method == "GET":
            return self._read(key[1])
        self.bodies[key] = await request.json()
        said = self.answers.get(key, 200)
        status = (said.pop(0) if said else 200) if isinstance(said, list) else said
        if status == "lost":
            request.transport.abort()
            return web.Response()
        return web.json_response({} if status == 200 else {"reason": "Scripted", "message": "no"}, status=status)

    def _read(self, name):
        if name in self.gone:
            return web.json_response({"message": "not found"}, status=404)
        leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if name in self.leaving else {}
        return web.json_response({"metadata": {"name": name, "uid": f"uid-{name}", **leaving}})


def cluster():
    """A node full of victims, one of them leaving already, and a pod that waits."""
    cache, _ = make_cache()
    cache.handler("Node").replace([make_node("a")])
    pods = cache.handler("Pod")
    for name in ("v1", "v2"):
        pods.apply("ADDED", make_pod(name, node="a"))
    pods.apply("ADDED", make_pod("leaving", node="a", deleted=True))
    pods.apply("ADDED", make_pod("high", cpu="3", priority=100))
    return cache


def cleared(virtual, server, answers=(), change=lambda cache: None, wanted=lambda: True, **pods):
    """Whether it was cleared, and what the server and the events saw."""
    told, notes = Server(answers, **pods), Notes()

    async def live():
        cache = cluster()
        victims = tuple(cache.table.placed[f"uid-{name}"] for name in ("v1", "v2", "leaving"))
        pod = cache.pods["uid-high"]
        change(cache)
        journal = Journal(WallClock(), EventReport(cache, notes))
        async with server(told) as api:
            return await Evictor(api, cache, journal).clear(pod, Preemption(0, "a", victims, 0), wanted=wanted)

    return virtual(live()), told, notes.log


def preempted(name):
    return (name, "Preempted", "Preempting", "Preempted by pod uid-high on node a", False)


def test_the_pod_is_nominated_then_each_victim_is_told_and_deleted(virtual, server):
    done, told, notes = cleared(virtual, server)
    assert done
    assert told.log[0] == ("PATCH", "high/status")
    for name in ("v1", "v2"):
        assert told.log.index(("PATCH", f"{name}/status")) < told.log.index(("DELETE", name))
    assert len(told.log) == 5  # nothing about the one that leaves already
    assert told.bodies["PATCH", "high/status"] == {
        "metadata": {"uid": "uid-high"},
        "status": {"nominatedNodeName": "a"},
    }
    disruption = told.bodies["PATCH", "v1/status"]
    assert disruption["status"]["conditions"][0].pop("lastTransitionTime")
    assert disruption == {
        "metadata": {"uid": "uid-v1"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "foresail: preempting to accommodate a higher priority pod",
                }
            ]
        },
    }
    assert told.bodies["DELETE", "v1"] == {"kind": "DeleteOptions", "preconditions": {"uid": "uid-v1"}}
    assert sorted(notes) == [preempted("v1"), preempted("v2")]


@pytest.mark.parametrize(("status", "attempts"), [(403, 1), (404, 1), (500, 6)])
def test_nobody_is_evicted_for_a_pod_that_cannot_be_nominated(virtual, server, status, attempts):
    done, told, notes = cleared(virtual, server, {("PATCH", "high/status"): status})
    assert (done, told.log, notes) == (False, [("PATCH", "high/status")] * attempts, [])


def test_nobody_is_evicted_for_a_pod_whose_name_another_has(virtual, server):
    done, told, notes = cleared(virtual, server, {("PATCH", "high/status"): 409}, gone=["high"])
    assert (done, told.log, notes) == (False, [("PATCH", "high/status"), ("GET", "high")], [])


@pytest.mark.parametrize(("status", "pods"), [(404, {}), (409, {"gone": ["v1"]}), (409, {"leaving": ["v1"]})])
@pytest.mark.parametrize("request_of", [("PATCH", "v1/status"), ("DELETE", "v1")])
def test_a_victim_that_is_gone_or_replaced_or_leaves_is_no_failure(virtual, server, status, pods, request_of):
    done, told, notes = cleared(virtual, server, {request_of: status}, **pods)
    assert (done, notes) == (True, [preempted("v2")])
    assert ("DELETE", "v2") in told.log


@pytest.mark.parametrize("status", [403, 422, 500, 503])
@pytest.mark.parametrize("request_of", [("PATCH", "v1/status"), ("DELETE", "v1")])
def test_a_victim_that_cannot_be_made_to_go_is_told(virtual, server, status, request_of):
    done, _, notes = cleared(virtual, server, {request_of: status})
    assert (done, notes) == (False, [preempted("v2")])


@pytest.mark.parametrize("status", [409, 429, 500, "lost"])
@pytest.mark.parametrize("request_of", [("PATCH", "high/status"), ("PATCH", "v1/status"), ("DELETE", "v1")])
def test_what_may_pass_is_asked_again(virtual, server, status, request_of):
    """A conflict may have been a race: the pod would wait for ever for a victim that was taken to be gone."""
    done, told, notes = cleared(virtual, server, {request_of: [status, status]})
    assert (done, sorted(notes)) == (True, [preempted("v1"), preempted("v2")])
    assert told.log.count(request_of) == 3


def test_a_victim_that_went_by_a_request_that_seemed_to_fail_is_told_so(virtual, server):
    done, told, notes = cleared(virtual, server, {("DELETE", "v1"): [500, 404]})
    assert (done, sorted(notes)) == (True, [preempted("v1"), preempted("v2")])
    assert told.log.count(("DELETE", "v1")) == 2


def test_nobody_has_to_go_for_a_pod_that_no_longer_needs_the_node(virtual, server):
    asked = iter([True, True, False])  # the nomination, and one victim's condition
    done, told, notes = cleared(virtual, server, wanted=lambda: next(asked, False))
    assert (done, notes) == (False, [])
    assert told.log == [("PATCH", "high/status"), ("PATCH", "v1/status")]


def test_a_victim_that_the_cache_no_longer_knows_is_not_asked_for(virtual, server):
    done, told, _ = cleared(
        virtual, server, change=lambda cache: cache.handler("Pod").apply("DELETED", make_pod("v1", node="a"))
    )
    assert done
    assert told.log == [("PATCH", "high/status"), ("PATCH", "v2/status"), ("DELETE", "v2")]
