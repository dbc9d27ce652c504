"""Scores of the published GPU-sharing policies, computed by hand from their formulas."""

import math

import numpy as np
import pytest

from foresail.core.model import Nodes, Placement
from foresail.policies import policy
from foresail.policies.gpu_sharing.best_fit import BestFit
from foresail.policies.gpu_sharing.dot_product import DotProduct
from foresail.policies.gpu_sharing.gpu_clustering import GpuClustering
from foresail.policies.gpu_sharing.gpu_packing import GpuPacking
from foresail.policies.gpu_sharing.power import Power
from foresail.policies.gpu_sharing.simon import Simon
from foresail.policies.plain.random import Random
from foresail.testing import make_nodes, make_pod, make_table

PARTLY_USED = [200, 1000, 1000, 500]


def scores(policy_object, pod, nodes):
    return policy_object.score(pod, nodes).tolist()


def test_best_fit_prefers_what_is_left_smallest_and_stretches_to_100():
    nodes = make_nodes(free=[(128_000, 1, 8000), (64_000, 1, 4000), (9_000, 1, 1000)])
    pod = make_pod(cpu=8_000, memory=1, gpu=500)
    # 1 - 120/256 - 7.5/16 = 0.0625; 1 - 56/256 - 3.5/16 = 0.5625; 1 - 1/256 - 0.5/16 = 0.96484
    assert scores(BestFit(), pod, nodes) == [6, 56, 96]
    assert BestFit().normalize(pod, nodes, np.array([6, 56, 96])).tolist() == [0, 55, 100]
    assert BestFit().normalize(pod, nodes, np.array([6, 6, 6])).tolist() == [0, 0, 0]


def test_dot_product_merges_devices_and_divides_by_the_largest_node():
    nodes = make_nodes(free=[(128_000, 1, 8000), (64_000, 1, 4000)])
    pod = make_pod(cpu=32_000, gpu=2000)
    # x = (1·¼ + 1·¼)/2 = 0.25 and half of that
    assert scores(DotProduct(), pod, nodes) == [75, 87]
    # by the node's own capacity: (1·¼ + 1·¼)/2, then (1·½ + 1·½)/2
    assert scores(DotProduct(norm="node"), pod, nodes) == [75, 50]
    # by the pod's request: (4 + 4)/2 and (2 + 2)/2, through tanh(x/10)
    expected = [int(100 * (1 - math.tanh(0.4))), int(100 * (1 - math.tanh(0.2)))]
    assert scores(DotProduct(norm="pod"), pod, nodes) == expected


def test_dot_product_share_divide_and_extend_look_at_devices():
    table = make_table(allocatable=(64_000, 1, 0), gpu_devices=[PARTLY_USED])
    pod = make_pod(cpu=32_000, gpu=400, nodes=table)
    cpu, asked = 0.5 * 0.25, 400 / 8000
    # Only the device with 500 and the two idle ones have room for 400.
    share = max(1 - (cpu + 0.0625 * asked) / 2, 1 - (cpu + 0.25 * asked) / 2)
    divide = max(1 - (cpu * 500 / 2700 + 0.0625 * asked) / 2, 1 - (cpu * 2000 / 2700 + 0.25 * asked) / 2)
    extend = max(1 - (cpu + 0.0625 * asked) / 4, 1 - (cpu + 0.25 * asked) / 4)
    for dimension, expected in {"share": share, "divide": divide, "extend": extend}.items():
        scorer = DotProduct(dimension=dimension)
        assert scores(scorer, pod, table.all) == [int(100 * expected)], dimension
        assert scorer.devices(pod, table.all, 0) == (3,), dimension
    whole = make_pod(gpu=2000, nodes=table)
    assert DotProduct(dimension="share").devices(whole, table.all, 0) == (1, 2)


def test_dot_product_has_a_device_rule_only_where_it_tells_devices_apart():
    assert not hasattr(DotProduct(), "devices")
    assert hasattr(DotProduct(dimension="extend"), "devices")


def test_dot_product_divide_scores_nodes_without_free_gpu_zero():
    nodes = make_nodes(allocatable=(64_000, 1, 0), gpu_devices=[[0, 0], [1000, 1000]])
    assert scores(DotProduct(dimension="divide"), make_pod(cpu=1000), nodes)[0] == 0


def test_gpu_clustering_keeps_kinds_together():
    table = make_table(allocatable=[(9, 9, 8000)] * 5)
    share, pair, single = (make_pod(gpu=gpu, nodes=table) for gpu in (500, 2000, 1000))
    for name, like, row, devices in [
        ("a", share, 1, (0,)),
        ("b", share, 2, (0,)),
        ("c", pair, 2, (1, 2)),
        ("d", single, 3, (0,)),
    ]:
        pod = make_pod(name, gpu=int(like.request[2]), nodes=table)
        table.assume(pod, Placement(row, table.names[row], devices))
    table.assume(make_pod("cpu-only", cpu=1, nodes=table), Placement(4, "node-4"))
    # b is 25·(8000 - R) div 8000: 0, 1 (500 used), 7 (2500 used), 3 (1000 used), 0
    assert scores(GpuClustering(), share, table.all) == [25, 76, 57, 3, 25]
    assert scores(GpuClustering(), pair, table.all) == [25, 1, 57, 3, 25]
    assert scores(GpuClustering(), make_pod(cpu=1, nodes=table), table.all) == [0] * 5


@pytest.mark.parametrize(
    ("devices", "gpu_count", "gpu_milli", "expected"),
    [
        (PARTLY_USED, 2, 1000, 48),
        ([1000] * 4, 1, 1000, 29),
        ([1000] * 8, 1, 1000, 25),
        (PARTLY_USED, 2, 200, 93),
        (PARTLY_USED, 1, 600, 49),
        ([999, 0], 1, 500, 91),
        ([1000] * 20, 1, 1000, 20),
    ],
)
def test_gpu_packing(devices, gpu_count, gpu_milli, expected):
    table = make_table(allocatable=(9, 9, 0), gpu_devices=[devices])
    pod = make_pod(gpu=1000 * gpu_count if gpu_count > 1 else gpu_milli, nodes=table)
    pod.shape.gpu_milli = gpu_milli  # the published unit values also have two devices of 200 each
    assert scores(GpuPacking(), pod, table.all) == [expected]


def test_random_gives_one_node_all_and_every_node_its_turn():
    nodes = make_nodes(allocatable=[(1, 1, 0)] * 5)
    pod = make_pod()
    draws = Random()
    draws.seed(7)
    drawn = [draws.score(pod, nodes) for _ in range(2000)]
    assert all(sorted(row.tolist()) == [0, 0, 0, 0, 100] for row in drawn)
    # 400 each on average, standard deviation 18: far outside would not be uniform.
    assert np.abs(np.sum(drawn, axis=0) / 100 - 400).max() < 100
    draws.seed(7)
    assert [draws.score(pod, nodes).tolist() for _ in range(5)] == [row.tolist() for row in drawn[:5]]


def test_random_draws_other_nodes_under_another_seed():
    nodes = make_nodes(allocatable=[(1, 1, 0)] * 50)
    runs = []
    for seed in (1, 2):
        draws = policy("random")
        draws.seed(seed)
        runs.append([int(draws.score(make_pod(), nodes).argmax()) for _ in range(20)])
    assert runs[0] != runs[1]


def test_simon_takes_the_largest_part_of_a_node():
    nodes = make_nodes(free=[(1, 1, 0)] * 3, allocatable=[(8000, 100, 1000), (4000, 100, 1000), (2000, 50, 1000)])
    pod = make_pod(cpu=2000, memory=10, gpu=500)
    # 2/(8-2) = 33.3 %, 2/(4-2) = 100 %, all of the CPU counts as 1, but 10/40 = 25 % is less
    assert scores(Simon(), pod, nodes) == [33, 100, 100]
    assert scores(Simon(count_gpu=True), pod, nodes) == [100, 100, 100]
    assert Simon().normalize(pod, nodes, np.array([33.0, 100.0, 60.0])).tolist() == [0, 100, 40]


def test_power_counts_new_sockets_and_newly_touched_devices():
    table = make_table(
        free=[(64_000, 1, 0), (64_000, 1, 0), (32_000, 1, 0), (96_000, 1, 0)],
        allocatable=(96_000, 1, 0),
        gpu_devices=[[1000, 1000], [600, 1000], [1000, 1000], [1000, 1000]],
        gpu_model=["T4", "T4", "V100M32", "unheard-of"],
    )
    share = make_pod(cpu=2000, gpu=500, nodes=table)
    # 48 cores, 3 sockets. 32 vCPU taken: 16 cores work, one more opens a second socket: 105 W. 64 taken: the third.
    # Node 3 is idle: its first core wakes a socket. A new T4 costs 60 W, a V100 270 W, an unknown model 225 W.
    assert scores(Power(), share, table.all) == [-165, -105, -375, -330]
    assert scores(Power(), make_pod(cpu=2000, nodes=table), table.all) == [-105, -105, -105, -105]
    assert scores(Power(), make_pod(gpu=2000, nodes=table), Nodes(table, np.array([0]))) == [-120]
    assert scores(Power(gpu_idle_w=0, gpu_full_w=10), share, table.all)[3] == -115
    assert Power().normalize(share, table.all, np.array([-165, -105, -375, -330])).tolist() == [77, 100, 0, 16]
    assert Power().normalize(share, table.all, np.array([-5, -5])).tolist() == [100, 100]
