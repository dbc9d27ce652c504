"""Event files of a real writer become progress."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import structlog
from tensorboardX import SummaryWriter
from tests.live.telemetry.reporting import NOW_S, Reporting
from tests.live.telemetry.test_tfrecord import framed

from foresail.live.telemetry.folders import JobsFolder, Place
from foresail.live.telemetry.tensorboard import TensorBoardFolders, event_files, stated_tags

JOB = "team/train"


class Board(Reporting):
    """A folder of event files that is looked at."""

    def __init__(self, root: Path, **annotations: str) -> None:
        super().__init__()
        self.root = root
        self.folder = root / "team/train"
        stated = {f"foresail.dev/progress-{name}": text for name, text in annotations.items()}
        self.run("pod-1", job="train", began_s=NOW_S - 50_000, annotations=stated)
        self.source = TensorBoardFolders([JobsFolder(root)], self.jobs, self.store, every_s=5.0)

    def write(self, *scalars: tuple[str, float, int, float], run: str = "", suffix: str = "") -> None:
        """Tag, value, step and seconds ago, with a writer of its own: a new file each time."""
        writer = SummaryWriter(str(self.folder / run), filename_suffix=suffix)
        for tag, value, step, ago_s in scalars:
            writer.add_scalar(tag, value, step, walltime=NOW_S - ago_s)
        writer.close()

    def look(self) -> list[dict[str, Any]]:
        with structlog.testing.capture_logs() as logs:
            asyncio.run(self.source.look())
        return logs

    def state(self) -> tuple[Any, ...]:
        known = self.store.of(JOB)
        return (known.row.step, known.total, known.loss, known.accuracy)


def test_loss_counts_the_steps_and_accuracy_stands_beside_it(tmp_path):
    one = Board(tmp_path, total="1000")
    one.write(
        ("train/loss", 2.0, 10, 90), ("train/acc", 0.25, 1, 85), ("lr", 0.1, 10, 84), ("train/loss", 1.5, 20, 80),
        ("val/loss", 9.0, 20, 79),
    )  # fmt: skip
    assert one.look() == []
    assert one.state() == (20, 1000, 1.5, 0.25)
    assert one.counted() == {("tensorboard", "taken"): 3}
    assert one.look() == []
    assert one.counted() == {("tensorboard", "taken"): 3}


def test_a_restart_writes_another_file_and_begins_where_it_was_saved(tmp_path):
    one = Board(tmp_path)
    one.write(("loss", 2.0, 10, 90), ("loss", 1.5, 20, 80), run="version_0")
    one.look()
    one.write(("loss", 1.75, 16, 70), ("loss", 1.25, 26, 60), run="version_1")
    assert one.look() == []
    assert one.state()[0] == 26
    assert one.store.of(JOB).resumed.step == 16
    assert one.counted() == {("tensorboard", "taken"): 4}


def test_a_better_name_for_a_loss_takes_over_and_a_stated_one_is_the_only_one(tmp_path):
    one = Board(tmp_path)
    one.write(("epoch_loss", 5.0, 1, 90), ("loss", 4.0, 2, 80), ("epoch_loss", 3.0, 3, 70))
    one.look()
    assert one.state() == (2, None, 4.0, None)
    stated = Board(tmp_path / "stated", tags="loss=validation/objective, accuracy=score,other=x,loss")
    stated.write(("loss", 5.0, 1, 90), ("score", 0.5, 7, 80))
    stated.write(("objective", 3.0, 2, 70), run="validation")
    stated.look()
    assert stated.state() == (2, None, 3.0, 0.5)


def test_accuracies_alone_count_steps_until_there_is_a_loss(tmp_path):
    one = Board(tmp_path)
    one.write(("acc", 0.25, 5, 90), ("acc", 0.5, 6, 80))
    one.look()
    assert one.state() == (6, None, None, 0.5)
    one.write(("loss", 2.0, 3, 70), ("acc", 0.75, 7, 60), suffix="x")
    one.look()
    assert one.state() == (3, None, 2.0, 0.75)


def test_a_damaged_record_and_a_loss_that_is_none_are_told_and_the_others_count(tmp_path):
    one = Board(tmp_path)
    one.write(("loss", 2.0, 10, 90), ("loss", float("nan"), 15, 85), ("loss", 1.5, 20, 80))
    (file,) = one.folder.iterdir()
    data = bytearray(file.read_bytes())
    at = data.index(b"loss")
    data[at] ^= 1
    file.write_bytes(bytes(data) + framed(b"\xff\xff") + b"\0" * 30)
    logs = one.look()
    assert one.state()[0] == 20
    assert one.counted() == {("tensorboard", "taken"): 1, ("tensorboard", "damaged"): 4}
    assert logs[0]["row"].startswith(f"'{file.name}, byte ")
    assert logs[0]["why"] == "the record is damaged: its checksum is another"


def test_a_file_in_any_number_of_pieces_gives_the_same(tmp_path):
    whole, pieces = Board(tmp_path / "whole"), Board(tmp_path / "pieces")
    whole.write(*(("loss", 1.0 / step, step, 100 - step) for step in range(1, 30)))
    whole.look()
    (file,) = whole.folder.iterdir()
    data = file.read_bytes()
    pieces.folder.mkdir(parents=True)
    for start in range(0, len(data), 41):
        with (pieces.folder / file.name).open("ab") as grows:
            grows.write(data[start : start + 41])
        assert pieces.look() == []
    assert pieces.state() == whole.state() == (29, None, pytest.approx(1 / 29), None)
    assert pieces.counted() == whole.counted() == {("tensorboard", "taken"): 29}


def test_links_and_depths_are_not_followed_and_the_newest_files_are_read(tmp_path):
    folder = tmp_path / "job"
    deep = folder / "a/b/c/d"
    (deep / "e").mkdir(parents=True)
    (folder / "loop").symlink_to(folder)
    for place in (folder, deep, deep / "e"):
        (place / "events.out.tfevents.1").touch()
    (folder / "events.out.tfevents.2").symlink_to("/etc/passwd")
    (folder / "other").touch()
    place = Place(tmp_path, ("job",))
    assert event_files(place) == [("events.out.tfevents.1",), ("a", "b", "c", "d", "events.out.tfevents.1")]
    for number in range(100, 140):
        (folder / f"events.out.tfevents.{number}").touch()
    assert event_files(place) == [(f"events.out.tfevents.{number}",) for number in range(108, 140)]
    assert event_files(Place(tmp_path, ("none",))) == []


def test_tags_are_stated_as_pairs():
    assert stated_tags("loss=a/b, accuracy = c ,x=y,loss,accuracy=") == {"loss": "a/b", "accuracy": "c"}
    assert stated_tags("") == {}
