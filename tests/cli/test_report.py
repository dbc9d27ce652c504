import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.report import report
from foresail.errors import ResultsError
from foresail.results.folder import write_run
from foresail.results.result import RunResult
from foresail.results.tables import table_named


@pytest.fixture
def command():
    app = typer.Typer()
    app.command()(report)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def stored(tmp_path):
    def write(policy):
        placements = {
            "order": np.array([0]),
            "pod": ["a"],
            "node": ["n"],
            "devices": ["0"],
            "time_s": np.zeros(1),
        }
        empty = {table: {name: np.empty(0) for name in table_named(table).schema} for table in ("timeline", "nodes")}
        by_load = {name: np.array([1.0, 2.0]) for name in table_named("by_load").schema}
        tables = {"placements": placements, **empty, "by_load": by_load}
        run = RunResult("openb", policy, "tiny", 1, 1.0, 4, tables, summary={})
        write_run(tmp_path / policy, run, manifest_extra={})
        return tmp_path / policy

    return write


def test_a_report_of_two_runs(tmp_path, command, stored):
    result = command(stored("fgd"), stored("best-fit"), "--out", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert "GPU allocation at load 2" in result.output
    assert f"wrote {tmp_path / 'r.html'}" in result.output.replace("\n", "")
    assert "<title>fgd, best-fit on tiny</title>" in (tmp_path / "r.html").read_text()


def test_the_title_can_be_given(tmp_path, command, stored):
    command(stored("fgd"), "--out", tmp_path / "r.html", "--title", "a < b")
    assert "<title>a &lt; b</title>" in (tmp_path / "r.html").read_text()


def test_a_bad_folder_writes_nothing(tmp_path, command):
    result = command(tmp_path / "nowhere", "--out", tmp_path / "r.html")
    assert isinstance(result.exception, ResultsError)
    assert "does not exist" in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_help_shows_examples(command):
    result = command("--help")
    assert result.exit_code == 0
    assert "foresail report results/fgd" in result.output
