"""Two worlds on one page: who is compared with whom, and by how much they differ."""

from tests.results.test_job_samples import training_run

from foresail.report.agreement import agreement_cells, errors_by_job, overlaid_completions
from foresail.report.html import render_report

ROWS = [
    {"policy": "kubernetes", "seed": 1, "job": "a", "simulated_s": 11.0, "real_s": 10.0, "error_pct": 10.0},
    {"policy": "kubernetes", "seed": 1, "job": "b", "simulated_s": 24.0, "real_s": 30.0, "error_pct": -20.0},
    {"policy": "kubernetes with <focus>", "seed": 1, "job": "a", "simulated_s": 5.0, "real_s": 5.0, "error_pct": 0.0},
]


def test_errors_are_averaged_both_ways():
    head, lines = agreement_cells(ROWS)
    assert head[-2:] == ["error of the mean (%)", "mean error (%)"]
    assert lines == [
        ["kubernetes", "2", "20.0", "17.5", "-12.5", "15.0"],
        ["kubernetes with <focus>", "1", "5.0", "5.0", "+0.0", "0.0"],
    ]


def test_both_worlds_lie_over_each_other():
    same, first, second = overlaid_completions(ROWS)["data"]
    assert (same["x"], same["y"]) == ([0, 30.0], [0, 30.0])
    assert (first["x"], first["y"]) == ([10.0, 30.0], [11.0, 24.0])
    assert second["name"] == "kubernetes with &lt;focus&gt;"
    bars = {bar["name"]: dict(zip(bar["x"], bar["y"], strict=True)) for bar in errors_by_job(ROWS)["data"]}
    assert bars["kubernetes"] == {"a": 10.0, "b": -20.0}
    several = errors_by_job([*ROWS, {**ROWS[0], "seed": 2}])["data"][0]
    assert several["x"] == ["a, seed 1", "b, seed 1", "a, seed 2"]
    assert overlaid_completions([]) is errors_by_job([]) is None


def test_the_page_has_them_if_there_are_two_worlds():
    page = render_report([training_run()], title="both", agreement=ROWS)
    assert "Simulated against real completion" in page
    assert '"agreement-errors"' in page
    assert "Simulated against real completion" not in render_report([training_run()], title="one")
