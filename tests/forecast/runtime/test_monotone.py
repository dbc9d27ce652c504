"""More CPU is never slower, more work never quicker, and nothing is made up beyond what was measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plain_supersteps import made_up

from foresail.forecast.runtime.monotone import MonotoneRuntime, held_out_errors, monotone_grid, rising_fit
from foresail.forecast.runtime.profile import RuntimeProfile, read_profile
from foresail.forecast.runtime.spline import SplineRuntime


def noisy(seed, tasks=3):
    workloads, shares, seconds = made_up(tasks, seed)
    return RuntimeProfile(tuple(f"t{at}" for at in range(tasks)), workloads, shares, seconds)


@pytest.mark.parametrize("seed", range(5))
def test_seconds_rise_with_work_and_fall_with_cpu_within_and_beyond_the_grid(seed):
    asked = np.linspace(0, 120, 241)
    told = MonotoneRuntime(noisy(seed)).curves(np.arange(200.0, 14000.0, 37.0)).seconds(np.repeat(asked[:, None], 3, 1))
    assert (np.diff(told, axis=0) >= -1e-9).all()
    assert (np.diff(told, axis=2) <= 1e-9).all()
    assert (told >= 0).all()
    assert np.isfinite(told).all()


def test_a_task_that_only_computes_is_told_exactly_also_beyond_the_grid():
    workloads, shares = np.array([10.0, 20, 30, 40]), np.array([1000.0, 2000, 4000, 8000])
    profile = RuntimeProfile(("a",), workloads, shares, (3000 * workloads[:, None] / shares)[None])
    told = (
        MonotoneRuntime(profile)
        .curves(np.array([500.0, 1000, 3000, 5500, 8000, 12000]))
        .seconds(np.array([[5.0], [17.0], [80.0]]))
    )
    work = np.array([5.0, 17.0, 80.0])[:, None]
    np.testing.assert_allclose(told[:, 0, :5], 3000 * work / np.array([500.0, 1000, 3000, 5500, 8000]), rtol=1e-12)
    np.testing.assert_allclose(told[:, 0, 5], told[:, 0, 4])  # more than anybody measured gains nothing


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=12))
def test_a_rising_fit_rises_keeps_the_mean_and_no_shift_of_a_block_is_nearer(values):
    fit = rising_fit(np.array(values))
    assert (np.diff(fit) >= 0).all()
    assert fit.mean() == pytest.approx(np.mean(values), abs=1e-9)
    for level in set(fit.tolist()):  # each block has the mean of what it stands for
        assert np.mean(np.array(values)[fit == level]) == pytest.approx(level, abs=1e-6)


def test_a_monotone_grid_stays_as_it_is():
    grid = np.array([[9.0, 5, 2], [10, 8, 2], [30, 20, 3]])
    np.testing.assert_array_equal(monotone_grid(grid), grid)


def test_the_nearest_monotone_grid_is_nearer_than_any_other_that_is_tried():
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 1, (4, 4))
    nearest = monotone_grid(noise)
    off = ((nearest - noise) ** 2).sum()
    for _ in range(2000):
        other = np.minimum.accumulate(np.maximum.accumulate(nearest + rng.normal(0, 0.05, (4, 4)), axis=0), axis=1)
        assert ((other - noise) ** 2).sum() >= off - 1e-6


def test_errors_are_those_of_points_that_were_not_shown():
    profile = noisy(2)
    exact = RuntimeProfile(("a",), profile.workloads, profile.shares_milli, profile.seconds[:1] * 0 + 7.0)
    assert [(one.task, one.mean, one.largest) for one in held_out_errors(exact, MonotoneRuntime)] == [("a", 0.0, 0.0)]

    class Shown(MonotoneRuntime):
        """Looks up what it is asked for, if it was shown it."""

        def __init__(self, rest):
            super().__init__(rest)
            assert rest.seconds[0].size < profile.seconds[0].size

    assert all(0 < one.mean <= one.p95 <= one.largest for one in held_out_errors(profile, Shown))


def test_of_the_published_profile_it_tells_more_than_the_spline(bsp_data):
    profile = read_profile(bsp_data / "workload_profiling.csv")
    ours, spline = (held_out_errors(profile, model) for model in (MonotoneRuntime, SplineRuntime))
    assert all(one.mean < other.mean for one, other in zip(ours, spline, strict=True))
    assert np.mean([one.mean for one in ours]) < 0.045
