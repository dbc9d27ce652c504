from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foresail.workloads import report as reports
from foresail.workloads.checkpoint import CheckpointFolder, FencedOff


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch):
    monkeypatch.setattr(reports, "_told", set())


def save(checkpoints, step, content=None):
    data = str(step).encode() if content is None else content
    return checkpoints.save(step, lambda file: file.write(data))


def read(file):
    return file.read()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_comes_back_and_two_stay(tmp_path):
    mine = CheckpointFolder(tmp_path / "j", "a")
    assert mine.newest(read) is None
    for step in (9, 10, 100):
        save(mine, step)
    assert mine.newest(read) == (100, b"100")
    assert [one.step for one in mine.there()] == [100, 10]
    assert (tmp_path / "j" / "fence").read_text() == "a"
    assert len(names(tmp_path / "j")) == 3, "no leftovers"


@pytest.mark.parametrize("spoil", ["cut", "flip", "empty", "gone"])
def test_a_damaged_one_is_told_and_the_one_before_taken(tmp_path, capsys, spoil):
    mine = CheckpointFolder(tmp_path, "a")
    save(mine, 1, b"one" * 100)
    path = save(mine, 2, b"two" * 100)
    if spoil == "gone":
        path.unlink()
        path.symlink_to("nowhere")
    else:
        data = path.read_bytes()
        path.write_bytes({"cut": data[:-1], "flip": data[:5] + b"!" + data[6:], "empty": b""}[spoil])
    assert CheckpointFolder(tmp_path, "b").newest(read) == (1, b"one" * 100)
    told = capsys.readouterr().err
    assert str(path) in told
    assert "the one before is taken" in told


def test_all_damaged_is_a_new_beginning(tmp_path):
    mine = CheckpointFolder(tmp_path, "a")
    save(mine, 1).write_bytes(b"x")
    assert mine.newest(read) is None


def test_what_was_overtaken_leaves_with_75_and_writes_nothing(tmp_path, capsys):
    old = CheckpointFolder(tmp_path, "old")
    save(old, 1)
    new = CheckpointFolder(tmp_path, "new")
    before = names(tmp_path)
    written = []
    with pytest.raises(FencedOff) as left:
        old.save(2, written.append)
    assert (left.value.code, written, names(tmp_path)) == (75, [], before)
    assert f"{tmp_path} belongs to new now" in capsys.readouterr().err
    save(new, 2)
    assert new.newest(read) == (2, b"2")


def test_a_successor_that_comes_while_a_checkpoint_is_written_wins(tmp_path):
    old = CheckpointFolder(tmp_path, "old")
    save(old, 1)
    found = []

    def write(file):
        file.write(b"late")
        found.append(CheckpointFolder(tmp_path, "new").newest(read))

    with pytest.raises(FencedOff):
        old.save(2, write)
    assert found == [(1, b"1")]
    assert [one.step for one in old.there()] == [1]
    assert [name for name in names(tmp_path) if name.startswith(".")] == []


def test_a_successor_that_comes_between_check_and_rename_wins(tmp_path, monkeypatch):
    """The last gap: the fence was looked at and was ours; what is half written is gone before it gets its name."""
    old = CheckpointFolder(tmp_path, "old")
    save(old, 1)
    found = []
    real = os.replace

    def replace(source, target):
        if Path(target).name.startswith("step-000000000002") and not found:
            found.append(None)
            found[0] = CheckpointFolder(tmp_path, "new").newest(read)
        return real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(FencedOff):
        save(old, 2)
    assert found == [(1, b"1")]
    assert [one.step for one in old.there()] == [1], "nothing appears behind the successor's back"


def test_the_same_pod_goes_on_after_its_container_was_restarted(tmp_path):
    save(CheckpointFolder(tmp_path, "pod"), 1)
    again = CheckpointFolder(tmp_path, "pod")
    save(again, 2)
    assert again.newest(read) == (2, b"2")


def test_without_a_name_everybody_is_somebody_else(tmp_path):
    first = CheckpointFolder(tmp_path)
    CheckpointFolder(tmp_path)
    with pytest.raises(FencedOff):
        save(first, 1)


def test_what_is_half_written_is_swept_up(tmp_path):
    (tmp_path / ".writing-abc").write_text("half")
    (tmp_path / "mine.txt").write_text("somebody's")
    CheckpointFolder(tmp_path, "a")
    assert names(tmp_path) == ["fence", "mine.txt"]


def test_a_full_volume_is_an_error_that_leaves_what_was_there(tmp_path):
    mine = CheckpointFolder(tmp_path, "a")
    save(mine, 1)
    before = names(tmp_path)

    def write(file):
        file.write(b"some")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        mine.save(2, write)
    assert names(tmp_path) == before
    save(mine, 3)
    assert mine.newest(read) == (3, b"3")


def test_a_folder_that_cannot_be_taken_over_yet_is_tried_again(tmp_path, capsys):
    blocked = tmp_path / "volume"
    blocked.write_text("no folder yet")
    mine = CheckpointFolder(blocked / "j", "a")
    assert "cannot be taken over yet" in capsys.readouterr().err
    # Nobody knows what is there: to begin anew now might throw a training away.
    with pytest.raises(OSError, match="Not a directory"):
        mine.newest(read)
    with pytest.raises(OSError, match="Not a directory"):
        save(mine, 1)
    blocked.unlink()
    save(mine, 2)
    assert mine.newest(read) == (2, b"2")
    assert (blocked / "j" / "fence").read_text() == "a"


def test_who_could_not_take_over_does_not_push_out_who_came_later(tmp_path, monkeypatch):
    CheckpointFolder(tmp_path, "before")
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", lambda _file: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        mine = CheckpointFolder(tmp_path, "mine")
    assert (tmp_path / "fence").read_text() == "before"
    CheckpointFolder(tmp_path, "later")
    with pytest.raises(FencedOff):
        save(mine, 1)


def test_a_fence_that_somebody_removed_is_put_back(tmp_path):
    mine = CheckpointFolder(tmp_path, "a")
    (tmp_path / "fence").unlink()
    save(mine, 1)
    assert (tmp_path / "fence").read_text() == "a"


def test_the_environment_names_folder_and_pod(tmp_path, monkeypatch):
    monkeypatch.delenv("FORESAIL_CHECKPOINT_DIR", raising=False)
    assert CheckpointFolder.from_environment() is None
    monkeypatch.setenv("FORESAIL_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("FORESAIL_JOB", "team/j")
    monkeypatch.setenv("FORESAIL_POD_UID", "1-2-3")
    mine = CheckpointFolder.from_environment()
    assert (mine.folder, (tmp_path / "team" / "j" / "fence").read_text()) == (tmp_path / "team" / "j", "1-2-3")


def test_it_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    happened = []
    real_sync, real_replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (happened.append("sync"), real_sync(file))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (happened.append(to.name[:5]), real_replace(self, to))[1])
    save(CheckpointFolder(tmp_path, "a"), 1)
    assert happened == ["sync", "fence", "sync", "step-", "sync"], "file, name, and the folder that holds the name"


PROGRAM = """
import sys
from pathlib import Path
from foresail.workloads.checkpoint import CheckpointFolder
mine = CheckpointFolder(Path(sys.argv[1]), "old")
print("ready", flush=True)
sys.stdin.readline()
mine.save(1, lambda file: file.write(b"late"))
"""


def test_a_process_that_is_overtaken_ends_with_75(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        CheckpointFolder(tmp_path, "new")
        process.communicate("go\n")
    assert process.returncode == 75
    assert names(tmp_path) == ["fence"]
