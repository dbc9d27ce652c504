"""Plots of bulk-synchronous jobs."""

import numpy as np
import pytest

from foresail.report.supersteps import DrawnJob, split_over_time, superstep_figures, superstep_seconds, where_time_goes


@pytest.fixture
def job() -> DrawnJob:
    return DrawnJob(
        "static <b>",
        ["a", "b"],
        {"work_s": 10.0, "waiting_s": 4.0, "reconfiguration_s": 15.0},
        np.array([[1000.0, 3000.0], [2000.0, 2000.0], [2000.0, 2000.0]]),
        np.array([[5.0, 3.0], [4.0, 6.0], [1.0, 2.0]]),
    )


def test_time_is_stacked_from_its_parts(job):
    figure = where_time_goes([job, job])
    assert [(part["name"], part["x"]) for part in figure["data"]] == [
        ("work", [10.0, 10.0]),
        ("waiting", [4.0, 4.0]),
        ("changing", [15.0, 15.0]),
    ]
    assert figure["layout"]["barmode"] == "stack"
    assert "<b>" not in figure["data"][0]["y"][0]


def test_a_split_has_an_area_a_task(job):
    areas = split_over_time(job)["data"]
    assert [(area["name"], area["y"]) for area in areas] == [("a", [1000, 2000, 2000]), ("b", [3000, 2000, 2000])]
    assert {area["stackgroup"] for area in areas} == {"cpu"}


def test_a_superstep_took_as_long_as_its_slowest_task(job):
    assert superstep_seconds([job])["data"][0]["y"] == [5.0, 6.0, 2.0]


def test_many_jobs_are_in_the_bars_and_the_first_ones_drawn_alone(job):
    figures = superstep_figures([job] * 11)
    assert len(figures["where-time-goes"]["data"][0]["x"]) == 11
    assert [name for name in figures if name.startswith("split-")] == [f"split-{at}" for at in range(1, 9)]
