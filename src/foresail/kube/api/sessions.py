"""Connections to one API server, kept open, that show who we are as of now: tokens and certificates are renewed."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
from aiohttp.connector import AddrInfoType
from multidict import CIMultiDict

from foresail import __version__
from foresail.kube.api.connect import Connection

JSON = "application/json"
_ACCEPTED = f"{JSON}, */*"
"""Logs and the state of the server are plain text."""
_READ_BYTES = 1 << 18


class Sessions:
    """The pool that requests go through; another one takes its place when there is another client certificate."""

    def __init__(self, connection: Connection, most: int, *, retire_after_s: float, agent: str) -> None:
        """At most so many connections at a time; `retire_after_s` is what requests may still take on an old pool.
        `agent` is who the API server notes as the manager of what is written.
        """
        self._connection = connection
        self._agent = f"{agent}/{__version__}"
        self._most = most
        self._retire_after_s = retire_after_s
        self._session: aiohttp.ClientSession | None = None
        self._retiring: list[aiohttp.ClientSession] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._certificates = 0
        self._authorization: str | None = None
        self._headers: dict[str | None, CIMultiDict[str]] = {}

    def open(self) -> None:
        self._certificates = self._connection.credential.certificates
        self._session = self._open()

    async def close(self) -> None:
        sessions = [*self._retiring, *([self._session] if self._session is not None else [])]
        self._session = None
        for session in sessions:
            await session.close()
        self._retiring.clear()

    async def prepared(self, content_type: str | None) -> tuple[aiohttp.ClientSession, CIMultiDict[str]]:
        """The session and the headers for a request, with the credential as it is now."""
        credential = self._connection.credential
        authorization = await credential.authorization()
        if authorization != self._authorization:
            self._authorization = authorization
            self._headers.clear()
        if credential.certificates != self._certificates:
            self._reopen()
        if self._session is None:
            raise RuntimeError("the client is not open; use it inside `async with`")
        headers = self._headers.get(content_type)
        if headers is None:
            headers = self._headers[content_type] = self._make_headers(content_type)
        return self._session, headers

    def _make_headers(self, content_type: str | None) -> CIMultiDict[str]:
        headers = CIMultiDict([("Accept", _ACCEPTED), ("User-Agent", self._agent), *self._connection.headers])
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        if content_type is not None:
            headers["Content-Type"] = content_type
        return headers

    def _open(self) -> aiohttp.ClientSession:
        context = self._connection.context
        connector = aiohttp.TCPConnector(
            limit=self._most,
            ssl=context if context is not None else True,
            keepalive_timeout=60.0,
            socket_factory=_patient_socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            # Bodies are plain: on a cluster's network decompressing costs more than it saves.
            skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_READ_BYTES,
        )

    def _reopen(self) -> None:
        """Show a new certificate: connections opened with the old one get the time to end their requests."""
        self._certificates = self._connection.credential.certificates
        old, self._session = self._session, self._open()
        if old is not None:
            self._retiring.append(old)
            asyncio.get_running_loop().call_later(self._retire_after_s, self._retire, old)

    def _retire(self, session: aiohttp.ClientSession) -> None:
        if session in self._retiring:
            self._retiring.remove(session)
            # Watches on it are cut and go on, on the new one. The task is kept from being forgotten half-way.
            task = asyncio.get_running_loop().create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _patient_socket(address: AddrInfoType) -> socket.socket:
    """A socket that notices within half a minute that the other machine is gone, instead of after two hours."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        # Not every system has all of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
