"""Foresail's filters and scores against the kube-scheduler of a lab, on clusters nobody has seen before."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.lab import Lab
from foresail.parity.compare import DECISION, FINAL, compare_file
from foresail.parity.lab import record
from foresail.policies.kubernetes import FILTERS, PLUGIN_OF_SCORE, kubernetes_profile
from foresail.policies.profiles.load import load_profile

pytestmark = pytest.mark.cluster

PODS, CLUSTERS, SEED = 2020, 40, 1
COMMAND = [sys.executable, "-c", "from foresail.cli.main import main; main()", "parity", "--lab"]


@pytest.fixture(scope="module")
def labs():
    """A folder for labs: not pytest's own, whose paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="fs-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def recorded(labs, tmp_path_factory):
    path = tmp_path_factory.mktemp("parity") / "lab.jsonl"
    found = record(path, pods=PODS, clusters=CLUSTERS, seed=SEED, lab=Lab("parity", base=labs))
    assert not (labs / "parity").exists()
    return path, found


@pytest.fixture(scope="module")
def compared(recorded):
    return compare_file(recorded[0], load_profile("kubernetes"))


def test_every_decision_comes_out_the_same(recorded, compared):
    found, result = recorded[1], compared
    assert [str(difference) for difference in result.differences] == []
    assert (result.cases, result.clusters, found.pods) == (found.pods, CLUSTERS, result.cases)
    # A random pod may contradict itself, and the API server then refuses it; that is to be rare.
    assert len(found.refused) < PODS / 100
    assert result.cases >= 2000
    assert 0.5 < result.schedulable / result.cases < 0.95


def test_every_filter_and_every_score_came_up(compared):
    result = compared
    assert set(result.refused_by_filter) == set(FILTERS)
    # Nobody claims devices, so kube-scheduler's plug-in for them has but zeros to say.
    assert set(result.scores_by_plugin) - {"DynamicResources"} == set(PLUGIN_OF_SCORE.values())
    assert [name for name, count in result.refused_by_filter.items() if count < 20] == []
    assert [name for name, count in result.scores_by_plugin.items() if count < 500] == []


def test_another_weight_is_found_out(recorded):
    wrong = kubernetes_profile()
    for score in wrong["scores"]:
        score["weight"] += score["policy"] == "kube-image-locality"
    result = compare_file(recorded[0], load_profile(wrong))
    assert result.by_plugin["ImageLocality"] > 100
    assert set(result.by_plugin) == {"ImageLocality", FINAL, DECISION}


@pytest.fixture(scope="module")
def by_cluster(recorded, tmp_path_factory):
    """The recording, a file a cluster."""
    folder, lines = tmp_path_factory.mktemp("clusters"), {}
    for line in recorded[0].read_text(encoding="utf-8").splitlines(keepends=True):
        lines.setdefault(json.loads(line)["seed"], []).append(line)
    for seed, own in lines.items():
        (folder / f"{seed}.jsonl").write_text("".join(own), encoding="utf-8")
    return sorted(folder.iterdir())


@pytest.mark.parametrize("left_out", FILTERS)
def test_a_missing_filter_is_found_out(by_cluster, left_out):
    wrong = kubernetes_profile()
    wrong["filters"].remove(left_out)
    assert any(compare_file(path, load_profile(wrong)).differences for path in by_cluster)


def test_the_command_reads_its_own_recording(recorded):
    ran = CliRunner().invoke(app, ["parity", str(recorded[0]), "--json"])
    (told,) = json.loads(ran.output)
    assert (ran.exit_code, told["clusters"], told["differences"]) == (0, CLUSTERS, [])


def test_the_command_records_compares_and_removes_its_lab(labs, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(labs))
    out = tmp_path / "few.jsonl"
    arguments = ["--lab", "--pods", "12", "--clusters", "2", "--seed", "7", "--out", str(out)]
    ran = CliRunner().invoke(app, ["parity", *arguments])
    assert ran.exit_code == 0, ran.output
    assert ran.output.startswith("2 clusters, 12 pods: ")
    assert len(out.read_text(encoding="utf-8").splitlines()) == 12
    assert [path.name for path in (labs / "foresail" / "lab").iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_removes_the_lab_and_keeps_the_lines(labs, tmp_path, how):
    out = tmp_path / "part.jsonl"
    environment = {**os.environ, "XDG_STATE_HOME": str(labs)}
    with subprocess.Popen([*COMMAND, "--out", str(out)], env=environment, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 120
        while not out.exists() or not out.stat().st_size:
            assert time.monotonic() < deadline, "nothing was recorded"
            time.sleep(0.05)
        running.send_signal(how)
        said = running.communicate(timeout=60)[1]
    assert (running.returncode, "interrupted" in said) == (130, True), said
    assert [path.name for path in (labs / "foresail" / "lab").iterdir() if path.is_dir()] == []
    assert all(json.loads(line) for line in out.read_text(encoding="utf-8").splitlines())
