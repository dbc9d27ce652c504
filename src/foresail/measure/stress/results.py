"""The file of measurements: a CSV file that is only ever added to, so that what is measured stays measured.

Its first line, a comment, says how it was measured; a later comment adds tasks. A profile is read from it as it is.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from foresail.errors import InputError
from foresail.measure.stress.grid import StressPoint

COLUMNS = {
    "task": "task of stress-ng",
    "workload": "how much work a superstep has; `ops` in all are in proportion to it",
    "cpu_milli": "limit on CPU, in milli",
    "seconds": "how long the whole work takes: `start_s + (measured_s − start_s) · ops / ops_done`",
    "try": "number of the try at this point, from 1",
    "ops": "bogo operations of stress-ng that the whole work counts, over all workers",
    "ops_done": "operations of them that were done",
    "measured_s": "seconds on the clock around what was done, seen from inside the limit",
    "start_s": "seconds that stress-ng took for next to no work just before; 0 with `--whole`",
    "cpu_s": "CPU seconds of stress-ng and its workers in `measured_s`",
    "throttled": "share of the 100 ms periods in which the limit held the work up; empty if there was no limit",
    "when": "when the try had ended, UTC",
}
"""The columns of the file, each with what it says."""
_MARK = "# foresail measure stress "


@dataclass(frozen=True, slots=True)
class StressRow:
    """One try, in the order of COLUMNS."""

    task: str
    workload: float
    cpu_milli: int
    seconds: float
    number: int
    ops: int
    ops_done: int
    measured_s: float
    start_s: float
    cpu_s: float
    throttled: float | None
    when: str

    @property
    def point(self) -> StressPoint:
        return StressPoint(self.task, self.workload, self.cpu_milli)


class StressFile:
    """What is measured so far, kept in a file."""

    def __init__(self, path: Path, how: Mapping[str, Any]) -> None:
        """Go on with a file, or begin one. `how` is all that seconds depend on beside the point itself."""
        self.path = path
        self.rows: list[StressRow] = []
        self.ops_a_unit: dict[str, float] = {}
        if path.exists() and path.stat().st_size:
            self._read(how)
        else:
            self._append(f"{_MARK}{json.dumps(dict(how))}\n{','.join(COLUMNS)}\n")

    def seconds(self) -> dict[StressPoint, list[float]]:
        """The seconds of every try, by point."""
        found: dict[StressPoint, list[float]] = {}
        for row in self.rows:
            found.setdefault(row.point, []).append(row.seconds)
        return found

    def state_ops(self, task: str, ops_a_unit: float) -> None:
        """Say what a unit of a task's workload counts, once."""
        self._append(f"{_MARK}{json.dumps({'ops_a_unit': {task: ops_a_unit}})}\n")
        self.ops_a_unit[task] = ops_a_unit

    def add(self, row: StressRow) -> None:
        text = io.StringIO()
        cells = [f"{cell:.6g}" if isinstance(cell, float) else "" if cell is None else cell for cell in astuple(row)]
        csv.writer(text, lineterminator="\n").writerow(cells)
        self._append(text.getvalue())
        self.rows.append(row)

    def _append(self, text: str) -> None:
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                file.write(text)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", path=self.path) from error

    def _read(self, how: Mapping[str, Any]) -> None:
        try:
            content = self.path.read_bytes()
            whole = content.rpartition(b"\n")[0]
            lines = whole.decode("utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot be read: {error}; name another file with --out", path=self.path) from error
        if not lines[0].startswith(_MARK):
            raise InputError("is no file of measure stress; name another with --out, or remove it", path=self.path)
        before = self._settings(lines[0], 1)
        differ = ", ".join(
            f"{key} {before.get(key)}, not {how.get(key)}"
            for key in {**before, **how}
            if before.get(key) != how.get(key)
        )
        if differ:
            raise InputError(f"was measured otherwise ({differ}); name another file with --out", path=self.path)
        for number, line in enumerate(lines[1:], 2):
            if line.startswith(_MARK):
                self.ops_a_unit |= self._settings(line, number).get("ops_a_unit", {})
            elif number > 2:
                self.rows.append(self._row(line, number))
        if len(whole) + 1 < len(content):
            # A line that was broken off while it was written: that try is done again.
            with self.path.open("r+b") as file:
                file.truncate(len(whole) + 1)
        if len(lines) == 1:
            self._append(f"{','.join(COLUMNS)}\n")
        elif lines[1] != ",".join(COLUMNS):
            raise InputError(f"the columns are not {','.join(COLUMNS)}; name another --out", path=self.path, line=2)

    def _settings(self, line: str, number: int) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(line.removeprefix(_MARK))
        except ValueError as error:
            raise InputError(
                f"the settings are damaged ({error}); name another --out", path=self.path, line=number
            ) from None
        return found

    def _row(self, line: str, number: int) -> StressRow:
        cells = next(csv.reader([line]))
        kinds = (str, float, int, float, int, int, int, float, float, float, float, str)
        try:
            values = [
                None if field.name == "throttled" and not cell else kind(cell)
                for field, kind, cell in zip(fields(StressRow), kinds, cells, strict=True)
            ]
        except ValueError as error:
            raise InputError(
                f"the row is damaged ({error}); remove it, and its try is done again", path=self.path, line=number
            ) from None
        return StressRow(*values)  # type: ignore[arg-type]  # made of the kinds above
