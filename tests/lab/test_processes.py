from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.live.console import until

from foresail.lab.errors import LabError
from foresail.lab.processes import ProcessId, kill, last_lines, launch, marked, running, start_ticks
from foresail.lab.site import Site
from foresail.lab.state import LabState, load


def launch_sleeper(tmp_path, lab_id):
    return launch(["sh", "-c", "echo begun; exec sleep 600"], log=tmp_path / "log", lab_id=lab_id, folder=tmp_path)


def test_a_launched_process_outlives_its_parent_and_is_found_by_its_mark(tmp_path):
    process = launch_sleeper(tmp_path, "test-mark-1")
    try:
        assert (process.alive, marked("test-mark-1"), marked("test-mark")) == (True, [process], [])
        parent = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert parent != os.getpid()
    finally:
        assert kill([process]) == []
    assert (process.alive, marked("test-mark-1")) == (False, [])


def test_a_recycled_pid_is_not_killed(tmp_path):
    with subprocess.Popen(["sleep", "600"]) as bystander:  # noqa: S607 - any program will do
        started = start_ticks(bystander.pid)
        assert started is not None
        assert kill([ProcessId(bystander.pid, started - 1)]) == []
        assert bystander.poll() is None
        kill([ProcessId(bystander.pid, started)])


def test_killing_what_is_gone_is_no_error(tmp_path):
    process = launch_sleeper(tmp_path, "test-mark-5")
    kill([process])
    assert kill([process]) == []


def test_a_zombie_whose_threads_still_hold_a_port_is_ended_too(tmp_path):
    script = (
        "import ctypes, socket, threading, time\n"
        "at = socket.create_server(('127.0.0.1', 0))\n"
        "threading.Thread(target=time.sleep, args=[600]).start()\n"
        "print(at.getsockname()[1], flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    log = tmp_path / "log"
    process = launch([sys.executable, "-c", script], log=log, lab_id="test-mark-6", folder=tmp_path)
    until(lambda: log.read_text() and not process.alive)
    port = int(log.read_text())
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))
    assert process.is_there
    assert kill([process]) == []
    socket.create_server(("127.0.0.1", port)).close()


def test_a_program_that_ends_at_once_shows_what_it_said(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthree\n")
    assert last_lines(log, 2) == f"\n  (from {log})\n  two\n  three"
    assert last_lines(tmp_path / "none") == ""


def test_a_process_gets_none_of_our_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "secret")
    process = launch_sleeper(tmp_path, "test-mark-2")
    try:
        until_s = time.monotonic() + 30
        while not (environment := Path(f"/proc/{process.pid}/environ").read_bytes()):
            assert time.monotonic() < until_s, "the process has no environment"
        names = {entry.split(b"=")[0] for entry in environment.split(b"\0")}
        assert b"SOME_TOKEN" not in names
        assert {b"FORESAIL_LAB_ID", b"HOME"} <= names
    finally:
        kill([process])


def test_a_component_that_dies_is_told_with_the_end_of_its_log(tmp_path):
    site = Site(tmp_path, LabState("mine", lab_id="test-mark-3"), print)
    site.start("teapot", ["sh", "-c", "echo I am short; exec sleep 600"])
    site.wait("it spoke", lambda: "short" in site.log("teapot").read_text(), "teapot")
    kill([site.state.processes["teapot"]])
    with pytest.raises(LabError, match=r"teapot ended before tea was ready\n.*teapot\.log\)\n  I am short"):
        site.wait("tea was ready", lambda: False, "teapot")


def test_a_component_that_runs_is_not_started_twice(tmp_path):
    site = Site(tmp_path, LabState("mine", lab_id="test-mark-4"), print)
    try:
        begun = [site.start("sleeper", ["sleep", "600"]) for _time in range(2)]
        assert (begun, len(marked("test-mark-4"))) == ([True, False], 1)
        assert load(tmp_path) == site.state
    finally:
        kill(marked("test-mark-4"))


def test_a_component_whose_start_went_unrecorded_is_adopted(tmp_path):
    site = Site(tmp_path, LabState("mine", lab_id="test-mark-6"), print)
    command = ["sleep", "601"]
    process = launch(command, log=tmp_path / "log", lab_id="test-mark-6", folder=tmp_path)
    try:
        # Until the launching shell has become the program, its command line is another.
        site.wait("it was a sleeper", lambda: running("test-mark-6", command) is not None)
        assert site.start("sleeper", command) is False
        assert site.state.processes == {"sleeper": process}
    finally:
        kill([process])
