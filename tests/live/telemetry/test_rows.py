"""Values make a row, or an error that says which of them does not, whatever is written there."""

from __future__ import annotations

import json
import math
from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from foresail.live.telemetry.rows import BadRow, ReportedRow, read_row, shown

GOOD = {"time": "1800000000.5", "step": "120", "total": "1000", "loss": "0.42", "accuracy": "0.9", "note": ""}


def test_cells_and_numbers_make_the_same_row():
    row = ReportedRow(1_800_000_000.5, 120, 1000, 0.42, 0.9, "")
    assert read_row(GOOD) == row
    assert read_row({"time": 1_800_000_000.5, "step": 120, "total": 1000, "loss": 0.42, "accuracy": 0.9}) == row
    assert read_row({"time": "1.8e9", "step": "3.0", "loss": "", "note": None}) == ReportedRow(1.8e9, 3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"time": ""}, "time is missing"),
        ({"time": "nan"}, "time is 'nan', which is no finite number"),
        ({"time": "-5"}, "time is -5; it counts seconds since 1970"),
        ({"time": "0"}, "time is 0; it counts seconds since 1970"),
        ({"step": None}, "step is missing"),
        ({"step": "-1"}, "step is '-1'; it is a whole number of 0 or more, and at most 2⁵³"),
        ({"step": "1.5"}, "step is '1.5'; it is a whole number"),
        ({"step": True}, "step is True, which is no finite number"),
        ({"step": "1_000"}, "step is '1_000', which is no finite number"),
        ({"step": "١٢"}, "which is no finite number"),
        ({"step": 2**53 + 2}, "at most 2⁵³"),
        ({"step": 10**400}, "which is no finite number"),
        ({"step": "9" * 100_000}, "which is no finite number"),
        ({"step": [1]}, "step is [1], which is no finite number"),
        ({"total": "0"}, "total is '0'; it is a whole number of 1 or more"),
        ({"total": "119"}, "step is 120, beyond the total of 119"),
        ({"loss": "inf"}, "loss is 'inf', which is no finite number"),
        ({"loss": "-Infinity"}, "which is no finite number"),
        ({"loss": "1e999"}, "loss is '1e999', which is no finite number"),
        ({"loss": math.nan}, "loss is nan, which is no finite number"),
        ({"accuracy": "0x10"}, "accuracy is '0x10', which is no finite number"),
        ({"accuracy": " "}, "accuracy is ' ', which is no finite number"),
        ({"note": "a\0b"}, r"note is 'a\x00b'; it is a line of at most 256 letters"),
        ({"note": "\x1b[31m"}, "it is a line of at most 256 letters"),
        ({"note": "x" * 257}, "it is a line of at most 256 letters"),
        ({"note": 3}, "note is 3; it is a line"),
    ],
)
def test_what_is_no_row_says_which_value_and_why(change, why):
    with pytest.raises(BadRow) as raised:
        read_row(GOOD | change)
    assert why in str(raised.value)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


TEXT = st.text(alphabet="0123456789.-+eE nNaAiIfF_:,é١\0\x1b\n\u2028\ud800", max_size=20)
ANY = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.lists(st.integers(), max_size=2))


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["time", "step", "total", "loss", "accuracy", "note", "other"]), ANY))
def test_whatever_is_written_there_is_a_row_of_sound_values_or_told(values):
    try:
        row = read_row(GOOD | values)
    except BadRow:
        return
    assert 0 < row.time_s < math.inf
    assert isinstance(row.step, int)
    assert 0 <= row.step <= (row.total or 2**53)
    assert all(value is None or math.isfinite(value) for value in (row.loss, row.accuracy))
    assert row.note.isprintable()


@settings(deadline=None)
@given(st.text(alphabet="+-.0123456789eE_naif ", max_size=12))
@example("0E00000")
@example("1e00001")
@example("1e9999999999")
def test_a_number_is_what_decimal_says_it_is(text):
    """An oracle of another make: Decimal knows more spellings, so those are taken out first."""
    try:
        wanted = None if set(text) & set("_ naif") or not text else float(Decimal(text))
    except InvalidOperation:
        wanted = None
    try:
        found = read_row({"time": 1, "step": 1, "loss": text}).loss
    except BadRow:
        found = None
    assert found == (wanted if wanted is not None and math.isfinite(wanted) else None)


def test_only_notes_of_checkpoints_tell_of_one():
    assert [read_row(GOOD | {"note": note}).checkpoint for note in ("", "resume", "checkpoint:", "checkpoint:a:b")] == [
        None,
        None,
        "",
        "a:b",
    ]


@settings(deadline=None)
@given(ANY | st.binary())
def test_what_is_shown_is_one_short_plain_line(value):
    assert shown(value).isascii() or shown(value).endswith("…")
    assert len(shown(value)) <= 161
    assert shown(value).isprintable()


def test_json_of_any_depth_is_shown_shortly():
    assert len(shown(json.loads("[" * 500 + "]" * 500))) <= 161
