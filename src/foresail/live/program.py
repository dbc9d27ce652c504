"""One program on a cluster, whatever it does there: connect, know the cluster, lead, serve, and stop in order.

    connect ──► watches fill the cache ──► known ──► parts run ──► leads, and leads no more ──► finish ──► flush
                server answers from the beginning to the end ───────────────────────────────────────────►

`foresail run`, its `--shadow`, `foresail extender` and `foresail control` are kinds of it: each says which parts it
has and what it does at the turns of this road.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection
from foresail.kube.api.lease import Leader, LeaderSettings
from foresail.live.cache.cache import Cache
from foresail.live.cache.watches import Watches
from foresail.live.serving.health import Check
from foresail.live.serving.server import ServerSettings, end, first_of, listen, on_stop_signals, serve

Announce = Callable[[str], None]
"""Is told what a person at the terminal wants to know."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a program does or depends on, with a name that health and logs know it by."""

    name: str
    run: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Goes on from when the cluster is known until the program ends."""
    ready: Check | None = None
    """What keeps it from doing its work, empty for nothing; such a program is not ready."""
    alive: Check | None = None
    """What has broken it for good, empty for nothing; such a program is of no use and better started anew."""


class Program:
    """The road that all of them take. Kinds override `parts` and what else they have to say."""

    def __init__(
        self,
        api: Client,
        cache: Cache,
        *,
        announce: Announce,
        server: ServerSettings | None = None,
        lease: LeaderSettings | None = None,
        without: Container[str] = (),
    ) -> None:
        """Without `server` nothing is served, without `lease` it leads as soon as the cluster is known. `without` are
        kinds of objects that are not watched.
        """
        self.cache = cache
        self.watches = Watches(api, cache, without=without)
        self.leader = None if lease is None else Leader(api, lease)
        self.announce = announce
        self.is_known = False
        """Whether the cache has heard of the whole cluster, and `known` was told."""
        self._server = server
        self._stop = asyncio.Event()
        self._catching_up: asyncio.Task[None] | None = None

    # --- what kinds say --------------------------------------------------------------------------------------------

    def parts(self) -> Sequence[Part]:
        """What it consists of, beside watches, server and election."""
        raise NotImplementedError

    def app(self) -> Any:
        """The ASGI application that is served; needed with a `server` alone."""
        raise NotImplementedError

    def listens(self, url: str) -> None:
        """The server can be reached now."""
        self.announce(f"health and metrics on {url}")

    def known(self) -> None:
        """The cache knows the cluster; parts are started after this."""

    async def take_over(self) -> None:
        """It is about to lead: find what the last leader has begun. Must not raise."""

    def lead(self, *, leads: bool) -> None:
        """From now on it may act on the cluster, or must not any more."""

    async def finish(self) -> None:
        """It is to stop: carry out what was begun, so that the next leader finds it done."""

    async def flush(self) -> None:
        """Another may lead by now: write what is left to tell."""

    # --- the road --------------------------------------------------------------------------------------------------

    def may_act(self) -> bool:
        """Whether nobody else leads, by the clock of this very moment; to be asked right before each act."""
        return self.leader is None or self.leader.is_sure

    def stop(self) -> None:
        """End in order."""
        self._stop.set()

    async def run(self) -> None:
        """All of it, until `stop` or until something fails that it cannot do without; that error is raised."""
        tasks: list[asyncio.Task[None]] = []
        at = None if self._server is None else listen(self._server)
        try:
            if at is not None and self._server is not None:
                tasks.append(asyncio.create_task(serve(self.app(), at, self._server), name="server"))
                self.listens(self._server.url_of(at))
            tasks += self.watches.start()
            ready = asyncio.create_task(self.watches.ready(), name="first lists")
            try:
                await first_of([ready, *tasks], self._stop)
            finally:
                await end([ready])
            if self._stop.is_set():
                return
            self.known()
            self.is_known = True
            tasks += [asyncio.create_task(part.run(), name=part.name) for part in self.parts() if part.run is not None]
            await self._lead(tasks)
        finally:
            await end(tasks)
            if at is not None:
                at.close()

    async def _lead(self, tasks: list[asyncio.Task[None]]) -> None:
        """Act until told to stop, whenever the lease is ours."""
        campaign = asyncio.create_task(self._campaign(), name="leader")
        try:
            await first_of([campaign, *tasks], self._stop)
            self.lead(leads=False)
            await self.finish()
        finally:
            # The lease is given back only now: what was begun must not meet what the next leader does.
            await end([campaign])
        await self.flush()

    async def _campaign(self) -> None:
        if self.leader is None:
            await self.take_over()
            self.lead(leads=True)
            await asyncio.Event().wait()
        while self.leader is not None:
            await self.leader.run(self._start_leading, self._stop_leading)

    def _start_leading(self) -> None:
        self._catching_up = asyncio.create_task(self._catch_up(), name="catch up")

    async def _catch_up(self) -> None:
        # What the last leader did a moment ago may not have come over our watches yet.
        await self.watches.renew("Node", "Pod")
        await self.take_over()
        self.lead(leads=True)

    def _stop_leading(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()
        self.lead(leads=False)

    # --- health ----------------------------------------------------------------------------------------------------

    def alive(self) -> dict[str, Check]:
        """For `Health`: checks of parts that may break for good."""
        return {part.name: part.alive for part in self.parts() if part.alive is not None}

    def ready(self) -> dict[str, Check]:
        """For `Health`: what keeps the program from doing its work."""
        checks: dict[str, Check] = {"watches": self.watches.problem}
        if self.leader is not None:
            checks["leader"] = self._leader_problem
        return checks | {part.name: part.ready for part in self.parts() if part.ready is not None}

    def _leader_problem(self) -> str:
        failed = None if self.leader is None else self.leader.failed
        return "" if failed is None else str(failed)


async def connected(connection: Connection, announce: Announce) -> Client:
    """A client that has found its server: one that is not there is told at once, with what to check."""
    async with Client(connection) as api:
        version = await api.get("/version")
    announce(f"connected to {connection.url} (Kubernetes {version.get('gitVersion', 'of unknown version')})")
    return Client(connection)


async def run_until_signal(program: Program) -> None:
    """Run a program until it ends, or SIGINT or SIGTERM asks it to end in order."""
    on_stop_signals(program.stop)
    await program.run()
