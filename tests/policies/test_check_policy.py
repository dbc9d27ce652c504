"""`check_policy` finds what breaks the contract, and the builders build what they are told."""

import numpy as np
import pytest

from foresail.core.decide import decide
from foresail.core.model import Placement
from foresail.core.table import CPU
from foresail.policies.profiles.load import load_profile
from foresail.testing import check_policy, make_nodes, make_pod, make_table


class Honest:
    def score(self, pod, nodes):
        return nodes.free[:, CPU] - pod.request[CPU]


class ByPlace:
    def score(self, _pod, nodes):
        return np.arange(len(nodes))


class FalseClaim:
    row_wise = True

    def score(self, _pod, nodes):
        return nodes.free[:, CPU] / max(1, nodes.free[:, CPU].max())


class SeesOthers:
    row_wise = True

    def score(self, _pod, nodes):
        return np.full(len(nodes), nodes.table.free.sum())


class Undefined:
    def score(self, _pod, nodes):
        return np.full(len(nodes), np.nan)


class WrongShape:
    def score(self, _pod, nodes):
        return np.zeros((len(nodes), 1))


class Words:
    def score(self, _pod, nodes):
        return np.array(["good"] * len(nodes))


class Meddles:
    def score(self, pod, nodes):
        nodes.table.free[:, CPU] -= 1
        return np.zeros(len(nodes))


class Wavers:
    def __init__(self):
        self._calls = 0

    def score(self, _pod, nodes):
        self._calls += 1
        return np.full(len(nodes), self._calls)


class LosesBest(Honest):
    keeps_best = True

    def normalize(self, _pod, _nodes, raw):
        return -raw


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (ByPlace(), "ByPlace does not follow its nodes"),
        (FalseClaim(), "FalseClaim declares row_wise = True, but gives a node another answer when fewer nodes"),
        (SeesOthers(), "SeesOthers declares row_wise = True, but gives a node another answer when pods leave other"),
        (Undefined(), "Undefined answered with NaN"),
        (WrongShape(), "WrongShape answered with shape"),
        (Words(), "Words answered with <U4, not with numbers"),
        (Meddles(), "Meddles changed the nodes it was asked about: free"),
        (Wavers(), "Wavers answered the same question with"),
        (LosesBest(), "LosesBest declares keeps_best = True, but normalize made"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_broken_contract_is_named(policy, complaint):
    with pytest.raises(AssertionError) as raised:
        check_policy(policy)
    assert str(raised.value).startswith(complaint)


def test_an_honest_policy_passes():
    check_policy(Honest())


def test_numbers_stand_in_the_columns_as_given():
    nodes = make_nodes(free=[(4, 8, 1500), (1, 2, 0)], allocatable=[(8, 8, 3000), (1, 2, 0)])
    assert nodes.free.tolist() == [[4, 8, 1500], [1, 2, 0]]
    assert nodes.allocatable.tolist() == [[8, 8, 3000], [1, 2, 0]]
    assert nodes.gpu_free.tolist() == [[0, 500, 1000], [0, 0, 0]]


def test_devices_one_by_one():
    nodes = make_nodes(allocatable=(4, 8, 0), gpu_devices=[[1000, 200], [0]], gpu_model=["T4", "A10"])
    assert nodes.free.tolist() == [[4, 8, 1200], [4, 8, 0]]
    assert nodes.allocatable.tolist() == [[4, 8, 2000], [4, 8, 1000]]
    assert nodes.gpu_free.tolist() == [[1000, 200], [0, 0]]
    assert [nodes.table.models[code] for code in nodes.gpu_model] == ["T4", "A10"]


def test_extended_resources_and_labels():
    table = make_table(allocatable=[(4, 8, 0, 3)], extended=["example.com/disk"], labels={"rack": "r0"})
    assert table.resources == ("cpu", "memory", "gpu", "example.com/disk")
    assert table.free.tolist() == [[4, 8, 0, 3]]
    assert table.label_values("rack") == ["r0"]
    pod = make_pod(extended={"example.com/disk": 2}, nodes=table)
    assert pod.request.tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize(("gpu", "count", "milli"), [(0, 0, 0), (300, 1, 300), (1000, 1, 1000), (4000, 4, 1000)])
def test_a_pod_asks_for_a_share_or_for_whole_devices(gpu, count, milli):
    pod = make_pod(cpu=1, memory=2, gpu=gpu)
    assert (pod.request.tolist(), pod.gpu_count, pod.gpu_milli) == ([1, 2, gpu], count, milli)


def test_a_compiled_pod_can_be_decided_on():
    table = make_table(free=[(4, 8, 0), (2, 8, 0)])
    decision = decide(make_pod(cpu=2, nodes=table), table, load_profile("most-allocated"))
    assert decision == Placement(1, "node-1", (), 0.5)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: make_pod(gpu=1500), "1500 milli-GPU are no whole devices; one device is 1000"),
        (lambda: make_nodes(allocatable=(1, 1, 2)), "2 milli-GPU are no whole devices; one device is 1000"),
        (make_nodes, "give free="),
        (lambda: make_pod(gpu=1000, gpu_models=["T4"]), "compiled for a table; give nodes="),
    ],
)
def test_builders_refuse_what_makes_no_sense(build, message):
    with pytest.raises(ValueError, match=message):
        build()
