from __future__ import annotations

from pathlib import Path

import pytest

from foresail.lab import cgroups
from foresail.lab.cgroups import Hierarchy
from foresail.lab.errors import LabError

V1 = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,xattr,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"


def make_pod(qos: str) -> dict[str, object]:
    return {"metadata": {"uid": "1234"}, "status": {"qosClass": qos}}


def test_on_a_v1_host_the_lonely_v2_tree_is_left_alone():
    trees = cgroups.hierarchies(V1)
    assert [(str(tree.mount), tree.v2) for tree in trees] == [
        ("/sys/fs/cgroup/cpu,cpuacct", False),
        ("/sys/fs/cgroup/systemd", False),
    ]
    assert "cpuacct" in trees[0].controllers
    assert [tree.v2 for tree in cgroups.all_hierarchies(V1)] == [False, False, True]


def test_a_v2_host_has_one_tree():
    assert cgroups.hierarchies(V2) == [Hierarchy(Path("/sys/fs/cgroup"), frozenset(), v2=True)]


@pytest.mark.parametrize(
    ("qos", "path"),
    [
        ("Guaranteed", "/foresail-1/0/kubepods/pod1234"),
        ("Burstable", "/foresail-1/0/kubepods/burstable/pod1234"),
        ("BestEffort", "/foresail-1/0/kubepods/besteffort/pod1234"),
    ],
)
def test_a_pod_lies_below_its_quality_of_service(qos, path):
    assert cgroups.pod_path("/foresail-1/0", make_pod(qos)) == path


def test_processes_go_below_a_v2_group_that_passes_its_controllers_on(tmp_path):
    (tmp_path / "one/a").mkdir(parents=True)
    (tmp_path / "two/a").mkdir(parents=True)
    trees = [
        Hierarchy(tmp_path / "one", frozenset({"cpu"}), v2=False),
        Hierarchy(tmp_path / "two", frozenset(), v2=True),
    ]
    assert cgroups.process_files("/a", trees) == [
        *(tmp_path / "one/a/cgroup.procs", tmp_path / "two/a/processes/cgroup.procs")
    ]
    assert (tmp_path / "two/a/processes").is_dir()
    cgroups.put_first("/a", trees)
    assert [(tmp_path / name).read_text() for name in ("one/a/cpu.shares", "two/a/cpu.weight")] == ["262144", "10000"]


def test_a_v2_group_gets_its_controllers_and_its_limit(tmp_path):
    for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "0"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpuset cpu memory pids misc\n")
    tree = Hierarchy(tmp_path, frozenset(), v2=True)
    cgroups.make("/a/0", cpu_limit_milli=500, trees=[tree])
    assert (tmp_path / "a" / "0" / "cpu.max").read_text() == "50000 100000"
    passed_on = [
        (folder / "cgroup.subtree_control").read_text() for folder in (tmp_path, tmp_path / "a", tmp_path / "a" / "0")
    ]
    assert passed_on == ["+cpuset +cpu +memory +pids"] * 3


def test_v1_groups_get_a_quota_and_their_parents_cpus(tmp_path):
    for name in ("cpu", "cpuset"):
        (tmp_path / name / "a").mkdir(parents=True)
    for name, text in (("cpuset.cpus", "0-1\n"), ("cpuset.mems", "0\n")):
        (tmp_path / "cpuset" / name).write_text(text)
        (tmp_path / "cpuset" / "a" / name).write_text("\n")
    trees = [Hierarchy(tmp_path / name, frozenset({name}), v2=False) for name in ("cpu", "cpuset")]
    cgroups.make("/a", cpu_limit_milli=1500, trees=trees)
    written = {str(file.relative_to(tmp_path)): file.read_text() for file in sorted(tmp_path.glob("*/a/*"))}
    assert written == {
        "cpu/a/cpu.cfs_period_us": "100000",
        "cpu/a/cpu.cfs_quota_us": "150000",
        "cpuset/a/cpuset.cpus": "0-1\n",
        "cpuset/a/cpuset.mems": "0\n",
    }


def test_cpu_time_is_read_from_either_version(tmp_path):
    (tmp_path / "pod").mkdir()
    (tmp_path / "pod" / "cpuacct.usage").write_text("1500000000\n")
    (tmp_path / "pod" / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    old = [Hierarchy(tmp_path, frozenset({"memory"}), v2=False), Hierarchy(tmp_path, frozenset({"cpuacct"}), v2=False)]
    new = [Hierarchy(tmp_path, frozenset(), v2=True)]
    assert (cgroups.cpu_used_s("/pod", old), cgroups.cpu_used_s("/pod", new)) == (1.5, 2.5)
    with pytest.raises(LabError, match="/pod cannot be measured"):
        cgroups.cpu_used_s("/pod", old[:1])


def test_groups_are_removed_deepest_first(tmp_path):
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "d").mkdir()
    (tmp_path / "other").mkdir()
    cgroups.remove("/a", [Hierarchy(tmp_path, frozenset({"cpu"}), v2=False)])
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
