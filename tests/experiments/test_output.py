import csv
import io
import re

import pytest
from rich.console import Console

from foresail.experiments.executors import InProcess
from foresail.experiments.output import comparison_tables, write_comparison
from foresail.experiments.plan import plan_of
from foresail.experiments.run import run
from foresail.experiments.runner import carry_out_plan


@pytest.fixture
def compared(tmp_path):
    """Carry out an experiment and write its comparison; returns the plan and the rows."""

    def go(wanted):
        plan = plan_of(wanted)
        return plan, write_comparison(plan, tmp_path, carry_out_plan(plan, tmp_path, InProcess()))

    return go


def read(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def shown(plan, rows):
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_tables(plan, rows))
    return console.file.getvalue()


def test_the_tables_hold_what_the_runs_measured(compared, experiment, tmp_path):
    plan, _ = compared(experiment(pods=(1, 2), metrics=("allocation_at_100_pct", "failed_pods")))
    runs = read(tmp_path / "runs.csv")
    assert [(row["trace"], row["policy"], row["seed"], row["folder"]) for row in runs] == [
        (planned.trace, planned.policy, str(planned.seed), f"runs/{planned.folder}") for planned in plan.runs
    ]
    for row, planned in zip(runs, plan.runs, strict=True):
        assert row["failed_pods"] == str(run(planned.request).summary["failed_pods"])
    rows = read(tmp_path / "comparison.csv")
    assert len(rows) == (2 + 1) * 2 * 2
    picked = {(row["trace"], row["policy"], row["metric"]): row for row in rows}
    whole = picked["all traces", "best-fit", "failed_pods"]
    failed = {(row["trace"], row["policy"], row["seed"]): int(row["failed_pods"]) for row in runs}
    diffs = [failed[t, "best-fit", s] - failed[t, "fgd", s] for t in ("one", "two") for s in ("42", "43")]
    assert (whole["n"], whole["pairs"], whole["better"]) == ("4", "4", "lower")
    assert float(whole["diff_mean"]) == sum(diffs) / 4
    assert int(whole["wins"]) == sum(diff < 0 for diff in diffs)
    assert float(whole["diff_low"]) <= float(whole["diff_mean"]) <= float(whole["diff_high"])
    base = picked["one", "fgd", "failed_pods"]
    assert (base["pairs"], base["diff_mean"], base["diff_low"], base["diff_high"], base["wins"]) == ("",) * 5


def test_the_same_comparison_writes_the_same_bytes(compared, experiment, tmp_path, tree):
    compared(experiment(pods=(1, 2)))
    before = tree(tmp_path)
    compared(experiment(pods=(1, 2)))
    assert tree(tmp_path) == before
    assert {"comparison.csv", "runs.csv", "report.html", "experiment.json"} < before.keys()


def test_the_terminal_shows_means_differences_and_traces(compared, experiment):
    text = shown(*compared(experiment(pods=(1, 2))))
    assert "one, two: 2 seeds" in text
    assert "↑ allocation_at_130_pct" in text
    assert "↓ fragmentation_ratio_at_130_pct" in text
    assert re.search(r"  best-fit .*[+-]\d+\.\d{3}…[+-]\d+\.\d{3} +[0-4]/4", text)
    assert "allocation_at_130_pct: means by trace" in text
    assert not [line for line in text.splitlines() if len(line) > 80]


def test_one_seed_has_no_interval_and_says_so(compared, experiment, tmp_path):
    plan, rows = compared(experiment(seeds=[42]))
    assert "none: one pair" in shown(plan, rows)
    assert {(row["sd"], row["diff_low"], row["diff_high"]) for row in read(tmp_path / "comparison.csv")} == {("",) * 3}
    page = (tmp_path / "report.html").read_text()
    assert "<title>fgd, best-fit on one</title>" in page


def test_the_report_says_what_it_draws(compared, experiment, tmp_path):
    compared(experiment(seeds=[42, 43, 44]))
    page = (tmp_path / "report.html").read_text()
    assert "<title>fgd, best-fit on one (3 seeds, plots show seed 42)</title>" in page
    assert "paired-differences" in page
    assert page.count("<details>") == 2


def test_two_traces_may_share_their_pods(compared, experiment, tmp_path):
    wanted = experiment(seeds=[42], policies=["fgd"])
    files = wanted.traces[0]
    named = tuple(type(files)(name, files.nodes, files.pods) for name in ("day", "night"))
    compared(type(wanted)(traces=named, policies=("fgd",), title="Twice"))
    page = (tmp_path / "report.html").read_text()
    assert "fgd · day" in page
    assert "fgd · night" in page
    assert "<title>Twice</title>" in page
