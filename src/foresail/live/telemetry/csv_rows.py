"""Rows of a CSV file that grows, from its bytes: the first line names the columns, each further line is a row."""

from __future__ import annotations

import csv
from typing import NamedTuple

from foresail.live.telemetry.rows import COLUMNS, LONGEST_LINE
from foresail.live.telemetry.tailing import Lines


class Written(NamedTuple):
    """A line that is, or should be, a row."""

    values: dict[str, str]
    text: str
    """The line as it stands there."""
    damage: str = ""
    """Why it is no row; empty if its values are to be looked at."""


class CsvRows:
    """Reads lines as they come. A file whose first line names no columns has those of the reporter."""

    def __init__(self) -> None:
        self._lines = Lines(LONGEST_LINE)
        self._columns: tuple[str, ...] | None = None
        self._passing = False
        """Whether what comes up to the next end of a line is the rest of one whose beginning nobody has read."""

    def begin_anew(self) -> None:
        """What comes next is the beginning of a file."""
        self._lines.reset()
        self._columns, self._passing = None, False

    def pass_over(self, head: bytes) -> None:
        """What comes next stands somewhere in the file, whose first bytes are `head`."""
        self._lines.reset()
        self._passing = True
        if self._columns is None:
            first = head.partition(b"\n")[0].removesuffix(b"\r").decode("utf-8", "replace")
            self._columns = _columns(first) or COLUMNS

    def feed(self, data: bytes) -> list[Written]:
        """The rows that end in `data`."""
        found = []
        for line, is_whole in self._lines.feed(data):
            if self._passing:
                self._passing = False
                continue
            text = line.decode("utf-8", "replace")
            columns = _columns(text) if is_whole else None
            if columns is not None:
                self._columns = columns  # whoever starts anew may write the names once more
            elif line:
                found.append(self._row(text, is_whole=is_whole))
        return found

    def _row(self, text: str, *, is_whole: bool) -> Written:
        if not is_whole:
            return Written({}, text, f"the line is longer than {LONGEST_LINE} bytes")
        if "\0" in text or "\ufffd" in text:
            return Written({}, text, "the line holds bytes that are no text")
        columns = self._columns or COLUMNS
        try:
            (cells,) = csv.reader([text], strict=True)
        except (csv.Error, ValueError) as error:
            return Written({}, text, f"the line is no CSV ({error})")
        if len(cells) != len(columns):
            return Written({}, text, f"the line has {len(cells)} cells, its file {len(columns)} columns")
        return Written({name: cell.strip() for name, cell in zip(columns, cells, strict=True)}, text)


def _columns(line: str) -> tuple[str, ...] | None:
    """The columns that a line names, None if it names none."""
    names = tuple(name.strip() for name in line.removeprefix("\ufeff").split(","))
    return names if "step" in names and "time" in names else None
