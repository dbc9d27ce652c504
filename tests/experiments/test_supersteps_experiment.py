"""Experiments with bulk-synchronous jobs as files: what they say, what is wrong with them, and their simulation."""

from pathlib import Path

import numpy as np
import pytest

from foresail.errors import InputError, OptionError
from foresail.experiments.supersteps.experiment import load_supersteps_experiment, prepare
from foresail.experiments.supersteps.overlay import overlay_of, simulate_experiment, write_overlay
from foresail.live.supersteps.job import ChangedSize, SuperstepRow

TEXT = """
name = "three"
profile = "profile.csv"
cpu_milli = 900
length = 6
strategy = "static"
window = 2
forecast = "perfect"
penalty = 1.5

[[tasks]]
name = "a"
method = "bsearch"
modifier = 0.5

[[tasks]]
name = "b"

[[tasks]]
name = "c"
profile_task = "b"

[cluster]
superstep_within_s = 30.0
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = ["task,workload,cpu_milli,seconds"]
    for task, cost in (("a", 0.02), ("b", 0.01)):
        rows += [
            f"{task},{work},{milli},{cost * work * 1000 / milli}"
            for work in (5, 20, 40, 60)
            for milli in (100, 200, 400, 800)
        ]
    (tmp_path / "profile.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "three.toml").write_text(TEXT)
    return tmp_path


def written(folder: Path, old: str = "", new: str = "") -> Path:
    path = folder / "three.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new) if old else TEXT + new)
    return path


def test_a_file_says_tasks_cpu_strategy_and_where_tasks_meet(folder):
    found = load_supersteps_experiment(folder / "three.toml")
    assert [(task.name, task.method, task.modifier) for task in found.gang_tasks] == [
        ("a", "bsearch", 0.5),
        ("b", "b", 1.0),
        ("c", "c", 1.0),
    ]
    assert (found.penalty_s, found.measures_penalty) == (1.5, False)
    assert found.cluster.superstep_within_s == 30.0
    assert found.board == "lease://default/three"
    other = load_supersteps_experiment(folder / "three.toml", strategy="even", barrier="zookeeper://10.0.0.1:2181")
    assert other.board == "zookeeper://10.0.0.1:2181/foresail/default/three"
    assert other.run != found.run


def test_where_tasks_meet_is_no_part_of_what_a_job_is(folder):
    """So that a job whose barrier or time limits are changed is still the one that is there."""
    first = load_supersteps_experiment(folder / "three.toml")
    assert load_supersteps_experiment(folder / "three.toml", barrier="zookeeper://h:1").run == first.run


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("cpu_milli = 900\n", "", "cpu_milli is missing"),
        ("cpu_milli = 900", "cpu_milli = 200", "3 tasks with 100 milli each need 300, and the job has 200"),
        ('name = "b"', 'name = "a"', "tasks are called a, a, c; each has a name of its own"),
        ("penalty = 1.5", 'penalty = "guessed"', "penalty is 'guessed'; write a number of seconds, or \"measured\""),
        ("penalty = 1.5", "penalty = -1", "penalty is -1; it is a number of seconds, 0 or more"),
        ('strategy = "static"', 'strategy = "statik"', 'no strategy "statik"'),
        ('profile = "profile.csv"\n', "", "profile is missing; measure one with: foresail measure stress"),
        ("length = 6", "lenght = 6", 'unknown key "lenght"; did you mean "length"?'),
        ("modifier = 0.5", "modifyer = 0.5", '[[tasks]] 1: unknown key "modifyer"'),
        ("superstep_within_s = 30.0", "superstep_within_s = 0.0", "superstep_within_s is 0; it is a time in seconds"),
    ],
)
def test_mistakes_name_the_file_the_value_and_the_remedy(folder, old, new, said):
    with pytest.raises(InputError) as error:
        load_supersteps_experiment(written(folder, old, new))
    assert said in str(error.value)
    assert "three.toml" in str(error.value)


def test_a_task_that_the_profile_does_not_have_is_told(folder):
    found = load_supersteps_experiment(written(folder, 'profile_task = "b"', 'profile_task = "d"'))
    with pytest.raises(InputError, match='the profile has no task "d"'):
        prepare(found)


def test_works_come_from_a_csv_file_if_one_is_named(folder):
    values = np.random.default_rng(1).uniform(size=(40, 3))
    lines = ["c,b,a", *(",".join(f"{value:.6f}" for value in row) for row in values)]
    (folder / "works.csv").write_text("\n".join(lines) + "\n")
    found = load_supersteps_experiment(written(folder, "length = 6", 'length = 6\nseries = "works.csv"\nstart = 10'))
    works = prepare(found).works
    rows = values[10:21, ::-1].round(6)  # 40 rows, less those before and the 19 after the last
    expected = 10 + 40 * (rows - rows.min(axis=0)) / (rows.max(axis=0) - rows.min(axis=0))
    np.testing.assert_allclose(works, expected[:6])
    with pytest.raises(OptionError, match="12 supersteps need 12 rows, and the series has 11"):
        prepare(load_supersteps_experiment(folder / "three.toml", length=12))


def test_the_simulation_is_a_job_of_that_strategy(folder):
    run = simulate_experiment(load_supersteps_experiment(folder / "three.toml"))
    assert run.changed.tolist() == [False, False, True, False, True, False]
    assert run.reconfiguration_s == 3.0
    even = simulate_experiment(load_supersteps_experiment(folder / "three.toml", strategy="even"))
    assert even.splits.tolist() == [[4, 4, 4]] * 6
    assert even.total_s > run.total_s - run.reconfiguration_s


def test_an_overlay_tells_how_far_the_cluster_was_from_the_simulation(folder, tmp_path):
    """Every superstep on the cluster takes a tenth more than the profile says, with the splits of the simulation."""
    experiment = load_supersteps_experiment(folder / "three.toml")
    run = simulate_experiment(experiment)
    grid = prepare(experiment).splitter.grid
    works = prepare(experiment).works
    rows = [
        SuperstepRow(
            step=step,
            workload=dict(zip("abc", works[step].tolist(), strict=True)),
            cpu_milli=dict(zip("abc", grid.milli(run.splits[step]), strict=True)),
            seconds=dict(zip("abc", (1.1 * run.seconds[step]).tolist(), strict=True)),
            attempt=dict.fromkeys("abc", 1),
            superstep_s=1.1 * float(run.seconds[step].max()) + 0.2,
            changed=bool(run.changed[step]),
            changing_s=0.5 if run.changed[step] else 0.0,
            resizes=(ChangedSize(outcome="done", took_s=0.4, allocated_s=0.3),) if run.changed[step] else (),
        )
        for step in range(6)
    ]
    overlay = overlay_of(experiment, rows)
    figures = overlay.figures
    assert figures["difference"] == pytest.approx(1 - 1 / 1.1)
    assert figures["difference_same_split"] == pytest.approx(1 - 1 / 1.1)
    assert figures["overhead_s"] == pytest.approx(0.2)
    assert (figures["supersteps"], figures["changes"], figures["resizes"]) == (6, 2, 2)
    assert (figures["change_mean_s"], figures["resize_median_s"]) == (0.5, 0.3)
    table, page = write_overlay(overlay, tmp_path / "out")
    assert len(table.read_text().splitlines()) == 7
    assert "Resizes in place" in page.read_text()
