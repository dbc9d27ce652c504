"""Progress that jobs send over HTTP: `POST /v1/progress`, answered with the checkpoint that is wanted of the job.

    {"job": "train", "rows": [{"time": 1800000000.5, "step": 120, "total": 1000, "loss": 0.42, "note": ""}]}
    {"checkpoint": "the id of a request, or empty"}

Nothing that is sent can make the program work for long or remember much: bodies are short, requests of a job are few,
and who is not known gets no further than the head of its request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from foresail.core.clock import Clock
from foresail.live.serving.health import Receive, Scope, Send
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.live.telemetry.pace import Paces
from foresail.live.telemetry.progress import ProgressStore
from foresail.live.telemetry.tokens import NotAllowed, Tokens, bearer

SOURCE = "http"
PATH = "/v1/progress"
_MOST_BYTES = 1 << 18
_MOST_ROWS = 1000
_BODY_WITHIN_S = 10.0
_A_SECOND, _AT_ONCE = 5.0, 30.0
"""Requests of one job."""
_HEARD_S = 600.0
"""Who has sent something in this time will send again, and can be asked that way."""
_JSON = [(b"content-type", b"application/json")]
_CLOSE = [(b"connection", b"close")]


class ProgressReceiver:
    """An ASGI application for one path."""

    def __init__(
        self,
        tokens: Tokens,
        store: ProgressStore,
        clock: Clock,
        metrics: TelemetryMetrics,
        *,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`leads`: whether what is sent here is of use; another replica may be the one that acts on it."""
        self.leads = leads
        self._tokens = tokens
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._paces = Paces(_A_SECOND, _AT_ONCE, now_s=clock.now)
        self._heard_s: dict[str, float] = {}
        self._wanted: dict[str, str] = {}
        """Job to the checkpoint it is asked for."""

    @property
    def problem(self) -> str:
        return self._tokens.problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
            status, body, more = 200, json.dumps(answer), []
        except NotAllowed as refused:
            # What is left of the body is not waited for.
            status, body, more = refused.status, json.dumps({"error": refused.why}), list(_CLOSE)
            if status in {429, 503}:
                more.append((b"retry-after", b"1"))
        self._metrics.requests.labels(str(status)).inc()
        sent = body.encode()
        headers = [*_JSON, (b"content-length", str(len(sent)).encode()), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": sent})

    async def _answer(self, scope: Scope, receive: Receive) -> dict[str, str]:
        if scope["path"] != PATH:
            raise NotAllowed(404, f"there is {PATH}")
        if scope["method"] != "POST":
            raise NotAllowed(405, "only POST")
        if not self.leads():
            raise NotAllowed(503, "another replica leads; send it there")
        headers = dict(scope["headers"])
        job_for = await self._tokens.caller(bearer(headers.get(b"authorization", b"")))
        sent = await _read(receive)
        stated, rows = sent.get("job", ""), sent.get("rows", [])
        if not isinstance(stated, str) or len(stated) > 512 or not isinstance(rows, list) or len(rows) > _MOST_ROWS:
            raise NotAllowed(400, f'write {{"job": "NAME", "rows": […]}} with at most {_MOST_ROWS} rows')
        job = job_for(stated)
        if not self._paces.allows(job):
            raise NotAllowed(429, f"at most {_A_SECOND:g} requests a second; send several rows in one")
        self._heard_s[job] = self._clock.now()
        for row in rows:
            self._store.offer(job, SOURCE, row if isinstance(row, dict) else {}, row)
        return {"checkpoint": self._request_for(job)}

    def _request_for(self, job: str) -> str:
        wanted = self._wanted.get(job, "")
        known = self._store.of(job)
        return "" if known is not None and wanted in known.confirmed else wanted

    # --- checkpoints, see `foresail.live.telemetry.checkpoints.Channel` ----------------------------------------------

    def ask(self, job: str, request_id: str) -> bool:
        heard_s = self._heard_s.get(job)
        if heard_s is None or self._clock.now() - heard_s > _HEARD_S:
            return False
        self._wanted[job] = request_id
        return True

    def withdraw(self, job: str, request_id: str) -> None:
        if self._wanted.get(job) == request_id:
            del self._wanted[job]

    def forget(self, jobs: list[str]) -> None:
        """Jobs that nobody knows any more."""
        for job in jobs:
            self._heard_s.pop(job, None)
            self._wanted.pop(job, None)


async def _read(receive: Receive) -> dict[str, Any]:
    parts, length = [], 0
    try:
        async with asyncio.timeout(_BODY_WITHIN_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise NotAllowed(400, "the request broke off")
                length += len(message.get("body", b""))
                if length > _MOST_BYTES:
                    raise _too_long()
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    break
    except TimeoutError:
        raise NotAllowed(408, f"the body did not come within {_BODY_WITHIN_S:g} s") from None
    try:
        # Python's own reader takes NaN for a number; so a row that has it is told, and the others count.
        sent = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        raise NotAllowed(400, "the body is no JSON") from None
    if not isinstance(sent, dict):
        raise NotAllowed(400, "the body is no JSON object")
    return sent


def _too_long() -> NotAllowed:
    return NotAllowed(413, f"the body is longer than {_MOST_BYTES} bytes; send fewer rows at once")
