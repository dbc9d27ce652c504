"""What the trainers compute: derivatives against finite differences, sums against plain loops."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from foresail.workloads.trainers import __main__ as program
from foresail.workloads.trainers import data
from foresail.workloads.trainers.layers import Adam, filter_forward, halve_forward
from foresail.workloads.trainers.models import MODELS
from foresail.workloads.trainers.training import Recipe, TrainingRun

SCALE = {"lenet": 0.34}
"""Small enough to be derived number by number, large enough that no layer has a single unit."""


def small(name):
    """A tiny model in double precision, away from its first parameters, with a batch."""
    model = MODELS[name]
    chance = np.random.default_rng(5)
    parameters = {
        key: value + 0.05 * chance.standard_normal(value.shape)
        for key, value in model.first(chance, SCALE.get(name, 0.04)).items()
    }
    batch = model.batch(chance, 6)
    doubled = type(batch)(*(part.astype(np.float64) if part.dtype == np.float32 else part for part in batch))
    return model, parameters, doubled


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_finite_differences(name):
    model, parameters, batch = small(name)
    found = model.learn(parameters, batch).gradients
    assert found.keys() == parameters.keys()
    chance = np.random.default_rng(6)
    for key, value in parameters.items():
        assert found[key].shape == value.shape
        flat = value.reshape(-1)
        for at in chance.choice(flat.size, size=min(flat.size, 12), replace=False):
            kept, width = flat[at], 1e-5
            flat[at] = kept + width
            above = model.learn(parameters, batch).loss
            flat[at] = kept - width
            below = model.learn(parameters, batch).loss
            flat[at] = kept
            assert found[key].reshape(-1)[at] == pytest.approx((above - below) / (2 * width), rel=1e-4, abs=1e-7), key


@pytest.mark.parametrize("name", MODELS)
def test_arrays_stay_single_precision(name):
    training = TrainingRun(Recipe(name, scale=0.1, batch=8))
    learnt = training.step(1)
    assert {value.dtype for value in training.parameters.values()} == {np.dtype(np.float32)}
    assert {value.dtype for value in training.optimiser.means.values()} == {np.dtype(np.float32)}
    assert {value.dtype for value in learnt.gradients.values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns(name):
    # As a process of its own, which uses one thread and so does not wait for other cores at every product.
    command = [sys.executable, "-m", "foresail.workloads.trainers", name, "--steps", "100", "--report-every", "1"]
    ran = subprocess.run(
        [*command, "--scale", "0.25", "--batch", "32"],
        env={**os.environ, "FORESAIL_JOB": "j"},
        capture_output=True,
        text=True,
        check=True,
    )
    losses = [float(loss) for loss in re.findall(r"loss=(\S+)", ran.stdout)]
    assert len(losses) == 100
    assert np.mean(losses[-20:]) < 0.95 * np.mean(losses[:5])
    assert ran.stdout.splitlines()[-1] == "foresail progress step=100 total=100 note=done"


def test_parts_of_a_batch_say_together_what_the_whole_says():
    for name in MODELS:
        whole = TrainingRun(Recipe(name, scale=0.2, batch=10))
        parts = TrainingRun(Recipe(name, scale=0.2, batch=10, threads=3))
        one, other = whole.step(1), parts.step(1)
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.accuracy == (None if one.accuracy is None else pytest.approx(one.accuracy))
        for key, gradient in one.gradients.items():
            np.testing.assert_allclose(other.gradients[key], gradient, rtol=1e-3, atol=1e-4)


def test_parts_are_summed_in_the_same_order_each_time():
    losses = []
    for _ in range(2):
        training = TrainingRun(Recipe("lenet", scale=0.5, batch=30, threads=4))
        losses.append([training.step(step).loss for step in range(1, 15)])
    assert losses[0] == losses[1]


def test_more_threads_than_examples_do_no_harm():
    assert np.isfinite(TrainingRun(Recipe("lstm", scale=0.05, batch=2, threads=5)).step(1).loss)


def test_filters_and_halves_are_what_loops_give():
    chance = np.random.default_rng(1)
    x, weights = chance.standard_normal((2, 6, 7, 3)), chance.standard_normal((3, 3, 3, 4))
    bias = chance.standard_normal(4)
    found, _ = filter_forward(x, weights, bias)
    plain = np.zeros((2, 4, 5, 4))
    for one in range(2):
        for down in range(4):
            for right in range(5):
                for out in range(4):
                    patch = x[one, down : down + 3, right : right + 3, :]
                    plain[one, down, right, out] = (patch * weights[:, :, :, out]).sum() + bias[out]
    np.testing.assert_allclose(found, plain)
    np.testing.assert_allclose(halve_forward(x[:, :, :6])[1, 2, 1], x[1, 4:6, 2:4].mean(axis=(0, 1)))


def test_adam_takes_the_published_steps():
    parameters = {"x": np.array([1.0, -2.0])}
    adam = Adam(parameters, rate=0.1)
    mean = square = np.zeros(2)
    plain = np.array([1.0, -2.0])
    for step, gradient in enumerate(([0.5, -1.0], [0.1, 3.0], [-2.0, 0.0]), start=1):
        adam.update(parameters, {"x": np.array(gradient)}, step)
        mean, square = 0.9 * mean + 0.1 * np.array(gradient), 0.999 * square + 0.001 * np.square(gradient)
        plain = plain - 0.1 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-7)
        np.testing.assert_allclose(parameters["x"], plain, rtol=1e-5)


def test_the_end_of_a_sequence_is_the_end_of_what_it_says():
    model, parameters, batch = small("drnn")
    longer = batch._replace(values=batch.values.copy())
    for row, length in enumerate(batch.lengths):
        longer.values[row, length:] = 7.0
    assert model.learn(parameters, longer).loss == model.learn(parameters, batch).loss


def test_data_are_the_seeds_and_look_as_said():
    chance = np.random.default_rng([1, 2])
    drawn = data.digits(chance, 500)
    assert (drawn.images.shape, drawn.images.dtype) == ((500, 28, 28), np.float32)
    assert set(drawn.labels) == set(range(10))
    np.testing.assert_array_equal(data.digits(np.random.default_rng([1, 2]), 500).images, drawn.images)
    assert not np.array_equal(data.digits(np.random.default_rng([1, 3]), 500).images, drawn.images)
    told = data.sequences(chance, 500)
    steps = np.arange(data.LONGEST) < told.lengths[:, None]
    assert (told.values[:, :, 0][~steps] == 0).all()
    rises = np.diff(told.values[:, :, 0], axis=1)
    even = np.array([np.ptp(row[: length - 1]) < 1e-6 for row, length in zip(rises, told.lengths, strict=True)])
    np.testing.assert_array_equal(even, told.labels == 0)
    added = data.sums(chance, 500)
    np.testing.assert_allclose(added.sums, (added.inputs[:, :, 0] * added.inputs[:, :, 1]).sum(axis=1), rtol=1e-6)
    assert (added.inputs[:, :, 1].sum(axis=1) == 2).all()
    seen = data.pictures(chance, 50, 3)
    assert (seen.pixels.min(), seen.pixels.max(), seen.chance.shape) == (0.0, 1.0, (50, 3))


def test_every_model_has_a_name_on_the_command_line():
    assert program.NAMES.keys() == MODELS.keys()


@pytest.mark.parametrize(
    "wrong", [["nobody"], ["lstm", "--scale", "0"], ["lstm", "--steps", "0"], ["lstm", "--seed=-1"]]
)
def test_a_wrong_command_line_is_2(wrong, capsys):
    with pytest.raises(SystemExit) as left:
        program.main(wrong)
    assert left.value.code == 2
    assert wrong[-1].removeprefix("--seed=") in capsys.readouterr().err
