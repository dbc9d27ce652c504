from pathlib import Path

import pytest

from foresail.core.backoff import Backoff
from foresail.errors import ForesailError, InputError
from foresail.experiments.experiment import Experiment, TraceFiles
from foresail.experiments.experiment_file import load_experiment
from foresail.sim.protocols.clock_settings import ClockSettings

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "experiment.toml"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write an experiment into the folder x, beside the files that it names; we are one folder up."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "x"
    (folder / "data").mkdir(parents=True)
    for name in ("nodes.csv", "more.csv", "data/a.csv", "data/b.csv", "mine.toml", "faults.csv"):
        (folder / name).write_text("")

    def write(text):
        (folder / "e.toml").write_text(text)
        return Path("x/e.toml")

    return write


SMALL = 'nodes = "nodes.csv"\npolicies = ["fgd", "mine.toml"]\n[[traces]]\npods = "data/a.csv"\n'


def test_every_key(write):
    path = write("""
        title = "All"
        nodes = "nodes.csv"
        policies = ["fgd", "mine.toml", "power:100+fgd:900"]
        seeds = "1-3"
        protocol = "clock"
        faults = "faults.csv"
        skip_bad_rows = true
        baseline = "fgd"
        metrics = ["wait_mean_s"]
        [[traces]]
        pods = "data/a.csv"
        [[traces]]
        name = "bee"
        nodes = "more.csv"
        pods = "data/b.csv"
        [clock]
        until_s = 7200
        arrival_scale = 0.5
        after_failure = "resume"
        fail_impossible = false
        backoff = "1:10"
    """)
    assert load_experiment(path) == Experiment(
        traces=(
            TraceFiles("a", "x/nodes.csv", "x/data/a.csv"),
            TraceFiles("bee", "x/more.csv", "x/data/b.csv"),
        ),
        policies=("fgd", "x/mine.toml", "power:100+fgd:900"),
        seeds=(1, 2, 3),
        protocol="clock",
        faults="x/faults.csv",
        clock=ClockSettings(
            until_s=7200.0,
            arrival_scale=0.5,
            after_failure="resume",
            fail_impossible=False,
            backoff=Backoff(1.0, 10.0),
        ),
        skip_bad_rows=True,
        baseline="fgd",
        metrics=("wait_mean_s",),
        title="All",
    )


def test_what_is_left_out_has_its_default(write):
    assert load_experiment(write(SMALL)) == Experiment(
        traces=(TraceFiles("a", "x/nodes.csv", "x/data/a.csv"),), policies=("fgd", "x/mine.toml")
    )


def test_options_win_over_the_file(write):
    path = write(SMALL.replace("[[", "seeds = [1, 2]\nload = 1.1\n[[", 1))
    made = load_experiment(
        path,
        {"nodes": "n.csv", "pods": ["p.csv", "q.csv"], "policies": ["simon"], "seeds": "5,6", "load": None},
    )
    assert made == Experiment(
        traces=(TraceFiles("p", "n.csv", "p.csv"), TraceFiles("q", "n.csv", "q.csv")),
        policies=("simon",),
        seeds=(5, 6),
        load=1.1,
    )
    assert load_experiment(path, {"pods": ["p.csv"]}).traces == (TraceFiles("p", "x/nodes.csv", "p.csv"),)
    assert load_experiment(path, {"nodes": "n.csv"}).traces == (TraceFiles("a", "n.csv", "x/data/a.csv"),)


def test_clock_options_join_those_of_the_file(write):
    path = write('protocol = "clock"\n' + SMALL + "[clock]\nuntil_s = 5\narrival_scale = 2\n")
    made = load_experiment(path, {"clock": {"until_s": 9.0}})
    assert made.clock == ClockSettings(until_s=9.0, arrival_scale=2.0)


def test_options_alone():
    made = load_experiment(None, {"nodes": "n.csv", "pods": ["p.csv"], "policies": ["fgd"], "seeds": "3"})
    assert made == Experiment(traces=(TraceFiles("p", "n.csv", "p.csv"),), policies=("fgd",), seeds=(3,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policys = []\n" + SMALL, 'unknown key "policys"; did you mean "policies"? keys are title, nodes'),
        ("seeds = [1, -2]\n" + SMALL, "seeds has -2; write whole numbers"),
        ("seeds = [1, true]\n" + SMALL, "seeds has True; write whole numbers"),
        ("seeds = []\n" + SMALL, "seeds is empty; write whole numbers"),
        ('seeds = "4-2"\n' + SMALL, 'seeds are "4-2", but 2 is below 4'),
        ('load = "1.3"\n' + SMALL, "load is '1.3'; a number is needed, such as 1.3"),
        ("load = 200\n" + SMALL, "load is 200; it is a multiple"),
        ("load = nan\n" + SMALL, "load is nan; a number is needed"),
        ('protocol = "clock"\nload = 1\n' + SMALL, "load goes with protocol openb"),
        ('protocol = "opnb"\n' + SMALL, 'no protocol "opnb"; did you mean "openb"?'),
        ('faults = "faults.csv"\n' + SMALL, "faults needs --protocol clock"),
        ("skip_bad_rows = 1\n" + SMALL, "skip_bad_rows is 1; write true or false"),
        ('policies = "fgd"\n', "policies is 'fgd'; a list is needed, such as [\"fgd\"]"),
        ("policies = [1]\n", "policies is 1; text in quotes is needed"),
        ('policies = ["gone.toml"]\n', 'policies is "gone.toml", but there is no file x/gone.toml; paths are'),
        ("metrics = []\n" + SMALL, 'metrics is []; a list is needed, such as ["failed_pods"]'),
        ('traces = "a.csv"\n', "traces is 'a.csv'; write one [[traces]] table"),
        ('[[traces]]\nnodes = "nodes.csv"\n', "[[traces]] number 1: pods is missing"),
        ('[[traces]]\npods = "data/a.csv"\n', "[[traces]] number 1: nodes is missing"),
        (
            'nodes = "nodes.csv"\n[[traces]]\npods = "no.csv"\n',
            '[[traces]] number 1: pods is "no.csv", but there is no',
        ),
        ("[[traces]]\npod = 1\n", '[[traces]] number 1: unknown key "pod"; did you mean "pods"?'),
        (SMALL + "[clock]\nuntil = 1\n", '[clock]: unknown key "until"; did you mean "until_s"?'),
        (SMALL + '[clock]\nuntil_s = "1"\n', "[clock]: until_s is '1'; a number is needed"),
        (SMALL + "[clock]\narrival_scale = 0\n", "arrival_scale is 0; it is a factor above 0"),
        (SMALL + '[clock]\nbackoff = "9"\n', 'backoff is "9"; write FIRST:MOST'),
        ("clock = 3\n" + SMALL, "clock is 3; write a [clock] table"),
    ],
)
def test_mistakes_name_the_file_and_the_key(write, text, said):
    with pytest.raises(InputError) as refused:
        load_experiment(write(text))
    assert str(refused.value).startswith(f"x/e.toml: {said}")


def test_a_file_that_is_no_toml_names_the_line(write):
    with pytest.raises(InputError) as refused:
        load_experiment(write('title = "a"\nseeds = [1,\n= 2'))
    assert str(refused.value).startswith("x/e.toml:3: not TOML: ")


def test_a_missing_file_is_named():
    with pytest.raises(InputError) as refused:
        load_experiment(Path("nowhere.toml"))
    assert str(refused.value) == "nowhere.toml: there is no such experiment file; name a TOML file"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pods": ["p.csv"], "policies": ["fgd"]}, "--pods is given without a node list; add --nodes"),
        ({"nodes": "n.csv", "policies": ["fgd"]}, "--nodes is n.csv, but there are no pods; add --pods"),
        ({"protocol": "clock", "load": 1.0}, "--load goes with protocol openb"),
        ({"load": 300.0}, "--load is 300;"),
        ({"clock": {"until_s": -1.0}}, "until_s is -1;"),
    ],
)
def test_mistakes_in_options_name_the_option(options, said):
    with pytest.raises(ForesailError) as refused:
        load_experiment(None, options)
    assert str(refused.value).startswith(said)


def test_a_mistake_in_an_option_is_not_laid_on_the_file(write):
    with pytest.raises(ForesailError) as refused:
        load_experiment(write("load = 1.1\n" + SMALL), {"load": 300.0})
    assert str(refused.value).startswith("--load is 300;")


def test_the_example_is_an_experiment(tmp_path):
    for name in ("nodes.csv", "pods.csv", "more-pods.csv"):
        (tmp_path / name).write_text("")
    (tmp_path / "experiment.toml").write_bytes(EXAMPLE.read_bytes())
    made = load_experiment(tmp_path / "experiment.toml")
    assert len(made.requests()) == 2 * 3 * 5
