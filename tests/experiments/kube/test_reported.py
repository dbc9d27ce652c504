"""What trainers wrote, as a table, and the steps that their moves cost."""

import math

from foresail.experiments.kube.reported import report_columns, rows_below, steps_lost


def test_rows_are_read_by_job_and_damaged_ones_left_out(tmp_path):
    for job, lines in (
        ("b", ["100.5,1,9,0.5,,", "nonsense", "101,x,9,,,", "102,2,9,0.25,0.75,done"]),
        ("a", ["103,4,,,,resume"]),
    ):
        (tmp_path / job).mkdir()
        text = "\n".join(["time,step,total,loss,accuracy,note", *lines, ""])
        (tmp_path / job / "progress.csv").write_text(text)
    columns = report_columns(rows_below(tmp_path), 100.0)
    assert columns["job"] == ["a", "b", "b"]
    assert columns["time_s"].tolist() == [3.0, 0.5, 2.0]
    assert columns["step"].tolist() == [4, 1, 2]
    assert columns["total_steps"].tolist() == [0, 9, 9]
    assert math.isnan(columns["loss"][0])
    assert columns["loss"].tolist()[1:] == [0.5, 0.25]
    assert columns["note"] == ["resume", "", "done"]
    assert rows_below(None) == []


def test_steps_are_lost_where_a_job_goes_on_before_where_it_was(tmp_path):
    notes = [
        (10, ""),
        (12, "checkpoint:x"),
        (12, "resume"),
        (20, ""),
        (15, "resume"),
        (30, "done"),
        (30, "resume"),
    ]
    (tmp_path / "a").mkdir()
    rows = "".join(f"{at},{step},30,,,{note}\n" for at, (step, note) in enumerate(notes))
    (tmp_path / "a" / "progress.csv").write_text(f"time,step,total,loss,accuracy,note\n{rows}")
    assert steps_lost(rows_below(tmp_path)) == {"a": [0, 5]}
