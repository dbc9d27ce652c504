import hashlib
from pathlib import Path

import pytest

from foresail.errors import ForesailError, InputError, OptionError
from foresail.experiments.experiment import parse_seeds
from foresail.experiments.plan import plan_of
from foresail.sim.protocols.clock_settings import ClockSettings


def test_requests_go_by_trace_then_policy_then_seed(experiment, traces):
    requests = experiment(pods=(1, 2)).requests()
    assert [(request.pods, request.policy, request.seed) for request in requests] == [
        (str(pods), policy, seed) for pods in traces[1:] for policy in ("fgd", "best-fit") for seed in (42, 43)
    ]


def test_a_plan_knows_names_folders_and_hashes(experiment):
    plan = plan_of(experiment(policies=["fgd", "power:100 + fgd:900", "dot-product(norm=pod)"], seeds=[7]))
    assert plan.policies == ("fgd", "power:100+fgd:900", "dot-product(norm=pod)")
    assert plan.baseline == "fgd"
    assert [str(run.folder) for run in plan.runs] == [
        "one/fgd/seed-7",
        "one/power-100+fgd-900/seed-7",
        "one/dot-product-norm-pod/seed-7",
    ]
    assert all(list(run.manifest["inputs"]) == [run.request.nodes, run.request.pods] for run in plan.runs)
    assert plan.runs[0].manifest["command"] == plan.runs[0].request.command


def test_names_that_would_share_a_folder_get_a_hash(experiment, tmp_path):
    policies = ["best-fit"]
    for number, name in enumerate(("a b", "a:b")):
        policies.append(str(tmp_path / f"{number}.toml"))
        Path(policies[-1]).write_text(f'name = "{name}"\n[[scores]]\npolicy = "fgd"\n')
    folders = [run.folder.parent.name for run in plan_of(experiment(policies=policies, seeds=[1])).runs]
    hashes = [hashlib.sha256(name.encode()).hexdigest()[:8] for name in ("a b", "a:b")]
    assert folders == ["best-fit", f"a-b-{hashes[0]}", f"a-b-{hashes[1]}"]


def test_a_profile_in_toml_is_hashed_and_goes_by_its_name(experiment, tmp_path):
    profile = tmp_path / "mine.toml"
    profile.write_text('name = "FGD"\n[[scores]]\npolicy = "fgd"\n')
    plan = plan_of(experiment(policies=["fgd", str(profile)], seeds=[1], baseline=str(profile)))
    assert plan.policies == ("fgd", "FGD")
    assert plan.baseline == "FGD"
    assert str(profile) in plan.runs[1].manifest["inputs"]
    folders = [run.folder.parent.name for run in plan.runs]
    # They differ in case alone, which some file systems do not see.
    assert folders[0].startswith("fgd-")
    assert folders[1].startswith("FGD-")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"policies": ["fgd", "best-fitt"]}, 'no policy "best-fitt"; did you mean "best-fit"?'),
        ({"policies": ["fgd", " fgd"]}, 'fgd and  fgd are both called "fgd"; drop one'),
        ({"policies": ["a/profile"]}, 'policy "a/profile" is a path, but does not end in .toml'),
        ({"policies": []}, "no policy to run; give --policy"),
        ({"seeds": []}, "no seed to run; give --seeds"),
        ({"seeds": [1, 2, 1]}, "seed 1 stands there twice"),
        ({"pods": []}, "no trace to run; give --nodes and --pods"),
        ({"pods": (1, 1)}, "both go by the name"),
        ({"protocol": "clok"}, 'no protocol "clok"; did you mean "clock"?'),
        ({"load": 0.0}, "--load is 0;"),
        ({"baseline": "fg"}, 'the baseline "fg" is none of the policies; did you mean "fgd"?'),
        ({"metrics": ("waits",)}, 'protocol openb has no metric "waits"'),
        ({"faults": "faults.csv"}, "--faults needs --protocol clock"),
        ({"protocol": "clock", "faults": "no.csv"}, "no.csv: cannot read the faults"),
        ({"clock": ClockSettings(until_s=5.0)}, "the clock settings need --protocol clock"),
    ],
)
def test_mistakes_show_before_anything_runs(experiment, changes, said):
    with pytest.raises(ForesailError) as refused:
        plan_of(experiment(**changes))
    assert said in str(refused.value)


def test_a_trace_without_gpus_names_its_file(experiment, traces, tmp_path):
    pods = tmp_path / "cpu.csv"
    header, *lines = traces[1].read_text().splitlines()
    columns = header.split(",")
    no_gpu = []
    for line in lines:
        cells = dict(zip(columns, line.split(","), strict=True))
        no_gpu.append(",".join((cells | {"num_gpu": "0", "gpu_milli": "0", "gpu_spec": ""}).values()))
    pods.write_text("\n".join([header, *no_gpu]) + "\n")
    files = experiment().traces[0]
    wanted = experiment()
    object.__setattr__(wanted, "traces", (type(files)("cpu", files.nodes, str(pods)),))
    with pytest.raises(InputError) as refused:
        plan_of(wanted)
    assert str(refused.value).startswith(f"{pods}: no pod asks for a GPU")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("42", (42,)), ("42-44", (42, 43, 44)), ("42,7", (42, 7)), ("1-2, 9 ,4-4", (1, 2, 9, 4)), ("0", (0,))],
)
def test_seeds_from_text(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "3-1", "1.5", "0-100000", "1-99999,5,6"])
def test_bad_seeds_are_refused(text):
    with pytest.raises(OptionError) as refused:
        parse_seeds(text)
    assert str(refused.value).startswith(f'seeds are "{text}"')
