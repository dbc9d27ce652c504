import json
import multiprocessing
import shutil

import pytest

from foresail.errors import ResultsError
from foresail.experiments.executors import Done, Failed, InProcess, Processes, carry_out, executor_for
from foresail.experiments.plan import plan_of
from foresail.experiments.run import run
from foresail.experiments.runner import carry_out_plan
from foresail.experiments.store import manifest_extra
from foresail.results.folder import write_run


def never(runs):
    raise AssertionError(f"nothing was to be run, but {runs}")


class Never:
    outcomes = staticmethod(never)


@pytest.fixture
def history():
    """What the runner tells, as a list of (policy, seed, what)."""
    told = []

    def on_run(planned, what):
        told.append((planned.policy, planned.seed, what))

    return told, on_run


def test_every_run_is_told_written_and_described(experiment, tmp_path, history, tree):
    told, on_run = history
    plan = plan_of(experiment())
    carried = carry_out_plan(plan, tmp_path / "out", InProcess(), on_run=on_run)
    assert told == [(policy, seed, "finished") for policy in ("fgd", "best-fit") for seed in (42, 43)]
    assert (carried.kept, len(carried.finished), carried.failed) == ([], 4, [])
    described = json.loads((tmp_path / "out" / "experiment.json").read_bytes())
    assert described["runs"] == [f"runs/{run.folder}" for run in plan.runs]
    assert described["baseline"] == "fgd"
    assert set(described["inputs"]) == {plan.runs[0].request.nodes, plan.runs[0].request.pods}
    folders = {path.rsplit("/", 1)[0] for path in tree(tmp_path / "out") if "/" in path}
    assert folders == set(described["runs"])


def test_a_run_is_the_one_that_simulate_writes(experiment, tmp_path, tree):
    plan = plan_of(experiment(policies=["fgd"], seeds=[42]))
    carry_out_plan(plan, tmp_path / "out", InProcess())
    request = plan.runs[0].request
    write_run(tmp_path / "alone", run(request), manifest_extra=manifest_extra(request))
    assert tree(tmp_path / "out" / "runs" / plan.runs[0].folder) == tree(tmp_path / "alone")


@pytest.mark.parametrize("protocol", ["openb", "clock"])
def test_processes_write_the_same_bytes(experiment, tmp_path, protocol, tree):
    plan = plan_of(experiment(protocol=protocol))
    carry_out_plan(plan, tmp_path / "one", InProcess())
    carry_out_plan(plan, tmp_path / "two", Processes(2))
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    assert len(tree(tmp_path / "one")) > 4 * 5


def test_finished_runs_are_kept(experiment, tmp_path, history):
    told, on_run = history
    carry_out_plan(plan_of(experiment(seeds=[42])), tmp_path, InProcess())
    more = plan_of(experiment(seeds=[42, 43], policies=["fgd", "best-fit", "simon"]))
    carry_out_plan(more, tmp_path, InProcess(), on_run=on_run)
    assert told == [
        ("fgd", 42, "kept"),
        ("best-fit", 42, "kept"),
        ("fgd", 43, "finished"),
        ("best-fit", 43, "finished"),
        ("simon", 42, "finished"),
        ("simon", 43, "finished"),
    ]
    carried = carry_out_plan(more, tmp_path, Never())
    assert (len(carried.kept), carried.finished) == (6, [])


def test_overwrite_runs_everything_again(experiment, tmp_path, history):
    told, on_run = history
    plan = plan_of(experiment(policies=["fgd"], seeds=[42]))
    carry_out_plan(plan, tmp_path, InProcess())
    carry_out_plan(plan, tmp_path, InProcess(), overwrite=True, on_run=on_run)
    assert told == [("fgd", 42, "finished")]


def test_a_run_of_another_request_is_refused_and_replaced_only_if_asked(experiment, tmp_path, tree):
    carry_out_plan(plan_of(experiment(policies=["fgd"], load=1.1)), tmp_path, InProcess())
    before = tree(tmp_path)
    other = plan_of(experiment(policies=["best-fit", "fgd"], load=1.2))
    with pytest.raises(ResultsError) as refused:
        carry_out_plan(other, tmp_path, Never())
    assert str(refused.value) == (
        f"{tmp_path / 'runs/one/fgd/seed-42'}: holds a run of another request (load: 1.1, now 1.2); "
        "replace it with --overwrite, or name another folder with --out"
    )
    assert tree(tmp_path) == before
    carried = carry_out_plan(other, tmp_path, InProcess(), overwrite=True)
    assert len(carried.finished) == 4


def test_a_run_of_other_inputs_or_another_version_is_refused(experiment, tmp_path):
    plan = plan_of(experiment(policies=["fgd"], seeds=[42]))
    carry_out_plan(plan, tmp_path, InProcess())
    path = tmp_path / "runs" / plan.runs[0].folder / "manifest.json"
    whole = json.loads(path.read_bytes())
    for changes, said in (
        ({"inputs": {**whole["inputs"], plan.runs[0].request.pods: "0" * 64}}, "a run of other input files"),
        ({"versions": {**whole["versions"], "foresail": "0.0.1"}}, "a run of another foresail (0.0.1, now "),
        ({"request": None}, "a run of another request (nothing, now "),
    ):
        path.write_text(json.dumps(whole | changes))
        with pytest.raises(ResultsError, match="replace it with --overwrite") as refused:
            carry_out_plan(plan, tmp_path, Never())
        assert said in str(refused.value)


def test_a_damaged_run_is_refused(experiment, tmp_path):
    plan = plan_of(experiment(policies=["fgd"], seeds=[42]))
    carry_out_plan(plan, tmp_path, InProcess())
    (tmp_path / "runs" / plan.runs[0].folder / "placements.csv").write_text("cut")
    with pytest.raises(ResultsError, match="changed since it was written"):
        carry_out_plan(plan, tmp_path, Never())


@pytest.mark.parametrize("there", ["file", "foreign"])
def test_a_folder_of_something_else_is_left_alone(experiment, tmp_path, there, tree):
    out = tmp_path / "out"
    if there == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ResultsError, match=r"name .*folder with --out"):
            carry_out_plan(plan_of(experiment()), out, Never(), overwrite=overwrite)
    assert list(tree(tmp_path).values()) == [b"mine"]


def test_tables_of_an_earlier_comparison_do_not_outlive_it(experiment, tmp_path):
    carry_out_plan(plan_of(experiment(policies=["fgd"], seeds=[42])), tmp_path, InProcess())
    (tmp_path / "comparison.csv").write_text("old")
    carry_out_plan(plan_of(experiment(policies=["fgd"], seeds=[42, 43])), tmp_path, InProcess())
    assert not (tmp_path / "comparison.csv").exists()


def test_an_interrupt_keeps_finished_runs_and_the_next_call_goes_on(experiment, tmp_path, troubles, history, tree):
    told, on_run = history
    plan = plan_of(experiment(policies=["fgd", "troubled"]))
    troubles.interrupt_at = 43
    with pytest.raises(KeyboardInterrupt):
        carry_out_plan(plan, tmp_path / "out", InProcess(), on_run=on_run)
    troubles.interrupt_at = None
    assert told == [("fgd", 42, "finished"), ("fgd", 43, "finished"), ("troubled", 42, "finished")]
    assert not [path for path in (tmp_path / "out").rglob("*") if path.name.startswith(".")]
    told.clear()
    carry_out_plan(plan, tmp_path / "out", InProcess(), on_run=on_run)
    assert told == [
        ("fgd", 42, "kept"),
        ("fgd", 43, "kept"),
        ("troubled", 42, "kept"),
        ("troubled", 43, "finished"),
    ]
    carry_out_plan(plan, tmp_path / "at-once", InProcess())
    assert tree(tmp_path / "out") == tree(tmp_path / "at-once")


def test_an_interrupt_while_processes_run_stops_them(experiment, tmp_path):
    plan = plan_of(experiment(seeds=range(20)))

    def interrupt(_planned, _what):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out_plan(plan, tmp_path, Processes(2), on_run=interrupt)
    assert multiprocessing.active_children() == []
    assert len(list(tmp_path.rglob("manifest.json"))) == 1
    assert len(carry_out_plan(plan, tmp_path, InProcess()).kept) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_failing_run_does_not_lose_the_others(experiment, tmp_path, troubles, count):
    plan = plan_of(experiment(policies=["troubled", "fgd"], seeds=[1, 666, 3]))
    with executor_for(None, count) as executor:
        carried = carry_out_plan(plan, tmp_path / "out", executor)
    assert len(carried.finished) == 5
    ((planned, why),) = carried.failed
    assert str(planned) == "policy troubled, trace one, seed 666"
    assert "troubled" in why
    assert "ValueError: out of luck" in why
    assert not (tmp_path / "out" / "runs" / planned.folder).exists()


def test_inputs_that_change_meanwhile_fail_the_run(experiment, traces, tmp_path):
    copies = [shutil.copy(path, tmp_path) for path in traces]
    wanted = experiment(policies=["fgd"], seeds=[42])
    files = type(wanted.traces[0])("one", str(copies[0]), str(copies[1]))
    planned = plan_of(type(wanted)(traces=(files,), policies=("fgd",))).runs[0]
    assert isinstance(carry_out(planned.request, planned.manifest), Done)
    with open(copies[1], "a", encoding="utf-8") as file:  # noqa: PTH123 - the shortest way to append
        file.write("\n")
    assert carry_out(planned.request, planned.manifest) == Failed(
        f"{copies[1]}: changed during the comparison; start it again"
    )
