from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import InputError, OptionError
from foresail.measure.training import measure_training
from foresail.traces.training.models import read_models, shipped_models
from foresail.workloads.trainers.measuring import curve


def test_what_is_measured_is_a_file_of_models(tmp_path):
    out = tmp_path / "models.json"
    shown = []
    measure_training(out, ["drnn", "vae"], steps=60, scale=0.1, on_progress=lambda *both: shown.append(both))
    drnn, vae = read_models(out).all
    assert (drnn.name, drnn.training.steps, drnn.training.report_every) == ("drnn", 60, 10)
    assert (len(drnn.training.loss), len(drnn.training.accuracy)) == (41, 41)
    assert (len(vae.training.loss), vae.training.accuracy) == (41, ())
    assert vae.training.loss[-1] < vae.training.loss[0]
    took = json.loads(out.read_text())["measured"]["models"]["drnn"]
    assert drnn.cpu_s == pytest.approx(60 * took["step_cpu_s"], rel=1e-3)
    low, high = took["step_cpu_s_quartiles"]
    assert 0 < low <= took["step_cpu_s"] <= high
    assert took["memory_bytes"] > 10e6
    assert took["checkpoint_bytes"] > 1000
    assert shown[-1] == (200, 200)
    assert shown == sorted(shown)


def test_an_interrupted_measurement_goes_on(tmp_path):
    out = tmp_path / "models.json"
    measure_training(out, ["drnn"], steps=5, scale=0.1)
    first = json.loads(out.read_text())["measured"]["models"]["drnn"]
    measure_training(out, ["drnn", "identity-rnn", "lstm"], steps=5, scale=0.1)
    again = json.loads(out.read_text())["measured"]["models"]
    assert again["drnn"] == first
    assert list(again) == [model.name for model in read_models(out).all] == ["drnn", "lstm", "identity-rnn"]
    assert [model.name for model in shipped_models().all if model.name in again] == list(again)


def test_a_file_that_was_measured_otherwise_is_not_mixed(tmp_path):
    out = tmp_path / "models.json"
    measure_training(out, ["drnn"], steps=5, scale=0.1)
    before = out.read_text()
    with pytest.raises(InputError, match=r"models.json: was measured otherwise \(seed 1, not 2\); name another"):
        measure_training(out, ["lstm"], steps=5, scale=0.1, seed=2)
    assert out.read_text() == before
    out.write_text("{}")
    with pytest.raises(InputError, match="is no file of measured models"):
        measure_training(out, ["lstm"])


def test_a_model_that_is_not_there_is_said(tmp_path):
    with pytest.raises(OptionError, match='no trainer "lsmt"; did you mean "lstm"'):
        measure_training(tmp_path / "models.json", ["lsmt"])


def test_curves_are_means_at_equal_distances():
    assert curve([9.0, *range(1, 40)], points=5) == [9.0, 9.5, 19.5, 29.5, 37.0]
    assert curve([3.0, 2.0], points=5) == [3.0, 3.0, 2.0, 2.0, 2.0]


def test_the_verb(tmp_path):
    out = tmp_path / "models.json"
    ran = CliRunner().invoke(app, ["measure", "training", "drnn", "--steps", "5", "--scale", "0.1", "--out", str(out)])
    assert (ran.exit_code, ran.stdout) == (0, f"wrote {out}\n")
    assert [model.name for model in read_models(out).all] == ["drnn"]


def test_the_losses_are_those_of_the_trainer(tmp_path):
    out = tmp_path / "models.json"
    measure_training(out, ["drnn"], steps=5, scale=0.1, seed=4)
    command = [sys.executable, "-m", "foresail.workloads.trainers", "drnn", "--steps", "5", "--scale", "0.1"]
    ran = subprocess.run(
        [*command, "--seed", "4"], env={**os.environ, "FORESAIL_JOB": "j"}, capture_output=True, text=True, check=True
    )
    first = float(ran.stdout.split("loss=")[1].split()[0])
    assert read_models(out).all[0].training.loss[0] == pytest.approx(first, rel=1e-4)
