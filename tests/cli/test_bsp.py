"""`foresail bsp`."""

import json

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import ForesailError


def run(*arguments):
    result = CliRunner().invoke(app, ["bsp", "simulate", *arguments], env={"COLUMNS": "200"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_one_job_is_an_object_with_where_time_went(bsp_data):
    told = json.loads(run("--data", str(bsp_data), "--strategy", "static", "--forecast", "perfect", "--json"))
    assert (told["strategy"], told["window"], told["length"], told["penalty_s"]) == ("static", 3, 400, 15.0)
    assert (f"{told['total_s']:.5f}", told["reconfigurations"]) == ("45601.13326", 133)
    assert told["work_s"] + told["waiting_s"] + told["reconfiguration_s"] == pytest.approx(told["total_s"], rel=1e-12)
    assert told["reconfiguration_s"] == 133 * 15


def test_several_values_are_every_combination(bsp_data):
    words = ("--strategy", "exppo", "--strategy", "static", "--length", "3", "--length", "5", "--start", "590")
    told = json.loads(run("--data", str(bsp_data), *words, "--forecast", "perfect", "--tasks", "10", "--json"))
    assert [(one["strategy"], one["length"], one["start"], one["tasks"]) for one in told] == [
        *(("exppo", 3, 590, 10), ("exppo", 5, 590, 10)),
        *(("static", 3, 590, 10), ("static", 5, 590, 10)),
    ]
    table = run("--data", str(bsp_data), *words, "--forecast", "perfect")
    assert "static" in table
    assert "590" not in table, "what all rows share is not repeated in each"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--strategy", "dynamic-mcp"), 'no strategy "dynamic-mcp"; did you mean "dynamic-mpc"?'),
        (
            ("--start", "700", "--forecast", "perfect"),
            "--start 700 and --length 400 need 1100 rows, and the data has 1000",
        ),
        (("--window", "0"), "--window is 0; it is 1 or more"),
        (("--penalty", "-1"), "--penalty is -1; it is a number of seconds, 0 or more"),
        (("--cap", "500", "--forecast", "perfect"), "the cap is 500 milli, below the least of 1000"),
        (("--window", "21", "--forecast", "perfect"), "--window is 21; the data looks 20 supersteps ahead"),
        (("--runtime", "splin"), 'no runtime model "splin"; did you mean "spline"?'),
    ],
)
def test_what_cannot_be_is_said_with_its_value(bsp_data, words, message):
    with pytest.raises(ForesailError) as raised:
        run("--data", str(bsp_data), *words)
    assert message in str(raised.value)


def test_a_folder_that_is_not_there_is_said(tmp_path):
    with pytest.raises(ForesailError, match="no such folder"):
        run("--data", str(tmp_path / "none"))


def test_a_matrix_with_a_wrong_cell_is_said_with_its_line(tmp_path, bsp_data):
    (tmp_path / "actual").mkdir()
    for path in (bsp_data / "actual").glob("*.csv"):
        (tmp_path / "actual" / path.name).write_text(path.read_text())
    broken = tmp_path / "actual" / "nyc_taxi_3_actual.csv"
    lines = broken.read_text().splitlines()
    broken.write_text("\n".join([*lines[:7], lines[7].replace(",", ",x", 1), *lines[8:]]))
    with pytest.raises(ForesailError, match=r"nyc_taxi_3_actual\.csv:8: .* is no number"):
        run("--data", str(tmp_path))
