"""Deep Q-learning of supersteps: it learns, goes on where it stopped, and never sees what jobs are judged on."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.train.supersteps.sources import corrupted, same
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.controllers.supersteps.feeds import MatrixFeed
from foresail.controllers.supersteps.learned.model import load_model, save_model
from foresail.controllers.supersteps.learned.windows import LearnedWindows
from foresail.controllers.supersteps.splitter import JobSplitter
from foresail.errors import ForesailError, InputError, OptionError
from foresail.experiments.supersteps.source import find_source
from foresail.forecast.runtime.generated import generate_profile
from foresail.sim.supersteps.job import run_job
from foresail.traces.series import Series, training_rows
from foresail.train.supersteps.checkpoint import checkpoint_of
from foresail.train.supersteps.data import forecast_rows
from foresail.train.supersteps.dqn import DqnSettings, DqnTraining

SMALL = DqnSettings(
    actions=3,
    window=4,
    steps=600,
    length=100,
    jobs=3,
    validation_jobs=2,
    learning_starts=100,
    target_every=100,
    evaluate_every=200,
    buffer=350,
)


@pytest.fixture(scope="module")
def source():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FORESAIL_DATA", raising=False)
        source = find_source(None)
    # Not the profile that comes along: it is measured anew now and then, and what is tested here is not its digits.
    return replace(source, profile=generate_profile(source.data.tasks))


@pytest.fixture(scope="module")
def rows(source):
    return forecast_rows(source, "seasonal-naive")


def test_nothing_of_the_rows_that_jobs_are_judged_on_is_learnt(source, rows):
    again = forecast_rows(corrupted(source), "seasonal-naive")
    assert again.digest == rows.digest
    np.testing.assert_array_equal(again.workloads, rows.workloads)
    np.testing.assert_array_equal(again.forecasts, rows.forecasts)
    models = [DqnTraining(one, SMALL).run() for one in (rows, again)]
    assert same(models[0].layers, models[1].layers)
    assert models[0].about == models[1].about


def test_what_is_learnt_from_is_what_the_hash_stands_for(source, rows):
    name = source.data.series[0]
    values = source.series[name].values.copy()
    values[training_rows(source.series[name], source.data.rows, source.data.actual.shape[2]) - 1] += 1.0
    changed = replace(source, series={**source.series, name: Series(name, source.series[name].times_s, values)})
    assert forecast_rows(changed, "seasonal-naive").digest != rows.digest


def test_rows_that_validate_are_not_trained_on(rows):
    train, judged = (rows.job(range(8), validates=validates) for validates in (False, True))
    assert len(train.workloads) + len(judged.workloads) == len(rows.workloads)
    np.testing.assert_array_equal(np.concatenate([train.workloads, judged.workloads]), rows.workloads)
    noisy = rows.workloads.copy()
    noisy[rows.split :] = np.random.default_rng(1).uniform(10, 50, noisy[rows.split :].shape)
    # Which weights are kept is the validation's business; those at the end are not.
    settings = replace(SMALL, patience=100)
    runs = [DqnTraining(one, settings) for one in (rows, replace(rows, workloads=noisy))]
    for run in runs:
        run.run()
    assert runs[0].history != runs[1].history
    assert same(runs[0]._weights, runs[1]._weights)


def test_no_forecast_of_a_row_knows_the_row(source, rows):
    """Values after a row are replaced, within their range: forecasts until then are what they were."""
    cut, rng = 100, np.random.default_rng(2)
    series = {}
    for name, one in source.series.items():
        known = training_rows(one, source.data.rows, source.data.actual.shape[2])
        first = known - len(rows.workloads) + cut
        values = one.values.copy()
        low, high = (
            values[known - len(rows.workloads) : known].min(),
            values[known - len(rows.workloads) : known].max(),
        )
        kept = np.isin(values[first:known], (low, high))
        values[first:known] = np.where(kept, values[first:known], rng.uniform(low, high, known - first))
        series[name] = Series(name, one.times_s, values)
    again = forecast_rows(replace(source, series=series), "seasonal-naive")
    np.testing.assert_allclose(again.forecasts[: cut + 1], rows.forecasts[: cut + 1], rtol=1e-12)
    assert not np.allclose(again.forecasts[cut + 1 :], rows.forecasts[cut + 1 :])


def test_a_run_goes_on_where_it_stopped_to_the_same_end(rows, tmp_path):
    whole = DqnTraining(rows, SMALL).run()

    class StoppedError(Exception):
        pass

    def stop(step, _):
        if step >= 400:
            raise StoppedError

    path = tmp_path / "run.npz"
    with pytest.raises(StoppedError):
        DqnTraining(rows, SMALL, path).run(on_step=stop)
    told = []
    again = DqnTraining(rows, SMALL, path).run(on_evaluated=lambda step, _: told.append(step))
    assert told == [600], "what was done is not done again"
    assert same(whole.layers, again.layers)
    assert whole.about == again.about
    with pytest.raises(InputError, match="is of another run: seed is 1 there and 2 here"):
        DqnTraining(rows, replace(SMALL, seed=2), path).run()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="is a damaged checkpoint"):
        DqnTraining(rows, SMALL, path).run()


def test_training_ends_when_nothing_gets_better(rows):
    # A network that is never trained stays as good as it was.
    run = DqnTraining(rows, replace(SMALL, rate=0.0, steps=100_000, patience=2))
    model = run.run()
    assert model.about["results"]["steps"] == 600, "the first look is the best; then come two that are no better"


def test_it_learns_that_changes_which_cost_much_are_not_worth_it(rows):
    settings = replace(
        SMALL, penalty_s=500.0, steps=6000, learning_starts=500, evaluate_every=1000, buffer=10_000, rate=1e-3
    )
    training = DqnTraining(rows, settings)
    always = training.validate(tuple((np.zeros_like(w), np.eye(1, len(b), 1)[0]) for w, b in training._best))
    model = training.run()
    assert model.about["results"]["validation_s"] < 0.8 * always


def test_validation_is_what_the_planner_takes_in_a_simulated_job(rows, tmp_path):
    training = DqnTraining(rows, replace(SMALL, validation_jobs=1))
    path = save_model(training.run(), tmp_path / "model.npz")
    model = load_model(path, "dqn")
    job = rows.job(range(8), validates=True)
    planner = LearnedWindows(job.curves, job.grid, model)
    feed = MatrixFeed(job.forecasts.transpose(1, 0, 2))
    splitter = JobSplitter([f"task-{at}" for at in range(8)], planner, feed, job.curves, job.grid)
    run = run_job(splitter, job.curves, job.workloads, penalty_s=15.0)
    assert run.total_s == pytest.approx(training.validate(model.layers), rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"actions": 1}, "--actions is 1; it is 2 or more"), ({"penalty_s": -1.0}, "--penalty is -1")],
)
def test_settings_that_cannot_be_are_said(settings, message):
    with pytest.raises(OptionError, match=message):
        replace(SMALL, **settings)


def run_verb(*words):
    result = CliRunner().invoke(app, ["train", "supersteps-dqn", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_verb_writes_a_model_that_says_how_it_came_to_be(tmp_path, monkeypatch):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    out = tmp_path / "dqn.npz"
    words = ("--steps", "400", "--learning-starts", "100", "--jobs", "2", "--evaluate-every", "200", "--seed", "4")
    told = json.loads(run_verb("--out", str(out), "--forecast", "seasonal-naive", *words, "--json"))
    about = load_model(out, "dqn").about
    assert about["settings"]["seed"] == told["settings"]["seed"] == 4
    assert about["data"] == "generated"
    assert len(about["rows_sha256"]) == 64
    assert about["results"]["validation"][-1][0] == about["results"]["steps"] == 400
    assert not checkpoint_of(out).exists()
    result = CliRunner().invoke(
        app,
        [
            "bsp",
            "simulate",
            "--strategy",
            "dqn",
            "--model",
            str(out),
            "--forecast",
            "perfect",
            "--length",
            "9",
            "--json",
        ],
        catch_exceptions=False,
    )
    assert json.loads(result.stdout)["strategy"] == "dqn"
    with pytest.raises(ForesailError, match=r"a model is a file that ends in \.npz"):
        run_verb("--out", str(tmp_path / "dqn.pkl"))
    with pytest.raises(ForesailError, match="look further ahead than forecasts, which have 20"):
        run_verb("--out", str(out), "--forecast", "seasonal-naive", "--window", "21")
