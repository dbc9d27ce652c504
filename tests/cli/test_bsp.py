"""`foresail bsp`."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import ForesailError
from foresail.experiments.supersteps.run import simulate_job


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


def test_a_folder_has_tables_and_a_page_and_finished_jobs_are_not_run_again(bsp_data, tmp_path, monkeypatch):
    out = tmp_path / "jobs"
    words = ("--data", str(bsp_data), "--strategy", "exppo", "--strategy", "static", "--forecast", "perfect")
    words += ("--length", "6", "--tasks", "9", "--out", str(out))
    first = json.loads(run(*words, "--json"))
    jobs = pl.read_csv(out / "jobs.csv")
    assert jobs["total_s"].to_list() == [one["total_s"] for one in first]
    steps = pl.read_csv(out / "supersteps.csv")
    assert steps.height == 2 * 6 * 9
    assert steps["task"].unique(maintain_order=True).to_list()[-1] == "affinity-2"
    slowest = steps.group_by("job", "superstep", maintain_order=True).agg(pl.col("seconds").max())
    for number, one in enumerate(first, 1):
        took = slowest.filter(pl.col("job") == number)["seconds"].sum()
        assert took + one["reconfiguration_s"] == pytest.approx(one["total_s"], rel=1e-12)
    assert (steps.group_by("job", "superstep").agg(pl.col("cpu_milli").sum())["cpu_milli"] <= 27000).all()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("where-time-goes", "superstep-seconds", "split-1", "split-2"))

    kept = sorted((out / "runs").iterdir())
    kept[0].write_bytes(kept[0].read_bytes()[:-30])
    ran = []
    monkeypatch.setattr(
        "foresail.experiments.supersteps.run.simulate_job",
        lambda *asked, _real=simulate_job: ran.append(asked) or _real(*asked),
    )
    assert json.loads(run(*words, "--json")) == first
    assert len(ran) == 1, "the damaged one, and no other"
    assert "wrote jobs.csv" in run(*words)


def test_a_folder_of_somebody_else_is_left_alone(bsp_data, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ForesailError, match="has other files in it"):
        run("--data", str(bsp_data), "--forecast", "perfect", "--length", "3", "--out", str(tmp_path))
    with pytest.raises(ForesailError, match="a file stands there"):
        run("--data", str(bsp_data), "--forecast", "perfect", "--length", "3", "--out", str(tmp_path / "mine.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def own_job(folder, tasks):
    rows = np.arange(60)
    (folder / "actual").mkdir()
    for name, values in {"up": 1.0 + rows, "wave": 10 + np.sin(rows)}.items():
        matrix = values[np.arange(40)[:, None] + np.arange(13)]
        lines = ["#" + ",".join(f"t{at}" for at in range(13)), *(",".join(map(str, row)) for row in matrix)]
        (folder / "actual" / f"{name}_actual.csv").write_text("\n".join(lines) + "\n")
    grid = [(task, w, c) for task in ("grep", "sort") for w in (10, 20, 35, 50) for c in (1000, 2000, 4000, 8000)]
    profile = ["task,workload,cpu_milli,seconds", *(f"{task},{w},{c},{1000 * w / c}" for task, w, c in grid)]
    (folder / "workload_profiling.csv").write_text("\n".join(profile) + "\n")
    (folder / "tasks.csv").write_text(tasks)


def test_a_job_of_ones_own_names_its_tasks(tmp_path):
    own_job(tmp_path, "task,series\ngrep,up\nsort,wave\nsort,up\n")
    out = tmp_path / "out"
    told = json.loads(
        run(*("--data", str(tmp_path), "--forecast", "perfect", "--length", "5", "--out", str(out), "--json"))
    )
    steps = pl.read_csv(out / "supersteps.csv")
    assert (told["tasks"], told["data"]) == (3, tmp_path.name)
    assert steps["task"].unique(maintain_order=True).to_list() == ["grep", "sort", "sort-2"]
    assert steps.filter(pl.col("task") == "grep")["workload"].to_list() == (
        steps.filter(pl.col("task") == "sort-2")["workload"].to_list()
    )


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ("task,series\n", "tasks.csv: has no rows"),
        ("task,series\ngrep\n", "tasks.csv:2: a row names a task and its series"),
        ("task,series\ngrep,../up\n", 'tasks.csv:2: "../up" is no name of a series'),
        ("task,series\ngrep,up\nfind,up\n", 'the profile has no task "find"'),
        ("task,series\ngrep,down\n", "down_actual.csv: cannot be read"),
    ],
)
def test_a_wrong_task_list_is_said_with_its_line(tmp_path, tasks, message):
    own_job(tmp_path, tasks)
    with pytest.raises(ForesailError) as raised:
        run("--data", str(tmp_path), "--forecast", "perfect", "--length", "5")
    assert message in str(raised.value)


def test_a_measured_profile_with_gaps_says_what_tasks_have(tmp_path, monkeypatch):
    """Least CPU, steps and totals are in proportion to what was measured, as the published ones are to 1000 milli."""
    monkeypatch.delenv("FORESAIL_DATA", raising=False)
    profile = tmp_path / "measured.csv"
    rows = [
        f"{task},{workload},{cpu},{speed * workload * 100 / cpu}"
        for task, speed in (("cap", 5), ("zero", 8))
        for at, workload in enumerate((10, 20, 30, 49))
        for cpu in (200, 300, 600, 1500)[at % 2 :]
    ]
    profile.write_text("# measured\ntask,workload,cpu_milli,seconds\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    words = ("--profile", str(profile), "--forecast", "perfect", "--length", "5", "--json")
    told = json.loads(run(*words, "--strategy", "exppo", "--out", str(out)))
    assert (told["tasks"], told["grid_milli"]) == (2, 20)
    lines = [line.split(",") for line in (out / "supersteps.csv").read_text().splitlines()]
    cpus = {row[lines[0].index("task")]: float(row[lines[0].index("cpu_milli")]) for row in lines[1:]}
    assert sum(cpus.values()) == 2 * 3 * 200
    assert cpus["zero"] > cpus["cap"] >= 200


def test_a_profile_without_the_data_s_tasks_is_said(tmp_path, bsp_data):
    rows = [f"cpa,{workload},{cpu},1" for workload in (1, 2, 3, 4) for cpu in (1, 2, 3, 4)]
    (tmp_path / "profile.csv").write_text("\n".join(["task,workload,cpu_milli,seconds", *rows]))
    with pytest.raises(ForesailError, match='the profile has no task "affinity"'):
        run("--data", str(bsp_data), "--profile", str(tmp_path / "profile.csv"))
