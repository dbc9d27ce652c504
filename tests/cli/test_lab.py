from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from foresail.cli.lab import app
from foresail.errors import OptionError
from foresail.lab import LabSettings, LabStatus, workload_image
from foresail.lab.errors import LabError
from foresail.lab.processes import ProcessId
from foresail.lab.state import LabState


def run(*arguments, **environment):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200", **environment})


@pytest.fixture
def dead(tmp_path):
    """A lab whose processes have all ended: no pid reaches this number."""
    folder = tmp_path / "dead"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "etcd.log").write_text("one\ntwo\nthree\n")
    state = LabState("dead", settings=LabSettings().as_dict(), ports={"kube-apiserver": 1})
    state.processes = {"etcd": ProcessId(2**22 + 1, 1)}
    state.save(folder)
    return tmp_path


def test_down_of_nothing_is_no_error(tmp_path):
    ran = run("down", "--name", "mine", "--dir", tmp_path)
    assert (ran.exit_code, ran.output) == (0, "there is no lab mine\n")


def test_status_tells_what_has_ended_and_exits_with_1(dead):
    ran = run("status", "--name", "dead", "--dir", dead)
    assert ran.exit_code == 1
    assert ran.output.splitlines() == [
        f"lab dead (not up yet) at https://127.0.0.1:1, in {dead / 'dead'}",
        "  etcd                       has ended",
        "  the API server does not answer; see: foresail lab logs kube-apiserver",
    ]
    as_json = json.loads(run("status", "--name", "dead", "--dir", dead, "--json").output)
    assert (as_json["components"], as_json["ready"], as_json["answers"]) == ({"etcd": None}, False, False)


def test_a_lab_whose_api_server_hangs_is_not_whole(tmp_path):
    whole = LabStatus("mine", tmp_path, True, "https://127.0.0.1:1", {"etcd": 7}, True, {"a": True})
    assert whole.is_whole
    for part in ({"ready": False}, {"answers": False, "nodes": {}}, {"components": {"etcd": None}}):
        assert not replace(whole, **part).is_whole
    assert not replace(whole, nodes={"a": True, "b": False}).is_whole


def test_logs_lists_components_and_prints_the_end_of_one(dead):
    assert run("logs", "--name", "dead", "--dir", dead).output == f"etcd: {dead / 'dead' / 'logs' / 'etcd.log'}\n"
    assert run("logs", "etcd", "--lines", "2", "--name", "dead", "--dir", dead).output == "two\nthree\n"
    assert str(run("logs", "etdc", "--name", "dead", "--dir", dead).exception) == (
        'no component "etdc" in lab dead; did you mean "etcd"? (there: etcd)'
    )


def test_down_removes_a_dead_lab(dead):
    assert run("down", "--name", "dead", "--dir", dead).output == "lab dead is gone\n"
    assert list(dead.iterdir()) == []


@pytest.mark.parametrize("verb", ["status", "kubeconfig", "logs"])
def test_a_lab_that_is_not_there_is_an_error(tmp_path, verb):
    ran = run(verb, "--name", "mine", "--dir", tmp_path)
    assert isinstance(ran.exception, LabError)
    assert "(there: none)" in str(ran.exception)


def test_up_refuses_bad_values_before_it_makes_anything(tmp_path):
    for arguments in (["--fake-nodes", "-1"], ["--name", "Bad_Name"], ["--kubelets", "1", "--node-cpu", "x"]):
        ran = run("up", "--dir", tmp_path, *arguments)
        assert isinstance(ran.exception, OptionError)
    assert list(tmp_path.iterdir()) == []


def test_up_without_programs_says_what_to_run(tmp_path):
    nowhere = {"PATH": str(tmp_path), "KUBEBUILDER_ASSETS": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ran = run("up", "--dir", tmp_path / "labs", **nowhere)
    assert str(ran.exception) == (
        "missing programs; run as root: apt-get install -y --no-install-recommends etcd-server openssl "
        "(or: foresail lab build --install)"
    )
    assert not (tmp_path / "labs").exists()


@pytest.mark.parametrize("verb", ["build", "up", "down", "status", "kubeconfig", "logs"])
def test_every_verb_shows_an_example(verb):
    assert f"foresail lab {verb}" in run(verb, "--help", NO_COLOR="1").output


def test_an_image_that_is_there_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = workload_image.archive()
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(3_000_000))
    ran = run("image", PATH=str(tmp_path))
    assert (ran.exit_code, ran.output) == (0, f"localhost/foresail/workload:4: {path} (3 MB)\n")


def test_helm_is_looked_for_only_when_asked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    programs = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kwok", "etcd", "openssl")
    for program in (*programs, "helm"):
        (tmp_path / program).touch(mode=0o755)
    found = run("build", "--no-kubelets", PATH=str(tmp_path)).output.splitlines()
    more = run("build", "--no-kubelets", "--helm", PATH=str(tmp_path)).output.splitlines()
    assert [line for line in more if line not in found] == [f"helm: {tmp_path / 'helm'}"]
    assert len(found) == 5
