"""Events: counted up instead of repeated, never in the way, never lost to a short trouble."""

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.live.cluster import make_pod

from foresail.live import events as module
from foresail.live.cache.pods import PodReader
from foresail.live.events import Events, _shortened

PATH = "/apis/events.k8s.io/v1/namespaces/default/events"


def cached(name="p"):
    return PodReader().read(make_pod(name))


class Server:
    """Takes events in; `refusals` are the answers of the first requests."""

    def __init__(self, *refusals):
        self.refusals = list(refusals)
        self.log = []
        self.bodies = []

    async def __call__(self, request):
        body = await request.json()
        answer = self.refusals.pop(0) if self.refusals else 201
        about = body.get("regarding", {}).get("name", "series")
        self.log.append((request.method, about, (body.get("series") or {}).get("count", 1), answer))
        if answer == 201:
            self.bodies.append(body)
            return web.json_response(body)
        return web.json_response({"reason": "Scripted", "message": "no"}, status=answer)


async def settled(events):
    """Once nothing waits to be written any more; time is virtual, so this takes none."""
    while events._waiting:
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)


def lived(virtual, server, story, *refusals):
    """The server's log after a story with events that are being written."""
    told = Server(*refusals)

    async def live():
        async with server(told) as api:
            events = Events(api, instance="here")
            task = asyncio.create_task(events.run())
            await story(events)
            await settled(events)
            task.cancel()
            return events

    return virtual(live()), told


def test_an_event_is_written_as_kubectl_shows_it(virtual, server):
    async def story(events):
        events.add(cached(), "Scheduled", "Binding", "assigned to a")

    events, told = lived(virtual, server, story)
    assert told.log == [("POST", "p", 1, 201)]
    [body] = told.bodies
    assert body["metadata"]["name"].startswith("p.")
    del body["metadata"]["name"], body["eventTime"]
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "reportingController": "foresail.dev/scheduler",
        "reportingInstance": "here",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "uid-p"},
        "note": "assigned to a",
        "type": "Normal",
    }
    assert (events.sent, events.dropped, events.failure) == (1, 0, "")


def test_the_same_event_again_counts_the_first_one_up(virtual, server):
    async def story(events):
        for _ in range(3):
            events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)
        await settled(events)
        events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)
        await settled(events)
        events.add(cached(), "FailedScheduling", "Scheduling", "other words", warning=True)
        events.add(cached("q"), "FailedScheduling", "Scheduling", "no room", warning=True)

    _, told = lived(virtual, server, story)
    assert told.log == [
        ("POST", "p", 3, 201),
        ("PATCH", "series", 4, 201),
        ("POST", "p", 1, 201),
        ("POST", "q", 1, 201),
    ]


def test_a_series_whose_event_has_expired_begins_anew(virtual, server):
    async def story(events):
        events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)
        await settled(events)
        events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)

    _, told = lived(virtual, server, story, 201, 404)
    assert told.log == [("POST", "p", 1, 201), ("PATCH", "series", 2, 404), ("POST", "p", 1, 201)]


def test_after_a_while_a_series_begins_anew(virtual, server, monkeypatch):
    monkeypatch.setattr(module, "_SERIES_LASTS_S", 0.0)

    async def story(events):
        for _ in range(2):
            events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)
            await settled(events)

    _, told = lived(virtual, server, story)
    assert told.log == [("POST", "p", 1, 201)] * 2


@pytest.mark.parametrize("status", [401, 429, 503])
def test_trouble_that_no_event_is_to_blame_for_loses_none(virtual, server, status):
    async def story(events):
        events.add(cached("a"), "Scheduled", "Binding", "to n")
        events.add(cached("b"), "Scheduled", "Binding", "to n")
        await asyncio.sleep(1.5)
        assert str(status) in events.failure

    events, told = lived(virtual, server, story, status, status, status)
    assert told.log == [("POST", "a", 1, status)] * 3 + [("POST", "a", 1, 201), ("POST", "b", 1, 201)]
    assert (events.sent, events.dropped, events.failure) == (2, 0, "")


def test_what_happens_again_during_trouble_is_one_series(virtual, server):
    async def story(events):
        events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)
        await asyncio.sleep(0.5)
        events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)

    _, told = lived(virtual, server, story, 503)
    assert told.log == [("POST", "p", 1, 503), ("POST", "p", 2, 201)]


def test_a_series_that_could_not_be_written_is_not_counted_twice(virtual, server):
    async def story(events):
        for _ in range(2):
            events.add(cached(), "FailedScheduling", "Scheduling", "no room", warning=True)
            await asyncio.sleep(3)

    _, told = lived(virtual, server, story, 201, 503)
    assert told.log == [("POST", "p", 1, 201), ("PATCH", "series", 2, 503), ("PATCH", "series", 2, 201)]


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_an_event_that_is_refused_is_dropped_and_the_next_is_written(virtual, server, status):
    async def story(events):
        events.add(cached("a"), "Scheduled", "Binding", "to n")
        events.add(cached("b"), "Scheduled", "Binding", "to n")

    events, told = lived(virtual, server, story, status)
    assert told.log == [("POST", "a", 1, status), ("POST", "b", 1, 201)]
    assert (events.sent, events.dropped, events.failure) == (1, 1, "")


def test_when_too_many_wait_the_oldest_ordinary_one_goes(virtual, server, monkeypatch):
    monkeypatch.setattr(module, "_MOST_WAITING", 3)

    async def story(events):
        events.add(cached("w1"), "FailedScheduling", "Scheduling", "no", warning=True)
        events.add(cached("n1"), "Scheduled", "Binding", "to n")
        events.add(cached("n2"), "Scheduled", "Binding", "to n")
        events.add(cached("w2"), "FailedScheduling", "Scheduling", "no", warning=True)  # n1 goes
        events.add(cached("w3"), "FailedScheduling", "Scheduling", "no", warning=True)  # n2 goes
        events.add(cached("w4"), "FailedScheduling", "Scheduling", "no", warning=True)  # w1 goes

    events, told = lived(virtual, server, story)
    assert [about for _, about, *_ in told.log] == ["w2", "w3", "w4"]
    assert (events.sent, events.dropped) == (3, 3)


def test_the_end_waits_for_what_is_left_but_not_for_a_server_that_hangs(virtual, server):
    async def live(answer):
        async with server(answer) as api:
            events = Events(api)
            for name in "abc":
                events.add(cached(name), "Scheduled", "Binding", "to n")
            begun_s = asyncio.get_running_loop().time()
            await events.drain(3.0)
            return events.sent, asyncio.get_running_loop().time() - begun_s

    async def hang(_request):
        await asyncio.sleep(3600)

    assert virtual(live(Server())) == (3, 0.0)
    sent, took_s = virtual(live(hang))
    assert (sent, round(took_s)) == (0, 3)


@given(st.text(max_size=1500), st.sampled_from(["", "é" * 600, "節" * 400, "🚀" * 300]))
def test_a_note_is_never_longer_than_kubernetes_takes(text, more):
    note = text + more
    short = _shortened(note)
    assert len(short.encode()) <= 1024
    if len(note.encode()) <= 1024:
        assert short == note
    else:
        assert short.endswith("…")
        assert note.startswith(short[:-1])
        assert len(short.encode()) > 1024 - 4


def test_a_long_pod_name_that_is_cut_still_makes_a_name(virtual, server):
    async def story(events):
        events.add(cached("a" * 199 + "-b" * 20), "Scheduled", "Binding", "to n")

    _, told = lived(virtual, server, story)
    assert told.bodies[0]["metadata"]["name"].startswith("a" * 199 + ".")
