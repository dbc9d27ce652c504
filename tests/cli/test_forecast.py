import json

import numpy as np
import polars as pl
import pytest
from tests.forecast.workload.small_series import ROWS, corrupted
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import ForesailError

HOW = ["--test-rows", "50", "--horizon", "6"]


def run(*words):
    return CliRunner().invoke(app, ["forecast", *map(str, words)], catch_exceptions=False)


def write(folder, series):
    folder.mkdir()
    for one in series:
        times = pl.from_epoch(pl.Series(one.times_s), time_unit="s").dt.strftime("%Y-%m-%d %H:%M:%S")
        pl.DataFrame({"timestamp": times, "value": one.values}).write_csv(folder / f"{one.name}.csv")
    return folder


@pytest.fixture
def folder(tmp_path, whole):
    return write(tmp_path / "series", [one.head(ROWS + 55) for one in whole])


def test_fit_writes_a_model_that_evaluate_reads(folder, tmp_path):
    fitted = run("fit", "--data", folder, "--forecaster", "ridge", *HOW, "--out", tmp_path / "m.npz")
    assert fitted.exit_code == 0, fitted.output
    assert "load_1: a row every 3600 s, season of 24 rows, group 1" in fitted.output
    by_file = run("evaluate", "--data", folder, "--model", tmp_path / "m.npz", *HOW, "--json")
    by_name = run("evaluate", "--data", folder, "--forecaster", "ridge", *HOW, "--json", "--out", tmp_path / "out")
    found = json.loads(by_file.stdout)
    assert found == json.loads(by_name.stdout)
    assert found["series"] == ["load_1", "load_2", "slow_0", "slow_1"]
    assert len(found["errors"]) == 4 * 6
    mean = np.mean([row["rmse"] for row in found["errors"] if row["ahead"] == 3])
    assert found["mean_rmse"]["ridge"][2] == pytest.approx(mean)
    table = pl.read_csv(tmp_path / "out/errors.csv")
    assert table.columns == ["forecaster", "series", "ahead", "rmse", "bias", "coverage_50", "coverage_80", "width_80"]
    assert table["rmse"].to_list() == pytest.approx([row["rmse"] for row in found["errors"]])
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert 'id="errors-by-ahead"' in page
    assert 'id="coverage"' in page


def test_a_fitted_model_does_not_depend_on_the_rows_of_the_test(folder, tmp_path, whole):
    other = write(tmp_path / "other", [corrupted(one.head(ROWS + 55), ROWS) for one in whole])
    for name, data in (("a", folder), ("b", other)):
        run("fit", "--data", data, "--forecaster", "boosting", *HOW, "--out", tmp_path / f"{name}.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_table_says_how_wrong_each_is(tmp_path):
    shown = run("evaluate", "--forecaster", "seasonal-naive", "--series", "load_3", *HOW, "--out", tmp_path)
    assert shown.exit_code == 0
    assert "errors on generated: 1 series, 50 origins" in shown.output
    assert "seasonal-naive" in shown.output


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("timestamp,value\n2024-01-01 00:00:00,1\n2024-01-01 01:00:00,many\n", 3, 'value is "many"'),
        ("timestamp,value\n2024-01-01,1\n", 2, 'timestamp is "2024-01-01"'),
        ("timestamp,value\n2024-01-01 01:00:00,1\n2024-01-01 00:00:00,1\n", 3, "times rise from row to row"),
        ("time,value\n2024-01-01 01:00:00,1\n", None, 'has no column "timestamp"'),
    ],
)
def test_a_bad_series_is_named_with_its_line(tmp_path, text, line, says):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ForesailError) as refused:
        run("evaluate", "--data", tmp_path)
    assert says in str(refused.value)
    assert str(refused.value).startswith(f"{tmp_path / 'bad.csv'}:{f'{line}:' if line else ''} ")


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "m.npz").write_bytes(b"PK nothing")
    with pytest.raises(ForesailError, match=r"m\.npz: is no fitted forecaster; make one with foresail forecast fit"):
        run("evaluate", "--model", tmp_path / "m.npz")
    np.savez(tmp_path / "other.npz", about=np.array('{"format": "something"}'))
    with pytest.raises(ForesailError, match="fit it anew"):
        run("evaluate", "--model", tmp_path / "other.npz")
    with pytest.raises(ForesailError, match=r"ends in \.npz"):
        run("fit", "--out", tmp_path / "m.json")
