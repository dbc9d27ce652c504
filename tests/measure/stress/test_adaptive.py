"""How many points adaptive sampling needs, on profiles of which every point is known."""

import numpy as np
import pytest

from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.monotone import MonotoneRuntime, held_out_errors
from foresail.forecast.runtime.profile import read_profile
from foresail.measure.stress.adaptive import AdaptiveSampling, fit_points
from foresail.measure.stress.grid import StressGrid


def error_by_points(profile, most):
    """Points of a task and how far the model is off at all others, as adaptive sampling goes on."""
    grid = StressGrid(profile.tasks, tuple(profile.workloads), tuple(int(share) for share in profile.shares_milli))
    known = dict(zip(grid.points, profile.seconds.ravel().tolist(), strict=True))
    sampling, measured, found = AdaptiveSampling(grid, 0.0, most), {}, {}
    while following := sampling.choose(measured).points:
        measured |= {point: [known[point]] for point in following}
        others = np.array([point not in measured for point in grid.points])
        told = fit_points(grid, measured).profile().seconds.ravel()
        found[len(measured) / len(profile.tasks)] = float(np.abs(told / profile.seconds.ravel() - 1)[others].mean())
    return found


def test_a_sixth_of_the_published_points_tells_as_much_as_all(bsp_data):
    profile = read_profile(bsp_data / "workload_profiling.csv")
    of_all = float(np.mean([one.mean for one in held_out_errors(profile, MonotoneRuntime)]))
    found = error_by_points(profile, 37)
    assert max(found) == 37 == profile.seconds[0].size // 6
    assert found[37] <= of_all


def test_on_another_profile_few_points_are_near_the_noise():
    found = error_by_points(generate_profile(("a", "b", "c")), 20)
    assert found[20] < 0.04, "noise alone is off by 0.024 on average"


@pytest.mark.parametrize("most", [5, 7])
def test_no_point_is_chosen_twice_and_never_too_many(most):
    profile = generate_profile(("a", "b"))
    shares = tuple(int(share) for share in profile.shares_milli[:4])
    grid = StressGrid(profile.tasks, tuple(profile.workloads[:4]), shares)
    sampling, measured = AdaptiveSampling(grid, 0.0, most), {}
    while following := sampling.choose(measured).points:
        assert not set(following) & set(measured)
        assert len(set(following)) == len(following)
        measured |= {point: [point.workload / point.cpu_milli] for point in following}
    assert [sum(point.task == task for point in measured) for task in grid.tasks] == [most, most]


def test_the_whole_grid_is_the_end_of_it():
    grid = StressGrid(("a",), (1.0, 2.0, 3.0, 4.0), (1, 2, 3, 4))
    measured = {point: [point.workload / point.cpu_milli] for point in grid.points}
    assert AdaptiveSampling(grid, 0.0, 99).choose(measured).points == ()
