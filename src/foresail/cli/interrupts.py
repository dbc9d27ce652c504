"""Polite ends: SIGTERM, and SIGHUP of a terminal that is closed, clean up like an interrupt does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_ENDS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupting() -> Iterator[None]:
    """Raise KeyboardInterrupt for these signals; one that the caller wants to be ignored (nohup) stays so."""
    before = {one: signal.getsignal(one) for one in _ENDS}
    for one, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(one, _interrupt)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _interrupt(*_signal: object) -> NoReturn:
    raise KeyboardInterrupt
