"""What may pass if it is asked again, and how long to wait before: one rule for all who talk to an API server."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from foresail.kube.api.errors import ApiError, ClusterError, Conflict, Forbidden, Unauthorized, Unreachable

ATTEMPTS = 6
"""How often a write is asked for before it counts as failed."""
BUSY_READS = 5
"""How often a read is asked for that meets a busy server."""
FIRST_S = 0.1
"""The pause after a first failure; it doubles with each that follows."""
MOST_WRITE_S = 5.0
"""The longest pause between attempts to write."""
MOST_WATCH_S = 3.0
"""The longest of a watch, and the longest that it lets itself be told: an API server that comes back after a restart is
met within this time.
"""

_BUSY_S = 1.0
_MOST_BUSY_S = 10.0
_REFUSED_S = 5.0
"""A right that is missing is not given within a second."""
_NOBODYS_FAULT = frozenset({401, 429, 503})

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


def may_pass(error: ClusterError) -> bool:
    """Whether the same request may succeed a little later: a busy or restarting server, a lost race."""
    if isinstance(error, Unreachable | Conflict):
        return True
    return isinstance(error, ApiError) and (error.status == 429 or error.status >= 500)


def may_arrive(error: ClusterError) -> bool:
    """Whether a request may have an effect yet: nobody answered, or one who does not know what becomes of it."""
    return not isinstance(error, ApiError) or error.status >= 500


def is_nobodys_fault(error: ClusterError) -> bool:
    """Whether any other request would have failed as well: nobody answered, credentials are to be renewed, or a server
    is busy or restarts.
    """
    return not isinstance(error, ApiError) or error.status in _NOBODYS_FAULT


async def until_done(
    send: Callable[[], Awaitable[T]], *, attempts: int | None = ATTEMPTS, sleep: Sleep = asyncio.sleep
) -> T:
    """What a request answers, sent again as long as it may pass; raises what does not, and the last failure.

    Without a number of attempts it is sent until there is an answer.
    """
    for failures in itertools.count():
        try:
            return await send()
        except ClusterError as error:
            if failures + 1 == attempts or not may_pass(error):
                raise
            await sleep(pause_s(failures, error))
    raise AssertionError  # counting never ends


def pause_s(failures: int, error: ClusterError) -> float:
    """How long to leave a server alone before a write is asked for again, after this many failures before this one."""
    return max(_told_s(error), _doubled_s(failures, MOST_WRITE_S))


def busy_pause_s(error: ApiError) -> float:
    """How long to wait before a read is asked for again that met a busy server."""
    return min(_BUSY_S if error.retry_after_s is None else error.retry_after_s, _MOST_BUSY_S)


def list_pause_s(error: ClusterError) -> float:
    """How long one who has a whole list to write leaves the server alone after a failure."""
    return (
        _REFUSED_S if isinstance(error, Forbidden | Unauthorized) else max(_BUSY_S, min(_told_s(error), _MOST_BUSY_S))
    )


def jittered(longest_s: float) -> float:
    """A pause of at most this long. Many clients of a server that restarts must not come back in step."""
    return longest_s * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


class WatchPauses:
    """How long a watch waits after failures in a row."""

    def __init__(self) -> None:
        self.failures = 0

    def reset(self) -> None:
        self.failures = 0

    def next_s(self, error: ClusterError | None = None) -> float:
        """The next pause; an error may ask for a longer one."""
        wait_s = _doubled_s(self.failures, MOST_WATCH_S)
        self.failures += 1
        return wait_s if error is None else max(wait_s, min(_told_s(error), MOST_WATCH_S))


def _doubled_s(failures: int, most_s: float) -> float:
    return jittered(min(most_s, FIRST_S * 2.0 ** min(failures, 30)))


def _told_s(error: ClusterError) -> float:
    return (error.retry_after_s or 0.0) if isinstance(error, ApiError) else 0.0
