"""What holds for every registered policy, whatever it computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.model import Nodes
from foresail.core.spec import PodSpec, Workload
from foresail.policies import DEVICE_RULES, FILTERS, POLICIES, REGISTRY, policy
from foresail.testing import check_policy, make_nodes, make_pod

VARIANTS = [
    *((name, {}) for name in POLICIES),
    *(("balanced", {"version": version}) for version in ("1.21", "1.21-difference", "1.22")),
    *(
        ("dot-product", {"dimension": dimension, "norm": norm})
        for dimension in ("merge", "share", "divide", "extend")
        for norm in ("max", "node", "pod")
    ),
    ("fgd", {"levels": 50}),
    ("simon", {"count_gpu": True}),
]
EACH = pytest.mark.parametrize(
    ("name", "options"), VARIANTS, ids=[f"{name}{list(options.values()) or ''}" for name, options in VARIANTS]
)


@EACH
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_scores_follow_their_nodes_when_nodes_are_shuffled(name, options, seed):
    # check_policy also refuses NaN, wrong shapes, changed nodes, answers that waver and false row_wise claims.
    check_policy(policy(name, **options), clusters=2, seed=seed)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_keep_the_contract(name):
    check_policy(REGISTRY.build("filter", name, {}))


@EACH
def test_no_nodes_get_no_scores(name, options):
    nodes = make_nodes(allocatable=[(8000, 16, 2000)])
    scorer = policy(name, **options)
    if hasattr(scorer, "learn"):
        scorer.learn(_one_pod_workload(), nodes)
    pod = make_pod(cpu=1, gpu=16_000, nodes=nodes)  # a kind of pod that no node could ever take
    assert scorer.score(pod, Nodes(nodes.table, np.empty(0, dtype=np.int64))).shape == (0,)


def _one_pod_workload():
    return Workload(["a"], [PodSpec(cpu_milli=1000, gpu_count=1, gpu_milli=500)], np.zeros(1, dtype=np.int64))


@EACH
def test_row_wise_is_always_declared(name, options):
    assert policy(name, **options).row_wise in (True, False)


@pytest.mark.parametrize("name", DEVICE_RULES)
@settings(max_examples=50, deadline=None)
@given(
    devices=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    asked=st.one_of(st.integers(1, 1000), st.integers(1, 3).map(lambda whole: whole * 1000)),
)
def test_device_rules_give_distinct_devices_with_room(name, devices, asked):
    nodes = make_nodes(allocatable=(1, 1, 0), gpu_devices=[devices])
    pod = make_pod(gpu=asked, nodes=nodes)
    with_room = [device for device, free in enumerate(devices) if free >= pod.gpu_milli]
    if len(with_room) < pod.gpu_count:
        return
    chosen = REGISTRY.build("device rule", name, {}).devices(pod, nodes, 0)
    assert len(chosen) == len(set(chosen)) == pod.gpu_count
    assert set(chosen) <= set(with_room)


def test_device_rules_differ_for_shares_and_agree_on_whole_devices():
    nodes = make_nodes(allocatable=(1, 1, 0), gpu_devices=[[700, 1000, 300, 300, 1000]])
    share, whole = make_pod(gpu=200, nodes=nodes), make_pod(gpu=2000, nodes=nodes)
    chosen = {
        name: (
            REGISTRY.build("device rule", name, {}).devices(share, nodes, 0),
            REGISTRY.build("device rule", name, {}).devices(whole, nodes, 0),
        )
        for name in ("least-sufficient", "most-free")
    }
    assert chosen == {"least-sufficient": ((2,), (1, 4)), "most-free": ((1,), (1, 4))}
