"""Files of trained planners: read as they were written, refused with the remedy where they cannot be used."""

import json
import pickle
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.controllers.supersteps.learned.model import PlannerModel, load_model, save_model
from foresail.errors import ForesailError, InputError


def made_model(actions=3, window=4):
    rng = np.random.default_rng(1)
    sizes = (actions * window, 5, actions)
    layers = tuple(
        (rng.normal(size=sizes[at : at + 2]).astype(np.float32), rng.normal(size=sizes[at + 1]).astype(np.float32))
        for at in range(2)
    )
    return PlannerModel("dqn", (actions, window), layers, {"command": "foresail train"})


def rewritten(path, out, **changes):
    """The same file with parts replaced; None leaves one out."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    manifest = json.loads(str(arrays["manifest"]))
    for key, value in changes.items():
        if key in manifest:
            arrays["manifest"] = np.array(json.dumps(manifest | {key: value}))
        elif value is None:
            del arrays[key.replace("__", "/")]
        else:
            arrays[key.replace("__", "/")] = value
    with out.open("wb") as file:
        np.savez(file, **arrays)
    return out


def test_a_model_is_read_as_it_was_written(tmp_path):
    model = made_model()
    path = save_model(model, tmp_path / "deep" / "model.npz")
    again = load_model(path, "dqn")
    assert (again.strategy, again.shape, again.about) == ("dqn", (3, 4), {"command": "foresail train"})
    for layer, same in zip(model.layers, again.layers, strict=True):
        for one, other in zip(layer, same, strict=True):
            np.testing.assert_array_equal(one, other)
    assert save_model(model, tmp_path / "twice.npz").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "foresail-workload-forecaster"}, "is no trained planner"),
        ({"format_version": 2}, "is of format_version 2, and this version reads 1"),
        ({"observation": 0}, "is of observation 0, and this version reads 1"),
        ({"strategy": "learned"}, "was trained for --strategy learned, and --strategy dqn is asked for"),
        ({"shape": [3, 5]}, r"layer 1 has arrays of \(12, 5\) and \(5,\), after 15 values"),
        ({"shape": [4, 3]}, "answers with 3 values, and 4 are needed"),
        ({"weights__1": None}, "lacks a part of a trained planner: 'weights/1"),
        ({"biases__0": np.zeros(4)}, r"layer 1 has arrays of \(12, 5\) and \(4,\)"),
        ({"biases__1": np.array([0.0, np.nan, 0.0])}, "layer 2 has numbers that are not finite"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, changes, message):
    path = save_model(made_model(), tmp_path / "model.npz")
    broken = rewritten(path, tmp_path / "broken.npz", **changes)
    with pytest.raises(InputError, match=message) as raised:
        load_model(broken, "dqn")
    assert "broken.npz" in str(raised.value)
    assert "foresail train supersteps-dqn" in str(raised.value)


def test_a_file_that_is_missing_cut_or_pickled_is_said(tmp_path):
    with pytest.raises(InputError, match="no such file; make one with foresail train supersteps-dqn"):
        load_model(tmp_path / "none.npz", "dqn")
    whole = save_model(made_model(), tmp_path / "model.npz").read_bytes()
    cut = tmp_path / "cut.npz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is no trained planner, or damaged"):
        load_model(cut, "dqn")
    pickled = tmp_path / "pickled.npz"
    with zipfile.ZipFile(pickled, "w") as file:
        file.writestr("manifest.npy", pickle.dumps({"format": "foresail-superstep-planner"}))
    with pytest.raises(InputError, match="is no trained planner, or damaged"):
        load_model(pickled, "dqn")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--strategy", "dqn"), "--strategy dqn needs a trained model: --model FILE"),
        (("--strategy", "static", "--model", "MODEL"), "--model goes with --strategy dqn or learned"),
        (("--strategy", "dqn", "--model", "MODEL", "--window", "6"), "--window is 6; .* was trained to look 4"),
    ],
)
def test_options_that_do_not_go_together_are_said(tmp_path, monkeypatch, words, message):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    path = str(save_model(made_model(), tmp_path / "model.npz"))
    given = [path if word == "MODEL" else word for word in words]
    with pytest.raises(ForesailError, match=message):
        CliRunner().invoke(app, ["bsp", "simulate", *given, "--forecast", "perfect"], catch_exceptions=False)


def test_finished_jobs_of_another_model_with_the_same_name_are_run_again(tmp_path, monkeypatch):
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    path, changes = tmp_path / "model.npz", []
    words = ("--strategy", "dqn", "--model", str(path), "--forecast", "perfect", "--length", "6", "--json")
    for favourite in (0, 1):
        weights, biases = np.zeros((12, 3), np.float32), np.eye(3, dtype=np.float32)[favourite]
        save_model(PlannerModel("dqn", (3, 4), ((weights, biases),), {}), path)
        result = CliRunner().invoke(
            app, ["bsp", "simulate", *words, "--out", str(tmp_path / "jobs")], catch_exceptions=False
        )
        changes.append(json.loads(result.stdout[: result.stdout.rindex("}") + 1])["reconfigurations"])
    assert changes == [0, 5]
