"""/healthz, /readyz and /metrics of a running scheduler, as a plain ASGI application."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

Check = Callable[[], str]
"""What is wrong, empty if nothing is."""
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

_TEXT = b"text/plain; charset=utf-8"
_PROMETHEUS = b"text/plain; version=0.0.4; charset=utf-8"


def token_in(path: Path | None) -> Callable[[], str] | None:
    """Reads the token each time it is asked for, since files of Secrets change; None where none is needed."""
    return None if path is None else lambda: path.read_text(encoding="utf-8").strip()


class Health:
    """Answers `/healthz` (is the process of any use?), `/readyz` (does everything work?) and `/metrics`.

    Health needs no token, so that probes work; metrics need it if there is one.
    """

    def __init__(
        self,
        *,
        alive: Mapping[str, Check],
        ready: Mapping[str, Check],
        metrics: Callable[[], bytes],
        token: Callable[[], str] | None = None,
    ) -> None:
        self._alive = dict(alive)
        self._ready = dict(alive) | dict(ready)
        self._metrics = metrics
        self._token = token

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status, body, kind = self._answer(scope)
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    def _answer(self, scope: Scope) -> tuple[int, bytes, bytes]:
        path = scope["path"]
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, b"only GET and HEAD\n", _TEXT
        if path == "/healthz":
            return _checked(self._alive)
        if path == "/readyz":
            return _checked(self._ready)
        if path != "/metrics":
            return 404, b"there are /healthz, /readyz and /metrics\n", _TEXT
        return self._measured(scope)

    def _measured(self, scope: Scope) -> tuple[int, bytes, bytes]:
        try:
            if self._token is not None and not _carries(scope, self._token()):
                return 401, b"send the token as: Authorization: Bearer TOKEN\n", _TEXT
        except (OSError, ValueError):
            return 503, b"the file of --token-file cannot be read; write the token there again\n", _TEXT
        return 200, self._metrics(), _PROMETHEUS


def _checked(checks: Mapping[str, Check]) -> tuple[int, bytes, bytes]:
    wrong = {name: check() for name, check in checks.items()}
    lines = [f"[-] {name}: {what}" if what else f"[+] {name}" for name, what in wrong.items()]
    return 503 if any(wrong.values()) else 200, ("\n".join(lines) + "\n").encode(), _TEXT


def _carries(scope: Scope, token: str) -> bool:
    sent = dict(scope["headers"]).get(b"authorization", b"")
    return bool(token) and hmac.compare_digest(sent, b"Bearer " + token.encode())
