"""A recording made by hand: two nodes, three pods."""

import copy
import json

import pytest


def node(name, **offered):
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "10", "memory": "10Gi", "pods": "9"} | offered},
    }


def pod(name, cpu="1"):
    requests = {"cpu": cpu, "memory": "1Gi"}
    return {"metadata": {"name": name}, "spec": {"containers": [{"resources": {"requests": requests}}]}}


def scores(**by_plugin):
    # No taints: 300. No plug-in but these has anything to say about the pods, and absent ones add nothing.
    return {"TaintToleration": 300, "ImageLocality": 0, "NodeResourcesBalancedAllocation": 75, **by_plugin}


LINES = [
    {
        "nodes": [node("a"), node("b", cpu="2")],
        "existing": [],
        "pod": pod("p0"),
        "weighted_scores": {"a": scores(NodeResourcesFit=90), "b": scores(NodeResourcesFit=70)},
        "final": {"a": 465, "b": 445},
        "node": "a",
        "unschedulable": None,
    },
    {
        "nodes": None,
        "existing": [{"pod": "p0", "node": "a"}],
        "pod": pod("p1", cpu="4"),
        "weighted_scores": {},
        "final": {},
        "node": "a",
        "unschedulable": None,
    },
    {
        "nodes": None,
        "existing": [{"pod": "p0", "node": "a"}, {"pod": "p1", "node": "a"}],
        "pod": pod("p2", cpu="8"),
        "weighted_scores": {},
        "final": {},
        "node": None,
        "unschedulable": "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible.",
    },
]
# b is taken by half where memory is by a tenth: with the pod (1 - |0.5 - 0.1|/2)·100 = 80, without 100.
LINES[0]["weighted_scores"]["b"]["NodeResourcesBalancedAllocation"] = 50 + (50 + 80 - 100) // 2
LINES[0]["final"]["b"] = 300 + 65 + 70


@pytest.fixture
def lines():
    """The recording as data, to be changed at will."""
    return [{"seed": 1, "case": case, **line} for case, line in enumerate(copy.deepcopy(LINES))]


@pytest.fixture
def write_lines(tmp_path):
    def write(lines, name="decisions.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return path

    return write
