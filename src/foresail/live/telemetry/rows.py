"""One row of a training job's report, and which values make one. Whoever writes them may write anything."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

COLUMNS = ("time", "step", "total", "loss", "accuracy", "note")
RESUME, DONE = "resume", "done"
"""Notes of the first row after a restart, and of the last."""
LONGEST_LINE = 4096
"""Bytes of a line; a row has a hundred."""
_CHECKPOINT = "checkpoint:"
_MOST_STEPS = 2**53
"""Up to here whole numbers are exact in every language that writes them."""
_LONGEST_NUMBER = 64
_LONGEST_NOTE = 256
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class BadRow(ValueError):  # noqa: N818 - a row is bad; the error is whoever's wrote it
    """Values that make no row; says which, and why."""


class ReportedRow(NamedTuple):
    """What a job says of itself at one moment."""

    time_s: float
    """Seconds since 1970, by the clock of the node it runs on."""
    step: int
    total: int | None = None
    loss: float | None = None
    accuracy: float | None = None
    note: str = ""

    @property
    def checkpoint(self) -> str | None:
        """The request that a checkpoint of this step answers, empty if nobody asked; None if there is none."""
        return self.note.removeprefix(_CHECKPOINT) if self.note.startswith(_CHECKPOINT) else None


def read_row(values: Mapping[str, object]) -> ReportedRow:
    """The row that these values make, numbers or what stands for them in a file; BadRow if they make none."""
    time_s = _number("time", values.get("time"))
    step = _whole("step", values.get("step"), least=0)
    total = _whole("total", values.get("total"), least=1)
    if time_s is None or step is None:
        raise BadRow(f"{'time' if time_s is None else 'step'} is missing")
    if time_s <= 0:
        raise BadRow(f"time is {time_s:g}; it counts seconds since 1970")
    if total is not None and step > total:
        raise BadRow(f"step is {step}, beyond the total of {total}")
    loss, accuracy = (_number(name, values.get(name)) for name in ("loss", "accuracy"))
    return ReportedRow(time_s, step, total, loss, accuracy, _note(values.get("note")))


def _number(name: str, value: object) -> float | None:
    """A finite number; None where nothing is written."""
    if value is None or value == "":
        return None
    number = math.nan
    if isinstance(value, str):
        if len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value):
            number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise BadRow(f"{name} is {shown(value)}, which is no finite number")
    return number


def _whole(name: str, value: object, *, least: int) -> int | None:
    number = _number(name, value)
    if number is None:
        return None
    if not number.is_integer() or not least <= number <= _MOST_STEPS:
        raise BadRow(f"{name} is {shown(value)}; it is a whole number of {least} or more, and at most 2⁵³")
    return int(number)


def _note(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST_NOTE or not value.isprintable():
        raise BadRow(f"note is {shown(value)}; it is a line of at most {_LONGEST_NOTE} letters")
    return value


def shown(value: object) -> str:
    """What was written, as it can stand in a message: in one line, in plain letters and not for long."""
    text = ascii(value[:120] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 160 else f"{text[:160]}…"
