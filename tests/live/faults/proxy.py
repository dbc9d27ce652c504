"""A proxy before the API server that goes wrong as networks and servers do, by a seeded script."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

_PASSED_ON = ("Content-Type", "Retry-After")
_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


_MAY_BE_LATE = frozenset({"bind", "evict", "make", "scale", "record"})


class Ask(NamedTuple):
    """A request as the script sees it."""

    kind: str
    """bind, delete (a pod), evict, make (a pod), mark (a pod is patched), scale, record (a ConfigMap is written),
    volume (it or a claim is written), look (one pod is read), list, watch, condition, lease, event or other.
    """
    path: str
    uid: str = ""
    """Of a bind and a delete: whose."""
    node: str = ""
    """Of a bind: whereto."""
    phase: str = ""
    """Of a record of a move: the phase that is written down, "done" if it is deleted."""


class Bound(NamedTuple):
    """A bind that the API server has carried out."""

    uid: str
    node: str


@dataclass(frozen=True)
class Fault:
    """What happens to one request. Without a status and a drop it is only late."""

    status: int = 0
    """Answer so instead of asking the API server."""
    retry_after_s: int = 0
    wait_s: float = 0.0
    """Before anything else."""
    answer_late_s: float = 0.0
    """After the API server was asked: a time-out for the caller, though the request had its effect."""
    drop: str = ""
    """"before" the API server is asked, "after" it has answered, or "while" the request is still on its way: the
    caller hears nothing after `answer_late_s`, the API server of the request after `wait_s`.
    """
    cut_after_lines: int = -1
    """Of a watch: break the connection in the middle of the line after so many."""
    expire_after_lines: int = -1
    """Of a watch: say that its version has expired after so many lines."""
    line_late_s: float = 0.0
    """Of a watch: every line comes so late."""


NO_FAULT = Fault()


@dataclass
class Storm:
    """Faults at random, as often as the rates say, until `over`."""

    seed: int
    rate: float = 0.25
    timeout_s: float = 1.0
    """What a caller waits for an answer; slower answers come a little after that."""
    late: bool = True
    """Whether binds may arrive seconds after the caller has stopped waiting for an answer."""
    over: bool = False
    count: int = 0
    """How many requests have met a fault."""
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - no secret

    def __call__(self, ask: Ask) -> Fault:
        if self.over or ask.kind == "other" or self._random.random() > self.rate * (3 if ask.kind == "watch" else 1):
            return NO_FAULT
        self.count += 1
        return self._random.choice(self._choices(ask.kind))

    def _choices(self, kind: str) -> list[Fault]:
        soon_s = self._random.uniform(0.0, 0.1)
        refusals = [Fault(429, retry_after_s=self._random.choice([0, 0, 1])), Fault(500), Fault(503)]
        lost = [Fault(drop="before"), Fault(drop="after"), Fault(wait_s=soon_s)]
        if kind == "watch":
            lines = self._random.randrange(12)
            return [
                *refusals,
                Fault(410),
                Fault(drop="before"),
                Fault(cut_after_lines=lines),
                Fault(cut_after_lines=lines),
                Fault(expire_after_lines=lines),
                Fault(line_late_s=soon_s),
                Fault(line_late_s=soon_s, cut_after_lines=lines),
            ]
        if kind == "list":
            return [*refusals, *lost, Fault(410)]
        if kind in {"bind", "delete", "volume", "evict", "make", "mark", "scale", "record"}:
            hung = Fault(answer_late_s=self.timeout_s + 0.2)
            late = [late_delivery(self._random, self.timeout_s)] if kind in _MAY_BE_LATE and self.late else []
            soon = Fault(drop="while", wait_s=soon_s)
            return [*refusals, *lost, Fault(drop="after"), soon, Fault(409), hung, *late]
        if kind in {"condition", "lease"}:
            return [*refusals, *lost, Fault(409)]
        return [*refusals, *lost]


def late_delivery(rng: random.Random, timeout_s: float) -> Fault:
    """A broken connection or a time-out for the caller, who may be through with the matter when the request arrives."""
    return Fault(drop="while", wait_s=rng.uniform(0.1, 4.0), answer_late_s=rng.choice([0.0, timeout_s + 0.2]))


Script = Callable[[Ask], Fault | Awaitable[Fault]]


class Proxy:
    """Passes requests on with the rights of an administrator; `script` says what goes wrong with each."""

    def __init__(self, upstream: str, tls: ssl.SSLContext, script: Script = lambda _: NO_FAULT) -> None:
        self.script = script
        self.url = ""
        self.binds: list[Ask] = []
        """Every bind that was asked for, in order."""
        self.bound: list[Bound] = []
        """Every bind that the API server has answered with 201, whether or not its caller got to know."""
        self.too_late: list[Ask] = []
        """Binds of which their caller had heard nothing, and that the API server has refused when they arrived."""
        self.evicted: list[str] = []
        """Uids of the pods whose deletion the API server has agreed to, whether or not its caller got to know."""
        self.is_cut = False
        """Whether the network is down: every request is dropped and every watch broken."""
        self.is_calm = False
        """Whether the lines of watches that were slow come at once from now on."""
        self._upstream = upstream
        self._tls = tls
        self.errors: list[BaseException] = []
        """Its own mistakes; there must be none."""
        self._watching: dict[int, tuple[web.BaseRequest, aiohttp.ClientResponse]] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._session: aiohttp.ClientSession

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.05)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            try:
                yield self
            finally:
                self.cut()
                for task in self._late:
                    task.cancel()
                await asyncio.gather(*self._late, return_exceptions=True)
                await runner.cleanup()

    def cut(self) -> None:
        """The network goes down, or its caller has died."""
        self.is_cut = True
        self.cut_watches()

    def mend(self) -> None:
        self.is_cut = False

    def cut_watches(self) -> int:
        """Break every watch there is; returns how many."""
        watching, self._watching = self._watching, {}
        for request, answer in watching.values():
            _drop(request)
            answer.close()
        return len(watching)

    async def delivered(self) -> None:
        """Until all that is on its way now has arrived."""
        if self._late:
            await asyncio.wait(self._late)

    # --- requests --------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except ConnectionError:
            return _drop(request)  # the caller has gone
        except Exception as error:
            self.errors.append(error)
            raise

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        ask = _ask(request, body)
        if self.is_cut:
            return _drop(request)
        if ask.kind == "bind":
            self.binds.append(ask)
        said = self.script(ask)
        fault = said if isinstance(said, Fault) else await said
        if fault.drop == "while":
            self._later(self._pass_on_late(ask, request, body, fault.wait_s))
            await asyncio.sleep(fault.answer_late_s)
            return _drop(request)
        if fault.wait_s:
            await asyncio.sleep(fault.wait_s)
        if fault.drop == "before" or self.is_cut:
            return _drop(request)
        return _refusal(fault) if fault.status else await self._passed_on(ask, request, body, fault)

    async def _passed_on(self, ask: Ask, request: web.BaseRequest, body: bytes, fault: Fault) -> web.StreamResponse:
        try:
            if ask.kind == "watch":
                return await self._watch(request, fault)
            # A caller that hangs up must not undo what was passed on.
            status, headers, received = await asyncio.shield(self._later(self._pass_on(ask, request, body)))
        except (aiohttp.ClientError, OSError):
            return _drop(request)  # as the API server did
        if fault.answer_late_s:
            await asyncio.sleep(fault.answer_late_s)
        if fault.drop == "after" or self.is_cut:
            return _drop(request)
        return web.Response(status=status, headers=headers, body=received)

    def _later(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return task

    async def _pass_on_late(self, ask: Ask, request: web.BaseRequest, body: bytes, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        with suppress(aiohttp.ClientError, OSError):
            status, _, _ = await self._pass_on(ask, request, body)
            if ask.kind == "bind" and status == 409:
                self.too_late.append(ask)

    async def _pass_on(self, ask: Ask, request: web.BaseRequest, body: bytes) -> tuple[int, dict[str, str], bytes]:
        async with self._asked(request, body) as answer:
            received = await answer.read()
            if ask.kind == "bind" and answer.status == 201:
                self.bound.append(Bound(ask.uid, ask.node))
            if ask.kind == "delete" and answer.status == 200:
                self.evicted.append(ask.uid)
            headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
            return answer.status, headers, received

    def _asked(self, request: web.BaseRequest, body: bytes) -> Any:
        headers = {name: request.headers[name] for name in ("Accept", "Content-Type") if name in request.headers}
        # aiohttp would ask for a compressed body by itself.
        headers["Accept-Encoding"] = "identity"
        target = URL(self._upstream + request.raw_path, encoded=True)
        timeout = aiohttp.ClientTimeout(total=None)
        return self._session.request(request.method, target, data=body or None, headers=headers, timeout=timeout)

    # --- watches ---------------------------------------------------------------------------------------------------

    async def _watch(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
        async with self._asked(request, b"") as answer:
            if answer.status != 200:
                return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            self._watching[id(request)] = (request, answer)
            try:
                await response.prepare(request)
                await self._lines(answer, response, request, fault)
            except OSError:
                pass  # the caller has gone
            except aiohttp.ClientError:
                _drop(request)
            finally:
                self._watching.pop(id(request), None)
            return response

    async def _lines(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse, request: web.BaseRequest, fault: Fault
    ) -> None:
        count = 0
        async for line in _lines_of(answer):
            if fault.line_late_s and not self.is_calm:
                await asyncio.sleep(fault.line_late_s)
            if count == fault.cut_after_lines:
                await response.write(line[: len(line) // 2])
                _drop(request)
                return
            if count == fault.expire_after_lines:
                gone = {"type": "ERROR", "object": _status(410)}
                await response.write(json.dumps(gone).encode() + b"\n")
                return
            await response.write(line)
            count += 1


async def _lines_of(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in answer.content.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"


def _ask(request: web.BaseRequest, body: bytes) -> Ask:
    path = request.path
    parts = path.strip("/").split("/")
    if path.endswith("/binding"):
        said = json.loads(body)
        return Ask("bind", path, said["metadata"]["uid"], said["target"]["name"])
    if request.method == "DELETE" and parts[-2:-1] == ["pods"]:
        return Ask("delete", path, json.loads(body)["preconditions"]["uid"])
    if request.method != "GET" and "configmaps" in parts:
        return Ask("record", path, phase=_phase(request, body))
    if "watch" in request.query:
        kind = "watch"
    elif "/leases" in path:
        kind = "lease"
    elif "/events" in path:
        kind = "event"
    elif request.method == "GET":
        kind = "look" if parts[-2:-1] == ["pods"] else "list" if len(parts) > 2 else "other"
    else:
        kind = _WRITES.get((request.method, parts[-1]), _WRITES.get((request.method, parts[-2]), "other"))
    return Ask(kind, path)


_WRITES = {
    ("PATCH", "status"): "condition",
    ("PATCH", "persistentvolumes"): "volume",
    ("PATCH", "persistentvolumeclaims"): "volume",
    ("PATCH", "deployments"): "scale",
    ("PATCH", "pods"): "mark",
    ("POST", "eviction"): "evict",
    ("POST", "pods"): "make",
}
"""Kinds of writes, by method and the last part of the path, or else the one before."""


def _phase(request: web.BaseRequest, body: bytes) -> str:
    return "done" if request.method == "DELETE" else str((json.loads(body).get("data") or {}).get("phase", ""))


def _drop(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _status(code: int) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "so says the chaos proxy",
        "reason": _REASONS[code],
        "code": code,
    }


def _refusal(fault: Fault) -> web.Response:
    headers = {"Retry-After": str(fault.retry_after_s)} if fault.status == 429 else {}
    return web.json_response(_status(fault.status), status=fault.status, headers=headers)
