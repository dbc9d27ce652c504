"""The spline is scipy's."""

import numpy as np
import pytest
from scipy.interpolate import RectBivariateSpline

from foresail.forecast.runtime.curves import seconds_with
from foresail.forecast.runtime.profile import RuntimeProfile, read_profile
from foresail.forecast.runtime.spline import SplineRuntime


@pytest.mark.parametrize("seed", range(4))
def test_seconds_are_those_of_scipy_on_grids_of_any_steps(seed):
    rng = np.random.default_rng(seed)
    workloads = np.sort(rng.choice(np.arange(1.0, 60.0), 4 + seed, replace=False))
    shares = 1000.0 + np.cumsum(rng.uniform(100, 900, 4 + 3 * seed))
    profile = RuntimeProfile(("a", "b"), workloads, shares, rng.uniform(5, 90, (2, len(workloads), len(shares))))
    at = np.concatenate([rng.uniform(shares[0] - 500, shares[-1] + 500, 20), shares])
    asked = np.concatenate([rng.uniform(workloads[0] - 5, workloads[-1] + 5, 20), workloads])
    told = SplineRuntime(profile).curves(at).seconds(np.repeat(asked[:, None], 2, axis=1))
    for task in range(2):
        spline = RectBivariateSpline(workloads, shares, profile.seconds[task], kx=3, ky=3, s=0)
        x, y = np.clip(asked, *workloads[[0, -1]]), np.clip(at, *shares[[0, -1]])
        expected = np.array([[float(spline.ev(one, other)) for other in y] for one in x])
        np.testing.assert_allclose(told[:, task], expected, rtol=1e-10, atol=1e-9)


def test_the_published_profile_is_told_to_twelve_digits(bsp_data):
    profile = read_profile(bsp_data / "workload_profiling.csv")
    assert profile.seconds.shape == (8, 14, 16)
    model, rng = SplineRuntime(profile), np.random.default_rng(1)
    splines = [RectBivariateSpline(profile.workloads, profile.shares_milli, table) for table in profile.seconds]
    for _ in range(50):
        workloads, shares = rng.uniform(10, 49, 8), rng.uniform(1000, 8500, 8)
        expected = [float(one.ev(x, y)) for one, x, y in zip(splines, workloads, shares, strict=True)]
        np.testing.assert_allclose(seconds_with(model, workloads, shares), expected, rtol=1e-12)
