"""The profile `kubernetes`: what it holds by version, and that it runs in the simulator."""

import json

import pytest

from foresail.core.profile import UsedFilter
from foresail.errors import InputError, OptionError
from foresail.kube.objects.cluster_objects import read_objects
from foresail.policies import REGISTRY
from foresail.policies.kubernetes import FILTERS, SCORES
from foresail.policies.profiles.load import load_profile
from foresail.sim.protocols.clock import run_clock
from foresail.testing import make_nodes, make_pod
from foresail.traces.trace import load


@pytest.mark.parametrize(
    ("source", "formula", "features"),
    [
        ("kubernetes", "1.36", True),
        ("kubernetes(version=1.37)", "1.36", True),
        ("kubernetes(version=v1.35.4)", "1.22", False),
        ("kubernetes(version=1.20)", "1.21", False),
    ],
)
def test_versions_differ_in_the_balance_and_in_declared_features(source, formula, features):
    described = load_profile(source).description
    assert described["filters"] == [name for name in FILTERS if features or name != "kube-declared-features"]
    assert {table["policy"]: table["weight"] for table in described["scores"]} == SCORES
    assert [table["version"] for table in described["scores"] if table["policy"] == "balanced"] == [formula]
    assert load_profile(described).description == described


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("kubernetes(version=two)", 'kubernetes: version is "two"; write a Kubernetes version such as 1.36'),
        ("kubernetes(versoin=1.36)", 'kubernetes has no option "versoin"; did you mean "version"?'),
        ("kubernetes:3", '"kubernetes" is a whole profile; it has no weight and does not mix with others'),
        ("kubernetes+fgd", '"kubernetes" is a whole profile; it has no weight and does not mix with others'),
    ],
)
def test_mistakes(source, message):
    with pytest.raises(OptionError) as raised:
        load_profile(source)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_passes_every_node_where_it_would_be_skipped(name):
    nodes, plain = make_nodes(allocatable=[(4, 8, 0), (4, 8, 0)]), make_pod(cpu=1)
    used = UsedFilter(name, REGISTRY.build("filter", name, {}))
    assert used.refuses(plain, nodes).tolist() == [0, 0]


CLUSTER = """
kind: List
items:
- kind: Node
  metadata: {name: a, labels: {kubernetes.io/hostname: a}}
  status: {allocatable: {cpu: 8, memory: 8Gi, pods: 9}}
- kind: Node
  metadata: {name: b, labels: {kubernetes.io/hostname: b}}
  status: {allocatable: {cpu: 8, memory: 8Gi, pods: 9}}
- {kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}
- {kind: PersistentVolumeClaim, metadata: {name: one}, spec: {storageClassName: wait, accessModes: [ReadWriteOnce]}}
- {kind: StorageClass, metadata: {name: wait}, provisioner: csi, volumeBindingMode: WaitForFirstConsumer}
"""


def pod(name, **spec):
    containers = [{"image": "web", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": containers} | spec,
    }


def test_a_trace_of_kubernetes_objects_is_simulated_with_all_of_them(tmp_path):
    nodes, pods = tmp_path / "cluster.yaml", tmp_path / "pods.jsonl"
    nodes.write_text(CLUSTER, encoding="utf-8")
    mount = [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]
    lost = [{"name": "v", "persistentVolumeClaim": {"claimName": "two"}}]
    waiting = [pod("p0"), pod("p1"), pod("p2", volumes=mount), pod("p3", volumes=lost)]
    pods.write_text("\n".join(json.dumps(one) for one in waiting), encoding="utf-8")
    trace = load(nodes, pods)
    assert trace.objects.services == {("default", "web"): {"app": "web"}}
    result = run_clock(trace, load_profile("kubernetes"))
    # The service spreads its pods over the nodes; a claim that is missing keeps a pod away from all of them.
    assert list(result.placements["node"]) == ["a", "b", "a", ""]


def test_objects_of_a_file_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("kind: Service\nmetadata: {name: web}\nspec: {selector: [web]}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"cluster.yaml:1: document 1 \(Service\): spec.selector is a list"):
        read_objects(path)
