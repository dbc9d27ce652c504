from __future__ import annotations

import errno
import os
import signal

import pytest

from foresail.workloads import report as reports
from foresail.workloads.progress import TrainingProgress
from foresail.workloads.report import Reporter


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """All rows of the job so far, as (step, note)."""
    monkeypatch.setattr(reports, "_told", set())
    before = signal.getsignal(signal.SIGTERM)
    mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_DIR": str(tmp_path)})
    monkeypatch.setattr(reports, "_reporter", mine)

    def rows():
        assert mine.flush(30)
        lines = (tmp_path / "j" / "progress.csv").read_text().splitlines()[1:]
        return [(int(cells[1]), cells[5]) for cells in (line.split(",") for line in lines)]

    yield rows
    signal.signal(signal.SIGTERM, before)


def run(progress, steps):
    for step in steps:
        progress.step(step, loss=1.0)


def test_rows_and_checkpoints_come_when_they_are_due(told):
    saved = []
    progress = TrainingProgress(10, saved.append, every=3, save_every=4)
    run(progress, range(1, 11))
    progress.done()
    assert saved == [4, 8, 10]
    assert told() == [
        *((1, ""), (3, ""), (4, "checkpoint:"), (6, ""), (8, "checkpoint:"), (9, ""), (10, "")),
        *((10, "checkpoint:"), (10, "done")),
    ]


def test_a_resumed_loop_says_so_first(told):
    progress = TrainingProgress(5, start=3)
    run(progress, (4, 5))
    progress.done()
    assert told() == [(3, "resume"), (4, ""), (5, ""), (5, "done")]


def test_a_request_is_answered_once(told, tmp_path):
    saved = []
    progress = TrainingProgress(100, saved.append)
    run(progress, [1])
    told()
    (tmp_path / "j" / "checkpoint-request").write_text("move-1")
    run(progress, [2])
    told()
    run(progress, [3, 4])
    assert saved == [3]
    assert told() == [(1, ""), (2, ""), (3, ""), (3, "checkpoint:move-1"), (4, "")]


def test_sigterm_saves_confirms_and_leaves_with_143(told):
    saved = []
    progress = TrainingProgress(100, saved.append, every=50)
    run(progress, [1, 2])
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit) as left:
        run(progress, [3])
    assert (left.value.code, saved) == (143, [3])
    assert told() == [(1, ""), (3, "checkpoint:sigterm")]


def test_a_sigterm_that_comes_while_a_checkpoint_is_saved_is_the_next_steps(told):
    saved = []

    def save(step):
        saved.append(step)
        if len(saved) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    progress = TrainingProgress(100, save, save_every=2)
    run(progress, [1, 2])
    with pytest.raises(SystemExit):
        run(progress, [3, 4])
    assert saved == [2, 3]
    assert told()[-2:] == [(3, ""), (3, "checkpoint:sigterm")]


def test_sigterm_after_the_last_step_changes_nothing(told):
    saved = []
    progress = TrainingProgress(2, saved.append)
    run(progress, [1])
    os.kill(os.getpid(), signal.SIGTERM)
    run(progress, [2])
    progress.done()
    assert told()[-2:] == [(2, "checkpoint:sigterm"), (2, "done")]


def test_without_a_way_to_save_sigterm_is_nobodys(told):
    before = signal.getsignal(signal.SIGTERM)
    TrainingProgress(2)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_full_volume_is_told_and_training_goes_on(told, capsys):
    tried = []

    def save(step):
        tried.append(step)
        raise OSError(errno.ENOSPC, "No space left on device")

    progress = TrainingProgress(100, save, save_every=2)
    run(progress, range(1, 9))
    assert tried == [2], "not with every step: the next attempt waits"
    err = capsys.readouterr().err
    assert "no checkpoint of step 2: [Errno 28] No space left on device; training goes on" in err
    # Told to leave, it tries once more, and leaves without a confirmation.
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit) as left:
        run(progress, [9])
    assert (left.value.code, tried) == (143, [2, 9])
    assert [note for _, note in told() if note] == []


def test_rows_up_to_a_checkpoint_are_there_before_it(told, tmp_path):
    seen = []

    def save(_step):
        seen.append((tmp_path / "j" / "progress.csv").read_text().splitlines()[-1].split(",")[1])

    run(TrainingProgress(10, save, save_every=5), range(1, 6))
    assert seen == ["5"]


def test_rows_are_so_many_seconds_apart(told):
    run(TrainingProgress(10, every_s=3600.0), range(1, 11))
    assert told() == [(1, ""), (10, "")]


def test_values_are_looked_at_only_if_a_row_is_due(told):
    class Dear:
        looked = 0

        def __float__(self):
            Dear.looked += 1
            return 0.5

    progress = TrainingProgress(100, every=10)
    for step in range(1, 31):
        progress.step(step, loss=Dear())
    assert Dear.looked == 4


def test_done_needs_to_know_where_the_end_was(told):
    progress = TrainingProgress()
    run(progress, [1, 2])
    with pytest.raises(TypeError, match="needs the last step"):
        progress.done()
    progress.done(2)
    assert told()[-1] == (2, "done")
