"""The README keeps its promises: the demo is the Makefile's, the policy is short and runs, the figures come out."""

from __future__ import annotations

import re
import shlex
import statistics
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.plugins.registry import forget_packages
from foresail.policies.profiles.load import load_profile
from foresail.results.folder import read_run
from foresail.sim.protocols.openb import run_openb
from foresail.traces.trace import load

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(kind: str, holding: str) -> str:
    bodies = re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return next(body for body in bodies if holding in body)


def commands(text: str) -> list[list[str]]:
    """The foresail commands in a text, with continued lines joined."""
    joined = re.sub(r"\\\n\s*", " ", text)
    return [shlex.split(line) for line in re.findall(r"^(?:\$ |\t\$\(BIN\)/)(foresail .*)$", joined, re.MULTILINE)]


def test_it_is_told_in_the_order_of_the_house():
    assert re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", README, flags=re.DOTALL), re.MULTILINE) == [
        "Foresail",
        "Install",
        "Write a policy",
        "Results",
        "Run it on a cluster",
        "What it does not do (yet)",
        "Documentation",
        "Licence",
    ]
    assert (
        README.index("make demo") < README.index("```console") < README.index("](docs/images/") < README.index("## I")
    )


def test_the_demo_it_shows_is_the_one_that_make_runs():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    folder = re.search(r"^RESULTS := (.+)$", makefile, re.MULTILINE)[1]
    target = re.search(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)[1]
    assert commands(block("console", "trace generate")) == commands(target.replace("$(RESULTS)", folder))


def test_its_policy_is_short_and_really_runs(tmp_path, monkeypatch):
    policy, project = block("python", "class "), block("toml", "entry-points")
    assert len([line for line in policy.splitlines() if line.strip()]) <= 15
    (tmp_path / policy.split()[1]).write_text(policy, encoding="utf-8")
    name, target = re.search(r'^([\w-]+) = "(\w+:\w+)"$', project, re.MULTILINE).groups()
    info = tmp_path / "fullest-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fullest\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[foresail.policies]\n{name} = {target}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    forget_packages()
    try:
        runner = CliRunner()
        for words in (
            "trace generate --nodes 10 --pods 150 --seed 1 --out .",
            f"simulate --nodes nodes.csv --pods pods.csv --policy {name} --out results --no-html",
        ):
            result = runner.invoke(app, words.split(), catch_exceptions=False)
            assert result.exit_code == 0, result.output
    finally:
        forget_packages()
        sys.modules.pop(target.partition(":")[0], None)
    run = read_run(tmp_path / "results")
    assert run.policy == name
    assert run.summary["used_gpu_milli"] > 0


@pytest.mark.data
def test_its_figures_come_out_again(openb_csv):
    trace = load(openb_csv / "openb_node_list_gpu_node.csv", openb_csv / "openb_pod_list_default.csv")
    at_100, at_130 = [], []
    for seed in range(42, 52):
        by_load = run_openb(trace, load_profile("fgd"), load=1.3, seed=seed).by_load
        at_100.append(by_load["allocation_pct"][100])
        at_130.append(by_load["allocation_pct"][130])
    shown = f"{statistics.fmean(at_100):.2f} | {statistics.fmean(at_130):.2f}"
    assert f"| fgd | {shown} |" in README
