"""Planning over scenarios with a network's say: without a say it is the planner itself, with one it follows it."""

import numpy as np
import pytest

from foresail.controllers.supersteps.learned.model import PlannerModel, load_model, save_model
from foresail.controllers.supersteps.learned.timing import FIGURES, LearnedTiming, PlacedPaths, weigh
from foresail.controllers.supersteps.planner import ShareGrid, SplitOutlook
from foresail.controllers.supersteps.scenario import Scenario
from foresail.errors import InputError
from foresail.forecast.runtime.generated import generate_profile
from foresail.forecast.runtime.spline import SplineRuntime

TASKS, WINDOW = 4, 6


@pytest.fixture(scope="module")
def job():
    grid = ShareGrid(TASKS, total_milli=3000 * TASKS)
    curves = SplineRuntime(generate_profile(tuple(f"task-{at}" for at in range(TASKS)))).curves(grid.shares_milli)
    return curves, grid


def outlooks(grid, count=12):
    """What a job of random work looks like before each superstep; the current split is the planner's business."""
    rng = np.random.default_rng(3)
    for step in range(count):
        expected = rng.uniform(15, 45, (TASKS, WINDOW))
        yield step, count - step, expected, expected + rng.normal(0, 3, (8, TASKS, WINDOW))


def saying(bias, weights=None):
    weights = np.zeros((len(FIGURES), 1), np.float32) if weights is None else weights
    return PlannerModel("learned", (len(FIGURES), WINDOW), ((weights, np.array([bias], np.float32)),), {})


def splits_of(planner, grid):
    current, told = None, []
    for step, left, expected, scenarios in outlooks(grid):
        split = planner.plan(SplitOutlook(step, left, current, expected, scenarios))
        told.append(None if split is None else split.tolist())
        current = current if split is None else split
    return told


def test_a_network_that_says_nothing_is_planning_over_scenarios(job):
    curves, grid = job
    plain = splits_of(Scenario(curves, grid, scenarios=16, penalty_s=4.0), grid)
    assert 2 < sum(split is not None for split in plain) < len(plain), "some are kept and some are changed"
    assert splits_of(LearnedTiming(curves, grid, saying(0.0), scenarios=16, penalty_s=4.0), grid) == plain


def test_a_network_has_the_last_word(job):
    curves, grid = job
    never = splits_of(LearnedTiming(curves, grid, saying(-99.0), scenarios=16, penalty_s=4.0), grid)
    assert [split is None for split in never] == [False, *[True] * 11]
    always = splits_of(LearnedTiming(curves, grid, saying(99.0), scenarios=16, penalty_s=4.0), grid)
    assert None not in always


def test_the_last_change_is_remembered(job):
    """A network that counts supersteps alone changes the split every third one."""
    curves, grid = job
    weights = np.zeros((len(FIGURES), 1), np.float32)
    weights[4] = 1000.0
    said = saying(-1000.0 * np.log1p(2.5), weights)
    told = splits_of(LearnedTiming(curves, grid, said, scenarios=16), grid)
    assert [at for at, split in enumerate(told) if split is not None] == [0, 3, 6, 9]


def test_figures_are_what_they_are_called(job):
    curves, grid = job
    _, _, expected, scenarios = next(outlooks(grid))
    planner = Scenario(curves, grid, scenarios=16, penalty_s=4.0)
    spans = planner.spans(SplitOutlook(0, 99, None, expected, scenarios))
    np.testing.assert_allclose(spans.paths.mean(axis=0), expected)
    current, tasks = grid.even(), np.arange(TASKS)

    def seconds(split):
        table = curves.seconds(np.ascontiguousarray(spans.paths.transpose(0, 2, 1)))
        return table[:, :, tasks, split].max(axis=2)

    now_s, new_s = seconds(current), seconds(spans.split)
    placed = PlacedPaths(curves, spans.paths)
    np.testing.assert_allclose(placed.seconds(current), now_s, rtol=1e-13)
    figures = np.empty(len(FIGURES))
    weigh(now_s, new_s, spans.cheapest_s, 4.0, 6, figures)
    ways = [
        now_s[:, :kept].sum(axis=1).mean() + (spans.cheapest_s[kept] + 4.0 if kept < WINDOW else 0.0)
        for kept in range(1, WINDOW + 1)
    ]
    gains = (now_s - new_s).sum(axis=1)
    wanted = [
        (min(ways) - spans.cheapest_s[0] - 4.0) / 4.0,
        (now_s - new_s)[:, 0].mean() / 4.0,
        gains.mean() / 4.0,
        gains.std() / 4.0,
        np.log(7),
        (1 + int(np.argmin(ways))) / WINDOW,
    ]
    np.testing.assert_allclose(figures, np.clip(wanted, -10, 10), rtol=1e-9)


def test_the_penalty_can_be_told_later(job):
    curves, grid = job
    planner = LearnedTiming(curves, grid, saying(0.0), scenarios=16, penalty_s=0.0)
    planner.penalty_s = 1e6
    assert planner.penalty_s == 1e6
    assert [split is None for split in splits_of(planner, grid)] == [False, *[True] * 11]


def test_a_model_of_other_figures_is_refused(tmp_path):
    weights = np.zeros((5, 1), np.float32)
    model = PlannerModel("learned", (5, WINDOW), ((weights, np.zeros(1, np.float32)),), {})
    with pytest.raises(InputError, match=r"is of shape \[5, 6\], which no model of --strategy learned has"):
        load_model(save_model(model, tmp_path / "model.npz"), "learned")
