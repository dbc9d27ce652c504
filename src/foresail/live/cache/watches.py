"""The watches that together keep a cache true."""

from __future__ import annotations

import asyncio
from collections.abc import Container

from foresail.kube.api.client import Client
from foresail.kube.api.kinds import KINDS
from foresail.kube.api.watch import Watch
from foresail.live.cache.cache import Cache


class Watches:
    """One watch for each kind of object that placing pods looks at."""

    def __init__(self, api: Client, cache: Cache, *, without: Container[str] = ()) -> None:
        """`without` are kinds that this cache can do without."""
        self._watches = {
            name: Watch(api, kind.path, cache.handler(name), optional=kind.optional)
            for name, kind in KINDS.items()
            if kind.kind not in without
        }

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(watch.run(), name=f"watch {name}") for name, watch in self._watches.items()]

    async def ready(self) -> None:
        """Wait until everything is known; a refusal, such as a missing right, is raised."""
        for watch in self._watches.values():
            await watch.ready()

    async def renew(self, *names: str) -> None:
        """List these kinds anew, so that nothing that happened before is still on its way to the cache."""
        await asyncio.gather(*(self._watches[name].renew() for name in names))

    def problem(self) -> str:
        """What keeps the cache from being true; empty if nothing does."""
        for name, watch in self._watches.items():
            if watch.failed is not None:
                return f"{name}: {watch.failed}"
            if not watch.synced.is_set():
                return f"{name}: not listed yet"
        return ""
