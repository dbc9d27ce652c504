"""ZooKeeper beside a lab: starts, is killed and comes back with its data, and leaves no trace."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kazoo.client import KazooClient

from foresail.lab import Lab, zookeeper
from foresail.lab.processes import kill

pytestmark = [pytest.mark.cluster, pytest.mark.alone]
COMMAND = [sys.executable, "-c", "from foresail.cli.main import main; main()", "lab"]


def run(*arguments):
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def test_zookeeper_comes_and_goes_with_its_lab(labs, nothing_left):
    options = ["--name", "zoo", "--dir", str(labs)]
    code, said, told = run("up", "--zookeeper", "--no-scheduler", *options)
    lab = Lab("zoo", base=labs)
    try:
        assert (code, told) == (0, "")
        assert f"zookeeper: {lab.zookeeper}\n" in said
        client = KazooClient(lab.zookeeper)
        client.start(30)
        client.create("/kept", b"yes")
        client.stop()
        client.close()
        pid = lab.state.processes[zookeeper.ZOOKEEPER].pid
        lab.restart(zookeeper.ZOOKEEPER)
        assert lab.state.processes[zookeeper.ZOOKEEPER].pid != pid
        client = KazooClient(lab.zookeeper)
        client.start(30)
        assert client.get("/kept")[0] == b"yes"
        client.stop()
        client.close()
        assert (lab.status().is_whole, lab.status().zookeeper) == (True, lab.zookeeper)
        kill([lab.state.processes[zookeeper.ZOOKEEPER]])
        assert lab.status().components[zookeeper.ZOOKEEPER] is None
        code, said, _ = run("status", *options)
        assert (code, f"  ZooKeeper at {lab.zookeeper}\n" in said) == (1, True)
    finally:
        lab.down()
    assert not lab.folder.exists()
