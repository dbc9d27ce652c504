"""A watch whose server does everything that API servers do."""

from __future__ import annotations

import asyncio
import json

import pytest
import structlog
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foresail.kube.api.errors import Forbidden, Unreachable
from foresail.kube.api.watch import Watch

PATH = "/api/v1/pods"
NAMES = "abcd"
ANSWERS = [429, 500, 503, 504, 410, "abort", "no json"]
ENDS = ["close", "cut", "half line", "garbage", "ERROR 410", "ERROR 500", "ERROR 504", "stay"]


class Picture:
    """A handler that notes all it is told."""

    def __init__(self):
        self.objects = {}
        self.told = []

    def replace(self, items):
        self.told.append(("replace", sorted(item["metadata"]["name"] for item in items)))
        self.objects = {item["metadata"]["name"]: item for item in items}

    def apply(self, kind, value):
        name, version = value["metadata"]["name"], int(value["metadata"]["resourceVersion"])
        self.told.append((kind, name, version))
        if kind == "DELETED":
            del self.objects[name]
        else:
            was = self.objects.get(name)
            assert was is None or int(was["metadata"]["resourceVersion"]) < version
            assert (kind == "ADDED") == (was is None)
            self.objects[name] = value


class Truth:
    """A store of objects with all its past, as etcd has it, and the answers of a server in front of it."""

    def __init__(self):
        self.version = 10
        self.oldest = 0
        self.past = []
        self.objects = {}
        self.changed = asyncio.Event()

    def change(self, name):
        """Make, change or (an upper-case name) delete an object."""
        self.version += 1
        delete, name = name.isupper(), name.lower()
        if delete and name not in self.objects:
            return
        kind = "DELETED" if delete else "MODIFIED" if name in self.objects else "ADDED"
        about = {"name": name, "resourceVersion": str(self.version), "managedFields": [{"manager": "x"}]}
        value = {"metadata": about, "spec": {"step": self.version}}
        self.past.append((self.version, kind, value))
        if delete:
            del self.objects[name]
        else:
            self.objects[name] = value
        self.changed.set()

    def at(self, version):
        found = {}
        for when, kind, value in self.past:
            if when <= version:
                found[value["metadata"]["name"]] = None if kind == "DELETED" else value
        return {name: value for name, value in found.items() if value is not None}

    def seen(self):
        return {name: {"step": value["spec"]["step"]} for name, value in self.objects.items()}

    def list(self, request):
        version, start = self.version, ""
        if token := request.query.get("continue"):
            version, _, start = token.partition(":")
            version = int(version)
        if version < self.oldest:
            return refusal(410)
        names = [name for name in sorted(self.at(version)) if name > start]
        limit = int(request.query.get("limit", 0)) or len(names)
        about = {"resourceVersion": str(version)}
        if len(names) > limit:
            about["continue"] = f"{version}:{names[limit - 1]}"
        items = [self.at(version)[name] for name in names[:limit]]
        return web.json_response({"metadata": about, "items": items})


def refusal(status):
    return web.json_response(
        {"kind": "Status", "code": status, "reason": "Scripted", "message": "as scripted"}, status=status
    )


def line(kind, value):
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


class Script:
    """Answers requests step by step: changes of the truth, and what goes wrong; afterwards all is well."""

    def __init__(self, steps):
        self.truth = Truth()
        self.steps = list(steps)

    async def answer(self, request):
        step = self.steps.pop(0) if self.steps else {}
        for name in step.get("before", ""):
            self.truth.change(name)
        if step.get("compact"):
            self.truth.oldest = self.truth.version
        match step.get("answer"):
            case "abort":
                request.transport.abort()
                return web.Response()
            case "no json":
                return web.Response(text="<html>a proxy's page</html>")
            case int(status):
                return refusal(status)
        if "watch" not in request.query:
            return self.truth.list(request)
        return await self._watch(request, step)

    async def _watch(self, request, step):
        truth, version = self.truth, int(request.query["resourceVersion"])
        assert request.query["allowWatchBookmarks"] == "true"
        assert version > 0
        if version < truth.oldest and step.get("gone") == "status":
            return refusal(410)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        if version < truth.oldest:
            await response.write(line("ERROR", {"kind": "Status", "code": 410}))
            return response
        version -= step.get("repeat", 0)
        written = b"".join(line(kind, value) for when, kind, value in truth.past if when > version)
        version = truth.version
        for name in step.get("during", ""):
            truth.change(name)
        if step.get("bookmark"):
            written += line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
        await self._write(response, written, step.get("chunk", 0))
        end = step.get("end", "stay" if not self.steps else "close")
        later = b"".join(line(kind, value) for when, kind, value in truth.past if when > version)
        match end:
            case "cut":
                await self._write(response, later[: len(later) // 2], 0)
                request.transport.abort()
            case "half line":
                await response.write(later[:-7])
            case "garbage":
                await response.write(b'{"type": "ADDED", "obj\n' + later)
            case "ERROR 410" | "ERROR 500" | "ERROR 504":
                await response.write(line("ERROR", {"kind": "Status", "code": int(end[6:]), "message": "scripted"}))
            case "stay" if not self.steps:
                await self._follow(response, version)
        return response

    async def _write(self, response, data, chunk):
        """In pieces of any size: lines do not keep to them."""
        size = chunk or len(data) or 1
        for start in range(0, len(data), size):
            await response.write(data[start : start + size])

    async def _follow(self, response, version):
        while True:
            for when, kind, value in self.truth.past:
                if when > version:
                    await response.write(line(kind, value))
            version = self.truth.version
            self.truth.changed.clear()
            await self.truth.changed.wait()


async def play(server, steps, *, page=2, more=""):
    """Let a watch live through a script; returns the truth, the picture and the watch."""
    script = Script(steps)
    picture = Picture()
    async with server(script.answer) as api:
        watch = Watch(api, PATH, picture, page=page)
        running = asyncio.create_task(watch.run())
        try:
            async with asyncio.timeout(600):
                while script.steps:
                    await asyncio.sleep(1)
                    assert not running.done(), running.result()
                for name in more:
                    script.truth.change(name)
                    await asyncio.sleep(0.1)
                while {name: value["spec"] for name, value in picture.objects.items()} != script.truth.seen():
                    await asyncio.sleep(1)
                    assert not running.done(), running.result()
            assert not running.done(), running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    return script.truth, picture, watch


changes = st.text(st.sampled_from(NAMES + NAMES.upper()), max_size=5)
steps = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "before": changes,
            "during": changes,
            "compact": st.booleans(),
            "answer": st.sampled_from(ANSWERS),
            "gone": st.sampled_from(["status", "event"]),
            "repeat": st.integers(0, 5),
            "bookmark": st.booleans(),
            "chunk": st.integers(0, 40),
            "end": st.sampled_from(ENDS),
        },
    ),
    max_size=12,
)


@given(steps=steps, more=changes, page=st.sampled_from([1, 2, 500]))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_server_does_the_picture_becomes_the_truth(virtual, server, steps, more, page):
    truth, picture, _ = virtual(play(server, steps, page=page, more=more))
    assert {name: value["spec"] for name, value in picture.objects.items()} == truth.seen()
    assert all("managedFields" not in value["metadata"] for value in picture.objects.values())


def test_a_watch_goes_on_where_it_was_closed_without_a_new_list(virtual, server):
    script = [{"before": "ab"}, {"during": "a"}, {"before": "c"}, {"end": "cut"}]
    _, picture, watch = virtual(play(server, script, more="dB"))
    assert watch.lists == 1
    assert picture.told == [
        ("replace", ["a", "b"]),
        ("MODIFIED", "a", 13),
        ("ADDED", "c", 14),
        ("ADDED", "d", 15),
        ("DELETED", "b", 16),
    ]


@pytest.mark.parametrize("gone", ["status", "event"])
def test_a_version_that_is_gone_leads_to_a_new_list(virtual, server, gone):
    script = [{"before": "ab"}, {"end": "close"}, {"before": "Ac", "compact": True, "gone": gone}]
    _, picture, watch = virtual(play(server, script, more="d"))
    assert watch.lists == 2
    assert picture.told == [("replace", ["a", "b"]), ("replace", ["b", "c"]), ("ADDED", "d", 15)]


def test_a_bookmark_saves_a_new_list_when_the_past_is_thrown_away(virtual, server):
    script = [{"before": "a"}, {"before": "B", "bookmark": True}, {"compact": True}]
    _, picture, watch = virtual(play(server, script, more="b"))
    assert watch.lists == 1
    assert picture.told == [("replace", ["a"]), ("ADDED", "b", 13)]


def test_what_was_seen_is_not_told_again(virtual, server):
    script = [{"before": "a"}, {"during": "aAb"}, {"end": "close"}, {"repeat": 9, "end": "cut"}]
    _, picture, _ = virtual(play(server, script))
    assert picture.told == [
        ("replace", ["a"]),
        ("MODIFIED", "a", 12),
        ("DELETED", "a", 13),
        ("ADDED", "b", 14),
    ]


def test_an_object_larger_than_any_buffer_arrives_whole(virtual, server):
    large = {"metadata": {"name": "a", "resourceVersion": "12"}, "spec": {"text": "x" * 3_000_000}}

    async def answer(request):
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "11"}, "items": []})
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line("ADDED", large))
        await asyncio.sleep(3600)
        return response

    async def story():
        picture = Picture()
        async with server(answer) as api:
            watch = Watch(api, PATH, picture)
            running = asyncio.create_task(watch.run())
            async with asyncio.timeout(60):
                while not picture.objects:
                    await asyncio.sleep(0.01)
            running.cancel()
        return picture.objects["a"]

    assert virtual(story()) == large


def test_a_connection_that_hangs_is_given_up_and_opened_again(virtual, server):
    asked_s = []

    async def answer(request):
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "11"}, "items": []})
        asked_s.append(round(asyncio.get_running_loop().time()))
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(10_000)
        return response

    async def story():
        async with server(answer) as api:
            watch = Watch(api, PATH, Picture(), timeout_s=300)
            running = asyncio.create_task(watch.run())
            async with asyncio.timeout(2000):
                while len(asked_s) < 3:
                    await asyncio.sleep(1)
            running.cancel()
        return asked_s

    first, second, third = virtual(story())
    assert 310 <= second - first <= 312
    assert 310 <= third - second <= 313


def test_a_server_that_closes_at_once_is_not_asked_without_pause(virtual, server):
    asked = []

    async def answer(request):
        asked.append(request.path)
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "11"}, "items": []})
        return web.Response()

    async def story():
        async with server(answer) as api:
            running = asyncio.create_task(Watch(api, PATH, Picture()).run())
            await asyncio.sleep(60)
            running.cancel()

    virtual(story())
    assert 20 < len(asked) < 60


def test_a_refused_right_is_told_and_tried_again(virtual, server):
    async def answer(request):
        return refusal(403)

    async def story():
        async with server(answer) as api:
            watch = Watch(api, PATH, Picture())
            running = asyncio.create_task(watch.run())
            with pytest.raises(Forbidden, match=r'resources: \["pods"\], verbs: \["list"\]'):
                await watch.ready()
            assert not watch.synced.is_set()
            assert not running.done()
            running.cancel()

    virtual(story())


def test_a_right_that_is_taken_away_is_logged_once_and_its_return_is_noticed(virtual, server):
    allowed = asyncio.Event()
    asked = []

    async def answer(request):
        asked.append(request.query.get("watch", "list"))
        if asked[-1] == "list":
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
        if not allowed.is_set():
            return refusal(403)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(3600)
        return response

    async def story():
        async with server(answer) as api:
            watch = Watch(api, PATH, Picture())
            running = asyncio.create_task(watch.run())
            await asyncio.sleep(30)
            assert isinstance(watch.failed, Forbidden)
            allowed.set()
            await asyncio.sleep(10)
            assert watch.failed is None
            running.cancel()

    with structlog.testing.capture_logs() as logged:
        virtual(story())
    assert asked.count("true") > 5
    assert [(one["event"], one["path"]) for one in logged] == [("watch_refused", PATH)]
    assert 'verbs: ["watch"]' in logged[0]["error"]


def test_an_optional_api_counts_as_empty_until_it_is_served(virtual, server):
    served = []

    async def answer(request):
        if not served:
            return refusal(404)
        if "watch" in request.query:
            await asyncio.sleep(10_000)
        items = [{"metadata": {"name": "a", "resourceVersion": "10"}}]
        return web.json_response({"metadata": {"resourceVersion": "11"}, "items": items})

    async def story():
        picture = Picture()
        async with server(answer) as api:
            watch = Watch(api, "/apis/scheduling.x-k8s.io/v1alpha1/podgroups", picture, optional=True)
            running = asyncio.create_task(watch.run())
            await watch.ready()
            assert (picture.told, watch.failed) == ([("replace", [])], None)
            served.append(True)
            await asyncio.sleep(61)
            running.cancel()
        return picture.told

    assert virtual(story()) == [("replace", []), ("replace", ["a"])]


@pytest.mark.parametrize(("resources", "is_served"), [(None, False), (["elasticquotas"], False), (["podgroups"], True)])
def test_what_is_forbidden_and_not_served_is_missing_and_needs_no_right(virtual, server, resources, is_served):
    path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

    async def answer(request):
        if request.path == path:
            return refusal(403)
        assert request.path == path.rpartition("/")[0]
        if resources is None:
            return refusal(404)
        return web.json_response({"resources": [{"name": name} for name in resources]})

    async def story():
        picture = Picture()
        async with server(answer) as api:
            watch = Watch(api, path, picture, optional=True)
            running = asyncio.create_task(watch.run())
            try:
                await watch.ready()
            finally:
                running.cancel()
        return picture.told

    if is_served:
        with pytest.raises(Forbidden):
            virtual(story())
    else:
        assert virtual(story()) == [("replace", [])]


def test_health_tells_of_an_unreachable_server_until_it_is_back(virtual, server):
    async def story():
        script = Script([])
        script.truth.change("a")
        picture = Picture()
        down = [True]

        async def answer(request):
            if down:
                request.transport.abort()
                return web.Response()
            return await script.answer(request)

        async with server(answer) as api:
            watch = Watch(api, PATH, picture)
            running = asyncio.create_task(watch.run())
            await asyncio.sleep(30)
            assert isinstance(watch.failed, Unreachable)
            down.clear()
            # Quiet for half a minute, and yet met within the longest backoff.
            await asyncio.sleep(4)
            assert (watch.failed, picture.told) == (None, [("replace", ["a"])])
            running.cancel()

    virtual(story())


def test_a_bug_in_a_handler_ends_the_watch_loudly(virtual, server):
    class Broken(Picture):
        def replace(self, items):
            raise ZeroDivisionError

    async def story():
        async with server(Script([]).answer) as api:
            with pytest.raises(ZeroDivisionError):
                await Watch(api, PATH, Broken()).run()

    virtual(story())


def test_a_renewed_watch_knows_what_had_happened_though_its_stream_is_silent(virtual, server):
    truth, picture = Truth(), Picture()
    truth.change("a")

    async def answer(request):
        if "watch" in request.query:
            await asyncio.sleep(10_000)
        return truth.list(request)

    async def story():
        async with server(answer) as api:
            watch = Watch(api, PATH, picture)
            running = asyncio.create_task(watch.run())
            await watch.ready()
            truth.change("b")
            await asyncio.sleep(100)
            assert sorted(picture.objects) == ["a"]
            await watch.renew()
            assert (sorted(picture.objects), watch.lists) == (["a", "b"], 2)
            truth.change("c")
            async with asyncio.timeout(100):
                await asyncio.gather(watch.renew(), watch.renew())
            assert (sorted(picture.objects), watch.lists) == (["a", "b", "c"], 3)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()

    virtual(story())
