"""How far apart members stand, in a run and worked out by hand."""

import numpy as np
import pytest

from foresail.core.spec import Gang, NodeSpec, PodSpec, Workload
from foresail.errors import OptionError
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.sim.protocols.clock_settings import ClockSettings
from foresail.traces.trace import Trace

NODES = [NodeSpec(f"n{at}", 2, 0, labels=(("rack", rack),)) for at, rack in enumerate("abab")]


def run(**options):
    pods = Workload(
        names=["other", "g-0", "g-1", "g-2"],
        specs=[PodSpec(cpu_milli=1)],
        spec_of=np.zeros(4, dtype=np.int64),
        gang_of=np.array([-1, 0, 0, 0]),
        gangs=[Gang("g", 3)],
        duration_s=np.full(4, 5.0),
    )
    result = run_clock(Trace("test", NODES, pods), load_profile("best-fit"), settings=ClockSettings(**options))
    return result.summary.get("gangs_to_be_close"), list(result.placements["node"])


def test_nothing_is_said_of_gangs_that_need_not_be_close():
    distance, nodes = run()
    assert distance is None
    assert nodes == ["n0", "n0", "n1", "n1"]  # best-fit fills one node after the other, across racks


@pytest.mark.parametrize("form", ["preferred", "required"])
def test_a_gang_within_a_rack_is_not_apart(form):
    distance, nodes = run(gang_topology=f"{form}:rack")
    assert distance == {"started": 1, "pairs_apart_pct": 0.0}
    assert len({node in {"n0", "n2"} for node in nodes[1:]}) == 1


def test_two_of_three_pairs_are_apart_where_one_member_stands_alone():
    distance, nodes = run(gang_topology="preferred:no-such-label")
    assert nodes == ["n0", "n0", "n1", "n1"]
    assert distance == {"started": 1, "pairs_apart_pct": pytest.approx(200 / 3)}


def test_a_topology_that_cannot_be_read_is_told():
    with pytest.raises(OptionError, match='gang_topology: the topology is "rack"; write required: or preferred:'):
        ClockSettings(gang_topology="rack")
