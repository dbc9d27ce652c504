"""Rows of supersteps in a file: whole ones are read, whatever a crash left at the end."""

import pytest

from foresail.errors import InputError
from foresail.live.supersteps.job import RowFile, SuperstepRow, last_sizes


def row(step: int, cpu_milli: int = 300) -> SuperstepRow:
    return SuperstepRow(
        step=step,
        workload={"a": 10.0},
        cpu_milli={"a": cpu_milli},
        seconds={"a": 1.0},
        attempt={"a": 1},
        superstep_s=1.2,
        changed=False,
        changing_s=0.0,
    )


def test_rows_come_back_in_the_order_of_their_supersteps_and_the_last_word_counts(tmp_path):
    file = RowFile(tmp_path / "deep" / "rows.jsonl")
    assert file.rows() == []
    for one in (row(0), row(1), row(1, 500)):
        file.add(one)
    assert file.rows() == [row(0), row(1, 500)]
    assert last_sizes(file.rows(), ("a",)) == {"a": 500}
    assert last_sizes(file.rows(), ("a", "b")) == {}
    file.forget()
    assert file.rows() == []


@pytest.mark.parametrize("cut", range(1, 100, 7))
def test_a_line_that_was_cut_short_is_no_row_and_is_written_over(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    file = RowFile(path)
    file.add(row(0))
    file.add(row(1))
    path.write_bytes(path.read_bytes()[:-cut])
    assert file.rows() == [row(0)]
    file.add(row(1, 700))
    assert file.rows() == [row(0), row(1, 700)]


def test_something_else_in_the_file_is_told_with_its_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    RowFile(path).add(row(0))
    path.write_text(path.read_text() + '{"step": 1}\n')
    with pytest.raises(InputError, match=r"rows\.jsonl:2: no row of a superstep"):
        RowFile(path).rows()
