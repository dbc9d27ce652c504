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


def test_gpu_pods_with_departures_wait_and_leave_fragments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(shutil.copy(EXAMPLES / "gpu-departures.toml", tmp_path))
    loop = re.search(r"for seed in ([\d ]+); do\n#\s+(foresail .*)\n", path.read_text())
    for seed in loop[1].split():
        made = CliRunner().invoke(app, shlex.split(loop[2].replace("$seed", seed))[1:])
        assert made.exit_code == 0, made.output
    experiment = load_experiment(path, {"controllers": ["none", "equal-shares"]})
    plan = plan_of(experiment)
    assert len(plan.runs) == 20
    nodes = {(tmp_path / "gpu-departures" / seed / "nodes.csv").read_bytes() for seed in loop[1].split()}
    assert len(nodes) == 1
    result = run(plan.runs[0].request)
    values = {metric.name: metric.value(result) for metric in plan.metrics}
    assert values["wait_mean_s"] > 10
    assert values["fragmentation_over_time_pct"] == result.summary["fragmentation"]["pct"] > 1
