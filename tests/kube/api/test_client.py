"""Requests, their errors and their remedies, against a server that answers as scripted."""

from __future__ import annotations

import asyncio
import json
import ssl

import pytest
from aiohttp import web

from foresail.kube.api.client import Client, RateLimit
from foresail.kube.api.connect import Connection
from foresail.kube.api.credentials import Fixed
from foresail.kube.api.errors import (
    Access,
    ApiError,
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

BINDING = "/api/v1/namespaces/default/pods/a/binding"


def ask(virtual, server, answers, call, **options):
    """Let a client make one call; returns what came of it and the requests that the server got."""
    left, got = list(answers), []

    async def answer(request):
        body = await request.text()
        got.append((request.method, request.path_qs, body))
        given = left.pop(0) if len(left) > 1 else left[0]
        return await given(request) if callable(given) else status(*given)

    async def story():
        async with server(answer, **options) as api:
            try:
                return await call(api)
            except ClusterError as error:
                return error

    return virtual(story()), got


def status(code, body=None, **headers):
    return web.json_response(body if body is not None else {}, status=code, headers=headers)


@pytest.mark.parametrize(
    "wrong", [{"credential": Fixed("Bearer two\nlines")}, {"headers": (("Impersonate-User", "jane\n"),)}]
)
def test_what_cannot_be_a_header_is_told_and_not_sent(virtual, server, wrong):
    error, got = ask(virtual, server, [(200,)], lambda api: api.get("/version"), **wrong)
    assert (type(error), got) == (ClusterError, [])
    assert str(error).startswith("GET /version: cannot be sent to http://127.0.0.1:")
    assert "; check the user's token and names, and tls-server-name (the connection)" in str(error)


def test_every_verb_says_what_it_means_on_the_wire(virtual, server):
    async def call(api):
        await api.get("/api/v1/nodes/n", pretty=True)
        await api.post(BINDING, {"kind": "Binding"}, dryRun="All")
        await api.patch("/api/v1/nodes/n", {"a": 1})
        await api.put("/api/v1/nodes/n", b'{"ready": "made"}')
        return await api.delete("/api/v1/nodes/n")

    found, got = ask(virtual, server, [(200, {"kind": "Status"})], call)
    assert found == {"kind": "Status"}
    assert got == [
        ("GET", "/api/v1/nodes/n?pretty=true", ""),
        ("POST", BINDING + "?dryRun=All", '{"kind":"Binding"}'),
        ("PATCH", "/api/v1/nodes/n", '{"a":1}'),
        ("PUT", "/api/v1/nodes/n", '{"ready": "made"}'),
        ("DELETE", "/api/v1/nodes/n", ""),
    ]


def test_headers_name_us_the_content_and_whom_we_impersonate(virtual, server):
    seen = []

    async def answer(request):
        seen.append({name: request.headers.getall(name) for name in request.headers})
        return status(200)

    async def story():
        impersonated = (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))
        async with server(answer, headers=impersonated) as api:
            await api.patch("/api/v1/nodes/n", {})
            await api.get("/api/v1/nodes/n")

    virtual(story())
    patch, get = seen
    assert patch["Content-Type"] == ["application/strategic-merge-patch+json"]
    assert patch["Impersonate-Group"] == ["a", "b"]
    assert patch["User-Agent"][0].startswith("foresail/")
    assert "Content-Type" not in get
    assert "Authorization" not in get
    assert "Accept-Encoding" not in get


@pytest.mark.parametrize(
    ("code", "kind"),
    [(401, Unauthorized), (403, Forbidden), (404, NotFound), (409, Conflict), (410, Gone), (422, ApiError)],
)
def test_an_answer_other_than_2xx_is_an_error_of_its_kind(virtual, server, code, kind):
    said = {"kind": "Status", "reason": "Why", "message": "what happened"}
    error, got = ask(virtual, server, [(code, said)], lambda api: api.post(BINDING, {}))
    assert type(error) is kind
    assert (error.status, error.reason, error.message, error.method, error.path) == (
        code,
        "Why",
        "what happened",
        "POST",
        BINDING,
    )
    assert len(got) == 1
    assert str(error).startswith(f"POST {BINDING}: {code} Why: what happened")


def test_a_forbidden_verb_names_the_rule_to_paste(virtual, server):
    error, _ = ask(virtual, server, [(403, {"reason": "Forbidden"})], lambda api: api.post(BINDING, {}))
    assert str(error) == (
        f"POST {BINDING}: 403 Forbidden; our ClusterRole (or a Role in namespace default) lacks the rule: "
        '- {apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}'
    )


@pytest.mark.parametrize(
    ("method", "path", "access"),
    [
        ("GET", "/api/v1/nodes", ("list", "", "nodes", "")),
        ("GET", "/api/v1/nodes/n", ("get", "", "nodes", "")),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=4", ("watch", "", "pods", "")),
        ("GET", "/api/v1/namespaces", ("list", "", "namespaces", "")),
        ("GET", "/api/v1/namespaces/x", ("get", "", "namespaces", "")),
        ("PUT", "/api/v1/namespaces/x/finalize", ("update", "", "namespaces/finalize", "")),
        ("PATCH", "/api/v1/namespaces/x/pods/p/status", ("patch", "", "pods/status", "x")),
        ("DELETE", "/api/v1/namespaces/x/pods", ("deletecollection", "", "pods", "x")),
        ("DELETE", "/api/v1/namespaces/x/pods/p", ("delete", "", "pods", "x")),
        ("POST", "/api/v1/namespaces/x/pods/p/eviction", ("create", "", "pods/eviction", "x")),
        ("POST", "/apis/events.k8s.io/v1/namespaces/x/events", ("create", "events.k8s.io", "events", "x")),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/x/leases/l",
            ("update", "coordination.k8s.io", "leases", "x"),
        ),
        ("GET", "/readyz?verbose", ("get", "", "/readyz", "")),
    ],
)
def test_what_a_request_asks_of_rbac(method, path, access):
    assert Access.of(method, path) == access


def test_a_busy_server_is_asked_again_when_it_says_so(virtual, server):
    async def call(api):
        before_s = asyncio.get_running_loop().time()
        await api.get("/api/v1/nodes/n")
        return round(asyncio.get_running_loop().time() - before_s)

    answers = [(429, {}), status_with_retry(3), (200, {})]
    found, got = ask(virtual, server, answers, call)
    assert (found, len(got)) == (1 + 3, 3)


def status_with_retry(seconds):
    async def answer(_request):
        return status(429, {}, **{"Retry-After": str(seconds)})

    return answer


def test_a_server_that_stays_busy_is_told(virtual, server):
    error, got = ask(virtual, server, [status_with_retry(1)], lambda api: api.get("/api/v1/nodes/n"))
    assert isinstance(error, TooManyRequests)
    assert (len(got), error.retry_after_s) == (5, 1.0)


def test_a_write_is_never_repeated(virtual, server):
    error, got = ask(virtual, server, [status_with_retry(1)], lambda api: api.post(BINDING, {}))
    assert isinstance(error, TooManyRequests)
    assert len(got) == 1


def test_a_write_cut_on_its_way_is_not_repeated_either(virtual, server):
    async def abort(request):
        request.transport.abort()
        return web.Response()

    error, got = ask(virtual, server, [abort], lambda api: api.post(BINDING, {}))
    assert isinstance(error, Unreachable)
    assert len(got) == 1


def pages(*given):
    return [
        (code, {"metadata": {"resourceVersion": version, **({"continue": more} if more else {})}, "items": items})
        for code, version, more, items in given
    ]


def thing(name):
    return {"metadata": {"name": name, "managedFields": [{}]}}


def test_a_list_is_read_in_pages_without_managed_fields(virtual, server):
    answers = pages((200, "7", "t 1", [thing("a")]), (200, "7", "", [thing("b")]))
    found, got = ask(virtual, server, answers, lambda api: api.list("/api/v1/pods", page=1, fieldSelector="x=y"))
    assert found == ([{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}], "7")
    assert [path for _, path, _ in got] == [
        "/api/v1/pods?fieldSelector=x%3Dy&limit=1",
        "/api/v1/pods?fieldSelector=x%3Dy&limit=1&continue=t+1",
    ]


def test_a_list_whose_moment_is_gone_starts_over_in_one_piece(virtual, server):
    answers = pages((200, "7", "t", [thing("a")]), (410, "", "", []), (200, "9", "", [thing("b"), thing("c")]))
    found, got = ask(virtual, server, answers, lambda api: api.list("/api/v1/pods", page=1))
    assert ([one["metadata"]["name"] for one in found[0]], found[1]) == (["b", "c"], "9")
    assert got[-1][1] == "/api/v1/pods"


def test_an_empty_list_may_be_null(virtual, server):
    answers = [(200, {"metadata": {"resourceVersion": "7"}, "items": None})]
    assert ask(virtual, server, answers, lambda api: api.list("/api/v1/pods"))[0] == ([], "7")


OF_A_LIST = {"metadata": {"resourceVersion": "1"}}


@pytest.mark.parametrize(
    "body",
    [{}, {"metadata": {}}, OF_A_LIST, *({**OF_A_LIST, "items": [wrong]} for wrong in ({}, None, {"metadata": 3}))],
)
def test_what_is_no_list_is_told(virtual, server, body):
    error, _ = ask(virtual, server, [(200, body)], lambda api: api.list("/api/v1/pods"))
    assert "the answer is no list of objects" in str(error)


def test_a_page_of_a_proxy_is_no_answer(virtual, server):
    async def page(_request):
        return web.Response(text="<html>log in</html>")

    error, _ = ask(virtual, server, [page], lambda api: api.get("/api/v1/pods"))
    assert "answered with no JSON" in str(error)


def test_a_refusal_that_is_no_status_keeps_its_text(virtual, server):
    async def refuse(_request):
        return web.Response(status=400, text="Client sent an HTTP request to an HTTPS server.\n")

    error, _ = ask(virtual, server, [refuse], lambda api: api.get("/api/v1/pods"))
    assert str(error) == "GET /api/v1/pods: 400: Client sent an HTTP request to an HTTPS server."


def test_a_server_that_does_not_answer_is_given_up(virtual, server):
    async def silent(_request):
        await asyncio.sleep(3600)
        return web.Response()

    error, _ = ask(virtual, server, [silent], lambda api: api.get("/api/v1/pods"), timeout_s=5)
    assert isinstance(error, Unreachable)
    assert "did not answer in time (5 s a request)" in str(error)


class Renewable:
    """A credential whose second token is the good one."""

    certificates = 0

    def __init__(self, tokens):
        self.tokens = list(tokens)

    async def authorization(self):
        return self.tokens[0]

    async def renew(self):
        if len(self.tokens) == 1:
            return False
        del self.tokens[0]
        return True


async def only_good(request):
    good = request.headers.get("Authorization") == "good"
    return status(200, {"ok": True}) if good else status(401, {"reason": "Unauthorized"})


def test_an_expired_token_is_renewed_once(virtual, server):
    good = Renewable(["old", "good"])
    found, got = ask(virtual, server, [only_good], lambda api: api.post(BINDING, {}), credential=good)
    assert (found, len(got)) == ({"ok": True}, 2)


def test_a_token_that_stays_bad_is_told_with_the_remedy(virtual, server):
    bad = Renewable(["old", "older", "oldest"])
    error, got = ask(virtual, server, [only_good], lambda api: api.get("/api/v1/pods"), credential=bad)
    assert isinstance(error, Unauthorized)
    assert len(got) == 2
    assert "log in to the cluster again" in str(error)


def test_a_port_where_nobody_listens():
    async def story():
        nobody = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = nobody.sockets[0].getsockname()[1]
        nobody.close()
        await nobody.wait_closed()
        async with Client(Connection(f"http://127.0.0.1:{port}", source="kube.yaml")) as api:
            await api.get("/api/v1/pods")

    with pytest.raises(Unreachable, match=r"\(from kube.yaml\) cannot be connected to \(.*refused.*\); does the API"):
        asyncio.run(story())


def test_a_server_that_speaks_no_tls(virtual, server):
    async def story():
        async with server(only_good) as plain:
            secure = Connection(plain.connection.url.replace("http:", "https:"), context=ssl.create_default_context())
            async with Client(secure) as api:
                await api.get("/api/v1/pods")

    with pytest.raises(Unreachable, match="does not speak TLS"):
        virtual(story())


def test_a_limited_client_keeps_to_its_rate_after_a_burst(virtual):
    async def story():
        limit = RateLimit(qps=10, burst=3)
        loop = asyncio.get_running_loop()
        times = []

        async def one():
            await limit.wait()
            times.append(round(loop.time(), 3))

        await asyncio.gather(*(one() for _ in range(6)))
        await asyncio.sleep(10)
        await asyncio.gather(*(one() for _ in range(4)))
        return times

    assert virtual(story()) == [0, 0, 0, 0.1, 0.2, 0.3, 10.3, 10.3, 10.3, 10.4]


def test_an_error_event_of_a_watch_is_raised_as_what_it_names(virtual, server):
    async def answer(_request):
        event = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
        return web.Response(text=json.dumps(event) + "\n")

    async def call(api):
        return [event async for event in api.watch("/api/v1/pods", "5")]

    error, _ = ask(virtual, server, [answer], call)
    assert isinstance(error, Gone)
    assert error.message == "too old"


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_events_are_whole_however_the_stream_is_cut_into_chunks(virtual, server, size):
    events = [("ADDED", {"metadata": {"name": str(number)}, "text": "x" * number}) for number in range(60)]
    written = "".join(json.dumps({"type": kind, "object": value}) + "\n" for kind, value in events).encode()

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for start in range(0, len(written), size):
            await response.write(written[start : start + size])
        # What the server had no time to end is no event.
        await response.write(b'{"type":"ADDED","object":{"metadata":{}}}')
        return response

    async def call(api):
        return [event async for event in api.watch("/api/v1/pods", "5")]

    found, _ = ask(virtual, server, [answer], call)
    assert found == events
