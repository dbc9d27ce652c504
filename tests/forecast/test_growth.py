"""Growth classes, sample by sample."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foresail.forecast.growth import Growth, GrowthClass


def classes(values: list[float], **settings: float) -> list[str]:
    growth = Growth(**settings)
    return [growth.observe(10.0 * at, value, at).value for at, value in enumerate(values)]


def test_little_growth_twice_in_a_row_is_the_end_of_progress():
    assert classes([10, 5, 4.6, 4.3]) == ["progressing", "progressing", "watching", "converged"]


def test_growth_that_returns_makes_a_job_progress_again():
    assert classes([10, 5, 4.6, 4.3, 2.0, 1.9])[-2:] == ["progressing", "watching"]


@pytest.mark.parametrize(("value", "state"), [(4.501, "watching"), (4.5, "progressing")])
def test_a_tenth_of_the_largest_growth_is_just_enough(value, state):
    assert classes([10, 5, value])[-1] == state


def test_growth_is_a_rate_and_rising_values_count_as_falling_ones():
    growth = Growth()
    growth.observe(0.0, 0.1, 1)
    growth.observe(20.0, 0.5, 2)
    assert (growth.rate, growth.relative) == (pytest.approx(0.02), 1.0)


def test_samples_come_too_early_or_without_a_new_report_are_left_out():
    growth = Growth(interval_s=10.0)
    growth.observe(0.0, 10.0, 1)
    growth.observe(5.0, 9.0, 2)
    assert growth.rate is None
    growth.observe(20.0, 9.0, 0)  # an older report: it began anew, and is measured from here on
    growth.observe(40.0, 9.0, 0)  # the same report as before
    assert growth.rate is None
    growth.observe(60.0, 1.0, 1)
    assert growth.rate == pytest.approx(0.2)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_whatever_is_reported_the_class_is_one_and_its_numbers_make_sense(values):
    growth = Growth()
    for at, value in enumerate(values):
        assert growth.observe(10.0 * at, value, at) in GrowthClass
        assert growth.relative is None or 0 <= growth.relative <= 1
        assert math.isfinite(growth.largest)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20), st.floats(0.01, 1000))
def test_classes_do_not_depend_on_the_unit_of_the_value(values, unit):
    spread = max(values) - min(values)
    if all(abs(a - b) > 1e-6 * spread or a == b for a, b in pairwise(values)):
        growths = [Growth(threshold=0.1), Growth(threshold=0.1)]
        for at, value in enumerate(values):
            one, other = (
                growth.observe(10.0 * at, value * factor, at) for growth, factor in zip(growths, (1, unit), strict=True)
            )
            relative = growths[0].relative
            if relative is None or abs(relative - 0.1) > 1e-6:
                assert one == other
