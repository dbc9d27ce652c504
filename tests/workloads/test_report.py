from __future__ import annotations

import ast
import csv
import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from foresail.live.telemetry.csv_rows import CsvRows
from foresail.live.telemetry.rows import read_row
from foresail.workloads import report as reports
from foresail.workloads.report import ProgressRow, Reporter, RowOutbox

SOURCE = Path(reports.__file__)
HEADER = ["time", "step", "total", "loss", "accuracy", "note"]
WITHIN_S = 30.0


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch):
    monkeypatch.setattr(reports, "_told", set())


def rows_of(folder, job="j"):
    """The rows on the volume without their times."""
    with (folder / job / "progress.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == HEADER
    assert all(float(row[0]) > 1.6e9 for row in rows)
    return [row[1:] for row in rows]


def on_volume(folder, job="j", **more):
    return Reporter({"FORESAIL_JOB": job, "FORESAIL_PROGRESS_DIR": str(folder), **more})


class Controller:
    """A real HTTP server that keeps what it is sent and answers as it is told."""

    def __init__(self):
        self.requests, self.answers = [], []
        self.arrived = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.arrived:
                    status, answer = outer.answers.pop(0) if outer.answers else (200, {"checkpoint": ""})
                    outer.requests.append((self.path, self.headers.get("Authorization"), body))
                    outer.arrived.notify_all()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.end_headers()
                self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            def do_GET(self):
                outer.requests.append((self.path, self.headers.get("Authorization"), None))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def wait_for(self, count):
        self.wait_until(lambda: len(self.requests) >= count)

    def wait_until(self, seen):
        with self.arrived:
            assert self.arrived.wait_for(seen, WITHIN_S)

    @property
    def steps(self):
        return [row["step"] for _, _, body in self.requests for row in body["rows"]]


def test_the_file_can_be_copied_and_needs_the_standard_library_alone(tmp_path):
    (tmp_path / "told.py").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    # -S -I: nothing but the standard library is there.
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import told; told.report(step=1, total=2, loss=0.5)"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        env={"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ran.stdout, ran.stderr) == ("foresail progress step=1 total=2 loss=0.5\n", "")
    assert rows_of(tmp_path) == [["1", "2", "0.5", "", ""]]


def test_a_row_goes_to_all_places_that_are_named(tmp_path, capsys):
    (tmp_path / "token").write_text("secret\n")
    with Controller() as controller:
        mine = on_volume(
            tmp_path,
            FORESAIL_PROGRESS_URL=f"{controller.url}/",
            FORESAIL_PROGRESS_TOKEN_FILE=str(tmp_path / "token"),
        )
        mine.report(step=120, total=1000, loss=0.42, accuracy=0.9)
        assert mine.flush(WITHIN_S)
    ((path, token, body),) = controller.requests
    assert (path, token, body["job"]) == ("/v1/progress", "Bearer secret", "j")
    (row,) = body["rows"]
    assert list(row) == HEADER
    assert list(row.values())[1:] == [120, 1000, 0.42, 0.9, ""]
    assert rows_of(tmp_path) == [["120", "1000", "0.42", "0.9", ""]]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("foresail progress step=120 total=1000 loss=0.42 accuracy=0.9\n", "")


def test_without_an_environment_there_is_a_line_and_with_0_not_even_that(capsys):
    Reporter({"FORESAIL_JOB": "j"}).report(step=1, note="resume")
    Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_LOG": "0"}).report(step=1)
    assert capsys.readouterr().out == "foresail progress step=1 note=resume\n"


def test_the_host_names_a_job_that_has_no_name():
    assert Reporter({}).job == os.uname().nodename


@pytest.mark.parametrize("job", ["../other", "a/../../b", "..", "/etc", ".", "a//b"])
def test_a_name_cannot_lead_out_of_the_folder(tmp_path, capsys, job):
    mine = on_volume(tmp_path / "in", job=job)
    mine.report(step=1)
    assert mine.flush(WITHIN_S)
    assert list(tmp_path.iterdir()) == []
    assert f'FORESAIL_JOB is "{job}", which names no folder below' in capsys.readouterr().err


def test_rows_go_on_after_a_restart_and_the_first_says_so(tmp_path):
    for steps in ((1, 2), (2, 3)):
        mine = on_volume(tmp_path)
        for step in steps:
            mine.report(step=step)
        assert mine.flush(WITHIN_S)
    assert [(row[0], row[-1]) for row in rows_of(tmp_path)] == [("1", ""), ("2", ""), ("2", "resume"), ("3", "")]


def test_a_note_of_ones_own_is_kept_where_resume_would_stand(tmp_path):
    for _ in range(2):
        mine = on_volume(tmp_path)
        mine.report(step=5, note="checkpoint:")
        assert mine.flush(WITHIN_S)
    assert [row[-1] for row in rows_of(tmp_path)] == ["checkpoint:", "checkpoint:"]


def test_a_row_that_was_cut_short_spoils_no_other(tmp_path):
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "progress.csv").write_text(",".join(HEADER) + "\n1700000000.0,1,9,,,\n1700000001.0,2,9,0.")
    mine = on_volume(tmp_path)
    mine.report(step=3, total=9)
    assert mine.flush(WITHIN_S)
    lines = (tmp_path / "j" / "progress.csv").read_text().splitlines()
    assert lines[2] == "1700000001.0,2,9,0."
    assert lines[3].endswith(",3,9,,,resume")
    assert len(lines) == 4


def test_every_row_is_one_write(tmp_path, monkeypatch):
    written = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: (written.append(data), real(file, data))[1])
    mine = on_volume(tmp_path, FORESAIL_PROGRESS_LOG="0")
    for step in range(3):
        mine.report(step=step)
    assert mine.flush(WITHIN_S)
    assert [data.count(b"\n") for data in written] == [1, 1, 1, 1]


def test_bad_values_are_told_once_and_left_out(tmp_path, capsys):
    class Refuses:
        def __float__(self):
            raise RuntimeError("on another device")

        def __repr__(self):
            return "Refuses()"

    mine = on_volume(tmp_path, FORESAIL_PROGRESS_LOG="0")
    for step, loss in enumerate((math.nan, math.inf, "much", Refuses(), [1, 2], None)):
        mine.report(step=step, total=-3, loss=loss)
    for step in (None, "x", -1, 1.5, math.nan):
        mine.report(step=step, loss=1)
    mine.report(step=10.0, total=20, loss=True, accuracy="0.5")
    assert mine.flush(WITHIN_S)
    assert rows_of(tmp_path) == [
        *([str(step), "", "", "", ""] for step in range(6)),
        ["10", "20", "1.0", "0.5", ""],
    ]
    assert capsys.readouterr().err.splitlines() == [
        "foresail report: total is -3; it is a whole number, 0 or more; left out",
        "foresail report: loss is nan, which is no finite number; left out",
        "foresail report: step is x, which is no finite number; left out",
    ]


def test_steps_that_go_back_are_told_and_left_out_unless_said(tmp_path, capsys):
    mine = on_volume(tmp_path, FORESAIL_PROGRESS_LOG="0")
    for step in (5, 3, 5, 6):
        mine.report(step=step)
    mine.report(step=2, note="resume")
    mine.report(step=3)
    assert mine.flush(WITHIN_S)
    assert [row[0] for row in rows_of(tmp_path)] == ["5", "5", "6", "2", "3"]
    assert "step 3 comes after step 5; left out" in capsys.readouterr().err


def test_a_total_that_was_passed_is_none(tmp_path, capsys):
    mine = on_volume(tmp_path, FORESAIL_PROGRESS_LOG="0")
    for step in (9, 10, 11):
        mine.report(step=step, total=10)
    mine.report(step=11)
    assert mine.flush(WITHIN_S)
    assert [row[:2] for row in rows_of(tmp_path)] == [["9", "10"], ["10", "10"], ["11", ""], ["11", ""]]
    assert "step 11 is beyond the total of 10; the total is left out" in capsys.readouterr().err


def test_rows_that_come_fast_are_sent_together():
    with Controller() as controller:
        mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_URL": controller.url, "FORESAIL_PROGRESS_LOG": "0"})
        for step in range(90):
            mine.report(step=step)
        assert mine.flush(WITHIN_S)
    assert controller.steps == list(range(90))
    assert len(controller.requests) <= 3


def test_what_is_written_is_what_controllers_read(tmp_path):
    mine = on_volume(tmp_path)
    mine.report(step=0)
    mine.report(step=3, total=10, loss=1e-20, accuracy=12)
    mine.report(step=4, total=10, loss=2.5e300, note="checkpoint:move-1")
    mine.report(step=10, note="done")
    assert mine.flush(WITHIN_S)
    lines = CsvRows().feed((tmp_path / "j" / "progress.csv").read_bytes())
    assert [one.damage for one in lines] == [""] * 4
    assert [read_row(one.values)[1:] for one in lines] == [
        (0, None, None, None, ""),
        (3, 10, 1e-20, 12.0, ""),
        (4, 10, 2.5e300, None, "checkpoint:move-1"),
        (10, 10, None, None, "done"),
    ]


def test_notes_cannot_break_a_row(tmp_path, capsys):
    mine = on_volume(tmp_path)
    mine.report(step=1, note='a,b\n"c"\r\n\x00d' + "x" * 500)
    assert mine.flush(WITHIN_S)
    ((*_, note),) = rows_of(tmp_path)
    assert note == ("a;b 'c' d" + "x" * 500)[:200]
    assert capsys.readouterr().out.count("\n") == 1


def test_the_group_may_ask_in_a_folder_that_the_reporter_makes_and_others_stay_as_they_are(tmp_path):
    (tmp_path / "shut").mkdir()
    before = os.umask(0o022)
    try:
        for job in ("made", "shut"):
            mine = Reporter({"FORESAIL_JOB": job, "FORESAIL_PROGRESS_DIR": str(tmp_path)})
            mine.report(step=1)
            assert mine.flush(WITHIN_S)
    finally:
        os.umask(before)
    assert [(tmp_path / job).stat().st_mode & 0o777 for job in ("made", "shut")] == [0o775, 0o755]


def test_a_volume_that_hangs_makes_nobody_wait(tmp_path, capsys):
    (tmp_path / "j").mkdir()
    # Who opens this to read waits until somebody writes.
    os.mkfifo(tmp_path / "j" / "progress.csv")
    mine = on_volume(tmp_path)
    for step in range(2500):
        mine.report(step=step)
    mine.report(step=2500, note="checkpoint:")
    for step in range(2501, 4000):
        mine.report(step=step)
    assert not mine.flush(0.01)
    assert capsys.readouterr().err.count("takes no rows; the oldest are dropped") == 1
    kept = list(mine._outboxes[0]._rows)
    assert len(kept) == 1000
    assert [row.step for row in kept] == [2500, *range(3001, 4000)], "a row about a checkpoint is not dropped"
    # Let the thread go.
    os.close(os.open(tmp_path / "j" / "progress.csv", os.O_WRONLY))


def test_a_full_volume_is_told_once_and_rows_come_when_there_is_room(tmp_path, monkeypatch, capsys):
    full = True
    real = os.write

    def write(file, data):
        if full and data.count(b",") == 5 and not data.startswith(b"time"):
            if data.startswith(b"\n"):
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(file, data[:4])
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    mine = on_volume(tmp_path, FORESAIL_PROGRESS_LOG="0")
    mine.report(step=1)
    mine.report(step=2)
    assert not mine.flush(WITHIN_S)
    full = False
    assert mine.flush(WITHIN_S)
    header, torn, *rows = (tmp_path / "j" / "progress.csv").read_text().splitlines()
    assert (header, len(torn)) == (",".join(HEADER), 4)
    assert [row.split(",")[1] for row in rows] == ["1", "2"], "each once"
    told = capsys.readouterr().err
    assert "a row was cut short: the volume is full" in told
    assert "No space left on device" in told


def test_a_controller_that_is_away_gets_the_rows_later(tmp_path, capsys):
    controller = Controller()
    address = controller.server.server_address
    controller.server.server_close()
    mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_URL": controller.url})
    mine.report(step=1)
    mine.report(step=2)
    assert not mine.flush(WITHIN_S)
    assert "takes no rows" in capsys.readouterr().err
    controller.server = ThreadingHTTPServer(address, controller.server.RequestHandlerClass)
    with controller:
        assert mine.flush(WITHIN_S)
    assert controller.steps == [1, 2]


def test_rows_that_a_controller_refuses_are_dropped_and_others_tried_again(capsys):
    with Controller() as controller:
        controller.answers = [(400, {}), (503, {}), (200, {"checkpoint": ""})]
        mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_URL": controller.url, "FORESAIL_PROGRESS_LOG": "0"})
        mine.report(step=1)
        assert mine.flush(WITHIN_S)
        mine.report(step=2)
        assert mine.flush(WITHIN_S)
    assert controller.steps == [1, 2, 2]
    told = capsys.readouterr().err
    assert "refuses rows (400 Bad Request); they are dropped" in told
    assert "503" in told


def test_a_token_goes_to_nobody_else_and_is_never_shown(tmp_path, capsys):
    (tmp_path / "token").write_text("first")
    with Controller() as controller:
        controller.answers = [(302, {})] * 1000
        environment = {"FORESAIL_PROGRESS_URL": controller.url, "FORESAIL_PROGRESS_TOKEN_FILE": f"{tmp_path}/token"}
        mine = Reporter({"FORESAIL_JOB": "j", **environment})
        mine.report(step=1)
        assert not mine.flush(WITHIN_S)
        assert {path for path, _, _ in controller.requests} == {"/v1/progress"}
        # Renewed, as the tokens of pods are; then spoilt.
        (tmp_path / "token").write_text("second")
        controller.wait_until(lambda: controller.requests[-1][1] == "Bearer second")
        controller.answers.clear()
        assert mine.flush(WITHIN_S)
        (tmp_path / "token").write_text("sec\nret")
        mine.report(step=2)
        assert not mine.flush(WITHIN_S)
    said = "".join(capsys.readouterr())
    assert f"{tmp_path}/token holds no token" in said
    assert "ret" not in said.replace("report", "")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "controller:80"])
def test_an_address_that_is_none_is_told(capsys, url):
    mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_URL": url})
    mine.report(step=1)
    assert mine.flush(WITHIN_S)
    assert f'FORESAIL_PROGRESS_URL is "{url}"; it begins with http:// or https://' in capsys.readouterr().err


def test_a_checkpoint_is_asked_for_in_the_answer_and_confirmed_by_its_id():
    with Controller() as controller:
        controller.answers = [(200, {"checkpoint": "move-1"}), (200, {"checkpoint": "move-1"})]
        mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_URL": controller.url})
        assert mine.checkpoint_wanted() == ""
        mine.report(step=1)
        assert mine.flush(WITHIN_S)
        assert mine.checkpoint_wanted() == "move-1"
        mine.report(step=2, note="checkpoint:move-1")
        # The answer to the confirmation still asks, as one may that was under way: it is answered already.
        assert mine.flush(WITHIN_S)
        assert mine.checkpoint_wanted() == ""
    assert controller.requests[-1][2]["rows"][0]["note"] == "checkpoint:move-1"


def test_answers_of_somebody_else_are_told(capsys):
    with Controller() as controller:
        controller.answers = [(200, b"<html>"), (200, {"checkpoint": "a b"}), (200, ["x"])]
        mine = Reporter({"FORESAIL_JOB": "j", "FORESAIL_PROGRESS_URL": controller.url})
        for step in range(3):
            mine.report(step=step)
            assert mine.flush(WITHIN_S)
    assert mine.checkpoint_wanted() == ""
    told = capsys.readouterr().err
    assert "answers b'<html>', not" in told
    assert "a request for a checkpoint has no proper id: 'a b'; not heard" in told


def test_a_checkpoint_is_asked_for_in_a_file_and_once_is_enough(tmp_path):
    mine = on_volume(tmp_path)
    mine.report(step=1)
    assert mine.flush(WITHIN_S)
    (tmp_path / "j" / "checkpoint-request").write_text("move-7\n")
    assert mine.checkpoint_wanted() == "", "looked for with a report, not with each step"
    mine.report(step=2)
    assert mine.flush(WITHIN_S)
    assert mine.checkpoint_wanted() == "move-7"
    mine.report(step=2, note="checkpoint:")
    assert mine.checkpoint_wanted() == "move-7", "a checkpoint that nobody asked for answers nobody"
    mine.report(step=3, note="checkpoint:move-7")
    assert mine.flush(WITHIN_S)
    assert mine.checkpoint_wanted() == ""
    # The file is still there after a restart: the row says that it was answered.
    again = on_volume(tmp_path)
    again.report(step=3)
    assert again.flush(WITHIN_S)
    assert again.checkpoint_wanted() == ""
    (tmp_path / "j" / "checkpoint-request").write_text("move-8")
    again.report(step=4)
    assert again.flush(WITHIN_S)
    assert again.checkpoint_wanted() == "move-8"


def test_steps_before_are_those_of_the_last_confirmed_checkpoint(tmp_path):
    mine = on_volume(tmp_path)
    assert mine.steps_before() == 0
    for step, note in ((10, ""), (20, "checkpoint:"), (30, ""), (40, "checkpoint:x"), (50, "")):
        mine.report(step=step, note=note)
    # More rows than a few pages of the file.
    for step in range(51, 900):
        mine.report(step=step)
    assert mine.flush(WITHIN_S)
    assert on_volume(tmp_path).steps_before() == 40
    assert Reporter({"FORESAIL_JOB": "j"}).steps_before() == 0


PROGRAM = """
import os, signal, sys
from foresail.live.telemetry.csv_rows import CsvRows
from foresail.live.telemetry.rows import read_row
from foresail.workloads import report as reports

reports.catch_sigterm()
reports.report(step=1, total=9)
os.kill(os.getpid(), signal.SIGTERM)
assert (reports.checkpoint_wanted(), reports.stopping()) == ("sigterm", True)
reports.checkpointed(2)
assert (reports.checkpoint_wanted(), reports.stopping()) == ("", True)
child = os.fork()
if child == 0:
    # Reports of a forked process arrive, too, and its parent's are not sent twice.
    reports.report(step=100)
    reports.flush()
    os._exit(0)
os.waitpid(child, 0)
sys.exit(reports.EXIT_INTERRUPTED)
"""


@pytest.mark.filterwarnings("ignore")
def test_sigterm_asks_for_a_checkpoint_and_rows_arrive_before_the_end(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "FORESAIL_JOB": "j", "FORESAIL_PROGRESS_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (143, "")
    assert sorted((row[0], row[-1]) for row in rows_of(tmp_path) if row[0] != "100") == [
        ("1", ""),
        ("2", "checkpoint:sigterm"),
    ]
    assert [row[0] for row in rows_of(tmp_path)].count("100") == 1


def test_sigterm_can_only_be_caught_in_the_main_thread_and_that_is_told(capsys):
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=reports.catch_sigterm)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before
    assert "SIGTERM can be caught in the main thread alone" in capsys.readouterr().err


def test_closed_outputs_break_nothing(monkeypatch):
    with open(os.devnull, "w") as closed:  # noqa: PTH123 - a stream to close
        pass
    monkeypatch.setattr(sys, "stdout", closed)
    monkeypatch.setattr(sys, "stderr", closed)
    mine = Reporter({"FORESAIL_JOB": "j"})
    mine.report(step=1)
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    mine.report(step=math.nan)
    mine.report(step=2)


def test_rows_that_arrived_are_not_sent_again_when_the_rest_fails():
    arrived, fails = [], [True]

    def deliver(rows):
        while rows:
            if len(arrived) == 2 and fails:
                fails.clear()
                raise OSError("away")
            arrived.append(rows.pop(0).step)

    box = RowOutbox("somewhere", deliver)
    for step in range(5):
        box.put(ProgressRow(0.0, step))
    assert box.flush(WITHIN_S)
    assert arrived == [0, 1, 2, 3, 4]
