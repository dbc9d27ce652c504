"""How a line of a job's log tells its progress: the reporter's own line, or a pattern that whoever wrote the pod gave.

A pattern is the line as the job writes it, with `{step}`, `{total}`, `{loss}` and `{accuracy}` in place of numbers and
`*` in place of anything:

    Epoch {step}/{total} * loss: {loss} * acc: {accuracy}

It stands anywhere in a line; blanks match any blanks. `{{`, `}}` and `**` are the signs themselves. These are no
regular expressions on purpose: whoever may write on a pod may write a pattern, and there are expressions that keep a
matcher busy for years. Here every sign of a line is looked at a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

VALUES = ("step", "total", "loss", "accuracy")
REPORTED = "foresail progress "
_LONGEST_PATTERN = 512
_MOST_PATTERNS = 8
_MOST_PIECES = 32
_MOST_STARTS = 256
"""Places of a line at which a part of a pattern is tried."""
_NUMBER = re.compile(
    r"[+-]?(?:\d{1,24}(?:\.\d{1,24})?|\.\d{1,24})(?:[eE][+-]?\d{1,4})?"
    r"|(?<![a-z])[+-]?(?:nan|inf|infinity)(?![a-z])",
    re.ASCII | re.IGNORECASE,
)
_BLANKS = re.compile(r"\s+")
_SPLIT = re.compile(r"\*\*|\{\{|\}\}|\*|\{[a-z]*\}|[{}]|\s+|[^*{}\s]+")


class PatternError(ValueError):
    """A text that is no pattern; says why."""


class Pattern:
    """One way in which progress stands in a line."""

    def __init__(self, text: str) -> None:
        """PatternError if it is none."""
        if len(text) > _LONGEST_PATTERN:
            raise PatternError(f"it is longer than {_LONGEST_PATTERN} letters")
        self._parts: list[list[tuple[str, str]]] = [[]]
        """Parts with anything between them; each is pieces in a row: a kind and its text."""
        names = []
        for sign in _SPLIT.findall(text.strip()):
            if sign == "*":
                self._parts.append([])
                continue
            kind, written = _piece(sign)
            names += [written] if kind == "value" else []
            part = self._parts[-1]
            if kind == "text" and part and part[-1][0] == "text":
                part[-1] = ("text", part[-1][1] + written)
            else:
                part.append((kind, written))
        self._parts = [stripped for part in self._parts if (stripped := _without_outer_blanks(part))]
        if not names or len(set(names)) != len(names):
            raise PatternError("it has no {step}, {total}, {loss} or {accuracy}, or one of them twice")
        if sum(map(len, self._parts)) > _MOST_PIECES:
            raise PatternError(f"it has more than {_MOST_PIECES} pieces")

    def match(self, line: str) -> dict[str, str] | None:
        """The values that a line tells; None if it is not as the pattern says."""
        found: dict[str, str] = {}
        at, starts = 0, _MOST_STARTS
        for part in self._parts:
            while True:
                at = _first(part[0], line, at)
                starts -= 1
                if at < 0 or starts < 0:
                    return None
                end = _match_part(part, line, at, found)
                if end >= 0:
                    at = end
                    break
                at += 1
        return found


def _piece(sign: str) -> tuple[str, str]:
    if sign in {"**", "{{", "}}"}:
        return "text", sign[0]
    if sign[0] == "{" and sign[1:-1] in VALUES:
        return "value", sign[1:-1]
    if sign[0] in "{}":
        known = ", ".join(f"{{{name}}}" for name in VALUES)
        raise PatternError(f"{sign} is none of {known}; write {{{{ or }}}} for the sign itself")
    return ("blanks", " ") if sign.isspace() else ("text", sign)


def _without_outer_blanks(part: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Blanks beside anything are part of anything."""
    start = 1 if part and part[0][0] == "blanks" else 0
    end = len(part) - 1 if len(part) > start and part[-1][0] == "blanks" else len(part)
    return part[start:end]


def _first(piece: tuple[str, str], line: str, at: int) -> int:
    """The first place from `at` on where a piece may begin; below 0 if there is none."""
    kind, text = piece
    if kind == "text":
        return line.find(text, at)
    found = _NUMBER.search(line, at)
    return -1 if found is None else found.start()


def _match_part(part: Sequence[tuple[str, str]], line: str, at: int, found: dict[str, str]) -> int:
    """Where a part that begins at `at` ends; below 0 if it does not stand there."""
    for kind, text in part:
        if kind == "text":
            end = at + len(text) if line.startswith(text, at) else -1
        else:
            match = (_NUMBER if kind == "value" else _BLANKS).match(line, at)
            end = -1 if match is None else match.end()
            if match is not None and kind == "value":
                found[text] = match[0]
        if end < 0:
            return -1
        at = end
    return at


def patterns_in(text: str) -> tuple[Pattern, ...]:
    """The patterns of an annotation, one a line; PatternError names the line."""
    if len(text) > _MOST_PATTERNS * _LONGEST_PATTERN:
        raise PatternError(f"it is longer than {_MOST_PATTERNS * _LONGEST_PATTERN} letters")
    return _read(text)


@lru_cache(maxsize=512)
def _read(text: str) -> tuple[Pattern, ...]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > _MOST_PATTERNS:
        raise PatternError(f"there are {len(lines)} patterns; write at most {_MOST_PATTERNS}, one a line")
    patterns = []
    for line in lines:
        try:
            patterns.append(Pattern(line))
        except PatternError as error:
            raise PatternError(f"{line[:80]!r}: {error}") from None
    return tuple(patterns)


def reported_in(line: str) -> dict[str, str] | None:
    """What a line of the reporter says, `foresail progress step=120 total=1000 loss=0.42 note=…`; None for another."""
    at = line.find(REPORTED)
    if at < 0:
        return None
    told, has_note, note = line[at + len(REPORTED) :].partition("note=")
    words = [word.partition("=") for word in told.split()]
    values = {name: value for name, is_pair, value in words if is_pair and name in VALUES}
    return {**values, "note": note.strip()} if has_note else values
