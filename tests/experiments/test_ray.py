"""Runs on a Ray that is really started here."""

import importlib.util
import os
import secrets
import subprocess
import sys

import pytest

from foresail.errors import OptionError
from foresail.experiments.executors import InProcess, executor_for, import_ray
from foresail.experiments.plan import plan_of
from foresail.experiments.runner import carry_out_plan

pytestmark = [
    pytest.mark.cluster,
    # Found, not imported: Ray reads its settings when it is imported, and those are the executor's to make.
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed; pip install 'foresail[ray]'"
    ),
]


def test_ray_writes_the_same_bytes_and_is_shut_down(experiment, traces, tmp_path, tree):
    profile = tmp_path / "mine.toml"
    profile.write_text('name = "mine"\n[[scores]]\npolicy = "best-fit"\n')
    plan = plan_of(experiment(policies=["fgd", str(profile)]))
    carry_out_plan(plan, tmp_path / "here", InProcess())
    with executor_for("local", 2) as executor:
        assert import_ray().get_runtime_context().gcs_address.startswith("127.0.0.1:")
        carry_out_plan(plan, tmp_path / "there", executor)
        # In the same cluster, since starting one takes seconds: times, faults, and runs that fail.
        faults = tmp_path / "faults.csv"
        node = traces[0].read_text().splitlines()[1].split(",")[0]
        faults.write_text(f"time_s,node,event\n5,{node},fail\n50,{node},repair\n")
        clock = plan_of(experiment(protocol="clock", policies=["fgd"], faults=str(faults)))
        carry_out_plan(clock, tmp_path / "clock-there", executor)
        vanished = plan_of(experiment(policies=[str(profile)], seeds=[1]))
        profile.write_text('name = "other"\n[[scores]]\npolicy = "best-fit"\n')
        carried = carry_out_plan(vanished, tmp_path / "vanished", executor)
    assert not import_ray().is_initialized()
    carry_out_plan(clock, tmp_path / "clock-here", InProcess())
    assert tree(tmp_path / "here") == tree(tmp_path / "there")
    assert tree(tmp_path / "clock-here") == tree(tmp_path / "clock-there")
    assert [why for _, why in carried.failed] == [f"{profile}: changed during the comparison; start it again"]


@pytest.mark.parametrize("address", ["nowhere:::", "127.0.0.1:1"])
def test_an_address_where_no_cluster_is(address):
    with pytest.raises(OptionError) as refused, executor_for(address, 1):
        pass
    assert str(refused.value).startswith(f"--ray {address}: ")
    assert not import_ray().is_initialized()


CLUSTER = """
import ray
from foresail.experiments.executors import executor_for
with executor_for("local", 2):
    print(ray.get_runtime_context().gcs_address, flush=True)
    input()
    print(ray.cluster_resources()["CPU"])
"""
COMMAND = """
import typer
from foresail.cli.compare import compare
typer.run(compare)
"""


def test_a_running_cluster_is_joined_and_left_running(traces, tmp_path):
    # A cluster asks whoever joins it for its token; this one gets a token of the test's own.
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    started = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(
        started, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        address = cluster.stdout.readline().strip()
        options = ["--nodes", traces[0], "--pods", traces[1], "--policy", "fgd", "--out", tmp_path / "out"]
        joined = subprocess.run(
            [sys.executable, "-c", COMMAND, *options, "--ray", address],
            # Both ends are on this machine, so the one that joins is to be found on it alone, too.
            env={**environment, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        left, _ = cluster.communicate("\n")
    assert joined.returncode == 0, joined.stderr
    assert (tmp_path / "out" / "runs" / "one" / "fgd" / "seed-42" / "manifest.json").is_file()
    assert left.strip() == "2.0"
