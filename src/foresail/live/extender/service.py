"""`foresail extender`: the program that answers kube-scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foresail.core.profile import Profile
from foresail.core.spec import Workload
from foresail.kube.api.client import Client
from foresail.kube.api.connect import Connection
from foresail.kube.api.errors import ClusterError
from foresail.live.actions.binding import Binder, Ending
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.extender.app import BindPod, ExtenderApp, PodRef
from foresail.live.extender.extender import Extender, ExtenderSettings
from foresail.live.program import Announce, Part, Program, connected, run_until_signal
from foresail.live.scheduler.learning import Lessons, warm_up
from foresail.live.serving.server import ServerSettings
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


class _ChangeEvent(Listener):
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


class ExtenderProgram(Program):
    """Answers kube-scheduler from what its own watches tell."""

    def __init__(self, service: Service, api: Client, *, announce: Announce) -> None:
        self._service = service
        self._api = api
        self._news = _ChangeEvent()
        service.profile.seed(service.seed)
        cache = Cache(self._news, scheduler_name=None, devices=service.profile.devices)
        self._lessons = Lessons(cache, service.expected)
        super().__init__(api, cache, announce=announce, server=service.server, without=NOT_WATCHED)

    def parts(self) -> Sequence[Part]:
        return [Part("teach", lambda: self._lessons.repeat(lambda: self._service.profile))]

    def app(self) -> ExtenderApp:
        service = self._service
        return ExtenderApp(
            Extender(self.cache, service.profile, service.extender),
            is_ready=lambda: self.is_known,
            problem=self.watches.problem,
            changed=self._news.next_change,
            bind=binder(self._api, self.cache) if service.extender.binds else None,
            prefix=service.prefix,
        )

    def listens(self, url: str) -> None:
        self.announce(f"listening on {url}{self._service.prefix}")

    def known(self) -> None:
        profile = self._service.profile
        self._lessons.teach(profile)
        # What was learnt knows GPU models by their numbers.
        self._news.on_change = lambda: self._lessons.teach(profile)
        warm_up(self.cache.table, profile)
        get_logger().info("extender_ready", nodes=self.cache.table.count, pods=len(self.cache.pods))


async def run(service: Service, *, announce: Announce) -> None:
    """Serve until SIGINT or SIGTERM. A cluster that refuses what must be read ends it with an error."""
    async with await connected(service.connection, announce) as api:
        await run_until_signal(ExtenderProgram(service, api, announce=announce))


def binder(api: Client, cache: Cache) -> BindPod:
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
