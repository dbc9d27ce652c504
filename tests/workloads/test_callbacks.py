"""Callbacks of training libraries: with stand-ins of their documented interfaces always, with the libraries themselves
where they are installed (they are too large to be required: PyTorch alone is half a gigabyte).
"""

from __future__ import annotations

import csv
import importlib.util
import os
import signal
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from foresail.workloads import callbacks
from foresail.workloads import report as reports
from foresail.workloads.report import Reporter


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """All rows of the job so far, as (step, total, loss, accuracy, note)."""
    monkeypatch.setattr(reports, "_told", set())
    before = signal.getsignal(signal.SIGTERM)
    mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_DIR": str(tmp_path)})
    monkeypatch.setattr(reports, "_reporter", mine)

    def rows():
        assert mine.flush(30)
        return rows_of(tmp_path)

    yield rows
    signal.signal(signal.SIGTERM, before)


def rows_of(folder):
    with (folder / "j/progress.csv").open(newline="") as file:
        return [tuple(row)[1:] for row in list(csv.reader(file))[1:]]


@pytest.fixture
def library(monkeypatch):
    """Put a stand-in where a library would be, with one class that callbacks derive from."""

    def install(name, base):
        class Base:
            def __init__(self):
                self.was_made = True

            def on_anything_else(self):
                return "theirs"

        for other in ("lightning", "lightning.pytorch", "pytorch_lightning", "keras", "transformers"):
            monkeypatch.setitem(sys.modules, other, None)
        for part in (name.partition(".")[0], name):
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
        setattr(sys.modules[name], base, Base)
        for made in ("LightningProgress", "KerasProgress", "HuggingFaceProgress"):
            monkeypatch.delitem(vars(callbacks), made, raising=False)
        return Base

    yield install
    for made in ("LightningProgress", "KerasProgress", "HuggingFaceProgress"):
        vars(callbacks).pop(made, None)


@pytest.mark.parametrize("name", ["LightningProgress", "KerasProgress", "HuggingFaceProgress"])
def test_a_library_that_is_not_there_is_named(name, monkeypatch):
    for library in ("lightning", "pytorch_lightning", "keras", "transformers"):
        monkeypatch.setitem(sys.modules, library, None)
    vars(callbacks).pop(name, None)
    with pytest.raises(ImportError, match=rf"{name} needs [\w ]+, which is not installed"):
        getattr(callbacks, name)


def test_no_other_name_is_made():
    with pytest.raises(AttributeError, match="no attribute 'TorchProgress'"):
        _ = callbacks.TorchProgress


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning(library, told, package):
    base = library(package, "Callback")
    saved = []
    mine = callbacks.LightningProgress(lambda trainer: saved.append(trainer.global_step), every_s=0.0)
    assert isinstance(mine, base)
    assert (mine.was_made, mine.on_anything_else()) == (True, "theirs")
    trainer = SimpleNamespace(is_global_zero=True, global_step=0, estimated_stepping_batches=4, callback_metrics={})
    mine.on_train_start(trainer, None)
    for outputs in ({"loss": 0.9}, 0.8, None):
        trainer.global_step += 1
        mine.on_train_batch_end(trainer, None, outputs, None, 0)
    os.kill(os.getpid(), signal.SIGTERM)
    trainer.callback_metrics["val_acc"] = 0.5
    trainer.global_step = 3
    with pytest.raises(SystemExit) as left:
        mine.on_train_batch_end(trainer, None, {"loss": 0.7}, None, 3)
    assert (left.value.code, saved) == (143, [3])
    trainer.global_step = 4
    mine.on_train_batch_end(trainer, None, {"loss": 0.6}, None, 3)
    mine.on_train_end(trainer, None)
    assert told() == [
        *(("1", "4", "0.9", "", ""), ("2", "4", "0.8", "", ""), ("3", "4", "", "", "")),
        *(("3", "4", "0.7", "0.5", ""), ("3", "4", "", "", "checkpoint:sigterm")),
        *(("4", "4", "0.6", "0.5", ""), ("4", "4", "", "", "checkpoint:"), ("4", "4", "", "", "done")),
    ]


def test_lightning_reports_from_one_process_alone_and_endless_training_has_no_total(library, told):
    library("lightning.pytorch", "Callback")
    for zero in (False, True):
        mine = callbacks.LightningProgress()
        trainer = SimpleNamespace(
            is_global_zero=zero, global_step=5, estimated_stepping_batches=float("inf"), callback_metrics={}
        )
        mine.on_train_start(trainer, None)
        mine.on_train_end(trainer, None)
    assert told() == [("5", "", "", "", "resume"), ("5", "", "", "", "done")]


def test_keras(library, told):
    library("keras.callbacks", "Callback")
    saved = []
    mine = callbacks.KerasProgress(saved.append, every_s=0.0)
    mine.model = SimpleNamespace(optimizer=SimpleNamespace(iterations=2))
    mine.params = {"epochs": 2, "steps": 3}
    mine.on_train_begin(None)
    mine.on_train_batch_end(0, logs={"loss": 0.5, "accuracy": 0.25})
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        mine.on_train_batch_end(1, logs={"loss": 0.4})
    mine.on_train_end({})
    assert saved == [mine.model] * 2
    assert told() == [
        *(("2", "6", "", "", "resume"), ("3", "6", "0.5", "0.25", ""), ("4", "6", "0.4", "", "")),
        *(("4", "6", "", "", "checkpoint:sigterm"), ("4", "6", "", "", "checkpoint:"), ("4", "6", "", "", "done")),
    ]


def test_hugging_face(library, told):
    library("transformers", "TrainerCallback")
    mine = callbacks.HuggingFaceProgress()
    state = SimpleNamespace(is_world_process_zero=True, global_step=2, max_steps=9)
    control = SimpleNamespace(should_save=False)
    mine.on_train_begin(None, state, control, model=None)
    state.global_step = 3
    mine.on_step_end(None, state, control, model=None)
    assert not control.should_save
    mine.on_log(None, state, control, logs={"loss": 0.5, "epoch": 1})
    mine.on_log(None, state, control, logs={"eval_loss": 0.5})
    mine.on_evaluate(None, state, control, metrics={"eval_accuracy": 0.75})
    os.kill(os.getpid(), signal.SIGTERM)
    mine.on_step_end(None, state, control, model=None)
    assert control.should_save
    with pytest.raises(SystemExit) as left:
        mine.on_save(None, state, control)
    assert left.value.code == 143
    state.is_world_process_zero = False
    mine.on_train_end(None, state, control)
    assert told() == [
        *(("2", "9", "", "", "resume"), ("3", "9", "0.5", "", ""), ("3", "9", "", "0.75", "")),
        ("3", "9", "", "", "checkpoint:sigterm"),
    ]


STOP = """
import os, signal, sys
folder, life = sys.argv[1], sys.argv[2]
def at(step):
    if life == "1" and step == 5:
        os.kill(os.getpid(), signal.SIGTERM)
"""
PROGRAMS = {
    "torch": """
import io, torch
from pathlib import Path
from foresail.workloads.checkpoint import CheckpointFolder
from foresail.workloads.progress import TrainingProgress
torch.manual_seed(0)
x = torch.randn(64, 4); y = x.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1); optimizer = torch.optim.Adam(model.parameters(), 0.05)
checkpoints = CheckpointFolder(Path(folder, "c"), life)
found = checkpoints.newest(torch.load)
start, state = found or (0, None)
if state:
    model.load_state_dict(state["model"]); optimizer.load_state_dict(state["optimizer"])
def save(step):
    kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    checkpoints.save(step, lambda file: torch.save(kept, file))
progress = TrainingProgress(12, save, start=start)
for step in range(start + 1, 13):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    at(step)
    progress.step(step, loss=loss)
progress.done()
""",
    "lightning": """
import lightning.pytorch as pl, torch
from foresail.workloads.callbacks import LightningProgress
class Module(pl.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("val_acc", 0.5)
        return loss
    def on_train_batch_start(self, batch, index):
        at(self.trainer.global_step + 1)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.05)
torch.manual_seed(0)
x = torch.randn(32, 4)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
path = os.path.join(folder, "last.ckpt")
callback = LightningProgress(lambda trainer: trainer.save_checkpoint(path), every_s=0.0)
trainer = pl.Trainer(
    max_epochs=3, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[callback], default_root_dir=folder,
)
trainer.fit(Module(), data, ckpt_path=path if os.path.exists(path) else None)
""",
    "keras": """
os.environ.setdefault("KERAS_BACKEND", "jax")
import keras, numpy as np
from foresail.workloads.callbacks import KerasProgress
class Stop(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        at(batch + 1)
path = os.path.join(folder, "model.keras")
x = np.random.default_rng(0).standard_normal((48, 4)).astype("float32"); y = (x.sum(1) > 0).astype("float32")
if os.path.exists(path):
    model = keras.saving.load_model(path)
else:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
done = int(model.optimizer.iterations)
callback = KerasProgress(lambda model: model.save(path), every_s=0.0)
left = 12 - done
model.fit(x[: left * 4], y[: left * 4], batch_size=4, verbose=0, shuffle=False, callbacks=[Stop(), callback])
""",
    "transformers": """
import torch, transformers
from foresail.workloads.callbacks import HuggingFaceProgress
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(4, 1)
    def forward(self, x=None, labels=None):
        out = self.layer(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}
class Stop(transformers.TrainerCallback):
    def on_step_begin(self, args, state, control, **rest):
        at(state.global_step + 1)
torch.manual_seed(0)
x = torch.randn(48, 4)
data = [{"x": one, "labels": one.sum(0, keepdim=True)} for one in x]
arguments = transformers.TrainingArguments(
    output_dir=folder, max_steps=12, per_device_train_batch_size=4, logging_steps=1, save_strategy="no",
    report_to=[], disable_tqdm=True, use_cpu=True,
)
trainer = transformers.Trainer(Model(), arguments, train_dataset=data, callbacks=[Stop(), HuggingFaceProgress()])
last = transformers.trainer_utils.get_last_checkpoint(folder)
trainer.train(resume_from_checkpoint=last)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_library_itself_stops_saves_and_resumes(name, tmp_path):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed; the stand-in of its interface was tried")
    environment = {**os.environ, "FORESAIL_JOB": "j", "FORESAIL_PROGRESS_DIR": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    codes = []
    for life in ("1", "2"):
        command = [sys.executable, "-c", STOP + PROGRAMS[name], str(tmp_path), life]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        codes.append(ran.returncode)
        assert ran.returncode in {0, 143}, ran.stderr
    assert codes == [143, 0]
    rows = rows_of(tmp_path)
    notes = [(int(step), note) for step, *_, note in rows if note and note != "checkpoint:"]
    assert notes == [(5, "checkpoint:sigterm"), (5, "resume"), (12, "done")]
    steps = [int(step) for step, _, loss, *_ in rows if loss]
    assert steps == list(range(1, 13)), "none twice, none left out"
    assert all(total == "12" for _, total, *_ in rows[:5]) or name == "keras"
