"""A server for strangers: few connections, short heads, and nobody is waited for for long."""

from __future__ import annotations

import asyncio

from foresail.live.serving.gathering import WholeAnswers

_MOST_CONNECTIONS = 512
_WHOLE_WITHIN_S = 15.0
"""How long a request may take to arrive, from its first byte, or from the connection on, to its last."""
_MOST_HEAD_BYTES = 1 << 15


class Guarded(WholeAnswers):
    """Closes connections that are too many, that send no whole request, or one whose head has no end."""

    most_connections = _MOST_CONNECTIONS
    whole_within_s = _WHOLE_WITHIN_S
    _waiting: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.abort()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_more()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._wait()

    def on_url(self, url: bytes) -> None:
        if self._fits(len(url)):
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._fits(len(name) + len(value)):
            super().on_header(name, value)

    def on_message_complete(self) -> None:
        self._wait_no_more()
        super().on_message_complete()

    def _fits(self, count: int) -> bool:
        self._head_bytes += count
        if self._head_bytes > _MOST_HEAD_BYTES:
            self.transport.abort()
        return self._head_bytes <= _MOST_HEAD_BYTES

    def _wait(self) -> None:
        self._wait_no_more()
        self._waiting = self.loop.call_later(self.whole_within_s, self._give_up)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.abort()
