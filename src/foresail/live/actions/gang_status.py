"""How far gangs have come, written into the status of their objects, where their form has one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime

from foresail.core.model import Pod
from foresail.kube.api.client import MERGE, STRATEGIC_MERGE, Client
from foresail.kube.api.errors import ClusterError, Conflict, Forbidden, NotFound
from foresail.kube.api.kinds import KINDS
from foresail.kube.objects.gangs.status import GangFacts, GangStatus, status_patch, wanted_status
from foresail.live.cache.cache import Cache
from foresail.live.cache.gangs import GroupObject, SeenGroup, gang_name, object_of
from foresail.live.cache.listener import Listener
from foresail.live.cache.pods import CachedPod
from foresail.logs import get_logger

_TURN_S = 1.0
"""Members come and are bound one after the other; what becomes of them together is looked at this often."""
_WORDS_S = 10.0
"""How often the words for why a gang waits may change."""
_MOST_TURN = 100
"""Objects that are written in one turn; the others wait for the next."""


class GangStatuses(Listener):
    """Writes for gangs with pods of ours alone, while we lead, and only what the object does not say already.

    What cannot be written is no trouble for the pods: they are told themselves.
    """

    def __init__(
        self,
        api: Client,
        cache: Cache,
        *,
        scheduler_name: str,
        told: Callable[[str], tuple[str, str] | None],
        may_write: Callable[[], bool],
    ) -> None:
        """`told`: reason and message that a waiting pod was told, by its uid."""
        self._api = api
        self._cache = cache
        self._scheduler_name = scheduler_name
        self._told = told
        self._may_write = may_write
        self._changed: dict[str, None] = {}
        self._waiting: dict[str, float] = {}
        """Gangs that are not placed yet to when their words were last looked at."""
        self._sent: dict[str, GangStatus] = {}
        self._refused: set[str] = set()
        """Watches whose objects we may not write to."""

    # --- what the cache tells --------------------------------------------------------------------------------------

    def pod_waits(self, _pod: Pod, cached: CachedPod) -> None:
        self._note(cached)

    def running_changed(self, before: CachedPod | None, now: CachedPod | None) -> None:
        self._note(now or before)

    def gang_changed(self, gang: str) -> None:
        self._changed[gang] = None

    def _note(self, pod: CachedPod | None) -> None:
        if pod is not None and pod.gang is not None and pod.gang.form:
            self._changed[gang_name(pod.gang)] = None

    # --- turns -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_TURN_S)
            if self._may_write():
                await self.turn(time.monotonic())

    async def turn(self, now_s: float) -> int:
        """Write what has changed; returns how many objects were written."""
        due = [gang for gang, last_s in self._waiting.items() if now_s - last_s >= _WORDS_S]
        written = 0
        for gang in dict.fromkeys((*self._changed, *due)):
            self._changed.pop(gang, None)
            written += await self._look(gang, now_s)
            if written >= _MOST_TURN:
                break
        return written

    async def _look(self, gang: str, now_s: float) -> bool:
        members = self._cache.members(gang)
        about = self._object(members)
        seen = None if about is None else self._cache.group(about)
        if about is None or seen is None or seen.watch in self._refused:
            self._waiting.pop(gang, None)
            self._sent.pop(gang, None)
            return False
        facts = self._facts(seen, members)
        if facts.placed >= facts.least:
            self._waiting.pop(gang, None)
        elif now_s - self._waiting.setdefault(gang, -_WORDS_S) < _WORDS_S:
            return False
        elif facts.why:
            self._waiting[gang] = now_s
        wanted = wanted_status(about.form, facts, seen.stated)
        if wanted == seen.stated:
            self._sent.pop(gang, None)
            return False
        if wanted == self._sent.get(gang):
            return False  # its watch has not told of it yet
        self._sent[gang] = wanted
        await self._write(gang, about, seen, wanted)
        return True

    def _object(self, members: list[CachedPod]) -> GroupObject | None:
        """Where the status of a gang stands; None for one that has no pod of ours."""
        ours = (pod.gang for pod in members if pod.scheduler_name == self._scheduler_name)
        gang = next(ours, None)
        return None if gang is None or not gang.form else object_of(gang)

    def _facts(self, seen: SeenGroup, members: list[CachedPod]) -> GangFacts:
        phases = [pod.phase for pod in members]
        told = (self._told(pod.uid) for pod in members if not pod.node and not pod.ended)
        return GangFacts(
            least=seen.min_members,
            members=len(members),
            placed=sum(bool(pod.node) and pod.phase != "Failed" for pod in members),
            running=phases.count("Running"),
            succeeded=phases.count("Succeeded"),
            failed=phases.count("Failed"),
            why=next((message for _, message in filter(None, told)), ""),
        )

    async def _write(self, gang: str, about: GroupObject, seen: SeenGroup, wanted: GangStatus) -> None:
        kind = KINDS[seen.watch]
        patch = status_patch(seen.version, wanted, seen.stated, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        # The uid is a precondition: an object of the same name that came later is another.
        patch["metadata"] = {"uid": seen.uid}
        path = kind.named(about.name, about.namespace, part="status")
        try:
            await self._api.patch(path, patch, content_type=MERGE if wanted.phase else STRATEGIC_MERGE)
        except Forbidden as error:
            self._refused.add(seen.watch)
            get_logger().warning("gang_status_refused", gang=gang, error=str(error))
        except (NotFound, Conflict):
            pass  # it is gone, or its definition has no such part
        except ClusterError as error:
            self._sent.pop(gang, None)
            self._changed[gang] = None
            self._waiting.pop(gang, None)
            get_logger().warning("gang_status_failed", gang=gang, error=str(error))
