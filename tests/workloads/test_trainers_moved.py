"""Trainers that are stopped, killed and moved: the losses are those of a training that nobody disturbed, bit by bit."""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from foresail.workloads.trainers.models import MODELS

WITHIN_S = 120.0


class Job:
    """A training job with a volume, whose processes come and go."""

    def __init__(self, folder, model, steps, *arguments):
        self.folder, self.life = folder, 0
        self.command = [
            *(sys.executable, "-m", "foresail.workloads.trainers", model, "--steps", str(steps), "--scale", "0.1"),
            *("--batch", "8", "--report-every", "1", *arguments),
        ]

    def start(self):
        self.life += 1
        environment = {
            **os.environ,
            "FORESAIL_JOB": "j",
            "FORESAIL_PROGRESS_DIR": str(self.folder / "progress"),
            "FORESAIL_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "FORESAIL_POD_UID": f"pod-{self.life}",
        }
        return subprocess.Popen(
            self.command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self):
        with self.start() as process:
            said, told = process.communicate(timeout=WITHIN_S)
        return process.returncode, said, told

    def stop_at(self, step, how):
        """Wait until a life has reported this step, then send the signal; its exit code and what it said."""
        with self.start() as process:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if f" step={step} " in line:
                    process.send_signal(how)
                    break
            said, told = process.communicate(timeout=WITHIN_S)
        return process.returncode, "".join(lines) + said, told

    @property
    def rows(self):
        with (self.folder / "progress/j/progress.csv").open(newline="") as file:
            return [(int(row["step"]), row["loss"], row["accuracy"], row["note"]) for row in csv.DictReader(file)]

    @property
    def losses(self):
        """Every step's loss and accuracy, as text; a step that was made twice must be the same twice."""
        found = {}
        for step, loss, accuracy, _note in self.rows:
            if loss:
                assert found.setdefault(step, (loss, accuracy)) == (loss, accuracy), f"step {step} came out differently"
        return found

    @property
    def confirmed(self):
        return [(step, note) for step, *_, note in self.rows if note.startswith("checkpoint:")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The losses of each model's training when nobody disturbs it."""
    kept = {}

    def losses(model, steps):
        if (model, steps) not in kept:
            job = Job(tmp_path_factory.mktemp(model), model, steps)
            assert job.run()[0] == 0
            kept[model, steps] = job.losses
            assert list(kept[model, steps]) == list(range(1, steps + 1))
        return kept[model, steps]

    return losses


@pytest.mark.parametrize("model", MODELS)
def test_losses_go_on_bit_by_bit_through_stops_and_kills(model, tmp_path, undisturbed):
    steps, chance = 60, random.Random(model)  # noqa: S311 - where to disturb
    job = Job(tmp_path, model, steps, "--save-every", "7")
    stop, kill = sorted(chance.sample(range(5, 50), 2))
    code, said, told = job.stop_at(stop, signal.SIGTERM)
    assert (code, told) == (143, ""), said
    ((at, _note),) = [one for one in job.confirmed if one[1] == "checkpoint:sigterm"]
    assert at >= stop
    assert "note=done" not in said
    code, _, _ = job.stop_at(max(kill, at + 1), signal.SIGKILL)
    assert code == -signal.SIGKILL
    code, said, told = job.run()
    assert (code, told) == (0, ""), said
    assert job.losses == undisturbed(model, steps)
    # The row of the life that was killed may have been killed with it.
    assert [note for *_, note in job.rows].count("resume") in {1, 2}
    assert job.rows[-1] == (steps, "", "", "done")


def test_no_step_beyond_the_last_checkpoint_is_lost(tmp_path):
    job = Job(tmp_path, "drnn", 400, "--save-every", "1000")
    assert job.stop_at(20, signal.SIGTERM)[0] == 143
    (confirmed, _note) = job.confirmed[-1]
    job.run()
    resumed = next(step for step, *_, note in job.rows if note == "resume")
    assert resumed == confirmed
    steps = [step for step, loss, *_ in job.rows if loss]
    assert steps == list(range(1, 401)), "no step was made twice, none was left out"


def test_what_is_complete_is_not_trained_again(tmp_path):
    job = Job(tmp_path, "drnn", 5)
    assert job.run()[0] == 0
    before = len(job.rows)
    assert job.run()[0] == 0
    assert [note for *_, note in job.rows[before:]] == ["resume", "checkpoint:", "done"]


def test_a_damaged_checkpoint_costs_steps_and_nothing_else(tmp_path, undisturbed):
    job = Job(tmp_path, "drnn", 60, "--save-every", "10")
    job.stop_at(35, signal.SIGKILL)
    newest = max((tmp_path / "checkpoints/j").glob("step-*"))
    newest.write_bytes(newest.read_bytes()[:-20])
    code, _, told = job.run()
    assert code == 0
    assert f"{newest} is damaged" in told
    assert job.losses == undisturbed("drnn", 60)


def test_a_job_with_another_recipe_is_refused_with_the_remedy(tmp_path):
    job = Job(tmp_path, "drnn", 5)
    job.run()
    job.command += ["--seed", "2"]
    code, _, told = job.run()
    assert code == 2
    assert "of a training with seed 1, not 2; name another job (FORESAIL_JOB) or remove its folder" in told


def test_a_checkpoint_is_data_alone(tmp_path):
    job = Job(tmp_path, "drnn", 5)
    job.run()
    (path,) = (tmp_path / "checkpoints/j").glob("step-*")
    assert b"pickle" not in path.read_bytes()
    from zipfile import ZipFile  # noqa: PLC0415 - only here

    assert {name.partition(".")[0] for name in ZipFile(path).namelist()} == {"recipe", "parameter", "mean", "square"}


def test_who_is_overtaken_leaves_with_75_and_the_successor_is_not_disturbed(tmp_path, undisturbed):
    """Two lives at once, as when a node is cut off: the fence decides for the younger."""
    job = Job(tmp_path, "drnn", 60, "--save-every", "10")
    with job.start() as old:
        for line in old.stdout:
            if " step=12 " in line:
                os.kill(old.pid, signal.SIGSTOP)
                break
        assert job.run()[0] == 0
        whole = sorted((tmp_path / "checkpoints/j").iterdir())
        os.kill(old.pid, signal.SIGCONT)
        _, told = old.communicate(timeout=WITHIN_S)
    assert old.returncode == 75
    assert "belongs to pod-2 now" in told
    assert sorted((tmp_path / "checkpoints/j").iterdir()) == whole
    assert job.losses == undisturbed("drnn", 60), "and what the old one still told was not wrong"


def test_a_request_in_the_folder_is_answered_while_training_goes_on(tmp_path):
    job = Job(tmp_path, "drnn", 100_000)
    request = tmp_path / "progress/j/checkpoint-request"
    request.parent.mkdir(parents=True)
    with job.start() as process:
        process.stdout.readline()
        request.write_text("move-1")
        until_s = time.monotonic() + WITHIN_S
        for line in process.stdout:
            if "note=checkpoint:move-1" in line or time.monotonic() > until_s:
                break
        process.terminate()
        process.communicate(timeout=WITHIN_S)
    assert process.returncode == 143
    assert [note for _, note in job.confirmed if note != "checkpoint:"] == ["checkpoint:move-1", "checkpoint:sigterm"]
