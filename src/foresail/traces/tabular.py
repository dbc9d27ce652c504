"""Tables with a header, from CSV or Parquet, whose cells are judged column by column and not row by row.

A million rows are read in about a second because nothing here loops over good rows in Python.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from foresail.errors import did_you_mean, shortened
from foresail.traces.check.checks import Findings

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST = 10**12
"""The largest amount that a cell may hold: beyond it a wrong unit is likelier than a large machine."""

_EXACT_IN_FLOAT = 2**53
_MOST_COLUMNS = 2000


class Table:
    """The cells of one file and the findings about them. A row with an error is marked in `bad`, for `good_rows`."""

    def __init__(self, frame: pl.DataFrame, lines: Ints, findings: Findings) -> None:
        self._frame = frame
        self.lines = lines
        self.findings = findings
        self.bad: Mask = np.zeros(frame.height, dtype=np.bool_)

    def __len__(self) -> int:
        return self._frame.height

    @property
    def columns(self) -> list[str]:
        return self._frame.columns

    def require(self, required: Collection[str], optional: Collection[str], prefixes: Collection[str]) -> None:
        """Fail if a required column is missing; note columns that nothing will read."""
        unknown = [
            column
            for column in self.columns
            if column not in required
            and column not in optional
            and not any(column.startswith(prefix) and len(column) > len(prefix) for prefix in prefixes)
        ]
        for column in required:
            if column not in self.columns:
                hint = did_you_mean(column, unknown) or f"; a table of this kind has {', '.join(required)}"
                self.findings.fail("FS104", f'no column "{column}"{hint}', 1)
        for column in unknown:
            hint = did_you_mean(column, [*required, *optional])
            self.findings.add("FS107", f'the column "{shortened(column)}" is not known and is ignored{hint}', 1)

    def refuse(self, code: str, rows: Mask, describe: Callable[[int], str]) -> None:
        """Mark rows as bad; `describe` gives the message for one of them."""
        if rows.any():
            self.findings.add_rows(code, np.flatnonzero(rows), self.lines, describe)
            self.bad |= rows

    def warn(self, code: str, rows: Mask, describe: Callable[[int], str]) -> None:
        if rows.any():
            self.findings.add_rows(code, np.flatnonzero(rows), self.lines, describe)

    def text(self, column: str) -> pl.Series:
        """The cells of a column without surrounding blanks; empty where the cell or the column is missing."""
        if column not in self.columns:
            return pl.Series(column, [""], dtype=pl.String).new_from_index(0, len(self))
        cells = self._frame[column]
        if cells.dtype.is_nested() or cells.dtype == pl.Binary:
            self.findings.fail("FS201", f'the column "{column}" holds {cells.dtype}; write text or numbers', 1)
        return cells.cast(pl.String).fill_null("").str.strip_chars()

    def names(self, column: str) -> pl.Series:
        """A column whose cells must be there and must differ. Call last: a bad row takes no name."""
        names = self.text(column)
        self.refuse("FS205", (names == "").to_numpy(), lambda _: f"{column} is empty; every row needs a name")
        good = ~self.bad
        repeated = np.zeros(len(self), dtype=np.bool_)
        repeated[good] = ~names.filter(pl.Series(good)).is_first_distinct().to_numpy()

        def describe(row: int) -> str:
            above = self.lines[np.flatnonzero(good & (names == names[row]).to_numpy())[0]]
            return f'{column} is "{shortened(names[row])}", as in line {above}; names must differ'

        self.refuse("FS206", repeated, describe)
        return names

    def integers(self, column: str, rule: str, *, default: int | None = None, least: int = 0, most: int = MOST) -> Ints:
        """A column of whole numbers. `rule` says what the column takes; without a default a cell must be there."""
        if column not in self.columns and default is not None:
            return np.full(len(self), default, dtype=np.int64)
        cells = self._numbers(column)
        whole = cells.cast(pl.Int64, strict=False) if not cells.dtype.is_float() else None
        if whole is not None and not whole.null_count():
            values = whole.to_numpy().astype(np.int64, copy=False)
            number = np.ones(len(self), dtype=np.bool_)
            fraction = np.zeros(len(self), dtype=np.bool_)
        else:
            values, number, fraction = self._parsed(cells, whole, column, rule, default)
        self._refuse_cells("FS203", fraction, cells, column, rule)
        usable = number & ~fraction
        self._refuse_cells("FS202", usable & (values < least), cells, column, rule)
        self._refuse_cells("FS204", usable & (values > most), cells, column, rule)
        return np.where(usable & (values >= least) & (values <= most), values, max(least, 0))

    def seconds(self, column: str, rule: str) -> Floats:
        """A column of times, 0 or more; NaN where the cell or the column is missing."""
        if column not in self.columns:
            return np.full(len(self), np.nan)
        cells = self._numbers(column)
        values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        finite = np.isfinite(values)
        self._refuse_cells("FS201", ~finite & ~_empty(cells), cells, column, rule)
        self._refuse_cells("FS202", finite & (values < 0), cells, column, rule)
        self._refuse_cells("FS204", finite & (values > MOST), cells, column, rule)
        return np.where(finite & (values >= 0) & (values <= MOST), values, np.nan)

    def good_rows(self) -> Ints:
        """The rows without an error; the others count as dropped."""
        good = np.flatnonzero(~self.bad)
        self.findings.dropped_rows += len(self) - len(good)
        return good

    def _numbers(self, column: str) -> pl.Series:
        cells = self._frame[column]
        return cells if cells.dtype.is_integer() or cells.dtype.is_float() else self.text(column)

    def _parsed(
        self, cells: pl.Series, whole: pl.Series | None, column: str, rule: str, default: int | None
    ) -> tuple[Ints, Mask, Mask]:
        """Judge cells of which some are no plain integer: values, which are numbers, which have a fraction."""
        floats = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        finite = np.isfinite(floats)
        # Other programs write 8.0 for 8 where a column has gaps.
        fraction = finite & (np.floor(floats) != floats)
        near = np.where(finite, np.clip(floats, -_EXACT_IN_FLOAT, _EXACT_IN_FLOAT), 0.0).astype(np.int64)
        exact = np.zeros(len(self), dtype=np.bool_)
        if whole is not None:
            exact = whole.is_not_null().to_numpy()
            near = np.where(exact, whole.fill_null(0).to_numpy(), near)
            fraction &= ~exact
        number = finite | exact
        empty = _empty(cells)
        if default is None:
            self.refuse("FS205", empty, lambda _: f"{column} is empty; {rule}")
        else:
            near = np.where(empty, default, near)
            number = number | empty
        self._refuse_cells("FS201", ~number & ~empty, cells, column, rule)
        return near, number, fraction

    def _refuse_cells(self, code: str, rows: Mask, cells: pl.Series, column: str, rule: str) -> None:
        self.refuse(code, rows, lambda row: f'{column} is "{shortened(str(cells[row]))}"; {rule}')


def _empty(cells: pl.Series) -> Mask:
    missing = cells.is_null() if cells.dtype != pl.String else cells.is_null() | (cells == "")
    return missing.to_numpy()


def read_table(path: str | Path, findings: Findings) -> Table:
    """Read a CSV or Parquet file. Rows of the wrong length are findings; an unreadable file fails."""
    path = Path(path)
    if path.is_dir():
        findings.fail("FS100", "this is a folder; give the file in it")
    try:
        if path.suffix.lower() == ".parquet":
            frame = pl.read_parquet(path)
            lines = np.arange(1, frame.height + 1)
        else:
            frame, lines = _read_csv(path.read_bytes(), findings)
    except FileNotFoundError:
        findings.fail("FS100", "no such file; check the path (foresail trace get openb fetches the public traces)")
    except OSError as error:
        findings.fail("FS100", f"cannot be read: {error.strerror or error}")
    except pl.exceptions.PolarsError as error:
        findings.fail("FS100", f"cannot be read as {path.suffix}: {str(error).splitlines()[0]}")
    if not frame.height and not findings.dropped_rows:
        findings.fail("FS103", "the file has a header but no rows; add one row a node or pod")
    return Table(frame, lines, findings)


def _read_csv(data: bytes, findings: Findings) -> tuple[pl.DataFrame, Ints]:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        value = data[error.start]
        findings.fail("FS101", f"not UTF-8 text (byte 0x{value:02x}); save or convert the file as UTF-8", line)
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        findings.fail("FS101", "not text (a zero byte); save or convert the file as UTF-8", line)
    if not text.strip():
        findings.fail("FS102", "the file is empty; write or download it again")

    starts, line_of, widths = _records(data, text, findings)
    del text
    filled = np.flatnonzero(widths > 0)
    header_at, body = int(filled[0]), filled[1:]
    ends = np.append(starts[1:], len(data))
    header_text = data[starts[header_at] : ends[header_at]].decode("utf-8")
    header = _header(header_text, int(line_of[header_at]), findings)

    ragged = widths[body] != len(header)
    findings.add_rows(
        "FS106",
        body[ragged],
        line_of,
        lambda record: f"the row has {widths[record]} fields, the header has {len(header)}; quote fields with commas",
    )
    findings.dropped_rows += int(ragged.sum())
    kept = body[~ragged]
    if not len(kept):
        return pl.DataFrame(schema=dict.fromkeys(header, pl.String)), np.empty(0, dtype=np.int64)
    if kept[-1] - kept[0] + 1 == len(kept):
        rows = memoryview(data)[starts[kept[0]] : ends[kept[-1]]].tobytes()
    else:
        rows = b"".join(data[starts[record] : ends[record]] for record in kept.tolist())
    frame = pl.read_csv(rows, has_header=False, schema=dict.fromkeys(header, pl.String), infer_schema=False)
    if frame.height != len(kept):
        findings.fail("FS106", f"{len(kept)} rows stand in the file but {frame.height} could be read; check the quotes")
    return frame, line_of[kept]


def _header(text: str, line: int, findings: Findings) -> list[str]:
    """The names of the columns, each there once."""
    if (columns := text.count(",") + 1) > _MOST_COLUMNS:
        findings.fail("FS108", f"the header has {columns} columns; no trace has more than {_MOST_COLUMNS}", line)
    try:
        header = [column.strip() for column in next(csv.reader(io.StringIO(text, newline="")))]
    except csv.Error as error:
        findings.fail("FS106", f"the header cannot be read ({error}); close or remove its quotes", line)
    for column in header:
        if header.count(column) > 1:
            findings.fail("FS105", f'the column "{column}" stands twice; remove or rename one', line)
    return header


def _records(data: bytes, text: str, findings: Findings) -> tuple[Ints, Ints, Ints]:
    """For each record its first byte, its line counted from 1, and its number of fields (0 for a blank line)."""
    raw = np.frombuffer(data, dtype=np.uint8)
    line_starts = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(raw == ord("\n")) + 1])
    if line_starts[-1] == len(data):
        line_starts = line_starts[:-1]
    if b'"' not in data:
        line_ends = np.append(line_starts[1:], len(data))
        commas = np.flatnonzero(raw == ord(","))
        widths = np.searchsorted(commas, line_ends) - np.searchsorted(commas, line_starts) + 1
        length = line_ends - line_starts
        blank = (length == 1) & (raw[line_starts] == ord("\n"))
        blank |= ((length == 2) & (raw[line_starts] == ord("\r"))) | ((length == 1) & (raw[line_starts] == ord("\r")))
        return line_starts, np.arange(1, len(line_starts) + 1), np.where(blank, 0, widths)
    # A quoted field may hold commas and line breaks, so only a real parser knows where a record ends.
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True)
    first_lines, fields = [], []
    above = 0
    try:
        for record in reader:
            first_lines.append(above)
            fields.append(len(record))
            above = reader.line_num
    except csv.Error as error:
        findings.fail("FS106", f"the quotes of this row do not match ({error}); close or remove them", above + 1)
    line_of = np.array(first_lines, dtype=np.int64)
    return line_starts[line_of], line_of + 1, np.array(fields, dtype=np.int64)
