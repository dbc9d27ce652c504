"""The controller that the guide shows is short, is the one the example package ships, and runs unchanged."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from tests.plugins.packages import distribution
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.controllers import load_controllers
from foresail.results.folder import read_run
from foresail.testing import check_controller

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/my-controller"
SHOWN = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/guides/write-a-controller.md").read_text(encoding="utf-8"), re.DOTALL
)[0]


def code(source: str) -> str:
    """A module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.unparse(tree)


def test_the_controller_is_short_and_the_example_package_ships_it():
    assert len([line for line in SHOWN.splitlines() if line.strip()]) <= 15
    assert code(SHOWN) == code((EXAMPLE / "my_controller.py").read_text(encoding="utf-8"))


def test_the_example_package_declares_what_it_ships(packages):
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    source = (EXAMPLE / "my_controller.py").read_text(encoding="utf-8")
    distribution(packages, "my-controller", declared["foresail.controllers"], source, group="foresail.controllers")
    (trim,) = load_controllers(["trim-long-runs:after_s=1"]).values()
    assert trim.after_s == 1.0
    check_controller(trim)


# --- in the simulator ------------------------------------------------------------------------------------------------

NODES = "sn,cpu_milli,memory_mib,gpu,model\nonly,4000,8192,0,\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time
train,3000,1024,0,0,0,1800
serve,500,1024,0,0,0,1800
late,2000,1024,0,0,300,900
"""
DONE = (600.0, "resize", "train", "only", "3000 → 1000 milli-CPU: has run for 600 s", "trim-long-runs")
"""What it does with these pods, and why."""


@pytest.fixture
def installed(packages, monkeypatch):
    """The example package, and a small trace in the folder where commands are given."""
    source = (EXAMPLE / "my_controller.py").read_text(encoding="utf-8")
    points = {"trim-long-runs": "my_controller:TrimLongRuns"}
    distribution(packages, "my-controller", points, source, group="foresail.controllers")
    monkeypatch.chdir(packages)
    monkeypatch.setenv("COLUMNS", "120")
    (packages / "nodes.csv").write_text(NODES, encoding="utf-8")
    (packages / "pods.csv").write_text(PODS, encoding="utf-8")
    return packages


def foresail(*words):
    asked = [*words, "--protocol", "clock", "--nodes", "nodes.csv", "--pods", "pods.csv", "--policy", "best-fit"]
    result = CliRunner().invoke(app, asked if words[0] != "explain" else words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def check_run(folder):
    """Its action is in the journal, in the results and in the report of a run."""
    run = read_run(folder)
    journal = run.frame("journal")
    assert journal.filter(by="trim-long-runs").rows() == [DONE]
    assert run.controllers == ("trim-long-runs",)
    started = dict(run.pods.select("pod", "start_s").iter_rows())
    assert started == {"train": 0.0, "serve": 0.0, "late": 600.0}  # as soon as there is room, not when train ends


def test_it_runs_unchanged_in_simulate(installed):
    said = foresail("simulate", "--controller", "trim-long-runs", "--out", "trimmed")
    assert "best-fit with trim-long-runs" in said
    check_run(installed / "trimmed")
    page = (installed / "trimmed" / "report.html").read_text(encoding="utf-8")
    assert "What controllers did" in page
    assert "<td>3000 → 1000 milli-CPU: has run for 600 s</td>" in page
    assert "trim-long-runs: 3000 → 1000 milli-CPU: has run for 600 s" in foresail("explain", "trimmed", "train")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_it_runs_unchanged_in_compare(installed, jobs):
    controllers = ["--controller", "none", "--controller", "trim-long-runs"]
    said = foresail("compare", *controllers, "--metric", "wait_mean_s", "--jobs", jobs, "--out", "both")
    assert any(
        line.strip().startswith("best-fit with trim-long-runs") and "-400.000" in line for line in said.splitlines()
    )
    check_run(installed / "both/runs/pods/best-fit-with-trim-long-runs/seed-42")
    alone = read_run(installed / "both/runs/pods/best-fit/seed-42")
    assert (alone.frame("journal"), alone.controllers) == (None, ())
    assert "<h2>What controllers did: best-fit with trim-long-runs</h2>" in (installed / "both/report.html").read_text(
        encoding="utf-8"
    )
