"""How much work is left, from the CPU a job has used and the steps it has reported."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foresail.forecast.remaining import Forecasts, WorkLeft

NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 1000))


@given(st.floats(0.01, 0.99), st.floats(1, 1e6))
def test_with_all_known_from_the_beginning_it_is_the_plain_rule(fraction, used):
    work = WorkLeft()
    work.observe("pod", used, 1000 * fraction, 1000.0)
    assert work.forecast().cpu_s == pytest.approx(used * (1 - fraction) / fraction)


def test_a_move_begins_a_new_count_and_the_forecast_goes_on():
    work = WorkLeft()
    for used, step in ((10, 10), (20, 20), (30, 30)):
        work.observe("first", used, step, 100)
    assert work.forecast().cpu_s == pytest.approx(70)
    work.observe("second", 0.5, 30, 100)  # still the report of before
    work.observe("second", 8.0, 40, 100)  # ten steps more, but some of them were done twice: this stretch counts not
    work.observe("second", 18.0, 50, 100)
    assert work.forecast().cpu_s == pytest.approx(50)
    assert work.spent_cpu_s == pytest.approx(48)


def test_between_two_reports_a_job_gets_on():
    work = WorkLeft()
    for used, step in ((10, 10), (20, 20)):
        work.observe("pod", used, step, 100)
    work.observe("pod", 25, 20, 100)
    assert work.forecast().cpu_s == pytest.approx(75)


def test_the_interval_holds_about_as_often_as_it_says():
    random = np.random.default_rng(7)
    hits = trials = 0
    for _ in range(200):
        work, used = WorkLeft(), 0.0
        costs = random.gamma(4.0, 0.25, 100)  # one CPU-second a step in the mean, by a half more or less
        for step in range(1, 41):
            used += float(costs[step - 1])
            work.observe("pod", used, step, 100)
        left = float(costs[40:].sum())
        found = work.forecast()
        hits += found.low_cpu_s <= left <= found.high_cpu_s
        trials += 1
    assert 0.8 <= hits / trials <= 1.0


@example([("a", 1.0, 2.225073858507203e-309, 2.225073858507203e-309)])
@given(st.lists(st.tuples(st.sampled_from("ab"), NUMBERS, NUMBERS, NUMBERS), max_size=30))
def test_whatever_is_told_a_forecast_is_none_or_makes_sense(rows):
    forecasts = Forecasts()
    for pod, used, step, steps in rows:
        forecasts.observe("job", pod, used, step, steps)
    found = forecasts.forecast("job")
    if found is not None:
        assert not math.isnan(found.cpu_s)
        assert 0 <= found.low_cpu_s <= found.cpu_s <= found.high_cpu_s


def test_a_job_that_has_said_nothing_is_like_the_others():
    forecasts = Forecasts()
    assert forecasts.forecast("new") is None
    for job, whole in (("a", 100.0), ("b", 300.0)):
        forecasts.observe(job, job, whole / 2, 50, 100)
    forecasts.observe("new", "new", 20.0, None, None)
    found = forecasts.forecast("new")
    assert (found.cpu_s, found.is_reported) == (pytest.approx(180.0), False)
    forecasts.keep(["new"])
    assert forecasts.forecast("new").cpu_s == pytest.approx(180.0)  # what ended is remembered


def test_time_is_work_over_cpus():
    work = WorkLeft()
    work.observe("pod", 30.0, 50, 100)
    assert work.forecast().time(2.0).s == pytest.approx(15.0)
    assert work.forecast().time(0.0).s == math.inf


def after(*readings):
    job = WorkLeft()
    for reading in readings:
        job.observe(*reading)
    return job.forecast()


@pytest.mark.parametrize(
    "reading",
    [
        ("p", 100.0, None, None),
        ("p", 100.0, math.nan, 100),
        ("p", 100.0, 60, math.nan),
        ("p", 100.0, 160, 100),
        ("p", 100.0, -5, 100),
        ("p", 100.0, 50, 0),
        ("p", 100.0, 50, math.inf),
        ("p", None, 70, 100),
        ("p", math.nan, 70, 100),
        ("p", -1.0, 70, 100),
    ],
)
def test_readings_that_cannot_be_change_nothing(reading):
    good = ("p", 100.0, 50, 100)
    assert after(good, reading) == after(good)
    assert after(reading, good) == after(good)
    assert after(reading) is None
