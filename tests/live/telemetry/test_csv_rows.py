"""Rows of a CSV file are the same however its bytes come, and what is none is told with the line."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.live.telemetry.csv_rows import CsvRows, Written

HEADER = b"time,step,total,loss,accuracy,note\n"


def read(*pieces: bytes) -> list[Written]:
    rows = CsvRows()
    return [row for piece in pieces for row in rows.feed(piece)]


def test_columns_are_those_that_the_first_line_names_or_the_reporters():
    whole = {"time": "1.5", "step": "2", "total": "9", "loss": "", "accuracy": "", "note": "resume"}
    assert [row.values for row in read(HEADER, b"1.5,2,9,,,resume\r\n")] == [whole]
    assert [row.values for row in read(b"1.5,2,9,,,resume\n")] == [whole]
    assert [row.values for row in read(b"\xef\xbb\xbfstep, time ,more\n3,4.5,x\n")] == [
        {"step": "3", "time": "4.5", "more": "x"}
    ]
    again = read(HEADER, b"1,2,,,,\n", b"step,time\n5,6\n")
    assert [row.values.get("step") for row in again] == ["2", "5"], "who restarts may name others"


def test_a_line_that_has_not_ended_is_no_row_yet():
    rows = CsvRows()
    assert rows.feed(HEADER + b"1,2,,,,\n1.0,12") == [*read(b"1,2,,,,\n")]
    assert [row.values["step"] for row in rows.feed(b"3,,,,\n")] == ["123"]


@pytest.mark.parametrize(
    ("line", "damage"),
    [
        (b"1,2,3", "the line has 3 cells, its file 6 columns"),
        (b"1,2,,,,,", "the line has 7 cells, its file 6 columns"),
        (b"\0\0\0\0,2,,,,", "the line holds bytes that are no text"),
        (b"1,2,,,,\xff", "the line holds bytes that are no text"),
        (b'1,2,,,,"x', "the line is no CSV (unexpected end of data)"),
        (b'1,2,,,,"x"y', "the line is no CSV (',' expected after '\"')"),
        (b"9" * 5000, "the line is longer than 4096 bytes"),
        (b"x" * 10_000_000, "the line is longer than 4096 bytes"),
    ],
)
def test_a_line_that_is_no_row_is_told_and_spoils_no_other(line, damage):
    first, bad, last = read(HEADER, b"1,2,,,,\n" + line + b"\n3,4,,,,\n")
    assert (first.values["step"], last.values["step"]) == ("2", "4")
    assert (bad.values, bad.damage) == ({}, damage)
    assert len(bad.text) <= 4096


def test_the_rest_of_a_line_whose_beginning_was_passed_over_is_no_row():
    rows = CsvRows()
    rows.pass_over(b"step,time,x\n1,2,3\n")
    assert [row.values for row in rows.feed(b"4,5\n6,7,8\n")] == [{"step": "6", "time": "7", "x": "8"}]
    rows.begin_anew()
    assert [row.values["time"] for row in rows.feed(b"1,2,,,,\n")] == ["1"]
    rows.pass_over(b"1,2,,,,\n")
    assert [row.values["time"] for row in rows.feed(b",,\n3,4,,,,\n")] == ["3"]


CELLS = st.text(alphabet="ab1,\"' é", max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=6, max_size=6), max_size=6), st.data())
def test_what_any_csv_writer_writes_is_read_as_it_was_however_it_is_cut(table, draw):
    out = io.StringIO()
    csv.writer(out).writerows(table)
    data: bytes = HEADER + out.getvalue().encode()
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    found: list[Any] = read(*(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)))
    assert [list(row.values.values()) for row in found] == [[cell.strip() for cell in cells] for cells in table]
    assert all(row.damage == "" for row in found)
