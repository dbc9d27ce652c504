"""A thin client of the API server: requests, lists and watches, with one decode a body."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ApiError, ClusterError, Gone, TooManyRequests, Unauthorized, Unreachable, api_error
from foresail.kube.api.retries import BUSY_READS, busy_pause_s
from foresail.kube.api.sessions import JSON, Sessions
from foresail.kube.objects.values import Object as Object  # noqa: PLC0414 - what a client answers with is part of it

Objects = list[Object]
Body = Mapping[str, Any] | bytes

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})
BOOKMARK = "BOOKMARK"

_CONNECT_S = 10.0
_WATCH_GRACE_S = 10.0
"""A watch ends itself after the time asked for; a connection silent for longer than that hangs."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _WatchEvent(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decode_event = msgspec.json.Decoder(_WatchEvent).decode


class Client:
    """Requests to one API server; `async with` opens and closes its connections.

    Reads that meet a busy server (429) wait and try again. Writes are sent once: whether to repeat one that may have
    had its effect is for the caller to decide.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout_s: float = 30.0,
        qps: float = 0.0,
        burst: int = 0,
        connections: int = 256,
        agent: str = "foresail",
    ) -> None:
        """Take a connection; nothing is opened yet.

        timeout_s: how long a request may take in all. qps, burst: at most this many requests a second after this many
        at once; 0 sets no limit. connections: at most this many at a time, watches included. agent: who is noted as
        the manager of what is written.
        """
        self.connection = connection
        self._timeout_s = timeout_s
        # No limit on the whole: if that passes in the instant in which a task is cancelled, aiohttp tells of a time-out
        # and the task goes on as if nobody had cancelled it. asyncio's own limit lets the cancel through.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(_CONNECT_S, timeout_s))
        self._limit = RateLimit(qps, burst) if qps > 0 else None
        self._sessions = Sessions(connection, connections, retire_after_s=timeout_s, agent=agent)

    async def __aenter__(self) -> Self:
        self._sessions.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._sessions.close()

    async def get(self, path: str, **query: object) -> Object:
        return await self._read("GET", path, query)

    async def text(self, path: str, **query: object) -> str:
        """GET something that is no JSON, such as /readyz or a log."""
        received = await self._received("GET", _target(path, query), None, None)
        return received.decode("utf-8", errors="replace")

    async def list(self, path: str, *, page: int = 500, **query: object) -> tuple[Objects, str]:
        """All items, and the version of the whole list to watch from; asked for in pages, as of one moment."""
        items: Objects = []
        token: str | None = None
        while True:
            more = {**query, **({"limit": page} if page else {}), **({"continue": token} if token else {})}
            try:
                answer = await self._read("GET", path, more)
            except Gone:
                if token is None:
                    raise
                # The moment of the first page is no longer kept. In one piece nothing can expire on the way.
                items, token, page = [], None, 0
                continue
            try:
                about = answer["metadata"]
                for item in answer["items"] or ():
                    item["metadata"].pop("managedFields", None)
                    items.append(item)
                version = about["resourceVersion"]
            except (KeyError, TypeError, AttributeError) as error:
                raise ClusterError(f"GET {path}: the answer is no list of objects (lacks {error})") from error
            token = about.get("continue")
            if not token:
                break
        return items, version

    async def post(self, path: str, body: Body, **query: object) -> Object:
        return await self._json("POST", path, query, body)

    async def put(self, path: str, body: Body, **query: object) -> Object:
        return await self._json("PUT", path, query, body)

    async def patch(self, path: str, body: Body, *, content_type: str = STRATEGIC_MERGE, **query: object) -> Object:
        return await self._json("PATCH", path, query, body, content_type)

    async def delete(self, path: str, body: Body | None = None, **query: object) -> Object:
        return await self._json("DELETE", path, query, body)

    async def watch(
        self,
        path: str,
        version: str,
        *,
        timeout_s: float = 300.0,
        on_open: Callable[[], None] | None = None,
        **query: object,
    ) -> AsyncGenerator[tuple[str, Object], None]:
        """Changes after a version, in order, until the server closes; bookmarks carry nothing but a newer version.

        An ERROR event is raised as the error that it names. A line cut short by the server's end is no event: whoever
        asks again from the last version seen gets it whole. `on_open` is called when the server agrees to tell.
        """
        asked = {
            **query,
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": int(timeout_s),
            "allowWatchBookmarks": "true",
        }
        target = _target(path, asked)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=timeout_s + _WATCH_GRACE_S)
        try:
            response = await self._answer("GET", target, None, None, timeout)
            async with response:
                if on_open is not None:
                    on_open()
                async for line in _lines(response.content):
                    yield _event(line, target)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise self._unreachable("GET", target, error) from error

    async def _read(self, method: str, path: str, query: Mapping[str, object]) -> Object:
        tries = BUSY_READS
        while True:
            try:
                return await self._json(method, path, query)
            except TooManyRequests as error:
                tries -= 1
                if not tries:
                    raise
                wait_s = busy_pause_s(error)
            await asyncio.sleep(wait_s)

    async def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: Body | None = None,
        content_type: str = JSON,
    ) -> Object:
        target = _target(path, query) if query else path
        sent = None if body is None else body if isinstance(body, bytes) else _encode(body)
        received = await self._received(method, target, sent, content_type if sent is not None else None)
        try:
            found = _decode(received) if received else {}
        except msgspec.DecodeError as error:
            raise ClusterError(
                f"{method} {target}: {self.connection.url} answered with no JSON ({error}); is it an API server?"
            ) from error
        if not isinstance(found, dict):
            raise ClusterError(f"{method} {target}: the answer is no object but {type(found).__name__}")
        return found

    async def _received(self, method: str, target: str, sent: bytes | None, content_type: str | None) -> bytes:
        """The body of a 2xx answer."""
        try:
            async with asyncio.timeout(None) as limit:
                response = await self._answer(method, target, sent, content_type, self._timeout, limit)
                async with response:
                    return await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise self._unreachable(method, target, error) from error

    async def _answer(
        self,
        method: str,
        target: str,
        sent: bytes | None,
        content_type: str | None,
        timeout: aiohttp.ClientTimeout,
        limit: asyncio.Timeout | None = None,
    ) -> aiohttp.ClientResponse:
        """The response, if it is 2xx; its body is not read yet. `limit` is set to what the request may take in all."""
        if self._limit is not None:
            await self._limit.wait()
        credential = self.connection.credential
        renewed = False
        while True:
            session, headers = await self._sessions.prepared(content_type)
            if limit is not None:
                # From here on: what it takes to get a credential is not the server's time.
                limit.reschedule(asyncio.get_running_loop().time() + self._timeout_s)
            try:
                response = await session.request(
                    method,
                    URL(self.connection.url + target, encoded=True),
                    data=sent,
                    headers=headers,
                    allow_redirects=False,
                    server_hostname=self.connection.server_name,
                    timeout=timeout,
                )
            except (aiohttp.ClientError, OSError):
                raise  # some of which are ValueErrors too
            except ValueError as wrong:
                # Not the network's fault: a token with a line break is no header, an empty name is no server's.
                raise ClusterError(
                    f"{method} {target}: cannot be sent to {self.connection.url} ({wrong}); check the user's token and "
                    f"names, and tls-server-name ({self.connection.source or 'the connection'})"
                ) from wrong
            if response.status < 300:
                return response
            async with response:
                error = _refusal(response, method, target, await response.read())
            if limit is not None:
                limit.reschedule(None)
            # A refused request had no effect, so even a write may be sent again with a new credential.
            if not isinstance(error, Unauthorized) or renewed or not await credential.renew():
                raise error
            renewed = True

    def _unreachable(self, method: str, target: str, error: BaseException) -> Unreachable:
        url = self.connection.url
        source = f" (from {self.connection.source})" if self.connection.source else ""
        return Unreachable(f"{method} {target}: {url}{source} {_why(error, self._timeout_s)}")


class RateLimit:
    """At most so many requests a second, after so many at once."""

    def __init__(self, qps: float, burst: int) -> None:
        self._gap_s = 1.0 / qps
        self._ahead_s = self._gap_s * max(burst - 1, 0)
        self._next_s = float("-inf")

    async def wait(self) -> None:
        now_s = asyncio.get_running_loop().time()
        # The turn is taken before waiting, so those who come meanwhile stand behind us.
        turn_s = max(self._next_s, now_s - self._ahead_s)
        self._next_s = turn_s + self._gap_s
        if turn_s > now_s:
            await asyncio.sleep(turn_s - now_s)


def _target(path: str, query: Mapping[str, object]) -> str:
    said = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in query.items()}
    return f"{path}?{urlencode(said)}" if said else path


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines of a stream, however large; what stands after the last newline is dropped."""
    begun: list[bytes] = []
    async for chunk in content.iter_any():
        first, *lines = chunk.split(b"\n")
        begun.append(first)
        for line in lines:
            yield b"".join(begun)
            begun = [line]


def _event(line: bytes, target: str) -> tuple[str, Object]:
    try:
        event = _decode_event(line)
    except msgspec.DecodeError as error:
        # Only the end of a stream may be cut; in the middle this is no API server's line.
        raise ClusterError(f"GET {target}: a line of the watch is no event ({error}): {line[:80]!r}") from error
    if event.type == "ERROR":
        code = event.object.get("code")
        raise api_error(code if isinstance(code, int) else 500, "GET", target, event.object)
    about = event.object.get("metadata")
    if isinstance(about, dict):
        about.pop("managedFields", None)
    return event.type, event.object


def _refusal(response: aiohttp.ClientResponse, method: str, target: str, received: bytes) -> ApiError:
    try:
        said = _decode(received)
    except msgspec.DecodeError:
        said = None
    if not isinstance(said, dict):
        said = {"message": received[:500].decode("utf-8", errors="replace").strip()}
    after = response.headers.get("Retry-After", "")
    return api_error(response.status, method, target, said, float(after) if after.isdecimal() else None)


def _why(error: BaseException, timeout_s: float) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return (
                f"shows a certificate that is not trusted ({_plain(error.certificate_error)}); "
                "check certificate-authority and tls-server-name of the kubeconfig"
            )
        case aiohttp.ClientConnectorSSLError():
            return f"does not speak TLS with us ({_plain(error)}); check the URL and the client certificate"
        case aiohttp.ClientConnectorDNSError():
            return "has a name that is not known; check the server's name in the kubeconfig and your DNS"
        case aiohttp.ClientConnectorError():
            return f"cannot be connected to ({_plain(error.os_error)}); does the API server run, and is this its port?"
        case asyncio.TimeoutError():
            return f"did not answer in time ({timeout_s:g} s a request); check the network and the API server's load"
        case _:
            return f"broke off ({_plain(error) or type(error).__name__}); did the API server restart?"


def _plain(error: BaseException) -> str:
    # asyncio replaces the system's words by the address, which we say ourselves.
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return str(error)
