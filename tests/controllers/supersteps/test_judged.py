"""Forecasts that are judged while the job goes on: mended by what came, by nothing that is still to come."""

import numpy as np
import pytest

from foresail.controllers.supersteps.feeds import MatrixFeed
from foresail.controllers.supersteps.judged import FEWEST, JudgedMatrixFeed

TASKS, ROWS, HORIZON = 3, 120, 5


def world(seed=1, error=3.0):
    """What comes, rows + horizon × tasks, and forecasts of it: each task too low by its own amount, and noisy."""
    rng = np.random.default_rng(seed)
    came = 30 + 8 * np.sin(np.arange(ROWS + HORIZON)[:, None] / np.array([5.0, 7.0, 11.0]))
    at = np.arange(ROWS)[:, None] + np.arange(HORIZON)
    right = came[at].transpose(2, 0, 1)
    wrong = np.array([4.0, 1.0, -5.0])[:, None, None]
    return came, right, right - wrong + rng.normal(0, error, right.shape)


def judged(matrices, came, step, seed=1):
    feed = JudgedMatrixFeed(matrices, np.random.default_rng(seed))
    for row in came[:step]:
        feed.observe(row)
    return feed


def test_who_asks_for_no_scenarios_is_told_what_the_matrix_says():
    came, _, matrices = world()
    said, scenarios = judged(matrices, came, 60).look(60, HORIZON, 0)
    np.testing.assert_array_equal(said, MatrixFeed(matrices).look(60, HORIZON, 0)[0])
    assert scenarios is None


def test_until_enough_are_judged_forecasts_stay_as_they_are():
    came, _, matrices = world()
    last = HORIZON + FEWEST - 1
    said, scenarios = judged(matrices, came, last).look(last, HORIZON, 8)
    np.testing.assert_array_equal(said, matrices[:, last])
    assert scenarios is None
    said, scenarios = judged(matrices, came, last + 1).look(last + 1, HORIZON, 8)
    assert not np.array_equal(said, matrices[:, last + 1])
    assert scenarios.shape == (8, TASKS, HORIZON)


def test_what_is_always_wrong_alike_is_mended():
    came, right, matrices = world(error=0.5)
    before = after = 0.0
    for step in range(60, ROWS):
        said, _ = judged(matrices, came, step).look(step, HORIZON, 4)
        before += np.abs(matrices[:, step] - right[:, step]).mean()
        after += np.abs(said - right[:, step]).mean()
    assert after < 0.4 * before


def test_errors_are_told_as_plain_least_squares_says():
    """Once more with one solver call for each task and distance, in which doubt is rows that say 'no error'."""
    came, _, matrices = world()
    step = 50
    said, _ = judged(matrices, came, step).look(step, HORIZON, 4)
    mean = came[:step].mean()
    for task in range(TASKS):
        for ahead in range(HORIZON):

            def known(origin, task=task, ahead=ahead):
                last = came[origin - 1, task]
                forecast = matrices[task, origin, ahead]
                past = [came[max(origin - 1 - ago, 0), task] for ago in range(9)]
                steps = [past[ago] - past[ago + 1] for ago in range(8)]
                return [10.0, forecast - mean, forecast - last, last - matrices[task, origin - 1, 0], *steps]

            origins = range(1, step - HORIZON + 1)
            rows = [np.array(known(origin)) / 10 for origin in origins]
            rows += list(np.sqrt(10.0) * np.eye(12))
            errors = [came[origin + ahead, task] - matrices[task, origin, ahead] for origin in origins] + [0.0] * 12
            weights = np.linalg.lstsq(np.array(rows), np.array(errors), rcond=None)[0]
            expected = matrices[task, step, ahead] + weights @ np.array(known(step)) / 10
            assert said[task, ahead] == pytest.approx(expected, abs=1e-8)


def test_scenarios_are_as_wide_as_mended_forecasts_err():
    came, right, matrices = world(error=3.0)
    erred = [judged(matrices, came, step).look(step, HORIZON, 1)[0] - right[:, step] for step in range(60, ROWS)]
    expected, scenarios = judged(matrices, came, 110).look(110, HORIZON, 2000)
    spread = (scenarios - expected).std(axis=0)
    assert np.abs((scenarios - expected).mean(axis=0)).max() < 0.3
    np.testing.assert_allclose(spread, np.std(erred, axis=0), rtol=0.5)
    narrow = judged(world(error=0.3)[2], came, 110).look(110, HORIZON, 2000)
    assert np.all((narrow[1] - narrow[0]).std(axis=0) < 0.4 * spread)


def test_paths_come_whole_for_all_tasks():
    came, right, matrices = world()
    matrices[1] = right[1] + (matrices[0] - right[0])  # the second errs as the first does
    matrices[2] = right[2]
    expected, scenarios = judged(matrices, came, 110).look(110, HORIZON, 500)
    errors = scenarios - expected
    assert np.corrcoef(errors[:, 0, 0], errors[:, 1, 0])[0, 1] > 0.8


@pytest.mark.parametrize("step", [30, 60, 110])
def test_nothing_is_known_of_what_is_still_to_come(step):
    came, _, matrices = world()
    later, corrupt = came.copy(), matrices.copy()
    later[step:] = 1e6
    corrupt[:, step + 1 :] = -1e6
    for one, other in zip(
        judged(matrices, came, step).look(step, HORIZON, 16),
        judged(corrupt, later, step).look(step, HORIZON, 16),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
