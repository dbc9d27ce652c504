"""The tables of candidates, and the published form of who was moved and who was kept."""

import math
from pathlib import Path

import polars as pl

from foresail.core.control import Candidate, Move
from foresail.core.journal import Considered, Weighed
from foresail.core.spec import NodeSpec
from foresail.policies.profiles.load import load_profile
from foresail.results.candidates import candidate_tables, distribution_columns
from foresail.results.folder import read_run, write_run
from foresail.sim.protocols.clock import run_clock
from foresail.testing import make_workload
from foresail.traces.trace import Trace

CHOSEN, KEPT, DECLINED = Weighed.CHOSEN, Weighed.KEPT, Weighed.DECLINED


def considered(time_s, job, to_node, outcome, by="migrate", node="n0"):
    return Considered(time_s, by, f"pod-of-{job}", job, node, to_node, math.nan, math.nan, "s", outcome, "why")


def test_a_job_has_one_row_a_turn_with_where_it_went_or_nothing():
    rows = distribution_columns(
        [
            considered(30.0, "a", "n1", KEPT),
            considered(30.0, "a", "n2", CHOSEN),
            considered(30.0, "a", "n3", KEPT),
            considered(30.0, "b", "", KEPT),
            considered(30.0, "c", "n1", DECLINED),
            considered(30.0, "b", "n3", CHOSEN, by="other"),
            considered(60.0, "a", "n1", KEPT, node="n2"),
        ]
    )
    assert list(zip(rows["time"].tolist(), rows["job"], rows["orginal_node"], rows["to_node"], strict=True)) == [
        (30.0, "a", "n0", "n2"),
        (30.0, "b", "n0", ""),
        (30.0, "c", "n0", ""),
        (30.0, "b", "n0", "n3"),
        (60.0, "a", "n2", ""),
    ]


class MovesOne:
    """Weighs a move of every job and makes the first."""

    every_s = 30.0

    def __init__(self):
        self.weighed = []

    def act(self, view):
        self.weighed, moves = [], []
        for one in view.running.values():
            to_node = "n1" if one.node == "n0" else "n0"
            gain = 5.0 if one.pod.name == "a" else math.nan
            self.weighed.append(Candidate(one.pod, to_node, "because", gain, 2.0))
            if one.pod.name == "a" and view.now_s == 30.0:
                moves.append(Move(one.pod, "because", to_node))
        return moves

    def considered(self):
        return self.weighed


class Silent:
    every_s = 30.0

    def act(self, view):
        return []


def run(controllers):
    nodes = [NodeSpec(name, 4000, 0) for name in ("n0", "n1")]
    pods = {name: {"cpu_milli": 1000, "duration_s": 70.0} for name in "ab"}
    trace = Trace("test", nodes, make_workload(pods))
    return run_clock(trace, load_profile("most-allocated"), controllers=controllers)


def test_a_run_writes_what_its_controllers_weighed_and_the_published_columns(tmp_path: Path):
    result = run({"moves-one": MovesOne(), "silent": Silent()})
    write_run(tmp_path / "run", result, manifest_extra={})
    stored = read_run(tmp_path / "run")
    assert (tmp_path / "run/distribution.csv").read_text().splitlines() == [
        "time,job,orginal_node,to_node",
        "0.0,a,n0,",
        "0.0,b,n0,",
        "30.0,a,n0,n1",
        "30.0,b,n0,",
        "60.0,a,n1,",
        "60.0,b,n0,",
    ]
    assert stored.frame("candidates").filter(pl.col("time_s") == 30).rows() == [
        (30.0, "moves-one", "a", "a", "n0", "n1", 5.0, 2.0, "s", "chosen", "because"),
        (30.0, "moves-one", "b", "b", "n0", "n1", None, 2.0, "s", "kept", "because"),
    ]
    assert stored.frame("distribution").columns == ["time", "job", "orginal_node", "to_node"]


def test_runs_whose_controllers_tell_nothing_have_no_such_tables():
    assert not {"candidates", "distribution"} & run({"silent": Silent()}).tables.keys()
    assert candidate_tables([], []) == {}
    assert {"candidates", "distribution"} <= run({"moves-one": MovesOne()}).tables.keys()
