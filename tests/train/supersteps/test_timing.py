"""Training of when to change: from planning as it is, on rows that nobody is judged on, and resumed to the same end."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.train.supersteps.sources import corrupted, same
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.controllers.supersteps.learned.model import load_model
from foresail.controllers.supersteps.learned.timing import LearnedTiming
from foresail.controllers.supersteps.scenario import Scenario
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.errors import ForesailError
from foresail.experiments.supersteps.source import find_source
from foresail.forecast.runtime.generated import generate_profile
from foresail.sim.supersteps.job import run_job
from foresail.train.supersteps.data import forecast_rows
from foresail.train.supersteps.timing import TimingSettings, TimingTraining

SMALL = TimingSettings(generations=3, population=8, jobs=1, validation_jobs=1, scenarios=4, penalty_s=5.0)


@pytest.fixture(scope="module")
def source():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FORESAIL_DATA", raising=False)
        source = find_source(None)
    # Not the profile that comes along: it is measured anew now and then, and what is tested here is not its digits.
    return replace(source, profile=generate_profile(source.data.tasks))


def few(rows):
    """The last rows to train on, and the first ones that validate."""
    cut = slice(rows.split - 60, rows.split + 60)
    return replace(
        rows,
        workloads=rows.workloads[cut],
        forecasts=rows.forecasts[cut],
        scenarios=rows.scenarios[cut],
        split=60,
    )


@pytest.fixture(scope="module")
def rows(source):
    return few(forecast_rows(source, "seasonal-naive", scenarios=2, ahead=6))


class RowsFeed:
    """Forecasts and scenarios of the rows, as training has them."""

    def __init__(self, forecasts, scenarios):
        self.forecasts, self.scenarios = forecasts, scenarios

    def look(self, step, horizon, scenarios):
        return self.forecasts[step][:, :horizon], self.scenarios[step] if scenarios else None

    def observe(self, workloads):
        pass


def total_s(rows, planner):
    job = rows.job(range(8), validates=True)
    feed = RowsFeed(job.forecasts, rows.scenarios[rows.split :])
    splitter = JobSplitter([f"task-{at}" for at in range(8)], planner, feed, rows.curves, rows.grid)
    # Training does not know where a job ends; of what is planned behind it nothing comes to pass.
    decide = splitter.decide
    splitter.decide = lambda step, _, current, last: decide(step, 99, current, last)
    return run_job(splitter, rows.curves, job.workloads, penalty_s=5.0).total_s


def test_training_begins_with_planning_over_scenarios(rows):
    training = TimingTraining(rows, replace(SMALL, generations=1))
    training.run()
    planner = Scenario(rows.curves, rows.grid, scenarios=4, penalty_s=5.0)
    assert training.history[0] == (0, pytest.approx(total_s(rows, planner), rel=1e-9))


def test_validation_is_what_the_planner_takes_in_a_simulated_job(rows):
    training = TimingTraining(rows, SMALL)
    rng = np.random.default_rng(4)
    told = set()
    for _ in range(3):
        weights = rng.normal(size=len(training._mean))
        model = replace(training.run(), layers=training.layers(weights))
        planner = LearnedTiming(rows.curves, rows.grid, model, scenarios=4, penalty_s=5.0)
        told.add(round(training.validate(weights)))
        assert training.validate(weights) == pytest.approx(total_s(rows, planner), rel=1e-9)
    assert len(told) > 1, "networks differ in what they do"


def test_nothing_of_the_rows_that_jobs_are_judged_on_is_learnt(source, rows):
    again = few(forecast_rows(corrupted(source), "seasonal-naive", scenarios=2, ahead=6))
    assert again.digest == rows.digest
    np.testing.assert_array_equal(again.scenarios, rows.scenarios)
    models = [TimingTraining(one, SMALL).run() for one in (rows, again)]
    assert same(models[0].layers, models[1].layers)
    assert models[0].about == models[1].about


def test_training_finds_jobs_that_take_less(rows):
    training = TimingTraining(rows, replace(SMALL, generations=6, population=16))
    before = [training._total_s(job, training._mean) for job in training._jobs]
    for _ in range(6):
        training._next_mean()
    after = [training._total_s(job, training._mean) for job in training._jobs]
    assert sum(after) < sum(before)


def test_what_validates_best_is_kept(rows):
    training = TimingTraining(rows, replace(SMALL, generations=6))
    model = training.run()
    assert model.about["results"]["validation_s"] == min(total for _, total in training.history)
    assert training.validate(training._best) == model.about["results"]["validation_s"]


def test_a_run_goes_on_where_it_stopped_to_the_same_end(rows, tmp_path):
    whole = TimingTraining(rows, SMALL).run()

    class StoppedError(Exception):
        pass

    def stop(generation, _):
        if generation == 2:
            raise StoppedError

    path = tmp_path / "run.npz"
    with pytest.raises(StoppedError):
        TimingTraining(rows, SMALL, path).run(on_step=stop)
    told = []
    again = TimingTraining(rows, SMALL, path).run(on_evaluated=lambda step, _: told.append(step))
    assert told == [3], "what was done is not done again"
    assert same(whole.layers, again.layers)
    assert whole.about == again.about


def test_the_verb_writes_a_model_that_plans(tmp_path, monkeypatch):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    out = tmp_path / "timing.npz"
    words = ["--out", str(out), "--forecast", "seasonal-naive", "--scenarios", "2", "--jobs", "1", "--population", "4"]
    runner = CliRunner()
    result = runner.invoke(
        app, ["train", "supersteps-timing", *words, "--generations", "1", "--json"], catch_exceptions=False
    )
    told = json.loads(result.stdout)
    assert told["results"]["steps"] == 1
    assert load_model(out, "learned").about["forecast"] == "seasonal-naive"
    words = ["--strategy", "learned", "--model", str(out), "--forecast", "seasonal-naive", "--length", "5", "--json"]
    simulated = runner.invoke(app, ["bsp", "simulate", *words], catch_exceptions=False)
    assert json.loads(simulated.stdout)["strategy"] == "learned"
    with pytest.raises(ForesailError, match="was trained for --strategy learned, and --strategy dqn is asked for"):
        runner.invoke(app, ["bsp", "simulate", *words, "--strategy", "dqn"], catch_exceptions=False)
    with pytest.raises(ForesailError, match="--forecast published has no scenarios"):
        runner.invoke(
            app, ["train", "supersteps-timing", "--out", str(out), "--forecast", "published"], catch_exceptions=False
        )
