"""Profiles are read from CSV files, and what is wrong with one is said with its place."""

import numpy as np
import pytest

from foresail.errors import InputError
from foresail.forecast.runtime.profile import read_profile

GRID = [(workload, share) for workload in (10, 20, 30, 40) for share in (1000, 2000, 3000, 4000)]
ROWS = [f"{task},{workload},{share},{at + 1}" for task in "ba" for at, (workload, share) in enumerate(GRID)]


@pytest.fixture
def written(tmp_path):
    def write(*lines):
        path = tmp_path / "profile.csv"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_rows_in_any_order_become_a_grid_and_tries_their_mean(written):
    header = "task,workload,cpu_milli,seconds,host"
    rows = [f"{row},x" for row in [*reversed(ROWS[16:]), *ROWS[:16], "a,10,1000,4"]]
    profile = read_profile(written(header, *rows))
    assert profile.tasks == ("a", "b")
    assert (profile.workloads.tolist(), profile.shares_milli.tolist()) == ([10, 20, 30, 40], [1000, 2000, 3000, 4000])
    assert profile.seconds[0, 0].tolist() == [2.5, 2, 3, 4]
    assert profile.seconds[1, 3].tolist() == [13, 14, 15, 16]
    np.testing.assert_array_equal(profile.of(["b", "a", "b"]).seconds, profile.seconds[[1, 0, 1]])


def test_the_published_columns_mean_the_same(written):
    profile = read_profile(written("Task Name, Workload Size, CPU Shares, Duration", *ROWS))
    assert profile.seconds[0].ravel().tolist() == list(range(1, 17))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [], "the file is empty"),
        (lambda rows: ["task,workload,cpu,seconds", *ROWS], r':1: no column "cpu_milli"; did you mean|has the columns'),
        (lambda rows: [rows[0], "a,10,1000", *rows[1:]], ":2: the row has 3 fields, the header has 4"),
        (lambda rows: [*rows, "a,10,1000,-3"], ':34: seconds is "-3"; it is a number above 0'),
        (lambda rows: [*rows, "a,ten,1000,3"], ':34: workload is "ten"; it is a number above 0'),
        (lambda rows: [*rows, " ,10,1000,3"], ":34: task is empty"),
        (lambda rows: rows[:-1], "task a has no row for workload 40 and 4000 milli"),
        (
            lambda rows: [rows[0], *(row for row in rows if ",40," not in row and ",10" in row)],
            "values of workload; 4 or",
        ),
    ],
)
def test_a_profile_that_cannot_be_used_is_an_error_with_its_place(written, change, message):
    with pytest.raises(InputError, match=message) as raised:
        read_profile(written(*change(["task,workload,cpu_milli,seconds", *ROWS])))
    assert "profile.csv" in str(raised.value)


def test_a_task_that_is_not_there_is_an_error_with_the_nearest(written):
    profile = read_profile(written("task,workload,cpu_milli,seconds", *ROWS))
    with pytest.raises(InputError, match='no task "c"; there are b, a'):
        profile.of(["c"])
