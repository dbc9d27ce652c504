"""All resizes that are asked for and under way, node by node, and those of leaders that are gone."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

from foresail.core.clock import Clock
from foresail.core.journal import Journal
from foresail.core.scheduler import Scheduler
from foresail.kube.api.client import Client
from foresail.kube.api.errors import ClusterError
from foresail.live.actions.resizing import PodResizer
from foresail.live.cache.cache import Cache
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.live.resizes.node import Ask, NodeResizes
from foresail.live.resizes.record import KeptBatch, ResizeRecords
from foresail.live.resizes.settings import ResizeSettings
from foresail.live.resizes.tools import Pace, Reserve, ResizeEnd, ResizeTools
from foresail.logs import get_logger


class Resizes(Listener):
    """Resizes of one scheduler's pods.

    What a controller asks for in one turn is one batch for each node; a task a node carries its batches out, one after
    the other. Of what waits for a pod the newest counts.
    """

    def __init__(
        self,
        api: Client,
        cache: Cache,
        clock: Clock,
        journal: Journal,
        records: ResizeRecords,
        *,
        scheduler: Scheduler | None = None,
        settings: ResizeSettings | None = None,
        ended: Callable[[ResizeEnd], None] = lambda _: None,
    ) -> None:
        """`scheduler` places pods, and keeps them from room that growths are about to take. `ended` is told how each
        resize ended.
        """
        self.problem = ""
        """Why no resize can be begun; empty if one can."""
        self.may_act: Callable[[], bool] = lambda: True
        """Whether acts are ours to make, asked right before each."""
        self.tasks: dict[str, asyncio.Task[None]] = {}
        """Those that carry resizes out, by node."""
        self._nodes: dict[str, NodeResizes] = {}
        self._cache = cache
        self._clock = clock
        self._records = records
        settings = settings or ResizeSettings()
        self._tools = ResizeTools(
            resizer=PodResizer(api),
            cache=cache,
            clock=clock,
            journal=journal,
            records=records,
            settings=settings,
            reserve=Reserve(cache, clock, scheduler),
            pace=Pace(settings.most_a_second, clock),
            hand=uuid.uuid4().hex,
            may_act=lambda: self.may_act(),  # noqa: PLW0108 - it is set later
            ended=ended,
        )
        cache.tell(self)

    def __contains__(self, uid: object) -> bool:
        return any(uid in node for node in self._nodes.values())

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        cached = now or before
        node = None if cached is None else self._nodes.get(cached.node)
        if node is not None:
            node.news.set()
        if now is None and cached is not None:
            self._tools.rests.pop(cached.uid, None)

    # --- beginnings ------------------------------------------------------------------------------------------------

    def ask(self, pod: CachedPod, cpu_milli: int, cpu_limit_milli: int | None, by: str = "") -> str:
        """Let a pod have another amount soon; says why that cannot be, empty if it is to be. `start` begins with it."""
        there = self._nodes.get(pod.node)
        if there is not None and there.is_asked(pod.uid, cpu_milli, cpu_limit_milli):
            return ""  # it is under way
        against = self.problem or self._against(pod, cpu_milli, cpu_limit_milli)
        if against:
            return against
        node = self._nodes.setdefault(pod.node, NodeResizes(pod.node, self._tools))
        node.waiting[pod.uid] = Ask(pod, cpu_milli, cpu_limit_milli, by, self._clock.now())
        node.news.set()
        return ""

    def _against(self, pod: CachedPod, cpu_milli: int, cpu_limit_milli: int | None) -> str:
        counted_milli = self._tools.counted_milli(pod.uid)
        if counted_milli is None:
            return "it is not running any more"
        node = self._nodes.get(pod.node)
        least = self._tools.settings.least_change
        is_same_limit = cpu_limit_milli is None or (
            abs(cpu_limit_milli - pod.cpu_limit_milli) < least * pod.cpu_limit_milli
            or cpu_limit_milli == pod.cpu_limit_milli
        )
        is_under_way = node is not None and pod.uid in node
        if not is_under_way and is_same_limit and abs(cpu_milli - counted_milli) < least * counted_milli:
            return f"from {counted_milli} milli-CPU that is a change of less than {100 * least:g} %"
        rest = self._tools.rests.get(pod.uid)
        if rest is not None and rest.until_s <= self._clock.now():
            del self._tools.rests[pod.uid]
        elif rest is not None and (not rest.only_growth or cpu_milli > counted_milli):
            left_s = rest.until_s - self._clock.now()
            return f"it is left alone for {left_s:.0f} s, as its last resize came to nothing: {rest.why}"
        aims = {} if node is None else node.aims()
        promised_milli = sum(
            aim_milli - (self._tools.counted_milli(uid) or aim_milli)
            for uid, aim_milli in aims.items()
            if uid != pod.uid
        )
        return self._tools.against(pod.uid, pod.node, cpu_milli, promised_milli)

    def start(self) -> None:
        """Begin with what was asked for."""
        for name, node in self._nodes.items():
            if node.waiting and name not in self.tasks:
                self._run(node)

    def _run(self, node: NodeResizes, kept: KeptBatch | None = None) -> None:
        self._nodes[node.node] = node
        task = self.tasks[node.node] = asyncio.create_task(node.run(kept), name=f"resizes on {node.node}")
        task.add_done_callback(lambda done: self._ended(node, done))

    def _ended(self, node: NodeResizes, task: asyncio.Task[None]) -> None:
        if self.tasks.get(node.node) is task:  # one that was let go may have a successor
            del self.tasks[node.node]
        if self._nodes.get(node.node) is node and not node.waiting:
            del self._nodes[node.node]

    # --- leaders come and go ---------------------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Go on with what was begun by whoever led before."""
        try:
            found = await self._records.all()
        except ClusterError as error:
            self.problem = f"records of resizes cannot be read: {error}"
            get_logger().warning("resizes_unknown", error=str(error))
            return
        self.problem = ""
        for kept in found:
            name = kept.record.node
            if name not in self.tasks:
                get_logger().info("resizes_taken_over", node=name)
                self._run(NodeResizes(name, self._tools), kept)

    def let_go(self) -> list[asyncio.Task[None]]:
        """Another leads, or nobody: nothing more is done here, and the records say how far it has come. Returns the
        tasks that are being cancelled.
        """
        tasks = list(self.tasks.values())
        for task in tasks:
            task.cancel()
        self._nodes.clear()
        self.tasks.clear()
        return tasks
