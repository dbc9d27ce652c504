"""Changes against the baseline: closed forms, and training experiments from their file to the JSON."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from foresail.cli.compare import compare
from foresail.cli.simulate import simulate
from foresail.errors import InputError, OptionError
from foresail.experiments.changes import change_of
from foresail.experiments.experiment import Experiment
from foresail.experiments.experiment_file import load_experiment
from foresail.experiments.pins import first_nodes
from foresail.experiments.request import RunRequest
from foresail.experiments.run import run
from foresail.results.folder import read_run
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.training.settings import TrainingSettings

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "experiments").glob("training-*.toml"))
FILE = """
protocol = "clock"
policies = ["kubernetes"]
controllers = ["equal-shares"]
seeds = "1-2"
[training]
schedule = "7"
cores = 2
limit_milli = 2000
start = "cold-images"
[clock]
work = "shared-cpu"
restart_time_s = 5
"""
ONE = {"protocol": "clock", "policy": "kubernetes", "clock": ClockSettings(work="shared-cpu")}


def call(verb, *arguments):
    app = typer.Typer()
    app.command()(verb)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def floats(*values):
    return np.array(values, dtype=np.float64)


def test_the_change_of_one_seed():
    # Completion times 10, 20, 40 become 5, 30, 40; the last end is at 50 and then at 48 of a trace that begins at 8.
    found = change_of(floats(10, 8, 10), floats(20, 28, 50), floats(15, 38, 50))
    assert found == {
        "mean_pct": pytest.approx(100 * (75 / 70 - 1)),
        "makespan_pct": pytest.approx(0.0),
        "best_pct": pytest.approx(-50.0),
        "worst_pct": pytest.approx(50.0),
        "slower_pct": pytest.approx(100 / 3),
    }
    assert change_of(floats(0, 2), floats(10, 12), floats(8, 9))["makespan_pct"] == pytest.approx(-25.0)
    assert change_of(floats(0), floats(10), floats(10 + 1e-12))["slower_pct"] == 0


def starts(result):
    return first_nodes(result)


@pytest.mark.parametrize("start", ["balanced", "cold-images", "random", "released"])
def test_runs_with_a_controller_start_where_those_without_do(start):
    training = TrainingSettings("50", start=start)
    baseline = run(RunRequest(**ONE, training=training, seed=3))
    # One turn, at the first arrival: later ones would give away the room that others are pinned to.
    once = ("equal-shares:every_s=100000",)
    pinned = run(RunRequest(**ONE, training=training, seed=3, controllers=once, pin_to="baseline"))
    assert pinned.pods["end_s"].tolist() != baseline.pods["end_s"].tolist()
    assert starts(pinned) == starts(baseline)
    assert pinned.summary["pins_not_kept"] == []
    assert len(set(starts(baseline).values())) == 4


def test_cold_images_crowd_nodes_and_random_starts_do_not_depend_on_the_policy():
    def most_on_a_node(start, policy="kubernetes"):
        request = RunRequest(**(ONE | {"policy": policy}), training=TrainingSettings("50", start=start), seed=3)
        nodes = list(starts(run(request)).values())
        return max(nodes.count(node) for node in set(nodes))

    assert most_on_a_node("balanced") <= 14 < most_on_a_node("cold-images")
    assert most_on_a_node("random") == most_on_a_node("random", "most-allocated")


def test_a_request_gives_the_same_bytes_twice_and_its_command_the_same_request():
    request = RunRequest(**ONE, training=TrainingSettings("20", start="random", cores=3.5), seed=3)
    one, again = run(request), run(request)
    assert one.pods["end_s"].tolist() == again.pods["end_s"].tolist()
    assert one.summary == again.summary
    assert str(request) == (
        "foresail simulate --protocol clock --policy kubernetes --seed 3 --work shared-cpu --schedule 20 "
        "--start random --cores 3.5"
    )


def test_misleading_reports_change_what_is_reported_and_not_how_jobs_get_on():
    told = replace(ONE["clock"], report_error=0.6)
    plain, misled, again = (
        run(RunRequest(**(ONE | {"clock": clock}), training=TrainingSettings("20"), seed=3))
        for clock in (ONE["clock"], told, told)
    )
    assert plain.pods["end_s"].tolist() == misled.pods["end_s"].tolist()
    steps, misleading, repeated = (result.tables["jobs"]["step"] for result in (plain, misled, again))
    assert np.array_equal(misleading, repeated, equal_nan=True)
    said = np.isfinite(steps) & np.isfinite(misleading)
    # As many jobs seem further than they are as seem less far.
    assert (misleading < steps)[said].any()
    assert (misleading > steps)[said].any()


def test_compare_prints_changes_as_json_and_nothing_else(tmp_path):
    (tmp_path / "e.toml").write_text(FILE)
    ran = call(compare, tmp_path / "e.toml", "--out", tmp_path / "out", "--json", "--cores", "4", "--start", "random")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert told["baseline"] == "kubernetes"
    assert told["seeds"] == [1, 2]
    assert told["traces"] == ["7 jobs, random, 4 x 4 cores"]
    by_name = {one["strategy"]: one for one in told["changes"]}
    assert list(by_name) == [
        "kubernetes with equal-shares",
        "pooled sharing",
        "clairvoyant shortest remaining first",
        "makespan bound",
        "clairvoyant shortest to target first",
    ]
    shares = by_name["kubernetes with equal-shares"]
    assert (shares["kind"], shares["controller"], shares["seeds"]) == ("run", "equal-shares", 2)
    summaries = (tmp_path / "out/runs").rglob("*with-equal-shares/seed-*/summary.json")
    not_kept = [len(json.loads(path.read_text())["pins_not_kept"]) for path in summaries]
    assert shares["jobs_not_pinned"] == sum(not_kept)
    assert len(not_kept) == 2
    figures = ["mean_pct", "makespan_pct", "best_pct", "worst_pct", "slower_pct", "target_pct"]
    assert all(set(shares[figure]) == {"mean", "low", "high"} for figure in figures)
    assert shares["mean_pct"]["low"] <= shares["mean_pct"]["mean"] <= shares["mean_pct"]["high"]
    assert set(by_name["makespan bound"]) == {"strategy", "kind", "seeds", "makespan_pct"}
    assert set(by_name["clairvoyant shortest to target first"]) == {"strategy", "kind", "seeds", "target_pct"}
    assert by_name["clairvoyant shortest to target first"]["target_pct"]["mean"] <= 1e-9
    least, pooled = (by_name[name]["makespan_pct"]["mean"] for name in ("makespan bound", "pooled sharing"))
    assert least <= pooled + 1e-9

    # What is said is what the runs say.
    changes = []
    for seed in (1, 2):
        runs = tmp_path / "out/runs/7-jobs-random-4-x-4-cores"
        before, after = (
            read_run(runs / name / f"seed-{seed}").pods for name in ("kubernetes", "kubernetes-with-equal-shares")
        )
        changes.append(
            (after["end_s"] - after["submit_s"]).mean() / (before["end_s"] - before["submit_s"]).mean() * 100 - 100
        )
    assert shares["mean_pct"]["mean"] == pytest.approx(sum(changes) / 2)
    header, *lines = (tmp_path / "out/changes.csv").read_text().splitlines()
    assert header == "strategy,kind,figure,seeds,mean,low,high"
    assert len(lines) == 6 + 5 + 5 + 1 + 1


def test_compare_shows_changes_as_a_table_and_keeps_runs_of_other_starts(tmp_path):
    (tmp_path / "e.toml").write_text(FILE)
    for start in ("balanced", "cold-images"):
        ran = call(compare, tmp_path / "e.toml", "--out", tmp_path / "out", "--start", start)
        assert ran.exit_code == 0, ran.output
        assert f"7 jobs, {start}, 4 x 2 cores: 2 seeds, change against kubernetes" in ran.stdout
        assert "equal-shares" in ran.stdout
        assert "makespan bound" in ran.stdout


def test_controllers_of_training_jobs_are_measured_against_runs_without_one():
    training = TrainingSettings("7")
    clock = ClockSettings(work="shared-cpu")
    experiment = Experiment(
        policies=("kubernetes",), controllers=("equal-shares",), protocol="clock", clock=clock, training=training
    )
    assert [(one.controllers, one.pin_to) for one in experiment.requests()] == [
        ((), None),
        (("equal-shares",), "baseline"),
    ]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_can_be_run(path):
    experiment = load_experiment(path)
    assert len(experiment.seeds) >= 20
    assert experiment.training.schedule in path.stem
    result = run(experiment.requests()[0])
    assert result.summary["finished"] == int(experiment.training.schedule)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('schedule = "7"', 'schedul = "7"'), '[training]: unknown key "schedul"; did you mean "schedule"?'),
        (('schedule = "7"', 'schedule = "8"'), 'no schedule "8"'),
        (('schedule = "7"\n', ""), "start needs --schedule: training jobs instead of a trace"),
        (("cores = 2", 'cores = "2"'), "[training]: cores is '2'; a number is needed, such as 16"),
        (("cores = 2", "cores = 2\nnodes = 2.5"), "[training]: nodes is 2.5; a whole number is needed, such as 4"),
        (('start = "cold-images"', 'start = "cold"'), 'no start "cold"'),
        (('work = "shared-cpu"', 'work = "fixed"'), "schedule needs --protocol clock and --work shared-cpu"),
        (('protocol = "clock"', 'nodes = "n.csv"\nprotocol = "clock"\ntraces = [{pods = "n.csv"}]'), "there are both"),
    ],
)
def test_a_mistake_names_the_file_and_a_remedy(tmp_path, change, told):
    path = tmp_path / "e.toml"
    (tmp_path / "n.csv").write_text("")
    path.write_text(FILE.replace(*change))
    with pytest.raises(InputError) as error:
        load_experiment(path)
    assert str(error.value).startswith(f"{path}: {told}")


def test_an_option_without_a_schedule_is_told():
    with pytest.raises(OptionError, match="--start needs --schedule"):
        load_experiment(None, {"training": {"start": "random"}})


# --- pins -------------------------------------------------------------------------------------------------------------

WORLD = ("--protocol", "clock", "--work", "shared-cpu", "--policy", "kubernetes", "--schedule", "7", "--seed", "5")


def test_simulate_starts_where_an_earlier_run_did(tmp_path):
    first = call(simulate, *WORLD, "--start", "random", "--out", tmp_path / "first", "--no-html")
    assert first.exit_code == 0, first.output
    then = call(
        simulate, *WORLD, "--controller", "equal-shares", "--pin-to", tmp_path / "first", "--out", tmp_path / "then"
    )
    assert then.exit_code == 0, then.output
    runs = [read_run(tmp_path / name) for name in ("first", "then")]
    assert starts(runs[0]) == starts(runs[1])
    assert str(tmp_path / "first" / "manifest.json") in runs[1].manifest["inputs"]
    # From a run with a journal too, and it is the first start that counts.
    again = call(simulate, *WORLD, "--pin-to", tmp_path / "then", "--out", tmp_path / "again")
    assert again.exit_code == 0, again.output
    assert starts(read_run(tmp_path / "again")) == starts(runs[0])


def test_simulate_tells_of_pins_that_cannot_be_kept(tmp_path):
    (tmp_path / "pins.csv").write_text("pod,node\njob-1,node-3\njob-2,node-9\n")
    ran = call(simulate, *WORLD, "--pin-to", tmp_path / "pins.csv")
    assert ran.exit_code == 0, ran.output
    assert ran.stderr.startswith("job-2 could not start on node-9; it started on node-")


@pytest.mark.parametrize(
    ("text", "told"),
    [("job,node\na,b\n", ':1: no column "pod"; the columns are pod,node'), ("", ": cannot be read as CSV")],
)
def test_a_table_of_pins_that_cannot_be_read_is_told(tmp_path, text, told):
    (tmp_path / "pins.csv").write_text(text)
    with pytest.raises(InputError) as error:
        run(RunRequest(**ONE, training=TrainingSettings("7"), pin_to=str(tmp_path / "pins.csv")))
    assert str(error.value).startswith(f"{tmp_path / 'pins.csv'}{told}")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"pin_to": "baseline"}, "--pin-to baseline needs --controller"),
        ({"nodes": "n.csv"}, "--schedule makes nodes and pods itself"),
    ],
)
def test_requests_that_make_no_sense_are_told(more, told):
    with pytest.raises(OptionError, match=told):
        RunRequest(**ONE, training=TrainingSettings("7"), **more)


def test_pins_need_a_run_in_time():
    with pytest.raises(OptionError, match="--pin-to needs --protocol clock"):
        RunRequest(nodes="n.csv", pods="p.csv", pin_to="x")
