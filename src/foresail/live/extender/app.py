"""The extender as a plain ASGI application: paths, errors, figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from foresail.errors import ForesailError, InputError, PolicyError
from foresail.live.extender import protocol
from foresail.live.extender.extender import Extender
from foresail.live.extender.protocol import ExtenderArgs
from foresail.logs import get_logger

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

VERBS = ("filter", "choose", "prioritize", "preempt", "bind")
"""Paths that are asked with POST: kube-scheduler's four verbs, filter in two ways."""

_MOST_BODY_BYTES = 256 << 20
_JSON = [(b"content-type", b"application/json")]
_TEXT = [(b"content-type", b"text/plain; charset=utf-8")]
_BUCKETS_S = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class PodRef(NamedTuple):
    """The pod that a request is about."""

    uid: str
    namespace: str
    name: str


class BindPod(Protocol):
    """Binds a pod to a node, with these GPUs of it; raises a ForesailError if the API server refuses."""

    async def __call__(self, pod: PodRef, node: str, devices: tuple[int, ...]) -> None: ...


class Figures:
    """What /metrics tells."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "foresail_extender_requests",
            "Answered requests by verb and result.",
            ["verb", "result"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "foresail_extender_request_seconds",
            "Time from the whole request to the whole answer.",
            ["verb"],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )
        self.nodes = Gauge("foresail_extender_nodes", "Nodes that the watch knows.", registry=self.registry)
        self.assumed = Gauge(
            "foresail_extender_assumed_pods",
            "Pods that hold room before a watch saw them bound.",
            registry=self.registry,
        )
        self.took_s = {verb: self.seconds.labels(verb) for verb in VERBS}
        self.fine = {verb: self.requests.labels(verb, "ok") for verb in VERBS}

    def failed(self, verb: str, result: str) -> None:
        self.requests.labels(verb, result).inc()


class ExtenderApp:
    """Answers kube-scheduler. A request that cannot be answered gets an error in the answer; the server lives on."""

    def __init__(
        self,
        extender: Extender,
        *,
        is_ready: Callable[[], bool],
        problem: Callable[[], str] = str,
        changed: Callable[[], asyncio.Event] | None = None,
        bind: BindPod | None = None,
        wait_for_node_s: float = 0.5,
        prefix: str = "",
    ) -> None:
        """`problem` says what keeps the picture of the cluster from being true, empty for nothing.

        `changed` gives an event that is set when nodes came; a request that names unknown nodes waits for it.

        `prefix` is the path of the urlPrefix in kube-scheduler's configuration.
        """
        self.figures = Figures()
        self._extender = extender
        self._is_ready = is_ready
        self._problem = problem
        self._changed = changed
        self._bind = bind
        self._wait_for_node_s = wait_for_node_s
        self._prefix = prefix.rstrip("/")
        self._answers: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "filter": partial(self._answer_filter, "filter", answer=extender.filter),
            "choose": partial(self._answer_filter, "choose", answer=extender.choose, at_once=extender.choose_at_once),
            "prioritize": self._prioritize,
            "preempt": self._preempt,
        }
        if bind is not None:
            self._answers["bind"] = self._answer_bind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        verb = path[len(self._prefix) + 1 :] if path.startswith(f"{self._prefix}/") else ""
        answer = self._answers.get(verb)
        if answer is None:
            status, headers, body = self._other(path)
        elif scope["method"] != "POST":
            status, headers, body = 405, _TEXT, b"extender verbs are asked with POST\n"
        else:
            args = await _body(receive)
            if args is None:
                status, headers, body = 413, _TEXT, b"the request is too large; set nodeCacheCapable: true\n"
            else:
                begun_s = time.perf_counter()
                status, headers, body = 200, _JSON, await answer(args)
                self.figures.took_s[verb].observe(time.perf_counter() - begun_s)
        headers = [*headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _other(self, path: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        if path == "/healthz":
            return 200, _TEXT, b"ok\n"
        if path == "/readyz":
            problem = self._problem() or ("" if self._is_ready() else "the watches are not in sync yet")
            return (503, _TEXT, f"{problem}\n".encode()) if problem else (200, _TEXT, b"ok\n")
        if path == "/metrics":
            self.figures.nodes.set(self._extender.node_count)
            self.figures.assumed.set(self._extender.assumed)
            return 200, _TEXT, generate_latest(self.figures.registry)
        known = ", ".join([*(f"{self._prefix}/{verb}" for verb in self._answers), "/healthz", "/readyz", "/metrics"])
        return 404, _TEXT, f"nothing is served at {path}; paths are {known}\n".encode()

    # --- verbs -------------------------------------------------------------------------------------------------------

    async def _answer_filter(
        self,
        verb: str,
        body: bytes,
        *,
        answer: Callable[[ExtenderArgs], bytes],
        at_once: Callable[[ExtenderArgs], bytes | None] = lambda _: None,
    ) -> bytes:
        """The answer to a filter request, `at_once` if that can be, and else after a look at all nodes."""
        try:
            args = protocol.read_args(body)
            self._check_ready()
            found = at_once(args)
            if found is None:
                await self._wait_for_nodes(args)
                found = answer(args)
        except Exception as error:  # noqa: BLE001 - one request's trouble must not end the server
            return protocol.filter_error(self._told(verb, error))
        self.figures.fine[verb].inc()
        return found

    async def _prioritize(self, body: bytes) -> bytes:
        try:
            args = protocol.read_args(body)
            self._check_ready()
            await self._wait_for_nodes(args)
            answer = self._extender.prioritize(args)
        except Exception as error:  # noqa: BLE001 - one request's trouble must not end the server
            # kube-scheduler ignores errors here without a word, so the log is the only place where they show.
            self._told("prioritize", error)
            return b"[]"  # which leaves the choice to the other scores
        self.figures.fine["prioritize"].inc()
        return answer

    async def _preempt(self, body: bytes) -> bytes:
        try:
            self._check_ready()
            answer = self._extender.preempt(protocol.read_preemption(body))
        except Exception as error:  # noqa: BLE001 - one request's trouble must not end the server
            self._told("preempt", error)
            return protocol.preemption_answer({})
        self.figures.fine["preempt"].inc()
        return answer

    async def _answer_bind(self, body: bytes) -> bytes:
        uid = ""
        try:
            self._check_ready()
            args = protocol.read_bind(body)
            uid = args.PodUID
            assert self._bind is not None  # noqa: S101 - the verb is only served with one; this tells the type checker
            devices = self._extender.place(uid, f"{args.PodNamespace}/{args.PodName}", args.Node)
            await self._bind(PodRef(uid, args.PodNamespace, args.PodName), args.Node, devices)
        except Exception as error:  # noqa: BLE001 - one request's trouble must not end the server
            if uid:
                self._extender.release(uid)
            return protocol.bind_answer(self._told("bind", error))
        self.figures.fine["bind"].inc()
        return protocol.bind_answer()

    def _check_ready(self) -> None:
        if not self._is_ready():
            raise InputError("the extender's watches are not in sync yet; kube-scheduler will ask again")

    async def _wait_for_nodes(self, args: ExtenderArgs) -> None:
        """Wait a little for nodes that kube-scheduler's watch told of before ours did."""
        if self._changed is None or self._extender.knows_nodes(args):
            return
        deadline_s = time.monotonic() + self._wait_for_node_s
        while (left_s := deadline_s - time.monotonic()) > 0 and not self._extender.knows_nodes(args):
            try:
                await asyncio.wait_for(self._changed().wait(), left_s)
            except TimeoutError:
                return

    def _told(self, verb: str, error: Exception) -> str:
        """Log and count an error; returns what kube-scheduler is told."""
        result = "policy_error" if isinstance(error, PolicyError) else "refused"
        if isinstance(error, ForesailError):
            get_logger().warning(f"{verb}_refused", error=str(error))
            said = str(error)
        else:
            result = "bug"
            get_logger().error(f"{verb}_failed", exc_info=error)
            said = f"{type(error).__name__}: {error}"
        self.figures.failed(verb, result)
        return said


async def _body(receive: Receive) -> bytes | None:
    """The whole body, empty for one that was cut off; None if it is too large to be one of kube-scheduler's."""
    message = await receive()
    first: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return first
    parts, size = [first], len(first)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part = message.get("body", b"")
        parts.append(part)
        size += len(part)
        if size > _MOST_BODY_BYTES:
            return None
    return b"".join(parts)
