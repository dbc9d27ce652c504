"""The client for callers that wait: the same requests and errors, from any thread, loop or no loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from foresail.kube.api.blocking import BlockingClient
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ClusterError, Conflict, NotFound, Unreachable


class Scripted(BaseHTTPRequestHandler):
    """Answers by path, and counts the objects asked for."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def log_message(self, *_said: object) -> None: ...

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self._answer(200, b"ok")
        elif self.path == "/who":
            self._answer(200, f'{{"agent": "{self.headers["User-Agent"]}"}}'.encode())
        elif self.path == "/list":
            self._answer(200, b'{"items": [{"metadata": {"name": "a"}}]}')
        elif self.path == "/soon":
            Scripted.asked += 1
            said = b'{"status": {"phase": "Running"}}' if Scripted.asked > 2 else b'{"status": {"phase": "Pending"}}'
            self._answer(200, said) if Scripted.asked > 1 else self._answer(404, b'{"message": "not yet"}')
        else:
            self._answer(404, b'{"reason": "NotFound", "message": "no such thing"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(409, b'{"reason": "AlreadyExists", "message": "there is one"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_answers_and_errors_are_those_of_the_client(url):
    with BlockingClient(Connection(url)) as api:
        assert (api.text("/readyz"), api.items("/list")) == ("ok", [{"metadata": {"name": "a"}}])
        with pytest.raises(NotFound, match="GET /nowhere: 404 NotFound: no such thing"):
            api.get("/nowhere")
        with pytest.raises(Conflict, match="AlreadyExists"):
            api.create("/list", {})
        Scripted.asked = 0
        assert api.wait("/soon", lambda found: found["status"]["phase"] == "Running")["status"]["phase"] == "Running"
        with pytest.raises(ClusterError, match=r"/nowhere was not as awaited within 0 s; last seen: not found"):
            api.wait("/nowhere", lambda _found: True, within_s=0)
    api.close()


def test_what_it_writes_does_not_look_like_the_schedulers(url):
    with BlockingClient(Connection(url)) as api:
        assert api.get("/who")["agent"].partition("/")[0] == "by-hand"


def test_it_works_inside_an_event_loop_and_in_several_threads(url):
    async def story() -> str:
        with BlockingClient(Connection(url)) as api:
            return api.text("/readyz")

    assert asyncio.run(story()) == "ok"
    with BlockingClient(Connection(url)) as api, ThreadPoolExecutor(4) as pool:
        assert set(pool.map(api.text, ["/readyz"] * 20)) == {"ok"}


def test_no_thread_is_left_behind_and_nobody_who_answers_is_told_with_the_remedy():
    before = threading.active_count()
    connection = Connection("http://127.0.0.1:1", source="lab mine; see: foresail lab status")
    with (
        BlockingClient(connection) as api,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 \(from lab mine; see: foresail lab status\) cannot be conn"),
    ):
        api.get("/version")
    assert threading.active_count() == before
