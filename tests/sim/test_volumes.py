"""Volumes in simulated clusters: one volume for one claim, also among gangs and after the pod."""

import json

import pytest

from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.traces.trace import load

HOST = "kubernetes.io/hostname"


def node(name):
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "9"}
    return {"kind": "Node", "metadata": {"name": name, "labels": {HOST: name}}, "status": {"allocatable": amounts}}


def volume(name, host):
    line = {"key": HOST, "operator": "In", "values": [host]}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [line]}]}}
    return {"kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec, "status": {"phase": "Available"}}


def claim(name):
    spec = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


LOCAL = {
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def pod(name, claims, arrival_s, duration_s=10.0, gang=None):
    annotations = {"foresail.dev/arrival-s": str(arrival_s), "foresail.dev/duration-s": str(duration_s)}
    labels = {}
    if gang is not None:
        labels["foresail.dev/gang"] = gang[0]
        annotations["foresail.dev/gang-min"] = str(gang[1])
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": one}} for at, one in enumerate(claims)]
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "volumes": volumes}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec}


@pytest.fixture
def make_trace(tmp_path):
    def make(volumes, claims, pods):
        cluster = [node("a"), node("b"), LOCAL, *volumes, *claims]
        for name, objects in (("nodes.jsonl", cluster), ("pods.jsonl", pods)):
            (tmp_path / name).write_text("\n".join(map(json.dumps, objects)), encoding="utf-8")
        return load(tmp_path / "nodes.jsonl", tmp_path / "pods.jsonl")

    return make


def where(result):
    names = (str(name).rpartition("/")[2] for name in result.placements["pod"])
    return dict(zip(names, map(str, result.placements["node"]), strict=True))


def test_two_claims_do_not_get_one_volume_and_a_claim_keeps_its_own(make_trace):
    pods = [pod("p0", ["c0"], 0), pod("p1", ["c1"], 1), pod("p2", ["c0"], 20)]
    trace = make_trace([volume("only", "b")], [claim("c0"), claim("c1")], pods)
    before = (dict(trace.objects.volumes), dict(trace.objects.claims))
    for _ in range(2):  # a run leaves the trace as it was
        result = run_clock(trace, load_profile("kubernetes"))
        assert where(result) == {"p0": "b", "p1": "", "p2": "b"}
        assert (trace.objects.volumes, trace.objects.claims) == before


def test_a_gang_that_finds_volumes_for_some_of_its_members_takes_none(make_trace):
    gang = ("g", 3)
    members = [pod(f"g{index}", [f"c{index}"], 0, gang=gang) for index in range(3)]
    volumes = [volume("v0", "a"), volume("v1", "b")]
    trace = make_trace(volumes, [claim(f"c{index}") for index in range(4)], [*members, pod("late", ["c3"], 5)])
    assert where(run_clock(trace, load_profile("kubernetes"))) == {"g0": "", "g1": "", "g2": "", "late": "a"}
