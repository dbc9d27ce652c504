"""Files of jobs on a shared folder become progress, and checkpoints are asked for beside them."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.live.telemetry.reporting import NOW_S, Reporting, counts
from tests.live.volumes import fill, small_volume

from foresail.errors import OptionError
from foresail.live.telemetry.checkpoints import ReportedCheckpoints, VolumeFullError
from foresail.live.telemetry.csv_folder import CsvFolders
from foresail.live.telemetry.folders import JobsFolder

JOB = "team/train"


class Shared(Reporting):
    """A folder that jobs write to and that is looked at."""

    def __init__(self, *folders: JobsFolder) -> None:
        super().__init__()
        self.source = CsvFolders(folders, self.jobs, self.store, every_s=5.0)
        self.checkpoints = ReportedCheckpoints(self.store, [self.source], self.metrics)

    def look(self) -> None:
        asyncio.run(self.source.look())


def write(folder: Path, *rows: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "progress.csv").open("a") as file:
        if not file.tell():
            file.write("time,step,total,loss,accuracy,note\n")
        file.writelines(f"{row}\n" for row in rows)


def row(ago_s: float, step: int, note: str = "") -> str:
    return f"{NOW_S - ago_s},{step},1000,0.5,,{note}"


@pytest.fixture
def one(tmp_path: Path) -> Shared:
    shared = Shared(JobsFolder(tmp_path))
    shared.run("pod-1", job="train", began_s=NOW_S - 1000)
    return shared


def test_rows_are_found_below_namespace_and_job_as_they_come(one, tmp_path):
    one.look()
    assert one.step(JOB) is None
    write(tmp_path / "team/train", row(90, 10), row(80, 20))
    one.look()
    assert one.step(JOB) == 20
    write(tmp_path / "team/train", row(70, 30))
    one.look()
    one.look()
    assert one.step(JOB) == 30
    assert one.counted() == {("csv", "taken"): 3}
    assert one.source.problem == ""


def test_a_job_is_read_in_its_own_namespace_and_under_its_own_names_alone(one, tmp_path):
    one.run("pod-9", namespace="other", job="train")
    one.run("plain")
    write(tmp_path / "other/train", row(90, 7))
    write(tmp_path / "team/plain", row(90, 8))
    write(tmp_path / "team/nobody", row(90, 9))
    write(tmp_path / "train", row(90, 10))
    one.look()
    assert [one.step(job) for job in (JOB, "other/train", "team/uid-team-plain", "team/nobody")] == [None, 7, 8, None]


def test_a_folder_of_one_namespace_has_jobs_at_its_top(tmp_path):
    shared = Shared(JobsFolder(tmp_path / "a", "team"), JobsFolder(tmp_path / "b", "other"))
    shared.run("pod-1", job="train")
    shared.run("pod-1", namespace="other", job="train")
    write(tmp_path / "a/train", row(90, 1))
    write(tmp_path / "b/train", row(90, 2))
    shared.look()
    assert (shared.step(JOB), shared.step("other/train")) == (1, 2)


def test_steps_go_on_across_a_move_and_nothing_is_read_twice(one, tmp_path):
    write(tmp_path / "team/train", row(90, 10), row(80, 20, "checkpoint:"))
    one.look()
    one.end("uid-team-pod-1")
    one.look()
    one.run("pod-2", job="train", began_s=NOW_S - 70)
    write(tmp_path / "team/train", row(60, 20, "resume"), row(50, 30))
    with structlog.testing.capture_logs() as logs:
        one.look()
    assert (one.step(JOB), logs) == (30, [])
    assert one.counted() == {("csv", "taken"): 4}


def test_damaged_lines_are_told_with_job_row_and_reason_and_the_others_count(one, tmp_path):
    write(tmp_path / "team/train", row(90, 10), "nonsense", row(80, 20), f"{NOW_S - 70},-1,,,,", row(60, 30))
    with structlog.testing.capture_logs() as logs:
        one.look()
    assert one.step(JOB) == 30
    assert one.counted() == {("csv", "taken"): 3, ("csv", "damaged"): 2}
    assert (logs[0]["job"], logs[0]["row"], logs[0]["why"]) == (
        JOB,
        "'nonsense'",
        "the line has 1 cells, its file 6 columns",
    )


def test_a_file_that_is_cut_short_is_read_anew_and_a_long_one_from_its_last_rows(one, tmp_path):
    file = tmp_path / "team/train/progress.csv"
    write(file.parent, *(f"{NOW_S - 20_000 + n},{n},,0.5,," for n in range(15_000)))
    with structlog.testing.capture_logs() as logs:
        one.look()
    assert one.step(JOB) == 14_999
    assert [log["why"] for log in logs] == [
        f"{file.stat().st_size - 2**18} bytes of it are passed over; the last 262144 are read"
    ]
    assert one.counted().keys() == {("csv", "taken")}
    file.write_text("step,time\n")
    one.look()
    write(file.parent, f"15001,{NOW_S}")
    with structlog.testing.capture_logs() as logs:
        one.look()
    assert (one.step(JOB), logs) == (15_001, [])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/etc/passwd"), Path.mkdir])
def test_what_is_no_file_is_told_and_others_are_read(one, tmp_path, make: Callable[[Path], None]):
    (tmp_path / "team/train").mkdir(parents=True)
    make(tmp_path / "team/train/progress.csv")
    write(tmp_path / "team/pod-1", row(90, 10))
    with structlog.testing.capture_logs() as logs:
        one.look()
    assert one.step(JOB) == 10
    assert logs[0]["row"] == f"{tmp_path}/team/train"
    assert logs[0]["why"].startswith("cannot be read: ")


def test_a_folder_that_is_not_there_is_a_problem_until_it_is(tmp_path):
    shared = Shared(JobsFolder(tmp_path / "volume"))
    shared.run("pod-1", job="train")
    shared.look()
    assert shared.source.problem == f"there is no folder {tmp_path}/volume; is the volume mounted?"
    write(tmp_path / "volume/team/train", row(90, 10))
    shared.look()
    assert (shared.source.problem, shared.step(JOB)) == ("", 10)


def test_files_of_jobs_that_are_forgotten_are_let_go(one, tmp_path):
    write(tmp_path / "team/train", row(90, 10))
    one.look()
    one.end("uid-team-pod-1")
    one.store.forget_gone()
    one.clock.advance_to(4000.0)
    one.store.forget_gone()
    one.look()
    assert one.source._followed == {}


# --- checkpoints -----------------------------------------------------------------------------------------------------


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_a_checkpoint_is_asked_for_in_a_file_and_confirmed_by_a_row(one, tmp_path):
    request = tmp_path / "team/train/checkpoint-request"
    assert not one.checkpoints.ask(JOB, "r1"), "nobody has seen its folder yet"
    write(request.parent, row(90, 10))
    one.look()
    assert one.checkpoints.ask(JOB, "r1")
    assert one.checkpoints.ask(JOB, "r1")
    one.look()
    assert request.read_text() == "r1\n"
    assert request.stat().st_mode & 0o777 == 0o644
    assert one.checkpoints.confirmed_step(JOB, "r1") is None
    assert (one.checkpoints.step(JOB), one.checkpoints.checkpoint_step(JOB)) == (10, None)
    write(request.parent, row(80, 20, "checkpoint:r1"), row(70, 25))
    one.look()
    assert one.checkpoints.confirmed_step(JOB, "r1") == 20
    assert (one.checkpoints.step(JOB), one.checkpoints.checkpoint_step(JOB)) == (25, 20)
    assert [one.checkpoints.first_step_since(JOB, NOW_S - ago_s) for ago_s in (99, 80, 79, 69)] == [10, 20, 25, None]
    one.look()
    assert sorted(path.name for path in request.parent.iterdir()) == ["progress.csv"]
    assert counts(one.metrics.checkpoints) == {("asked",): 1, ("confirmed",): 1}


def test_a_request_that_is_withdrawn_is_gone_also_when_an_earlier_process_wrote_it_and_another_stays(one, tmp_path):
    request = tmp_path / "team/train/checkpoint-request"
    write(request.parent, row(90, 10))
    request.write_text("theirs\n")
    one.look()
    one.checkpoints.withdraw(JOB, "other")
    one.look()
    assert request.read_text() == "theirs\n"
    one.checkpoints.withdraw(JOB, "theirs")
    one.look()
    assert not request.exists()
    one.checkpoints.ask(JOB, "r1")
    one.look()
    one.checkpoints.ask(JOB, "r2")
    one.checkpoints.withdraw(JOB, "r1")
    one.look()
    assert request.read_text() == "r2\n"


def test_a_link_where_the_request_goes_is_replaced_and_not_followed(one, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "team/train"
    write(folder, row(90, 10))
    (folder / "checkpoint-request").symlink_to(victim)
    (folder / ".checkpoint-request.new").symlink_to(victim)
    one.look()
    one.checkpoints.ask(JOB, "r1")
    one.look()
    assert (victim.read_text(), (folder / "checkpoint-request").read_text()) == ("mine", "r1\n")


def test_a_folder_that_cannot_be_written_to_is_told_and_not_asked_in_again(one, tmp_path):
    folder = tmp_path / "team/train"
    write(folder, row(90, 10))
    one.look()
    (folder / "checkpoint-request").mkdir()
    assert one.checkpoints.ask(JOB, "r1")
    with structlog.testing.capture_logs() as logs:
        one.look()
    assert "a checkpoint cannot be asked for" in logs[0]["why"]
    assert not one.checkpoints.ask(JOB, "r2")


def test_a_full_volume_is_told_as_such_and_a_request_finds_its_way_when_there_is_room(one, tmp_path):
    with small_volume(tmp_path / "team"):
        folder = tmp_path / "team/train"
        write(folder, row(90, 10))
        one.look()
        filler = fill(tmp_path / "team")
        assert one.checkpoints.ask(JOB, "r1"), "nobody has tried yet"
        with structlog.testing.capture_logs() as logs:
            one.look()
        assert logs[0]["why"] == "a checkpoint cannot be asked for: No space left on device"
        for _ in range(2):
            with pytest.raises(
                VolumeFullError, match=f"the volume of {folder} is full .No space left on device.; make"
            ):
                one.checkpoints.ask(JOB, "r1")
            one.look()
        assert not (folder / "checkpoint-request").exists()
        assert one.checkpoints.ask(JOB, "r2"), (
            "whether there is room for another request is not known before it is tried"
        )
        filler.unlink()
        one.look()
        assert one.checkpoints.ask(JOB, "r2")
        assert (folder / "checkpoint-request").read_text() == "r2\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_want_of_space_that_is_told_late_counts_as_well_and_another_way_to_ask_makes_up_for_it(
    one, tmp_path, monkeypatch, number
):
    """A server of files may find out when it is told to put them on disk."""
    write(tmp_path / "team/train", row(90, 10))
    one.look()

    def refuse(_file: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    one.checkpoints.ask(JOB, "r1")
    one.look()
    with pytest.raises(VolumeFullError, match=os.strerror(number)):
        one.checkpoints.ask(JOB, "r1")

    class Reached:
        def ask(self, job: str, request_id: str) -> bool:
            return (job, request_id) == (JOB, "r1")

        def withdraw(self, job: str, request_id: str) -> None:
            pass

    for channels in ([one.source, Reached()], [Reached(), one.source]):
        assert ReportedCheckpoints(one.store, channels, one.metrics).ask(JOB, "r1")


def test_asking_wakes_who_looks(one, tmp_path):
    write(tmp_path / "team/train", row(90, 10))

    async def story() -> None:
        one.source._every_s = 3600.0
        task = asyncio.create_task(one.source.run())
        async with asyncio.timeout(20):
            while one.step(JOB) is None:
                await asyncio.sleep(0.01)
            one.checkpoints.ask(JOB, "r1")
            while not (tmp_path / "team/train/checkpoint-request").exists():
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(story)


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("/data", JobsFolder(Path("/data"))),
        ("team=/data", JobsFolder(Path("/data"), "team")),
        ("/a=b/c", JobsFolder(Path("/a=b/c"))),
    ],
)
def test_a_folder_is_written_with_its_namespace_before_it(text, folder):
    assert JobsFolder.parse(text, "--progress-dir") == folder


@pytest.mark.parametrize("text", ["", "team=", "=/data"])
def test_what_names_no_folder_says_how_to_write_one(text):
    with pytest.raises(OptionError, match=r'--progress-dir is ".*"; write FOLDER, or NAMESPACE=FOLDER'):
        JobsFolder.parse(text, "--progress-dir")
