"""`foresail measure stress`: what it refuses, before anything is run."""

import pytest
from typer.testing import CliRunner

from foresail.cli.main import app
from foresail.errors import ForesailError


def run(*words):
    return CliRunner().invoke(app, ["measure", "stress", *words], catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "here"), '--on is "here"; it is local or kube'),
        (("--image", "x"), "--image is x, which goes with --on kube"),
        (("--lab", "none-of-that-name", "--on", "kube"), 'no lab "none-of-that-name" in '),
        (("--lab", "a", "--on", "kube", "--kubeconfig", "b"), "both --lab a and --kubeconfig b are given"),
        (("--ops", "cap"), '--ops is "cap"; write TASK=N with a number above 0'),
        (("--ops", "cap=-1"), '--ops is "cap=-1"; write TASK=N'),
        (("--ops", "cap=nan"), '--ops is "cap=nan"; write TASK=N'),
        (("--workloads", "10:x"), '--workloads is "10:x"; write values as 10,20,30'),
        (("--cpus", "1;2"), '--cpus is "1;2"'),
    ],
)
def test_what_cannot_be_is_said_with_its_value(tmp_path, words, message):
    with pytest.raises(ForesailError) as raised:
        run("--out", str(tmp_path / "profile.csv"), *words)
    assert message in str(raised.value)
    assert not (tmp_path / "profile.csv").exists()


def test_without_stress_ng_the_command_to_install_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ForesailError, match=r"stress-ng is not installed; run as root: apt-get install .* stress-ng"):
        run("--out", str(tmp_path / "profile.csv"))
