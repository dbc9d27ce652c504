"""Plots of training jobs, drawn from a run whose moves and shares are known."""

from __future__ import annotations

from tests.results.test_job_samples import MovesThenTrims, training_run

from foresail.report import training
from foresail.report.html import render_report


def test_a_gantt_shows_every_stay_and_every_move():
    figure = training.gantt(training_run({"test": MovesThenTrims()}), "with moves")
    bars = {
        (trace["name"], name): (base, base + length)
        for trace in figure["data"]
        if trace["type"] == "bar"
        for name, base, length in zip(trace["y"], trace["base"], trace["x"], strict=True)
        if name == "a"
    }
    assert bars[("n0", "a")] == (0.0, 12.0)
    assert bars[("n1", "a")] == (20.0, 40.0)  # the last of its bars there: half a core until its end
    (moves,) = [trace for trace in figure["data"] if trace["name"] == "moved"]
    assert (moves["x"], moves["y"], moves["customdata"]) == ([12.0], ["a"], [["n0", "n1"]])
    widths = next(trace["width"] for trace in figure["data"] if trace["name"] == "n1")
    assert widths == [0.9, 0.45]


def test_completions_growth_and_cpu_are_the_runs_own():
    runs = [training_run(), training_run({"test": MovesThenTrims()})]
    took = {
        trace["name"]: dict(zip(trace["y"], trace["x"], strict=True)) for trace in training.completions(runs)["data"]
    }
    assert [jobs["a"] for jobs in took.values()] == [30.0, 40.0]
    (line,) = training.growth_curves(runs[0])["data"]
    assert line["y"][0] == 0.0
    assert line["y"][-1] == 100.0
    stacked = training.cpu_use(runs[0])["data"]
    assert [max(trace["y"]) for trace in stacked] == [2.0]


def test_the_page_has_the_plots_of_training_runs_and_only_of_those():
    page = render_report([training_run({"test": MovesThenTrims()})], title="jobs")
    assert 'id="gantt"' in page
    assert 'id="completions"' in page
    assert 'id="growth"' in page
