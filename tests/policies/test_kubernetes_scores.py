"""Least, most and balanced allocation: examples by hand."""

import pytest

from foresail.policies.plain.balanced import Balanced
from foresail.policies.plain.least_allocated import LeastAllocated
from foresail.policies.plain.most_allocated import MostAllocated
from foresail.testing import make_nodes, make_pod


def test_a_node_without_gpus_is_not_counted_as_full():
    nodes = make_nodes(free=[(4, 8, 0)], allocatable=(4, 8, 0))
    assert LeastAllocated().score(make_pod(), nodes)[0] == 1.0


def test_least_and_most_allocated_are_opposites():
    nodes = make_nodes(free=[(4, 8, 1000), (2, 8, 0), (4, 4, 0)], allocatable=[(4, 8, 2000), (4, 8, 0), (4, 8, 0)])
    pod = make_pod(cpu=1, memory=2)
    assert LeastAllocated().score(pod, nodes).tolist() == pytest.approx([(0.75 + 0.75 + 0.5) / 3, 0.5, 0.5])
    assert MostAllocated().score(pod, nodes).tolist() == pytest.approx([(0.25 + 0.25 + 0.5) / 3, 0.5, 0.5])


def test_a_node_that_has_nothing_scores_a_number():
    nodes = make_nodes(allocatable=[(0, 0, 0)])
    assert [LeastAllocated().score(make_pod(), nodes)[0], MostAllocated().score(make_pod(), nodes)[0]] == [0.0, 0.0]


# The pod takes 20 of 100 cpu and 10 of 100 memory. Taken before: nothing; 30 cpu; 30 memory; 80 cpu (then full).
BEFORE = [(100, 100, 0), (70, 100, 0), (100, 70, 0), (20, 100, 0)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        # the squares of half of |0.2-0.1| |0.5-0.1| |0.2-0.4|: 0.0025, 0.04, 0.01; and a full node
        ("1.21", [99, 96, 99, 0]),
        ("1.21-difference", [90, 60, 80, 0]),
        # half of those differences: 0.05, 0.2, 0.1, 0.45
        ("1.22", [95, 80, 90, 55]),
        # those scores, less what they are without the pod: 100, 85, 85, 60
        ("1.36", [50 + 45 // 2, 50 + 45 // 2, 50 + 55 // 2, 50 + 45 // 2]),
    ],
)
def test_balanced_allocation_as_each_kubernetes_computes_it(version, expected):
    nodes = make_nodes(free=BEFORE, allocatable=(100, 100, 0))
    assert Balanced(version=version).score(make_pod(cpu=20, memory=10), nodes).tolist() == expected


def test_balanced_allocation_of_a_pod_that_asks_nothing():
    nodes = make_nodes(free=BEFORE, allocatable=(100, 100, 0))
    assert Balanced().score(make_pod(), nodes).tolist() == [0, 0, 0, 0]
    assert Balanced(version="1.22").score(make_pod(), nodes).tolist() == [100, 85, 85, 60]


def test_balanced_allocation_of_a_node_with_one_resource_only():
    nodes = make_nodes(allocatable=[(100, 0, 0)])
    assert Balanced(version="1.22").score(make_pod(cpu=50), nodes).tolist() == [100]
    assert Balanced(version="1.21").score(make_pod(cpu=50), nodes).tolist() == [0]
