"""What every story has at hand: a cluster of its own, proxies, schedulers to start, and the judge at the end."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live.faults.judge import Check, settle
from tests.live.faults.proxy import NO_FAULT, Ask, Fault, Script
from tests.live.faults.replicas import Field, Replica, field
from tests.live.faults.world import Run, Truth

from foresail.kube.api.client import Client
from foresail.kube.api.connect import find_connection
from foresail.lab import Lab

_POLL_S = 0.02


@dataclass
class Stage:
    """What a story has at hand."""

    lab: Lab
    run: Run
    truth: Truth
    field: Field
    folder: Path

    @property
    def ours(self) -> str:
        return self.run.name

    async def end(
        self,
        *replicas: Replica,
        judged: Sequence[str] | None = None,
        check: Check | None = None,
        within_s: float = 40.0,
    ) -> None:
        """No more faults: within a while all must be as promised; `check` says what else that is."""
        for proxy in self.field.proxies:
            proxy.is_calm = True
        for name in sorted(self.run.gated):
            await self.run.open_gate(name)
        # What is still on its way can do harm yet.
        await asyncio.gather(*(proxy.delivered() for proxy in self.field.proxies))
        assert all(replica.runs for replica in replicas)
        processes = [replica.process for replica in replicas]
        await settle(self.run, self.truth, processes, judged=judged or [self.ours], check=check, within_s=within_s)
        assert [error for proxy in self.field.proxies for error in proxy.errors] == []
        twice = Counter(bound.uid for proxy in self.field.proxies for bound in proxy.bound)
        assert {uid: count for uid, count in twice.items() if count > 1} == {}


@asynccontextmanager
async def stage(lab: Lab, folder: Path, name: str, seed: int, *, plays_kubelet: bool = False) -> AsyncIterator[Stage]:
    connection = find_connection(lab.kubeconfig)
    tls = ssl.create_default_context(cafile=str(lab.ca))
    tls.load_cert_chain(lab.client_certificate, lab.client_key)
    async with Client(connection) as api:
        run = Run(api, f"{name}-{seed}", random.Random(f"{name} {seed}"))  # noqa: S311 - no secret
        truth = Truth(api, run.name, run.offers, plays_kubelet=plays_kubelet)
        try:
            async with truth.watching(), field(lab.url, tls, truth) as where:
                yield Stage(lab, run, truth, where, folder)
        finally:
            await run.remove()


async def until(condition: Callable[[], object], *, within_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "not within the time given"
        await asyncio.sleep(_POLL_S)


def is_bind(ask: Ask) -> bool:
    return ask.kind == "bind"


def kill_at(
    number: int, *, has_effect: bool, reached: asyncio.Event, counts: Callable[[Ask], bool] = is_bind
) -> Script:
    """Of the requests that count, the one of this number is never answered and later ones do not arrive; `reached`
    tells that it was asked for.
    """
    count = 0

    def script(ask: Ask) -> Fault:
        nonlocal count
        if not counts(ask):
            return NO_FAULT
        count += 1
        if count < number:
            return NO_FAULT
        first = not reached.is_set()
        reached.set()
        return Fault(answer_late_s=3600.0) if first and has_effect else Fault(wait_s=3600.0, drop="before")

    return script
