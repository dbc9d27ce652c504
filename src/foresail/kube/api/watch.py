"""Keep a handler's picture of one kind of object true, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Protocol

from foresail.kube.api.client import BOOKMARK, CHANGES, Client, Object
from foresail.kube.api.discovery import is_served
from foresail.kube.api.errors import ApiError, ClusterError, Forbidden, Gone, NotFound, Unauthorized, Unreachable
from foresail.kube.api.retries import WatchPauses, jittered
from foresail.logs import get_logger

_SELDOM_S = 20.0
_SHORT_S = 1.0
_PATIENCE = 8
_RESUMABLE = frozenset({429, 500, 502, 503})
_REFUSALS = (Unauthorized, Forbidden, NotFound)


class WatchHandler(Protocol):
    """Who is told; called in the event loop, in order."""

    def replace(self, items: list[Object]) -> None:
        """All there are now; what is missing has gone."""

    def apply(self, kind: str, value: Object) -> None:
        """One change: ADDED, MODIFIED or DELETED."""


class Watch:
    """List, then watch; again and again, without losing or reordering a change.

    A watch that ends goes on from the last version seen. Only if the server no longer keeps that version, or says
    something we cannot go on from, everything is listed anew.
    """

    def __init__(
        self,
        api: Client,
        path: str,
        handler: WatchHandler,
        *,
        optional: bool = False,
        page: int = 500,
        timeout_s: float = 300.0,
        **query: Any,
    ) -> None:
        """Take a path such as /api/v1/pods; nothing is asked yet.

        optional: an API that this cluster does not serve counts as an empty one, and is looked for now and then.
        page: items a request of a list. timeout_s: how long one watch may last. query: fieldSelector, labelSelector.
        """
        self.path = path
        self.synced = asyncio.Event()
        """Set once the handler has the whole picture, or an optional API is known to be missing."""
        self.failed: Exception | None = None
        """The last error, until something succeeds again."""
        self.version: str | None = None
        """What the handler has seen; None if the next step is to list."""
        self.lists = 0
        self._api = api
        self._handler = handler
        self._optional = optional
        self._page = page
        self._timeout_s = timeout_s
        self._query = query
        self._pauses = WatchPauses()
        self._settled = asyncio.Event()
        self._refused: type[Exception] | None = None
        self._renewed = asyncio.Event()
        self._turn: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Wait for the first whole picture; a refusal before it (no right, no such API) is raised."""
        await self._settled.wait()
        if not self.synced.is_set() and self.failed is not None:
            raise self.failed

    async def run(self) -> None:
        """Go on until cancelled. Only an error of the handler, which is a bug, ends it."""
        me = asyncio.current_task()
        while True:
            self._turn = asyncio.create_task(self._take_turn())
            try:
                await self._turn
            except asyncio.CancelledError:
                if me is None or me.cancelling():
                    raise
                # Only the turn was broken off, by `renew`.

    async def renew(self) -> None:
        """List anew. Afterwards the handler knows all that had happened when this was called, and maybe more."""
        if self._renewed.is_set():
            self._renewed = asyncio.Event()  # else another waits for the next list, too
        renewed = self._renewed
        self.version = None
        if self._turn is not None:
            self._turn.cancel()
        await renewed.wait()

    async def _take_turn(self) -> None:
        try:
            if self.version is None:
                await self._list()
            wait_s = await self._watch(self.version or "")
        except ClusterError as error:
            wait_s = self._recover(error)
        if wait_s:
            await asyncio.sleep(wait_s)

    async def _list(self) -> None:
        renewed = self._renewed
        try:
            items, version = await self._api.list(self.path, page=self._page, **self._query)
        except Forbidden as error:
            if self._optional and not await is_served(self._api, self.path):
                raise NotFound(404, "GET", self.path, reason="NotFound", message="not served") from error
            raise
        self._handler.replace(items)
        self.version = version
        self.lists += 1
        renewed.set()
        self._succeed()

    async def _watch(self, version: str) -> float:
        """One watch, until it is closed; returns how long to wait before the next."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        quiet = True
        stream = self._api.watch(self.path, version, timeout_s=self._timeout_s, on_open=self._opened, **self._query)
        async with aclosing(stream) as events:
            async for kind, value in events:
                self._take(kind, value)
                if quiet:
                    quiet = False
                    self._pauses.reset()
        if quiet and loop.time() - begun_s < _SHORT_S:
            # A server that closes at once, time and again, must not be asked thousands of times a second.
            return self._pauses.next_s()
        self._pauses.reset()
        return 0.0

    def _take(self, kind: str, value: Object) -> None:
        try:
            version = value["metadata"]["resourceVersion"]
        except (KeyError, TypeError) as error:
            raise ClusterError(f"GET {self.path}: a {kind} event without {error}") from error
        if kind in CHANGES:
            # What was seen already must not come back: it would undo what came after it.
            if not _older(version, self.version):
                self._handler.apply(kind, value)
                self.version = version
        elif kind == BOOKMARK:
            if not _older(version, self.version):
                self.version = version
        else:
            raise ClusterError(f'GET {self.path}: an event of unknown type "{kind}"')

    def _opened(self) -> None:
        self._refused = None
        self._succeed()

    def _succeed(self) -> None:
        self.failed = None
        self.synced.set()
        self._settled.set()

    def _recover(self, error: ClusterError) -> float:
        """Decide where to go on after an error; returns how long to wait before."""
        listing = self.version is None
        if isinstance(error, NotFound) and self._optional:
            if not listing:
                # Perhaps only the watch is not served; the list tells.
                self.version = None
                return 0.0
            self._handler.replace([])
            self._succeed()
            return jittered(_SELDOM_S)
        if isinstance(error, _REFUSALS):
            self._settled.set()
            # Before the first picture it is raised, and told there; the same refusal again is no news.
            if self.synced.is_set() and self._refused is not type(error):
                self._refused = type(error)
                get_logger().warning("watch_refused", path=self.path, error=str(error))
        self.failed = error
        if isinstance(error, Gone) and not listing:
            self.version = None
            return self._pauses.next_s()
        resumable = isinstance(error, Unreachable) or not isinstance(error, ApiError) or error.status in _RESUMABLE
        wait_s = self._pauses.next_s(error)
        # A version that leads nowhere (of a store that was restored from a copy, say) must not be asked for ever.
        if not resumable or (not isinstance(error, Unreachable) and self._pauses.failures > _PATIENCE):
            self.version = None
        return wait_s


def _older(version: str, than: str | None) -> bool:
    """Whether a version is not newer than another; versions of one kind grow."""
    if than is None or not (version.isdecimal() and than.isdecimal()):
        return version == than
    return int(version) <= int(than)
