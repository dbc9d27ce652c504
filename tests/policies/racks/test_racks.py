"""Gangs close together, replicas apart."""

from foresail.core.decide import decide
from foresail.core.model import Placement
from foresail.core.spec import Gang
from foresail.policies.profiles.load import load_profile
from foresail.policies.racks.rack_pack import RackPack
from foresail.policies.racks.rack_spread import RackSpread
from foresail.testing import make_pod, make_table

RING = Gang("ring", 4)


def racks(per_rack, racks_count, allocatable=(4000, 8, 0), **more):
    labels = [
        {"rack": f"rack-{at // per_rack}", "server": f"srv-{at % per_rack}"} for at in range(per_rack * racks_count)
    ]
    return make_table(allocatable=[allocatable] * len(labels), labels=labels, **more)


def place_all(table, profile, pods):
    nodes = []
    for pod in pods:
        placement = decide(pod, table, profile)
        assert isinstance(placement, Placement), placement
        table.assume(pod, placement)
        nodes.append(placement.node)
    return nodes


def test_a_gang_fills_one_rack_before_it_spills_into_the_next():
    table = racks(2, 3)
    # Rack 0 has room for three members, the others for four: the gang starts in rack 1 and stays there.
    table.assume(make_pod("lone", cpu=2000, nodes=table), Placement(0, "node-0"))
    members = [make_pod(f"m{at}", cpu=2000, gang=RING, nodes=table) for at in range(6)]
    placed = place_all(table, load_profile("rack-pack"), members)
    assert placed == ["node-2", "node-2", "node-3", "node-3", "node-0", "node-1"]


def test_rack_pack_scores_by_closeness():
    labels = [
        {"rack": "r0", "server": "s0"},
        {"rack": "r0", "server": "s0"},
        {"rack": "r0", "server": "s1"},
        {"rack": "r1", "server": "s0"},  # the same server name in another rack is another server
        {},
    ]
    table = make_table(allocatable=[(9, 9, 0)] * 5, labels=labels)
    table.assume(make_pod("first", cpu=1, gang=RING, nodes=table), Placement(0, "node-0"))
    second = make_pod("second", cpu=1, gang=RING, nodes=table)
    assert (RackPack().score(second, table.all) * 3 / 100).round(9).tolist() == [3, 2, 1, 0, 0]
    assert RackPack().score(make_pod(cpu=1, nodes=table), table.all).tolist() == [0] * 5


def test_the_first_of_a_gang_goes_where_most_copies_fit():
    table = make_table(
        allocatable=(8, 99, 0),
        gpu_devices=[[1000, 400], [0, 1000], [1000, 1000], [300, 300]],
        labels=[{"rack": "a"}, {"rack": "a"}, {"rack": "b"}, {"rack": "b"}],
    )
    pair = make_pod(gpu=2000, gang=RING, nodes=table)
    share = make_pod(gpu=400, cpu=1, gang=RING, nodes=table)
    assert RackPack().score(pair, table.all).tolist() == [0, 0, 100, 100]
    assert RackPack().score(share, table.all).tolist() == [100, 100, 80, 80]  # 2+1+0+2 copies in a, 2+2 in b
    table.set_unschedulable(2, unschedulable=True)
    assert RackPack().score(share, table.all).tolist() == [100, 100, 0, 0]


def test_replicas_go_to_racks_with_fewest_peers_then_to_nodes_with_fewest():
    table = racks(2, 2)
    replicas = [make_pod(f"web-{at}", cpu=1000, owner="web", nodes=table) for at in range(6)]
    placed = place_all(table, load_profile("rack-spread"), replicas)
    assert placed == ["node-0", "node-2", "node-1", "node-3", "node-0", "node-2"]


def test_a_less_crowded_rack_beats_a_less_crowded_node():
    table = racks(2, 2)
    for at, row in enumerate([0, 0, 0, 2, 2]):
        table.assume(make_pod(f"web-{at}", cpu=1, owner="web", nodes=table), Placement(row, table.names[row]))
    scores = RackSpread().score(make_pod("web-9", cpu=1, owner="web", nodes=table), table.all)
    assert scores.argsort()[::-1].tolist() == [3, 2, 1, 0]


def test_peers_of_another_group_do_not_count():
    table = racks(2, 2)
    table.assume(make_pod("db", cpu=1, owner="db", nodes=table), Placement(0, "node-0"))
    assert RackSpread().score(make_pod("web", owner="web", nodes=table), table.all).tolist() == [100.0] * 4
