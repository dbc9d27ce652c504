"""An extender as a running program: watches that fill a cache, a server that answers from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from foresail.core.profile import Profile
from foresail.core.spec import Workload
from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ClusterError
from foresail.live.actions.binding import Binder, Ending
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Bystander
from foresail.live.cache.watches import Watches
from foresail.live.extender.app import Bind, ExtenderApp, PodRef
from foresail.live.extender.extender import Extender, ExtenderSettings
from foresail.live.scheduler.learning import Lessons, warm_up
from foresail.live.serving.server import ServerSettings, listen, serve, until_stopped
from foresail.logs import get_logger

NOT_WATCHED = frozenset({"PodDisruptionBudget", "PodGroup"})
"""Kinds that neither filters nor scores look at."""


@dataclass(frozen=True, slots=True)
class Service:
    """All that is needed to run an extender."""

    connection: Connection
    profile: Profile
    server: ServerSettings
    extender: ExtenderSettings
    prefix: str = ""
    expected: Workload | None = None
    """Pods that policies which learn shall expect; None for the pods that the cluster has."""
    seed: int = 42


class _News(Bystander):
    """Listens to the cache and wakes whoever waits for nodes."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.on_change: Callable[[], object] = lambda: None

    def next_change(self) -> asyncio.Event:
        return self._event

    def anything_changed(self) -> None:
        self.on_change()
        self._event.set()
        self._event = asyncio.Event()


async def run(service: Service, on_listening: Callable[[ServerSettings], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM. A cluster that refuses what must be read ends it with an error."""
    at = listen(service.server)
    host, port = at.getsockname()[:2]
    server = replace(service.server, host=host, port=port)
    profile, news = service.profile, _News()
    profile.seed(service.seed)
    cache = Cache(news, scheduler_name=None, devices=profile.devices)
    lessons = Lessons(cache, service.expected)
    async with Client(service.connection) as api:
        try:
            await api.get("/version")  # a server that is not there is told at once, with what to check
        except BaseException:
            at.close()
            raise
        watches = Watches(api, cache, without=NOT_WATCHED)
        synced = asyncio.Event()
        app = ExtenderApp(
            Extender(cache, profile, service.extender),
            is_ready=synced.is_set,
            problem=watches.problem,
            changed=news.next_change,
            bind=binder(api, cache) if service.extender.binds else None,
            prefix=service.prefix,
        )

        async def get_ready() -> None:
            await watches.ready()
            lessons.teach(profile)
            # What was learnt knows GPU models by their numbers.
            news.on_change = lambda: lessons.teach(profile)
            warm_up(cache.table, profile)
            synced.set()
            get_logger().info("extender_ready", nodes=cache.table.count, pods=len(cache.pods))
            await lessons.repeat(lambda: profile)

        tasks = [*watches.start(), asyncio.create_task(get_ready(), name="get ready")]
        tasks.append(asyncio.create_task(serve(app, at, server), name="server"))
        if on_listening is not None:
            on_listening(server)
        try:
            await until_stopped(tasks)
        finally:
            at.close()


def binder(api: Client, cache: Cache) -> Bind:
    """Binds for kube-scheduler, which books the room of a pod anew as soon as it hears of a failure: no request may
    arrive after that.

    It tells the pod's uid and not its version, so that is taken from the cache. A pod that kube-scheduler's watch knew
    of before ours is read first.
    """
    carrier = Binder(api)

    async def bind(pod: PodRef, node: str, devices: tuple[int, ...]) -> None:
        known = cache.pods.get(pod.uid)
        ended = await carrier.bind(pod, node, devices, version=known.version if known is not None else "")
        if ended.ending is not Ending.BOUND:
            raise ClusterError(ended.why)

    return bind
