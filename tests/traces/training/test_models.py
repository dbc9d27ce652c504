import json

import pytest

from foresail.errors import InputError
from foresail.traces.training.models import read_models, shipped_models

GOOD = {"steps": 100, "report_every": 10, "cpu_s": 5, "image": "i", "loss": [2, 1], "aliases": ["other"]}


@pytest.fixture
def models_file(tmp_path):
    def write(models, **further):
        path = tmp_path / "models.json"
        path.write_text(
            json.dumps({"format": "foresail-training-models", "format_version": 1, "models": models} | further)
        )
        return path

    return write


def test_every_model_that_schedules_name_is_shipped():
    models = shipped_models()
    assert [model.name for model in models.all] == ["birnn", "drnn", "lstm", "lenet", "vae", "identity-rnn"]
    assert models.find("rnn") is models.find("lstm")
    assert models.find("cnn") is None


def test_a_model_is_read(models_file):
    model = read_models(models_file({"m": GOOD})).find("other")
    assert (model.name, model.cpu_s, model.image) == ("m", 5.0, "i")
    assert model.training.loss == (2.0, 1.0)
    assert model.training.accuracy == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"steps": 0}, "model m: steps is 0; it is a whole number above 0"),
        ({"steps": 5}, "model m: report_every is 10; it is a whole number from 1 to the 5 steps"),
        ({"cpu_s": 0}, "model m: cpu_s is 0; it is a number of CPU-seconds above 0"),
        ({"cpu_s": True}, "model m: cpu_s is True"),
        ({"image": ""}, "model m: image is ''; it is the name of an image"),
        ({"loss": [1]}, "model m: loss is [1]; it is a list of two or more numbers"),
        ({"accuracy": [1, "2"]}, "model m: accuracy is [1, '2']"),
        ({"aliases": "a"}, "model m: aliases is 'a'; it is a list of names"),
        ({"lose": [1, 2]}, 'model m: unknown key "lose"; did you mean "loss"?'),
    ],
)
def test_a_mistake_names_file_model_and_key(models_file, change, told):
    path = models_file({"m": GOOD | change})
    with pytest.raises(InputError) as error:
        read_models(path)
    assert str(error.value).startswith(f"{path}: {told}")


def test_names_and_aliases_differ(models_file):
    with pytest.raises(InputError, match='two models are called "other"'):
        read_models(models_file({"m": GOOD, "other": GOOD | {"aliases": []}}))


def test_another_format_is_refused(models_file):
    with pytest.raises(InputError, match='does not say "format"'):
        read_models(models_file({"m": GOOD}, format_version=2))
