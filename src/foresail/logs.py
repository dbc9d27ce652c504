"""Events with keys on standard error: coloured lines for people, JSON lines for programs."""

from __future__ import annotations

import os
import sys
from typing import Any

from foresail.errors import OptionError, did_you_mean

LEVELS = ("debug", "info", "warning", "error")


def configure(level: str = "info") -> None:
    """Send all events of this level and above to standard error; standard output belongs to results.

    On a terminal an event is a line to read, elsewhere one JSON object with `timestamp` (UTC), `level` and `event`.
    """
    if level not in LEVELS:
        there = ", ".join(LEVELS)
        raise OptionError(f'no log level "{level}"{did_you_mean(level, LEVELS)} (--log-level may be {there})')
    import structlog  # noqa: PLC0415 - a fifth of a second, and most verbs log nothing

    render: structlog.typing.Processor = structlog.processors.JSONRenderer()
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    if sys.stderr.isatty():
        stamp = structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)
        render = structlog.dev.ConsoleRenderer(
            colors="NO_COLOR" not in os.environ,
            exception_formatter=structlog.dev.plain_traceback,
            # Names come from files; quoted, they cannot move the cursor or change colours.
            repr_native_str=True,
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            stamp,
            *([] if sys.stderr.isatty() else [structlog.processors.format_exc_info]),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=False,
    )


def get_logger() -> Any:
    """A structlog logger. The first one configures structlog, unless the program around us has done so.

    Call it where something is logged, not at the top of a module: importing structlog is slow.
    """
    import structlog  # noqa: PLC0415 - see `configure`

    if not structlog.is_configured():
        configure()
    return structlog.get_logger()


def _to_stderr(*_args: object) -> Any:
    import structlog  # noqa: PLC0415 - see `configure`

    # Looked up for every event: a progress bar puts its own stream there, to keep its line below the others.
    return structlog.WriteLogger(sys.stderr)
