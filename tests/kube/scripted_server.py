"""An API server that follows a script, and time that passes only when nobody has anything to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection

LOOPBACK_S = 0.002
"""What was written to a loopback socket can be read within this real time, or nothing was written."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for a timer, move the clock to it."""

    skipped_s = 0.0

    def select(self, timeout=None):
        found = super().select(0)
        if found or timeout == 0:
            return found
        found = super().select(LOOPBACK_S)
        if not found and timeout is not None:
            self.skipped_s += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """Sockets are real, time is not: an hour of backoff takes no time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.skipped_s


def run_virtual(story: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Any], **options: Any):
    """A client of a server whose every answer is given by a function."""
    server = web.Server(answer, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    headers = options.pop("headers", ())
    credential = options.pop("credential", None)
    connection = Connection(f"http://127.0.0.1:{port}", headers=headers)
    if credential is not None:
        connection.credential = credential
    try:
        async with Client(connection, **options) as api:
            yield api
    finally:
        await runner.cleanup()


@pytest.fixture
def virtual():
    """Run a coroutine to its end in virtual time."""
    return run_virtual


@pytest.fixture
def server():
    return serving
