from __future__ import annotations

import json
import os
import shutil

import pytest

from foresail.errors import InputError, OptionError
from foresail.lab import Lab, LabSettings, teardown
from foresail.lab.errors import LabError
from foresail.lab.processes import ProcessId
from foresail.lab.settings import cpu_milli, settings_from
from foresail.lab.state import (
    STATE_FILE,
    LabState,
    all_labs,
    check_is_free,
    check_name,
    labs_folder,
    load,
    locked,
    this_boot,
)
from foresail.lab.teardown import mounts_below


def make_state(**fields):
    return LabState("mine", settings=LabSettings(fake_nodes=3, apiserver_flags=("--v=2",)).as_dict(), **fields)


def test_a_state_comes_back_as_it_was_written(tmp_path):
    state = make_state(ports={"etcd": 2}, processes={"etcd": ProcessId(7, 8)}, bridges=["br"], cgroups=["/x"])
    state.save(tmp_path)
    assert load(tmp_path) == state
    assert settings_from(state.settings) == LabSettings(fake_nodes=3, apiserver_flags=("--v=2",))


def test_processes_of_an_earlier_boot_are_forgotten(tmp_path):
    make_state(boot_id="earlier", processes={"etcd": ProcessId(1, 1)}, bridges=["br"]).save(tmp_path)
    found = load(tmp_path)
    assert found is not None
    assert (found.processes, found.bridges, found.boot_id) == ({}, ["br"], this_boot())


def test_a_state_is_whole_or_the_earlier_one(tmp_path, monkeypatch):
    make_state(bridges=["one"]).save(tmp_path)

    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        make_state(bridges=["two"]).save(tmp_path)
    found = load(tmp_path)
    assert found is not None
    assert (found.bridges, [path.name for path in tmp_path.iterdir()]) == (["one"], [STATE_FILE])


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "x"}', '{"name": "x", "lab_id": "y", "unheard_of": 1}'])
def test_what_is_no_state_is_refused_with_its_path(tmp_path, text):
    (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(InputError, match=str(tmp_path / STATE_FILE)):
        load(tmp_path)


def test_labs_are_listed_by_name(tmp_path):
    assert all_labs(tmp_path / "none") == {}
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        make_state().save(tmp_path / name)
    (tmp_path / "half").mkdir()
    assert list(all_labs(tmp_path)) == ["a", "b"]


def test_two_commands_on_one_lab_keep_out_of_each_others_way(tmp_path):
    with (
        locked(tmp_path, "lab mine"),
        pytest.raises(LabError, match="another foresail command is at work on lab mine"),
        locked(tmp_path, "lab mine"),
    ):
        pass
    with locked(tmp_path, "lab mine"):
        pass


def test_labs_lie_in_the_state_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert labs_folder() == tmp_path / "foresail" / "lab"


@pytest.mark.parametrize("name", ["", "Mine", "-a", "a-", "a/b", "a" * 33, ".."])
def test_names_that_would_break_paths_or_node_names_are_refused(name):
    with pytest.raises(OptionError, match="--name is"):
        check_name(name)


@pytest.mark.parametrize(("text", "milli"), [("500m", 500), ("2", 2000), ("0.25", 250)])
def test_cpu_is_read_as_kubernetes_writes_it(text, milli):
    assert cpu_milli(text) == milli


def test_settings_that_cannot_be_are_refused():
    for settings, told in (
        (LabSettings(fake_nodes=-1), "--fake-nodes is -1"),
        (LabSettings(fake_nodes=1, fake_cpu="lots"), '--fake-cpu is "lots"; write an amount as Kubernetes does'),
        (LabSettings(fake_nodes=1, fake_memory="-1Gi"), '--fake-memory is "-1Gi"; write an amount'),
        (LabSettings(kubelets=-1), "--kubelets is -1"),
        (LabSettings(controllers=False, fake_nodes=1), "a lab without controllers has no nodes that become ready"),
        (LabSettings(kubelets=1, node_cpu="lots"), '--node-cpu is "lots"'),
        (LabSettings(kubelets=1, node_cpu="inf"), '--node-cpu is "inf"; write cores as 2 or 0.5'),
        (LabSettings(kubelets=1, node_cpu="99m"), '--node-cpu is "99m"'),
    ):
        with pytest.raises(OptionError, match=told):
            settings.check()


def test_a_lab_that_is_not_there_says_which_are(tmp_path):
    (tmp_path / "other").mkdir()
    make_state().save(tmp_path / "other")
    with pytest.raises(LabError, match=r'no lab "mine" in .* \(there: other\)'):
        Lab("mine", base=tmp_path).status()
    assert Lab("mine", base=tmp_path).down() is False
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r'no lab "mine" in .*file \(there: none\)'):
        Lab("mine", base=tmp_path / "file").status()


def test_what_was_left_before_the_first_state_was_written_is_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".lab.4711.part.json").write_text("{")
    assert Lab("mine", base=tmp_path).down() is True
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_elses_is_never_taken_for_a_lab(tmp_path):
    thesis = tmp_path / "mine" / "thesis.txt"
    thesis.parent.mkdir()
    check_is_free(thesis.parent)
    thesis.write_text("years of work")
    for refused in (lambda: check_is_free(thesis.parent), Lab("mine", base=tmp_path).down):
        with pytest.raises(LabError, match=r"is no lab's: it holds thesis\.txt and no lab\.json; give another"):
            refused()
    assert thesis.read_text() == "years of work"


def test_the_state_is_the_last_to_go_so_that_a_second_try_finds_the_rest(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    (folder / "etcd").mkdir(parents=True)
    (folder / "kwok.yaml").touch()
    make_state().save(folder)
    left = []

    def remove(path, **_options):
        left.append(sorted(one.name for one in folder.iterdir()))
        if path == folder / "etcd":
            raise KeyboardInterrupt
        real(path, ignore_errors=True)

    real = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", remove)
    with pytest.raises(KeyboardInterrupt):
        Lab("mine", base=tmp_path).down()
    assert STATE_FILE in left[-1]
    monkeypatch.setattr(shutil, "rmtree", real)
    assert Lab("mine", base=tmp_path).down() is True
    assert list(tmp_path.iterdir()) == []


def test_what_cni_remembers_of_a_lab_whose_name_begins_alike_stays(tmp_path, monkeypatch):
    results = tmp_path / "results"
    results.mkdir()
    monkeypatch.setattr(teardown, "_CNI_RESULTS", results)
    for name, network, lab in (("a", "fs1n0", "lab"), ("b", "other", "lab"), ("c", "fs2n0", "lab-2"), ("d", "x", "")):
        pod = {"interfaces": [{"sandbox": f"{tmp_path}/{lab}/nodes/0/run/netns/{name}"}]} if lab else {}
        (results / name).write_text(json.dumps({"networkName": network, "result": pod}))
    (results / "e").write_text("[")
    found = teardown._cni_results(tmp_path / "lab", make_state(bridges=["fs1n0"]))
    assert sorted(path.name for path in found) == ["a", "b"]


def test_shared_folders_go_only_if_nobody_else_uses_them(tmp_path):
    ours, theirs = tmp_path / "kubelet", tmp_path / "containerd"
    for folder in (ours / "device-plugins", theirs / "s"):
        folder.mkdir(parents=True)
    (ours / "device-plugins" / "kubelet.sock").touch()
    (theirs / "containerd.sock").touch()
    for name in ("mine", "other"):
        (tmp_path / "labs" / name).mkdir(parents=True)
        make_state(made_paths=[str(ours), str(theirs)]).save(tmp_path / "labs" / name)
    left = []
    for name in ("mine", "other"):
        Lab(name, base=tmp_path / "labs").down()
        left.append(sorted(path.name for path in tmp_path.rglob("*")))
    assert left[0] == [
        "containerd",
        "containerd.sock",
        "device-plugins",
        "kubelet",
        "kubelet.sock",
        "lab.json",
        "labs",
        "other",
        "s",
    ]
    assert left[1] == ["containerd", "containerd.sock", "labs"]


def test_mounts_are_undone_in_reverse_and_only_below_the_folder(tmp_path):
    inside = tmp_path / "a b"
    escaped = str(inside).replace(" ", r"\040")
    lines = [
        f"{n} 1 0:1 / {point} rw - tmpfs x rw"
        for n, point in enumerate([f"{escaped}/1", f"{escaped}/1/2", f"{escaped}x", "/"])
    ]
    assert mounts_below(inside, "\n".join(lines)) == [f"{inside}/1/2", f"{inside}/1"]
