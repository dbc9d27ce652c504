"""The environment of supersteps: published observations, actions and rewards, one seed one episode."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tests.train.supersteps.jobs import made_up_job

from foresail.controllers.supersteps.planner import SplitOutlook
from foresail.controllers.supersteps.published import Static
from foresail.train.supersteps.environment import SuperstepEnvironment


@pytest.fixture(scope="module")
def job():
    return made_up_job()


def maxima(job, workloads, split):
    """Seconds of the slowest task in each superstep; `workloads` is tasks × supersteps."""
    table = job.curves.seconds(np.ascontiguousarray(workloads.T))
    return table[:, np.arange(job.grid.tasks), split].max(axis=1)


@pytest.mark.parametrize(("actions", "window"), [(4, 6), (3, 8), (2, 1), (6, 3)])
def test_gymnasium_finds_nothing_wrong(job, actions, window):
    check_env(SuperstepEnvironment([job], actions=actions, window=window, length=20), skip_render_check=True)


def test_observations_and_rewards_are_the_published_ones(job):
    env = SuperstepEnvironment([job], actions=4, window=6, length=30, penalty_s=15.0)
    row = 11
    observation, _ = env.reset(options={"job": 0, "row": row})

    def published(at, length):
        # What the published strategy says when it is asked for a split of so many supersteps.
        planner = Static(job.curves, job.grid, window=length)
        return planner.plan(SplitOutlook(0, 99, None, job.forecasts[at]))

    split = published(row, 3)
    for action in (0, 2, 0, 1, 3, 0):
        assert env.observation_space.contains(observation)
        rows = [split, *(published(row, length) for length in (1, 2, 3))]
        expected = [(maxima(job, job.forecasts[row][:, :6], one) - 75) / 75 for one in rows]
        np.testing.assert_allclose(observation, expected, rtol=1e-6, atol=1e-6)
        split = rows[action]
        observation, reward, terminated, truncated, info = env.step(np.int64(action))
        took_s = maxima(job, job.workloads[row][:, None], split)[0]
        assert info["seconds"] == pytest.approx(took_s, rel=1e-12)
        assert reward == pytest.approx((150 - took_s - 15 * (action != 0)) / 75, rel=1e-12)
        assert not terminated
        assert not truncated
        row += 1


def test_an_episode_ends_after_its_last_superstep(job):
    env = SuperstepEnvironment([job], length=60)
    env.reset(seed=1)
    ends = [env.step(0)[2] for _ in range(60)]
    assert ends == [False] * 59 + [True]


def test_one_seed_is_one_episode(job):
    jobs = [job, made_up_job(seed=2)]

    def episode(seed):
        env = SuperstepEnvironment(jobs, length=25)
        rng = np.random.default_rng(5)
        told = [env.reset(seed=seed)[0]]
        for _ in range(25):
            observation, reward, *_ = env.step(rng.integers(4))
            told += [observation, np.array([reward])]
        return np.concatenate([one.ravel() for one in told])

    np.testing.assert_array_equal(episode(3), episode(3))
    assert any(not np.array_equal(episode(3), episode(seed)) for seed in (4, 5, 6))


def test_nothing_but_forecasts_is_seen_of_what_comes(job):
    """Work after this row is replaced: what is seen stays what it was."""
    changed = made_up_job()
    changed.workloads[12:] = 11.0
    told = []
    for one in (job, changed):
        env = SuperstepEnvironment([one], length=20)
        env.reset(options={"job": 0, "row": 5})
        told.append([env.step(action)[:2] for action in (1, 0, 2, 0, 0, 3, 0)])
    for (before, reward), (after, same) in zip(*told, strict=True):
        np.testing.assert_array_equal(before, after)
        assert reward == same


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": 9}, "forecasts look 8 supersteps ahead; 9 are looked at"),
        ({"actions": 10}, "forecasts look 8 supersteps ahead; 9 are looked at"),
        ({"actions": 1}, "at least 2, 1 and 1 are needed"),
        ({"length": 61}, "a job has 60 rows; an episode has 61"),
    ],
)
def test_what_cannot_be_is_said(job, settings, message):
    with pytest.raises(ValueError, match=message):
        SuperstepEnvironment([job], **settings)
