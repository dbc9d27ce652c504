"""What stress-ng is told to do, and how the limit on its CPU is found."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from foresail.workloads.stress import own_cpu_group, periods, stress_command

OUTSIDE_V1 = (
    "30 20 0:25 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "31 20 0:26 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory\n"
    "32 20 0:27 / /sys/fs/cgroup/unified rw,relatime shared:11 - cgroup2 cgroup2 rw\n"
)
IN_POD_V1 = "40 30 0:25 /pods/pod1/c1 /sys/fs/cgroup/cpu,cpuacct ro,nosuid master:9 - cgroup cgroup rw,cpu,cpuacct\n"
V2 = "30 20 0:25 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("mounts", "groups", "folder"),
    [
        (OUTSIDE_V1, "3:memory:/m\n2:cpu,cpuacct:/a/b\n0::/u\n", "/sys/fs/cgroup/cpu,cpuacct/a/b"),
        (OUTSIDE_V1, "2:cpu,cpuacct:/\n0::/u\n", "/sys/fs/cgroup/cpu,cpuacct"),
        (IN_POD_V1, "2:cpu,cpuacct:/pods/pod1/c1\n", "/sys/fs/cgroup/cpu,cpuacct"),
        (IN_POD_V1, "2:cpu,cpuacct:/pods/pod1/c1/deep\n", "/sys/fs/cgroup/cpu,cpuacct/deep"),
        (V2, "0::/a/b\n", "/sys/fs/cgroup/a/b"),
        (V2, "0::/\n", "/sys/fs/cgroup"),
    ],
)
def test_the_group_that_limits_cpu_is_found(mounts, groups, folder):
    assert own_cpu_group(mounts, groups) == Path(folder)


def test_nobody_counts_periods_where_no_group_is():
    assert own_cpu_group("1 0 8:1 / / rw - ext4 /dev/sda rw\n", "0::/\n") is None
    assert periods("1 0 8:1 / / rw - ext4 /dev/sda rw\n", "0::/\n") is None


def test_the_periods_of_a_v2_group_may_be_those_of_the_one_above(tmp_path):
    (tmp_path / "a/processes").mkdir(parents=True)
    mounts = f"30 20 0:25 / {tmp_path} rw shared:9 - cgroup2 cgroup2 rw\n"
    (tmp_path / "a/processes/cpu.stat").write_text("usage_usec 5\nnr_periods 0\nnr_throttled 0\n")
    (tmp_path / "a/cpu.stat").write_text("usage_usec 5\nnr_periods 40\nnr_throttled 30\nthrottled_usec 7\n")
    assert periods(mounts, "0::/a/processes\n") == (40, 30)


def run(*words, path=None):
    environment = os.environ if path is None else {**os.environ, "PATH": str(path)}
    return subprocess.run(
        [sys.executable, "-m", "foresail.workloads.stress", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_work_is_done_in_order_and_told_one_by_one(tmp_path):
    """A program of that name that says what it was asked for, since not every machine has the real one."""
    program = tmp_path / "stress-ng"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    program.chmod(0o755)
    joined = tmp_path / "cgroup.procs"
    ran = run("cap:9", "zero:12:1", "--workers", "3", "--join", str(joined), path=f"{tmp_path}:/usr/bin:/bin")
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["task"], one["ops"]) for one in told] == [("cap", 9), ("zero", 12)]
    assert all(one["seconds"] > 0 and one["cpu_s"] >= 0 for one in told)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["--quiet --cap 3 --cap-ops 9", "--quiet --zero 1 --zero-ops 12"]
    assert asked[0].split() == stress_command("cap", 9, 3)[1:]
    assert joined.read_text().isdecimal()


def test_what_fails_is_told_with_its_reason(tmp_path):
    ran = run("cap:9", path=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "stress-ng is not installed; run as root: apt-get install -y stress-ng" in ran.stderr
    program = tmp_path / "stress-ng"
    program.write_text("#!/bin/sh\necho no such stressor >&2\nexit 3\n")
    program.chmod(0o755)
    ran = run("cap:9", path=f"{tmp_path}:/usr/bin:/bin")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "stress-ng --cap 0 --cap-ops 9 ended with 3: no such stressor" in ran.stderr
