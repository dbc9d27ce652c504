"""The client for programs without an event loop: each call returns when its answer is there."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from foresail.kube.api.client import STRATEGIC_MERGE, Body, Client, Object, Objects
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ClusterError, NotFound

_POLL_S = 0.15
_CONNECTIONS = 8
_AGENT = "by-hand"

T = TypeVar("T")


class BlockingClient:
    """`Client` for callers that wait; open from the start, closed by `with` or `close`.

    Requests run in a thread of their own, so it may be used from any thread, one that runs an event loop included.
    What is written here is nobody's decision about pods, and must not look like a scheduler's: it goes by another name.
    """

    def __init__(self, connection: Connection, *, timeout_s: float = 30.0) -> None:
        self.connection = connection
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-requests", daemon=True)
        self._thread.start()
        self._client = Client(connection, timeout_s=timeout_s, connections=_CONNECTIONS, agent=_AGENT)
        self._wait_for(self._client.__aenter__())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections; a second time does nothing."""
        if self._loop.is_closed():
            return
        self._wait_for(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def get(self, path: str) -> Object:
        return self._wait_for(self._client.get(path))

    def items(self, path: str) -> Objects:
        """What a list holds, asked for in one piece."""
        found: Objects = self.get(path)["items"]
        return found

    def text(self, path: str) -> str:
        """GET something that is no JSON, such as /readyz or a log."""
        return self._wait_for(self._client.text(path))

    def create(self, path: str, body: Body) -> Object:
        return self._wait_for(self._client.post(path, body))

    def patch(self, path: str, body: Body, content_type: str = STRATEGIC_MERGE) -> Object:
        return self._wait_for(self._client.patch(path, body, content_type=content_type))

    def delete(self, path: str, body: Body | None = None) -> Object:
        return self._wait_for(self._client.delete(path, body))

    def wait(self, path: str, until: Callable[[Object], bool], *, within_s: float = 60.0) -> Object:
        """GET until the answer is as wanted; raises with the last answer's status if it never is."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                found: Object | None = self.get(path)
            except NotFound:
                found = None
            if found is not None and until(found):
                return found
            if time.monotonic() > deadline:
                last = "not found" if found is None else json.dumps(found.get("status", {}))[:2000]
                raise ClusterError(f"{path} was not as awaited within {within_s:g} s; last seen: {last}")
            time.sleep(_POLL_S)

    def _wait_for(self, request: Coroutine[Any, Any, T]) -> T:
        answer = asyncio.run_coroutine_threadsafe(request, self._loop)
        done: SimpleQueue[object] = SimpleQueue()
        answer.add_done_callback(done.put)
        try:
            # A future's own waiting loses hold of its lock when Ctrl-C meets it half-way, and raises something else.
            done.get()
            return answer.result()
        except BaseException:
            # Ctrl-C comes to the caller alone; the request must not go on without it.
            answer.cancel()
            raise
