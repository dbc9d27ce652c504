"""Extended resources in the tables of every protocol: what nodes have, what is free, what is used over time."""

import numpy as np
import pytest
from tests.live.cluster import make_node, make_pod

from foresail.core.spec import NodeSpec, PodSpec, Workload
from foresail.experiments.what_if import WhatIfRequest, what_if
from foresail.live.snapshot import PodChoice, snapshot_of
from foresail.policies.profiles.load import load_profile
from foresail.results.folder import read_run, write_run
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.sim.protocols.openb import run_openb
from foresail.traces.snapshot import write_snapshot
from foresail.traces.trace import Trace

FPGA = "example.com/fpga"


def trace() -> Trace:
    """Two nodes with FPGAs and one without; three pods with 2, 1 and no FPGA, one after the other."""
    nodes = [
        NodeSpec("b", 8000, 2**30, 1, "T4", extended=((FPGA, 4), ("example.com/unasked", 9))),
        NodeSpec("a", 8000, 2**30, 1, "T4"),
        NodeSpec("c", 8000, 2**30, 1, "T4", extended=((FPGA, 2),)),
    ]
    specs = [PodSpec(1000, 1, 1, 1000, extended=((FPGA, 2),)), PodSpec(1000, 1, 1, 1000, extended=((FPGA, 1),))]
    specs.append(PodSpec(1000, 1, 1, 1000))
    workload = Workload(
        ["p0", "p1", "p2"],
        specs,
        np.array([0, 1, 2]),
        arrival_s=np.array([0.0, 10.0, 20.0]),
        duration_s=np.array([15.0, 30.0, 30.0]),
    )
    return Trace("fpga", nodes, workload)


def test_clock_tables_show_them(tmp_path):
    result = run_clock(trace(), load_profile("best-fit"), settings=ClockSettings(snapshot_every_s=5, until_s=25))
    write_run(tmp_path / "run", result, manifest_extra={})
    stored = read_run(tmp_path / "run")
    used = dict(zip(stored.timeline["time_s"], stored.timeline[f"used:{FPGA}"], strict=True))
    assert used == {0: 2, 5: 2, 10: 3, 15: 1, 20: 1, 25: 1}
    assert stored.nodes["node"].to_list() == ["a", "b", "c"]
    assert stored.nodes[f"has:{FPGA}"].to_list() == [0, 4, 2]
    assert sum(stored.nodes[f"free:{FPGA}"]) == 5
    assert {name for name in stored.nodes.columns if ":" in name} == {f"has:{FPGA}", f"free:{FPGA}"}


def test_openb_tables_show_them():
    result = run_openb(trace(), load_profile("best-fit"), load=1.0, seed=1)
    used = np.asarray(result.tables["timeline"][f"used:{FPGA}"])
    asks = {"p0": 2, "p1": 1, "p2": 0}
    placements = result.tables["placements"]
    wanted = [
        asks[pod.partition("-")[0]] * bool(node)
        for pod, node in zip(placements["pod"], placements["node"], strict=True)
    ]
    assert used.tolist() == np.cumsum(wanted).tolist()
    assert used[-1] > 0
    nodes = result.tables["nodes"]
    assert int(np.sum(nodes[f"has:{FPGA}"]) - np.sum(nodes[f"free:{FPGA}"])) == used[-1]


def test_what_if_tables_show_them(tmp_path):
    node = make_node("a")
    node["status"]["allocatable"][FPGA] = "4"
    pod = make_pod("p")
    for kind in ("requests", "limits"):
        pod["spec"]["containers"][0].setdefault("resources", {}).setdefault(kind, {})[FPGA] = "3"
    path = tmp_path / "cluster.yaml"
    write_snapshot(path, snapshot_of({"Node": [node, make_node("b")], "Pod": [pod]}, PodChoice()))
    result = what_if(WhatIfRequest(str(path), policy="best-fit"), measure=True).result
    assert np.asarray(result.tables["timeline"][f"used:{FPGA}"]).tolist() == [0, 3]
    assert np.asarray(result.tables["nodes"][f"free:{FPGA}"]).tolist() == [1, 0]


@pytest.mark.parametrize("run", [run_clock, run_openb])
def test_runs_whose_pods_request_none_have_no_such_columns(run):
    plain = trace()
    plain.workload.specs[:] = [PodSpec(1000, 1, 1, milli) for milli in (1000, 900, 800)]
    tables = run(plain, load_profile("best-fit")).tables
    assert not [name for table in ("timeline", "nodes") for name in tables[table] if ":" in name]
