"""Requests to an API server by the standard library alone, none of which takes longer than it may."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from foresail.workloads.supersteps.board import BoardError, StoreTroubleError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LARGEST_ANSWER = 256 * 1024 * 1024
_LARGEST_EVENT = 4 * 1024 * 1024
_LEAST_S = 0.001


@dataclass(frozen=True)
class ApiAccess:
    """Where an API server is, and who we are to it."""

    url: str
    """Scheme, host, port, and a path if there is one; no slash at the end."""
    context: ssl.SSLContext | None
    """None for plain http."""
    authorization: Callable[[], str | None]
    """The header as it is now: tokens are renewed while a job runs. Raises StoreTroubleError if there is none."""
    headers: tuple[tuple[str, str], ...] = ()
    server_name: str | None = None
    """The name in the server's certificate, if it is another than in the URL."""


def in_cluster(server: str = "", authority: Path | None = None, token: Path | None = None) -> ApiAccess:
    """The API server of the pod that we run in, or another one given by its URL."""
    if not server:
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise BoardError(
                "this is no pod ($KUBERNETES_SERVICE_HOST is not set); name an API server: --api-server URL"
            )
        server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    at = urlsplit(server)
    if at.scheme not in {"http", "https"} or not at.hostname:
        raise BoardError(f'--api-server is "{server}"; write a URL such as https://10.0.0.1:6443')
    authority, token = authority or SERVICE_ACCOUNT / "ca.crt", token or SERVICE_ACCOUNT / "token"
    context = None
    if at.scheme == "https":
        try:
            context = ssl.create_default_context(cafile=str(authority) if authority.is_file() else None)
        except (OSError, ValueError) as error:
            raise BoardError(f"{authority}: the certificates of the API server cannot be read ({error})") from error

    def authorization() -> str:
        try:
            return f"Bearer {token.read_text(encoding='ascii').strip()}"
        except (OSError, ValueError) as error:
            raise StoreTroubleError(f"{token}: the token cannot be read ({error})") from error

    return ApiAccess(server.rstrip("/"), context, authorization)


class _Secure(http.client.HTTPSConnection):
    """With a name for the certificate that may be another than the host's."""

    def __init__(self, *, certified: str, context: ssl.SSLContext, **where: Any) -> None:
        super().__init__(context=context, **where)
        self._certified, self._tls = certified, context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._certified)


class PlainApi:
    """One connection to an API server, opened when needed; threads take turns on it."""

    def __init__(self, access: ApiAccess) -> None:
        self.access = access
        self._base = urlsplit(access.url)
        self._connection: http.client.HTTPConnection | None = None
        self._turn = threading.Lock()

    def another(self) -> Self:
        """A connection of its own to the same server."""
        return type(self)(self.access)

    def request(
        self, method: str, path: str, body: Any = None, *, by_s: float, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and JSON of an answer; StoreTroubleError if there is none in time, or one that may be better later."""
        with self.limited(by_s, f"{method} {path}"):
            answer = self._send(method, path, body, content_type, by_s)
            content = answer.read(_LARGEST_ANSWER)
            if answer.status in {401, 403, 429} or answer.status >= 500:
                raise StoreTroubleError(f"{method} {path} at {self.access.url}: {answer.status} {_message(content)}")
            return answer.status, _json(content)

    def watch(self, path: str, by_s: float) -> Watching:
        """A stream of events; this connection is for it alone from now on."""
        with self.limited(by_s, f"watch {path}"):
            answer = self._send("GET", path, None, "application/json", by_s)
            if answer.status != 200:
                raise StoreTroubleError(f"watch {path}: {answer.status} {_message(answer.read(_LARGEST_EVENT))}")
        return Watching(self, answer)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def limited(self, by_s: float, what: str) -> Iterator[None]:
        """Whatever happens inside ends at a time: a server that sends a byte now and then is cut off, too."""
        # A call that nobody awaits any more may still be under way in another thread.
        if not self._turn.acquire(timeout=max(0.0, by_s - time.monotonic())):
            raise StoreTroubleError(f"{what}: another request took all the time")
        try:
            with self._guarded(by_s, what):
                yield
        finally:
            self._turn.release()

    @contextmanager
    def _guarded(self, by_s: float, what: str) -> Iterator[None]:
        left_s = by_s - time.monotonic()
        if left_s <= 0:
            raise StoreTroubleError(f"{what}: no time is left to ask")
        guard = threading.Timer(left_s, self._cut)
        guard.daemon = True
        guard.start()
        try:
            if self._connection is not None and self._connection.sock is not None:
                self._connection.sock.settimeout(max(_LEAST_S, left_s))
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            over = " (time is over)" if time.monotonic() >= by_s else ""
            raise StoreTroubleError(
                f"{what} at {self.access.url}: {str(error) or type(error).__name__}{over}"
            ) from error
        except BaseException:
            # An answer that was not read to its end would be taken for that of the next request.
            self.close()
            raise
        finally:
            guard.cancel()

    def _cut(self) -> None:
        sock: socket.socket | None = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _send(self, method: str, path: str, body: Any, content_type: str, by_s: float) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json", **dict(self.access.headers)}
        authorization = self.access.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        if body is not None:
            headers["Content-Type"] = content_type
        connection = self._connected(by_s)
        connection.request(method, self._base.path + path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def _connected(self, by_s: float) -> http.client.HTTPConnection:
        if self._connection is None or self._connection.sock is None:
            host, left_s = self._base.hostname or "", max(_LEAST_S, by_s - time.monotonic())
            if self.access.context is None:
                self._connection = http.client.HTTPConnection(host, self._base.port, timeout=left_s)
            else:
                certified = self.access.server_name or host
                self._connection = _Secure(
                    certified=certified, context=self.access.context, host=host, port=self._base.port, timeout=left_s
                )
            self._connection.connect()
        return self._connection


class Watching:
    """A stream of events that is read one by one."""

    def __init__(self, api: PlainApi, answer: http.client.HTTPResponse) -> None:
        self._api, self._answer = api, answer

    def next(self, by_s: float) -> dict[str, Any] | None:
        """An event; None if the stream has ended. When time is over, StoreTroubleError: it cannot be read on then."""
        with self._api.limited(by_s, "watch"):
            line = self._answer.readline(_LARGEST_EVENT)
            return _json(line) if line else None

    def close(self) -> None:
        self._api.close()


def _json(content: bytes) -> dict[str, Any]:
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004 - one of several ways of being no answer
    return found


def _message(content: bytes) -> str:
    """What the server says of a refusal."""
    try:
        return str(_json(content).get("message", ""))[:300]
    except (ValueError, RecursionError):
        return content[:100].decode("utf-8", errors="replace")
