"""Experiments that need traces say how to make them, and can be run then."""

import re
import shlex
import shutil
from pathlib import Path

from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.experiments.experiment_file import load_experiment
from foresail.experiments.plan import plan_of
from foresail.experiments.run import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "experiments"


def with_traces(name, folder):
    """A copy of an experiment, with the traces that it says how to make; and their seeds."""
    path = Path(shutil.copy(EXAMPLES / name, folder))
    loop = re.search(r"for seed in ([\d ]+); do\n#\s+(foresail .*)\n", path.read_text())
    for seed in loop[1].split():
        made = CliRunner().invoke(app, shlex.split(loop[2].replace("$seed", seed))[1:])
        assert made.exit_code == 0, made.output
    return path, loop[1].split()


def test_gpu_pods_with_departures_wait_and_leave_fragments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, seeds = with_traces("gpu-departures.toml", tmp_path)
    experiment = load_experiment(path, {"controllers": ["none", "equal-shares"]})
    plan = plan_of(experiment)
    assert len(plan.runs) == 20
    nodes = {(tmp_path / "gpu-departures" / seed / "nodes.csv").read_bytes() for seed in seeds}
    assert len(nodes) == 1
    result = run(plan.runs[0].request)
    values = {metric.name: metric.value(result) for metric in plan.metrics}
    assert values["wait_mean_s"] > 10
    assert values["fragmentation_over_time_pct"] == result.summary["fragmentation"]["pct"] > 1


def test_defragment_moves_pods_of_its_example_and_lowers_fragmentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, seeds = with_traces("defragment.toml", tmp_path)
    experiment = load_experiment(path, {})
    assert [Path(trace.pods).parent.name for trace in experiment.workloads] == seeds
    assert len(seeds) == 20
    alone, moved = [run(request) for request in experiment.requests()[:2]]
    assert alone.controllers == ()
    assert moved.controllers == ("defragment",)
    assert moved.tables["journal"]["what"].count("move") > 50
    assert moved.summary["fragmentation"]["pct"] < alone.summary["fragmentation"]["pct"]
    assert moved.summary["wait_s"]["mean"] < alone.summary["wait_s"]["mean"]
