from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import pytest
import structlog

from foresail import logs
from foresail.errors import OptionError

POD = """
kind: Pod
metadata: {name: a}
spec: {nodeName: n, containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""
NODE = """
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "4", memory: 8Gi}}
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def unconfigured():
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


def test_a_pipe_gets_one_json_object_an_event(capsys):
    logs.configure()
    logs.get_logger().info("pod_bound", pod="a\nb", took_ms=1.5)
    logs.get_logger().debug("not_told")
    out, err = capsys.readouterr()
    assert out == ""
    entry = json.loads(err)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", entry.pop("timestamp"))
    assert entry == {"event": "pod_bound", "level": "info", "pod": "a\nb", "took_ms": 1.5}


def test_a_terminal_gets_a_line_that_names_cannot_disturb(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    logs.configure()
    logs.get_logger().warning("pod_fields_ignored", path="a\x1b[2J\nb")
    line = sys.stderr.getvalue()
    assert re.fullmatch(r"\d\d:\d\d:\d\d \[warning *\] pod_fields_ignored +path='a\\x1b\[2J\\nb'\n", line)
    assert capsys.readouterr().out == ""


def test_an_event_goes_to_the_stream_of_its_moment(monkeypatch):
    logs.configure()
    log = logs.get_logger()
    for _ in range(2):  # a progress bar puts its own stream there for a while
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        log.info("tick")
        assert sys.stderr.getvalue().count("tick") == 1


def test_the_first_logger_configures_and_later_ones_respect_what_is_there(capsys):
    logs.get_logger().info("first")
    assert "first" in capsys.readouterr().err
    theirs = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(theirs))
    logs.get_logger().info("second")
    assert "second" in theirs.getvalue()
    assert capsys.readouterr() == ("", "")


def test_an_exception_is_part_of_its_event(capsys):
    logs.configure()
    try:
        raise ValueError("no such node")  # noqa: TRY301 - the log needs one
    except ValueError:
        logs.get_logger().exception("bind_failed")
    entry = json.loads(capsys.readouterr().err)
    assert (entry["event"], entry["level"]) == ("bind_failed", "error")
    assert entry["exception"].endswith("ValueError: no such node")


def run(*words):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def test_a_verb_keeps_its_warnings_off_standard_output(tmp_path):
    (tmp_path / "nodes.yaml").write_text(NODE)
    (tmp_path / "pods.yaml").write_text(POD)
    command = "from foresail.cli.main import main; main()"
    done = run("-c", command, "trace", "check", tmp_path / "nodes.yaml", tmp_path / "pods.yaml", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["errors"] == 0
    (entry,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert entry["event"] == "pod_fields_ignored"
    assert entry["pods_by_field"] == {"spec.nodeName": 1}


def test_structlog_is_not_imported_before_something_is_logged():
    done = run("-c", "import sys, foresail.logs, foresail.traces.kubernetes; print('structlog' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_level_that_does_not_exist_is_told_with_those_that_do():
    with pytest.raises(OptionError, match=r'no log level "loud" \(--log-level may be debug, info, warning, error\)'):
        logs.configure("loud")
    with pytest.raises(OptionError, match='no log level "warn"; did you mean "warning"'):
        logs.configure("warn")
