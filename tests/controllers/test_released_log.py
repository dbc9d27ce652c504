"""The structure of the log that was released with the published rule: what `migrate` writes from the same start."""

from pathlib import Path

import pytest

from foresail.experiments.experiment_file import load_experiment
from foresail.experiments.run import run

FILE = Path(__file__).resolve().parents[2] / "examples/experiments/training-50.toml"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_at_most_one_move_a_round_no_job_moved_twice_and_kept_jobs_with_an_empty_target(seed):
    experiment = load_experiment(
        FILE, {"controllers": ["migrate"], "training": {"start": "released"}, "seeds": str(seed)}
    )
    (request,) = [one for one in experiment.requests() if one.controllers]
    log = run(request).frame("distribution")
    assert log is not None
    assert log.columns == ["time", "job", "orginal_node", "to_node"]
    moved, kept = log.filter(log["to_node"] != ""), log.filter(log["to_node"] == "")
    assert len(moved) >= 5
    assert len(kept) >= 5
    assert moved["job"].is_unique().all()
    assert moved["time"].is_unique().all()
    assert moved["time"].diff().drop_nulls().min() >= 30
    assert (moved["orginal_node"] != moved["to_node"]).all()
    # There: 18 moves and 11 kept, each kept job once.
    assert 10 <= len(moved) <= 30
    assert kept["job"].value_counts()["count"].max() <= 2
    assert len(log) <= 2 * 50
