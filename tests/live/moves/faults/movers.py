"""Processes that move pods, each behind a proxy of its own, and killed as an operating system kills."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.live.faults.proxy import NO_FAULT, Proxy, Script
from tests.live.faults.replicas import kubeconfig

LEASE = {"lease_s": 10, "renew_s": 8.0, "retry_s": 1.0}
"""Short, and long enough for a machine on which much else goes on."""
TIMEOUT_S = 6.0
"""What a process under test waits for an answer."""
LOOK_S = 0.3
_MAIN = Path(__file__).with_name("mover_main.py")


class Nursery:
    """Where processes are forked from: one that has imported everything already."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child
        self._one_at_a_time = asyncio.Lock()

    async def fork(self, options: dict[str, Any]) -> int:
        """A new process; returns its id."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        async with self._one_at_a_time:
            self._child.stdin.write(json.dumps(options).encode() + b"\n")
            await self._child.stdin.drain()
            return int(await self._child.stdout.readline())


@asynccontextmanager
async def nursery() -> AsyncIterator[Nursery]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        str(_MAIN),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"},
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert (await child.stdout.readline()).strip() == b"ready"
        yield Nursery(child)
    finally:
        child.stdin.close()
        await child.wait()


class Mover:
    """One process."""

    def __init__(self, pid: int, proxy: Proxy, log: Path, journal: Path) -> None:
        self.proxy = proxy
        self._pid = pid
        self._log = log
        self._journal = journal

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    @property
    def leads(self) -> bool:
        told = [line for line in self.log.splitlines() if line.startswith(("places ", "acts "))]
        return bool(told) and told[-1] in {"places pods now", "acts now"}

    @property
    def journal(self) -> list[dict[str, Any]]:
        """All that it has noted; the last line may be half written."""
        found = []
        for line in self._journal.read_text(encoding="utf-8").splitlines() if self._journal.exists() else ():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    @property
    def lives(self) -> bool:
        if not self._pid:
            return False
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    async def kill(self) -> None:
        """SIGKILL; nothing of it is left afterwards."""
        self.proxy.cut()
        if self.lives:
            self.signal(signal.SIGKILL)
        until_s = time.monotonic() + 30
        while self.lives:
            assert time.monotonic() < until_s, f"{self._pid} outlives SIGKILL"
            await asyncio.sleep(0.01)
        self._pid = 0


class Movers:
    """The processes of one run."""

    def __init__(self, nursery: Nursery, upstream: str, tls: ssl.SSLContext, folder: Path, options: dict[str, Any]):
        self.all: list[Mover] = []
        self._nursery = nursery
        self._upstream = upstream
        self._tls = tls
        self._folder = folder
        self._options = options
        self._proxies: list[Any] = []

    async def start(self, script: Script = lambda _: NO_FAULT) -> Mover:
        running = Proxy(self._upstream, self._tls, script).running()
        proxy = await running.__aenter__()
        self._proxies.append(running)
        place = self._folder / f"mover-{len(self.all)}"
        config, log, journal = (place.with_suffix(f".{what}") for what in ("kubeconfig", "log", "jsonl"))
        config.write_text(kubeconfig(proxy.url), encoding="utf-8")
        about = {"kubeconfig": str(config), "log": str(log), "journal": str(journal), "timeout_s": TIMEOUT_S}
        mover = Mover(await self._nursery.fork({**self._options, **about}), proxy, log, journal)
        self.all.append(mover)
        return mover

    async def end(self) -> None:
        for mover in self.all:
            await mover.kill()
        for running in self._proxies:
            await running.__aexit__(None, None, None)
