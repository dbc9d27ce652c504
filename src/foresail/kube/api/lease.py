"""Of several schedulers of one name, one at a time leads; the others wait for its Lease to run out."""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from foresail.errors import OptionError
from foresail.kube.api.client import Client, Object
from foresail.kube.api.errors import ClusterError, Conflict, NotFound
from foresail.kube.api.kinds import LEASE
from foresail.logs import get_logger

_JITTER = 1.2


@dataclass(frozen=True)
class LeaderSettings:
    """How quickly a lost leader is replaced, and how much silence a leader survives."""

    namespace: str = "kube-system"
    name: str = "foresail"
    lease_s: int = 15
    """Others take over after this many seconds without a sign of the leader."""
    renew_s: float = 10.0
    """A leader that could not renew for so long stops by itself, before the others start."""
    retry_s: float = 2.0
    """Between two attempts to take or to renew the Lease."""

    def __post_init__(self) -> None:
        """Refuse times that would allow two leaders."""
        if not self.lease_s > self.renew_s > _JITTER * self.retry_s > 0:
            raise OptionError(
                f"lease_s is {self.lease_s:g}, renew_s {self.renew_s:g}, retry_s {self.retry_s:g}; the lease must be "
                f"longer than the renewal's limit, and that longer than {_JITTER} times the retry"
            )


class Leader:
    """Our part in the election, by the rules of Kubernetes' own components.

    No clock of another machine is trusted: a Lease is over when it has not changed for its whole length on our own
    monotonic clock. Every write names the version it was based on, so of two who try at once, one is refused.
    """

    def __init__(self, api: Client, settings: LeaderSettings | None = None, *, identity: str | None = None) -> None:
        """Take part as `identity`, by default the host's name and something random; nothing is asked yet."""
        self.settings = settings or LeaderSettings()
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.leading = False
        self.failed: Exception | None = None
        """The last error, until something succeeds again."""
        self._api = api
        self._leases = LEASE.within(self.settings.namespace)
        self._path = LEASE.named(self.settings.name, self.settings.namespace)
        self._observed: Object | None = None
        self._observed_s = 0.0
        self._sure_until_s = float("-inf")

    @property
    def holder(self) -> str:
        """Who leads as far as we know; empty if nobody."""
        return _holder(self._observed)

    @property
    def is_sure(self) -> bool:
        """Whether nobody else can lead yet, by the clock of this very moment: a process that was stopped for a while
        wakes up as the leader it was, and acts before it comes to notice.
        """
        return self.leading and time.monotonic() < self._sure_until_s

    async def run(self, on_started: Callable[[], None], on_stopped: Callable[[], None]) -> None:
        """Wait for our turn, lead, and return when the lead is lost; cancelling gives it back to the others.

        `on_stopped` is called before another can start, even if the API server does not answer; it must stop
        everything that writes at once.
        """
        renewed_s = await self._acquire()
        self.leading = True
        get_logger().info("leader_started", lease=self.settings.name, identity=self.identity)
        try:
            on_started()
            await self._renew(renewed_s)
        finally:
            self.leading = False
            get_logger().info("leader_stopped", lease=self.settings.name, identity=self.identity)
            on_stopped()
            await self._release()

    async def _acquire(self) -> float:
        """Try until the Lease is ours; returns when it was asked for, on the loop's clock."""
        loop = asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            if await self._attempt(begun_s + self.settings.renew_s):
                return begun_s
            # Standbys that started together must not ask together for ever.
            await asyncio.sleep(self.settings.retry_s * (1 + _JITTER * random.random()))  # noqa: S311 - no secret

    async def _renew(self, renewed_s: float) -> None:
        """Renew until that has failed for too long, or until another holds the Lease."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self.settings.retry_s, renewed_s + self.settings.renew_s - loop.time()))
            begun_s = loop.time()
            if await self._attempt(renewed_s + self.settings.renew_s):
                # Counted from before the request: others count from when they see its effect, which is later.
                renewed_s = begun_s
            elif self.holder != self.identity or loop.time() >= renewed_s + self.settings.renew_s:
                return

    async def _attempt(self, deadline_s: float) -> bool:
        """Take or renew the Lease once; returns whether it is ours now."""
        # One request that hangs must not use up the time for all the others.
        limit_s = asyncio.get_running_loop().time() + self.settings.renew_s / 2
        begun_s = time.monotonic()
        try:
            async with asyncio.timeout_at(min(limit_s, deadline_s)):
                ours = await self._take_or_renew()
        except Conflict:
            # Another was quicker; look again who it was.
            self._forget_version()
            return False
        except (ClusterError, TimeoutError) as error:
            first = self.failed is None
            self.failed = error if isinstance(error, ClusterError) else ClusterError(f"PUT {self._path}: no answer")
            if first:
                get_logger().warning("lease_failed", lease=self.settings.name, error=str(self.failed))
            self._forget_version()
            return False
        if ours:
            self._sure_until_s = begun_s + self.settings.renew_s
        return ours

    async def _take_or_renew(self) -> bool:
        if not (self._observed is not None and self.holder == self.identity and _version(self._observed)):
            # A leader that knows its own last version need not read it first.
            try:
                self._observe(await self._api.get(self._path))
            except NotFound:
                about = {"name": self.settings.name, "namespace": self.settings.namespace}
                made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about}
                self._observe(await self._api.post(self._leases, {**made, "spec": self._spec({})}))
                self.failed = None
                return True
        found = self._observed or {}
        self.failed = None
        if self.holder not in {"", self.identity} and not self._is_over(found):
            return False
        wanted = {**found, "spec": self._spec(found.get("spec") or {})}
        self._observe(await self._api.put(self._path, wanted))
        return True

    def _observe(self, found: Object) -> None:
        if self._observed is None or _spec_of(self._observed) != _spec_of(found):
            self._observed_s = asyncio.get_running_loop().time()
        self._observed = found

    def _forget_version(self) -> None:
        """Read before the next write; what was observed, and when, stays."""
        if self._observed is not None:
            about = {**self._observed["metadata"], "resourceVersion": ""}
            self._observed = {**self._observed, "metadata": about}

    def _is_over(self, found: Object) -> bool:
        length_s = _spec_of(found).get("leaseDurationSeconds")
        length_s = length_s if isinstance(length_s, int) else self.settings.lease_s
        return asyncio.get_running_loop().time() >= self._observed_s + length_s

    def _spec(self, was: Object) -> Object:
        now = _now()
        ours = was.get("holderIdentity") == self.identity
        changes = int(was.get("leaseTransitions") or 0)
        return {
            **was,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.settings.lease_s,
            "acquireTime": was.get("acquireTime") if ours else now,
            "renewTime": now,
            # A first holder is no change of holders.
            "leaseTransitions": changes if ours or not was else changes + 1,
        }

    async def _release(self) -> None:
        """Let the others start at once; if that fails they wait for the Lease to run out."""
        if self.holder != self.identity:
            return
        with suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(self.settings.retry_s):
                try:
                    await self._give_back()
                except Conflict:
                    # A renewal that was cancelled on its way may have arrived.
                    self._forget_version()
                    await self._give_back()

    async def _give_back(self) -> None:
        if self._observed is None or not _version(self._observed):
            self._observe(await self._api.get(self._path))
        found = self._observed or {}
        if self.holder != self.identity:
            return
        now = _now()
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        self._observe(await self._api.put(self._path, {**found, "spec": {**_spec_of(found), **spec}}))


def _spec_of(lease: Object | None) -> dict[str, Any]:
    return (lease or {}).get("spec") or {}


def _holder(lease: Object | None) -> str:
    return str(_spec_of(lease).get("holderIdentity") or "")


def _version(lease: Object) -> str:
    return str(lease["metadata"].get("resourceVersion") or "")


def _now() -> str:
    """For people who read the Lease; no decision rests on it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
