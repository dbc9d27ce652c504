"""Series of values over time, one CSV file each: columns `timestamp` and `value`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from foresail.errors import InputError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Series:
    """Values in the order of their times, in whatever unit they were measured."""

    name: str
    times_s: Ints
    """Seconds since 1970, by the clock of the place where they were measured."""
    values: Floats

    def __len__(self) -> int:
        return len(self.values)

    def head(self, rows: int) -> Series:
        """The first rows; nothing of the others is kept."""
        return Series(self.name, self.times_s[:rows].copy(), self.values[:rows].copy())


def training_rows(series: Series, test_rows: int, horizon: int) -> int:
    """How many rows come before the test: its rows are origins, and each looks a whole horizon ahead."""
    rows = len(series) - (test_rows + horizon - 1)
    if rows < 2:
        raise InputError(
            f"series {series.name} has {len(series)} values; {test_rows} test rows with a horizon of {horizon} leave "
            f"{max(rows, 0)} to learn from (--test-rows takes fewer)"
        )
    return rows


def read_series(path: Path) -> Series:
    """Read one series; a mistake is an error with its line."""
    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"cannot be read as CSV: {error}", path=path) from error
    for column in ("timestamp", "value"):
        if column not in table.columns:
            raise InputError(f'has no column "{column}"; a series has the columns timestamp and value', path=path)
    if not len(table):
        raise InputError("has no rows; a series has a row a value", path=path)
    texts = table["timestamp"].str.strip_chars()
    times = texts.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
    values = table["value"].str.strip_chars().cast(pl.Float64, strict=False)
    _refuse_first(path, table["timestamp"], times.is_null(), "timestamp", "write it as 2014-07-01 00:30:00")
    # What is no number is NaN here, too, and so is what is left out.
    numbers = values.fill_null(np.nan).to_numpy()
    _refuse_first(path, table["value"], pl.Series(~np.isfinite(numbers)), "value", "a value is a finite number")
    times_s = times.dt.epoch("s").to_numpy().astype(np.int64)
    late = np.concatenate(([False], np.diff(times_s) <= 0))
    _refuse_first(path, table["timestamp"], pl.Series(late), "timestamp", "times rise from row to row")
    return Series(path.stem, times_s, numbers.astype(np.float64))


def _refuse_first(path: Path, cells: pl.Series, bad: pl.Series, column: str, remedy: str) -> None:
    if bad.any():
        at = int(bad.arg_true()[0])
        raise InputError(f'{column} is "{cells[at] or ""}"; {remedy}', path=path, line=at + 2)


def read_series_folder(folder: Path, names: Sequence[str] = ()) -> list[Series]:
    """Read the named series of a folder, or all of them in the order of their names."""
    there = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    if not there:
        raise InputError("holds no series; it is a folder of CSV files with timestamp and value", path=folder)
    known = {path.stem: path for path in there}
    for name in names:
        if name not in known:
            raise InputError(f'has no series "{name}"; there are {", ".join(known)}', path=folder)
    return [read_series(known[name]) for name in (names or known)]
