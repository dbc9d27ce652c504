"""Random clusters: the same for the same seed, and with everything in them."""

import json
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core.objects import ClusterObjects
from foresail.kube.objects.cluster_objects import put_object
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import pod_spec_of
from foresail.parity.random_cluster import random_cluster

SEEDS = st.integers(min_value=0, max_value=2**40)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_one_seed_gives_one_cluster(seed):
    assert json.dumps(random_cluster(seed, 5).cases[-1].pod) == json.dumps(random_cluster(seed, 5).cases[-1].pod)
    assert random_cluster(seed, 5) == random_cluster(seed, 5)
    assert random_cluster(seed, 5) != random_cluster(seed + 1, 5)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_foresail_can_read_all_of_it(seed):
    cluster = random_cluster(seed, 20)
    assert 8 <= len({node_spec(node).name for node in cluster.nodes}) == len(cluster.nodes) <= 18
    assert [pod_spec_of(case.pod).namespace for case in cluster.cases] == [
        case.pod["metadata"]["namespace"] for case in cluster.cases
    ]
    objects = ClusterObjects()
    for value in cluster.objects:
        put_object(objects, value["kind"], value)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_more_pods_leave_the_first_ones_as_they_are(seed):
    assert random_cluster(seed, 9).cases[:4] == random_cluster(seed, 4).cases


def _paths(value, path=""):
    """Every field that occurs, and every word from the lists below where it stands."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from _paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, path)
    else:
        yield f"{path}={value}"


def test_every_field_that_a_rule_reads_occurs():
    clusters = [random_cluster(seed, 50) for seed in range(8)]
    specs = [case.pod["spec"] for cluster in clusters for case in cluster.cases]
    found = Counter(path for spec in specs for path in _paths(spec))
    required, preferred = (f".{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    terms = f".affinity.nodeAffinity{required}.nodeSelectorTerms"
    wanted = [
        *(
            f"{terms}.matchExpressions.operator={word}"
            for word in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        ),
        *(f"{terms}.matchFields.operator={word}" for word in ("In", "NotIn")),
        f".affinity.nodeAffinity{preferred}.preference.matchExpressions",
        *(
            f".affinity.{kind}{strength}.{field}"
            for kind in ("podAffinity", "podAntiAffinity")
            for strength in (required, f"{preferred}.podAffinityTerm")
            for field in ("labelSelector", "namespaces", "namespaceSelector", "matchLabelKeys", "mismatchLabelKeys")
        ),
        *(
            f".topologySpreadConstraints.{field}"
            for field in ("labelSelector", "matchLabelKeys", "minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy")
        ),
        *(f".topologySpreadConstraints.whenUnsatisfiable={word}" for word in ("DoNotSchedule", "ScheduleAnyway")),
        *(f".tolerations.operator={word}" for word in ("Exists", "Equal")),
        *(f".tolerations.effect={word}" for word in ("NoSchedule", "PreferNoSchedule", "NoExecute")),
        *(f".volumes.{kind}" for kind in ("persistentVolumeClaim", "awsElasticBlockStore", "gcePersistentDisk")),
        *(f".volumes.{kind}" for kind in ("iscsi", "rbd", "image", "csi")),
        *(".containers.ports.hostIP", ".initContainers.ports", ".hostNetwork", ".containers.ports.protocol=UDP"),
        *(".initContainers.restartPolicy=Always", ".resources.requests.cpu", ".runtimeClassName=kata", ".nodeSelector"),
        *(
            f".containers.resources.limits.{name}"
            for name in ("example.com/gpu", "example.com/widget", "hugepages-2Mi")
        ),
        *(".containers.restartPolicyRules", ".priorityClassName"),
    ]
    assert [path for path in wanted if not found[path]] == []
    kinds = Counter(value["kind"] for cluster in clusters for value in cluster.objects)
    assert set(kinds) == {
        *("Service", "ReplicaSet", "StatefulSet", "ReplicationController", "StorageClass", "CSINode", "CSIDriver"),
        *("CSIStorageCapacity", "VolumeAttachment", "PersistentVolume", "PersistentVolumeClaim"),
    }
    assert any(case.lingers and case.leaver is not None for cluster in clusters for case in cluster.cases)
