"""The planner that asks a network: it carries out what the network values most."""

import numpy as np
import pytest

from foresail.controllers.supersteps.learned.model import PlannerModel
from foresail.controllers.supersteps.learned.observation import expected_s
from foresail.controllers.supersteps.learned.windows import LearnedWindows
from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook
from foresail.controllers.supersteps.published import Static
from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.spline import SplineRuntime

TASKS, ACTIONS, WINDOW = 4, 4, 3


@pytest.fixture(scope="module")
def job():
    grid = ShareGrid(TASKS, total_milli=3000 * TASKS)
    curves = SplineRuntime(generate_profile(tuple(f"task-{at}" for at in range(TASKS)))).curves(grid.shares_milli)
    return curves, grid, np.random.default_rng(3).uniform(5, 55, (TASKS, 6))


def always(action):
    """A network that values one action above the others, whatever it sees."""
    weights, biases = np.zeros((ACTIONS * WINDOW, ACTIONS), np.float32), np.zeros(ACTIONS, np.float32)
    biases[action] = 1.0
    return PlannerModel("dqn", (ACTIONS, WINDOW), ((weights, biases),), {})


@pytest.mark.parametrize("action", [1, 2, 3])
def test_an_action_is_the_published_split_of_its_window(job, action):
    curves, grid, workloads = job
    outlook = SplitOutlook(5, 20, grid.even(), workloads)
    split = LearnedWindows(curves, grid, always(action)).plan(outlook)
    published = Static(curves, grid, window=action).plan(SplitOutlook(0, 20, None, workloads))
    np.testing.assert_array_equal(split, published)


def test_action_0_keeps_and_a_job_begins_with_the_longest_window(job):
    curves, grid, workloads = job
    planner = LearnedWindows(curves, grid, always(0))
    assert planner.plan(SplitOutlook(5, 20, grid.even(), workloads)) is None
    longest = Static(curves, grid, window=3).plan(SplitOutlook(0, 20, None, workloads))
    np.testing.assert_array_equal(planner.plan(SplitOutlook(0, 20, None, workloads)), longest)


def test_a_network_sees_the_rows_in_their_order(job):
    """A network that looks at the next superstep alone picks the split which is shortest there."""
    curves, grid, workloads = job
    weights = np.zeros((ACTIONS * WINDOW, ACTIONS), np.float32)
    for action in range(ACTIONS):
        weights[action * WINDOW, action] = -1.0
    planner = LearnedWindows(
        curves, grid, PlannerModel("dqn", (ACTIONS, WINDOW), ((weights, np.zeros(ACTIONS, np.float32)),), {})
    )
    split = planner.plan(SplitOutlook(5, 20, grid.even(), workloads))
    table = curves.seconds(np.ascontiguousarray(workloads.T))
    next_s = [
        table[0, np.arange(TASKS), Static(curves, grid, window=n).plan(SplitOutlook(0, 20, None, workloads))].max()
        for n in (1, 2, 3)
    ]
    assert table[0, np.arange(TASKS), split].max() == min(next_s)


def test_expected_seconds_are_those_of_the_curves(job):
    curves, grid, workloads = job
    splits = np.stack([grid.even(), np.array([0, grid.most, 0, 0])])
    table = curves.seconds(np.ascontiguousarray(workloads.T))
    expected = [table[:, np.arange(TASKS), split].max(axis=1) for split in splits]
    np.testing.assert_array_equal(expected_s(curves, workloads, splits), expected)
