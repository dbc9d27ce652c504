from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.traces.object_files import write_nodes, write_pods

from foresail.core.kubernetes import (
    ClaimVolume,
    Disk,
    HostPort,
    KubernetesNode,
    KubernetesPod,
    NodeTerm,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Weighted,
)
from foresail.core.spec import Gang, NodeSpec, PodSpec, Taint, Toleration, Workload
from foresail.errors import InputError
from foresail.kube.objects.pod import pod_spec_of
from foresail.kube.objects.values import GPU_MODEL
from foresail.traces.kubernetes import read_nodes, read_pods
from foresail.traces.write import write


def make_file(tmp_path, text, name="cluster.yaml"):
    path = tmp_path / name
    path.write_text(dedent(text), encoding="utf-8")
    return path


def make_pod(name="p", *, annotations=None, labels=None, requests=None, **spec):
    containers = [{"name": "main", "resources": {"requests": requests or {}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"containers": containers} | spec,
    }


def read_objects(tmp_path, *objects, **options):
    path = tmp_path / "pods.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in objects), encoding="utf-8")
    return read_pods(path, **options)[0]


def assert_equal(one: Workload, other: Workload) -> None:
    assert list(one.names) == list(other.names)
    assert [one.spec(index) for index in range(len(one))] == [other.spec(index) for index in range(len(other))]
    assert one.gangs == other.gangs
    for column in ("arrival_s", "duration_s", "priority", "gang_of"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


MIXED = """
    apiVersion: v1
    kind: Node
    metadata:
      name: gpu-a
      labels: {zone: east, alibabacloud.com/gpu-card-model: V100M32}
    spec:
      taints: [{key: gpu, effect: NoSchedule}]
      unschedulable: true
    status:
      capacity: {cpu: "999"}
      allocatable:
        cpu: "63500m"
        memory: 250Gi
        pods: "110"
        ephemeral-storage: 1Ti
        hugepages-1Gi: "0"
        alibabacloud.com/gpu-count: 4
        alibabacloud.com/gpu-milli: 4000
    ---
    # only a comment
    ---
    apiVersion: v1
    kind: List
    items:
    - kind: Pod
      metadata:
        name: train
        namespace: ml
        labels: {app: train, scheduling.x-k8s.io/pod-group: team}
        creationTimestamp: 2023-01-01T00:00:10Z
        annotations:
          alibabacloud.com/gpu-count: "1"
          alibabacloud.com/gpu-milli: "460"
          alibabacloud.com/gpu-card-model: V100M16|V100M32
          alibabacloud.com/deletion-time: 2023-01-01T01:00:10+01:00
        ownerReferences:
        - {kind: Job, name: other}
        - {kind: ReplicaSet, name: train-6d, controller: true}
      spec:
        priorityClassName: high
        nodeSelector: {zone: east}
        tolerations: [{key: gpu, operator: Exists}]
        containers:
        - resources: {limits: {cpu: 2, memory: 1Gi, example.com/nic: 3}}
    - kind: Service
      metadata: {name: ignored}
    - kind: Node
      metadata: {name: gpu-b, labels: {nvidia.com/gpu.product: A10}}
      status: {capacity: {cpu: 8, memory: 1e9, nvidia.com/gpu: 2}}
    ---
    kind: Pod
    metadata:
      name: whole
      annotations: {alibabacloud.com/creation-time: "2023-01-01T00:00:00.5Z", foresail.dev/duration-s: "90"}
    spec:
      containers:
      - resources: {limits: {nvidia.com/gpu: 2}}
    ---
    kind: PriorityClass
    metadata: {name: high}
    value: 1000
    ---
    kind: PriorityClass
    metadata: {name: usual}
    value: 7
    globalDefault: true
    ---
    kind: PodGroup
    metadata: {name: team, namespace: ml}
    spec: {minMember: 1, scheduleTimeoutSeconds: 30}
    """


CLOSED_TO_PODS = KubernetesNode(takes_no_pods=True)


def test_a_mixed_file_gives_its_nodes_and_its_pods(tmp_path):
    path = make_file(tmp_path, MIXED)
    assert read_nodes(path) == (
        [
            NodeSpec(
                name="gpu-a",
                cpu_milli=63500,
                memory_bytes=250 * 2**30,
                gpu_count=4,
                gpu_model="V100M32",
                max_pods=110,
                labels=((GPU_MODEL, "V100M32"), ("zone", "east")),
                taints=(Taint("gpu", "", "NoSchedule"),),
                extended=(("ephemeral-storage", 2**40),),
                unschedulable=True,
            ),
            NodeSpec(
                "gpu-b", 8000, 10**9, 2, "A10", labels=(("nvidia.com/gpu.product", "A10"),), kubernetes=CLOSED_TO_PODS
            ),
        ],
        0,
    )
    workload, dropped = read_pods(path, models=frozenset({"V100M32", "A10"}))
    assert dropped == 0
    assert_equal(
        workload,
        Workload(
            names=["ml/train", "whole"],
            specs=[
                PodSpec(
                    cpu_milli=2000,
                    memory_bytes=2**30,
                    gpu_count=1,
                    gpu_milli=460,
                    gpu_models=("V100M16", "V100M32"),
                    extended=(("example.com/nic", 3),),
                    node_selector=(("zone", "east"),),
                    tolerations=(Toleration("gpu", "Exists"),),
                    labels=(("app", "train"),),
                    namespace="ml",
                    owner="ReplicaSet/train-6d",
                ),
                PodSpec(gpu_count=2, gpu_milli=1000),
            ],
            spec_of=np.array([0, 1]),
            arrival_s=np.array([9.5, 0.0]),
            duration_s=np.array([0.0, 90.0]),
            priority=np.array([1000, 7]),
            gang_of=np.array([0, -1]),
            gangs=[Gang("ml/team", 1, 30.0)],
        ),
    )


@pytest.mark.parametrize("shape", ["list", "List", "NodeList", "lines", "pretty lines"])
def test_all_json_shapes_give_the_same(tmp_path, shape):
    nodes = [{"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "1"}}} for name in "ab"]
    text = {
        "list": json.dumps(nodes),
        "List": json.dumps({"kind": "List", "items": nodes}, indent=2),
        "NodeList": json.dumps({"kind": "NodeList", "items": [node | {"kind": None} for node in nodes]}),
        "lines": "\n".join(map(json.dumps, nodes)),
        "pretty lines": "\n".join(json.dumps(node, indent=1) for node in nodes) + "\n\n",
    }[shape]
    for name in ("nodes.json", "nodes"):
        path = make_file(tmp_path, text, name)
        assert read_nodes(path)[0] == [NodeSpec(name, 1000, 0, kubernetes=CLOSED_TO_PODS) for name in "ab"]


def test_a_node_that_states_no_status_is_not_closed_to_pods(tmp_path):
    path = make_file(tmp_path, json.dumps({"kind": "Node", "metadata": {"name": "a"}}), "nodes.json")
    assert read_nodes(path)[0] == [NodeSpec("a", 0, 0)]


def test_gangs_come_from_labels_and_from_the_scheduling_group(tmp_path):
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    workload = read_objects(
        tmp_path,
        make_pod("a", schedulingGroup={"podGroupName": "g"}),
        make_pod("b", labels={"scheduling.x-k8s.io/pod-group": "g"}),
        make_pod("c", labels={"foresail.dev/gang": "h"}, annotations={"foresail.dev/gang-min": "1"}),
        make_pod("d", labels={"foresail.dev/gang": "i"}),
        make_pod("e", labels={"foresail.dev/gang": "i"}),
        make_pod("f"),
        group,
    )
    assert workload.gangs == [Gang("g", 2), Gang("h", 1), Gang("i", 2)]
    assert workload.gang_of.tolist() == [0, 0, 1, 2, 2, -1]
    assert workload.specs == [PodSpec()]


def test_the_label_of_a_gang_stays_where_pods_are_selected_by_it(tmp_path):
    labels = {"foresail.dev/gang": "g"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    workload = read_objects(tmp_path, make_pod("a", labels=labels, affinity=apart), make_pod("b", labels=labels))
    assert [spec.labels for spec in workload.specs] == [tuple(labels.items())] * 2


def test_what_placement_does_not_honour_is_told_once_with_counts(tmp_path):
    with capture_logs() as logs:
        read_objects(
            tmp_path,
            make_pod("a", affinity={"podAntiAffinity": {}, "nodeAffinity": None}, schedulingGates=[{"name": "g"}]),
            make_pod("b", nodeName="n", schedulerName="ours"),
            make_pod("c", volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"key": "k", "operator": "Gt"}]),
            make_pod("d", nodeName="n", initContainers=[{"ports": [{"hostPort": 80}]}]),
        )
    assert logs == [
        {
            "event": "pod_fields_ignored",
            "log_level": "warning",
            "path": str(tmp_path / "pods.jsonl"),
            "pods_by_field": {
                "spec.nodeName": 2,
                "spec.schedulingGates": 1,
            },
        }
    ]


EVERYTHING = KubernetesPod(
    required_nodes=(
        NodeTerm((Requirement("gen", "Gt", ("3",)),), (Requirement("metadata.name", "NotIn", ("a",)),)),
        NodeTerm(),
    ),
    preferred_nodes=(Weighted(7, NodeTerm((Requirement("disk", "Exists"),))),),
    affinity=(PodTerm("zone", Selector((Requirement("app", "In", ("web",)),)), ("ns-a",)),),
    anti_affinity=(PodTerm("zone", None, (), Selector()),),
    preferred_affinity=(Weighted(5, PodTerm("rack", Selector(), ("x", "y"), Selector())),),
    preferred_anti_affinity=(Weighted(1, PodTerm("rack", Selector((Requirement("t", "DoesNotExist"),)), ("ns-a",))),),
    spread=(
        SpreadConstraint(1, "zone", Selector(), hard=True, min_domains=3, honors_affinity=False, honors_taints=True),
        SpreadConstraint(2, "rack", None, hard=False),
    ),
    host_ports=(HostPort(80), HostPort(443, "UDP", "10.0.0.5")),
    disks=(Disk("awsElasticBlockStore", "v"), Disk("rbd", "p/i", read_only=True, monitors=("m1", "m2"))),
    claims=(ClaimVolume("data"), ClaimVolume("p-scratch", ephemeral=True)),
    images=("img/a:1", "img/b:latest", "img/c:2"),
    container_count=2,
    features=("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"),
    scored_request=(0, 5),
    held_request=(7, 0),
    terminating=True,
)


@pytest.mark.parametrize("ending", ["yaml", "json", "jsonl"])
def test_what_only_kubernetes_says_of_a_pod_comes_back_unchanged(tmp_path, ending):
    path = tmp_path / f"pods.{ending}"
    spec = PodSpec(cpu_milli=100, labels=(("app", "web"),), namespace="ns-a", kubernetes=EVERYTHING)
    workload = Workload(names=["ns-a/p"], specs=[spec], spec_of=np.array([0]))
    write_pods(path, workload)
    assert_equal(read_pods(path)[0], workload)


def test_pods_of_a_real_api_server_come_back_unchanged(tmp_path, recorded_decisions):
    with (recorded_decisions / "decisions-wide.jsonl").open(encoding="utf-8") as file:
        specs = [pod_spec_of(json.loads(line)["pod"]) for line in file]
    names = [f"{spec.namespace}/p{number}" for number, spec in enumerate(specs)]
    names = [name.removeprefix("default/") for name in names]
    workload = Workload(names=names, specs=specs, spec_of=np.arange(len(specs)))
    write_pods(tmp_path / "pods.jsonl", workload)
    assert_equal(read_pods(tmp_path / "pods.jsonl")[0], workload)


def test_what_only_kubernetes_says_of_a_node_comes_back_unchanged(tmp_path):
    node = NodeSpec("a", 1000, 1000, kubernetes=KubernetesNode((("img/a:1", 5), ("img/b:1", 7)), ("Feature",)))
    write_nodes(tmp_path / "nodes.yaml", [node])
    assert read_nodes(tmp_path / "nodes.yaml") == ([node], 0)


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (
            make_pod(topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]),
            r'topologySpreadConstraints\[0\].maxSkew is "None"; write a whole number of 1 or more',
        ),
        (
            make_pod(topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "Never"}]),
            r'whenUnsatisfiable is "Never"; write DoNotSchedule or ScheduleAnyway',
        ),
        (
            make_pod(volumes=[{"name": "v", "persistentVolumeClaim": {}}]),
            r"spec.volumes\[0\].persistentVolumeClaim.claimName is missing; name the claim",
        ),
        (
            make_pod(
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Like"}]}]
                        }
                    }
                }
            ),
            r'matchExpressions\[0\].operator is "Like"; write one of In, NotIn, Exists, DoesNotExist, Gt, Lt',
        ),
    ],
)
def test_bad_kubernetes_fields_say_which_and_what_to_write(tmp_path, pod, message):
    with pytest.raises(InputError, match=message):
        read_objects(tmp_path, pod)


def test_a_gang_that_can_never_start_is_told(tmp_path):
    with capture_logs() as logs:
        read_objects(
            tmp_path, make_pod("a", labels={"foresail.dev/gang": "g"}, annotations={"foresail.dev/gang-min": "3"})
        )
    assert [entry["event"] for entry in logs] == ["gang_never_complete"]


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (make_pod(requests={"cpu": "2 cores"}), r'spec.containers\[0\].resources.requests.cpu is "2 cores"; write a'),
        (make_pod(requests={"memory": "-1"}), r'requests.memory is "-1"; write 0 or more'),
        (make_pod(requests={"cpu": "9E"}), r"the CPU request is too large"),
        (make_pod(requests={"nvidia.com/gpu": "0.5"}), r"nvidia.com/gpu is not a whole number"),
        (make_pod(annotations={"alibabacloud.com/gpu-milli": "1001"}), r'gpu-milli is "1001"; one device has 1000'),
        (make_pod(annotations={"alibabacloud.com/gpu-count": "-1"}), r'gpu-count is "-1"; write a whole number of 0'),
        (
            make_pod(annotations={"alibabacloud.com/gpu-count": "2", "alibabacloud.com/gpu-milli": "500"}),
            r'gpu-count is "2" and .*gpu-milli is "500"; write 1 to 1000 milli of one GPU',
        ),
        (
            make_pod(annotations={"alibabacloud.com/gpu-count": "1", GPU_MODEL: "V100M31"}),
            r'gpu-card-model is "V100M31"; did you mean "V100M32"\?; the nodes have T4, V100M32',
        ),
        (make_pod(priorityClassName="high"), r'priorityClassName is "high"; add the PriorityClass'),
        (make_pod(labels={"on": True}), r"metadata.labels.on is true, not text; write it in quotes"),
        (make_pod(tolerations=[{"operator": "Any"}]), r'spec.tolerations\[0\].operator is "Any"; write Equal, E'),
        (make_pod(annotations={"foresail.dev/duration-s": "-1"}), r'duration-s is "-1"; write seconds, 0 or more'),
        (make_pod(annotations={"foresail.dev/duration-s": "nan"}), r'duration-s is "nan"; write seconds'),
        (make_pod(annotations={"foresail.dev/arrival-s": "inf"}), r'arrival-s is "inf"; write seconds'),
        (make_pod(annotations={"alibabacloud.com/creation-time": "12:00"}), r'creation-time is "12:00"; write an RFC'),
        (
            make_pod(annotations={"alibabacloud.com/deletion-time": "2023-01-01T00:00:00Z"}),
            r"there is no creation time",
        ),
        (
            make_pod(
                annotations={
                    "alibabacloud.com/creation-time": "2023-01-02T00:00:00Z",
                    "alibabacloud.com/deletion-time": "2023-01-01T00:00:00Z",
                }
            ),
            r"but the pod was created 2023-01-02",
        ),
        (make_pod(name=""), r"without name\): metadata.name is missing"),
        (make_pod(name="good"), r'the pod "default/good" stands here a second time'),
        (make_pod(containers=4), r'spec.containers is "4"; write a list'),
        ({"kind": "Pod", "metadata": 3}, r'metadata is "3"; write a mapping'),
    ],
)
def test_a_bad_pod_is_told_with_its_place_or_dropped(tmp_path, pod, message):
    models = frozenset({"T4", "V100M32"})
    with pytest.raises(InputError, match=rf"pods\.jsonl:2: document 2 \(Pod .*{message}") as error:
        read_objects(tmp_path, make_pod("good"), pod, make_pod("last"), models=models)
    assert "--skip-bad-rows drops it" in str(error.value)
    path = tmp_path / "pods.jsonl"
    workload, dropped = read_pods(path, models=models, skip_bad_rows=True)
    assert (list(workload.names), dropped) == (["good", "last"], 1)


def test_members_must_agree_on_what_their_gang_needs(tmp_path):
    pods = [
        make_pod(name, labels={"foresail.dev/gang": "g"}, annotations={"foresail.dev/gang-min": least})
        for name, least in (("a", "1"), ("b", "2"))
    ]
    with pytest.raises(InputError, match="on an earlier member; give all members the same"):
        read_objects(tmp_path, *pods)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (
            {"status": {"allocatable": {"cpu": "many"}}},
            r'status.allocatable.cpu is "many"; write a Kubernetes quantity',
        ),
        ({"status": {"capacity": {"memory": "-1Gi"}}}, r'status.capacity.memory is "-1Gi"; write 0 or more'),
        (
            {"status": {"allocatable": {"alibabacloud.com/gpu-count": 2, "alibabacloud.com/gpu-milli": 1000}}},
            r'gpu-milli is "1000" for 2 GPUs; write 2000',
        ),
        ({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}, r'spec.taints\[0\].effect is "Never"; write NoSch'),
        ({"metadata": {"name": "good"}}, r'metadata.name is "good" a second time'),
        ({"metadata": {"name": 7}}, r"metadata.name is 7, not text; write it in quotes"),
    ],
)
def test_a_bad_node_is_told_with_its_line_or_dropped(tmp_path, node, message):
    good = {"kind": "Node", "metadata": {"name": "good"}}
    items = [good, {"kind": "Node", "metadata": {"name": "bad"}} | node]
    path = make_file(tmp_path, yaml.safe_dump({"kind": "List", "items": items}, sort_keys=False))
    with pytest.raises(InputError, match=rf"cluster\.yaml:6: document 1 item 2 \(Node .*{message}"):
        read_nodes(path)
    assert read_nodes(path, skip_bad_rows=True) == ([NodeSpec("good", 0, 0)], 1)


def test_all_bad_objects_are_counted_in_one_error(tmp_path):
    bad = [make_pod(name, requests={"cpu": "x"}) for name in "abc"]
    with pytest.raises(InputError, match=r"drops 3 such objects"):
        read_objects(tmp_path, *bad)
    with pytest.raises(InputError, match=r"holds no usable Pod objects \(it holds 3 Pod\)"):
        read_pods(tmp_path / "pods.jsonl", skip_bad_rows=True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "kind: Node\nmetadata: {name: a\n", r"a\.yaml:3: is no YAML: while parsing a flow mapping"),
        ("a.yaml", "kind: !!python/object:os.system {}\n", r"a\.yaml:1: is no YAML: could not determine a constructor"),
        ("a.yaml", "just words", r"a\.yaml:1: document 1 is no Kubernetes object"),
        ("a.yaml", "metadata: {name: a}", r"a\.yaml:1: document 1 has no kind"),
        ("a.yaml", "", r"holds no usable Node objects \(it holds nothing\)"),
        ("a.yaml", "kind: Pod\nmetadata: {name: a}", r"holds no usable Node objects \(it holds 1 Pod\)"),
        ("a.json", '{"kind": "Node",\n "metadata": }', r"a\.json:2: is no JSON: Expecting value"),
        ("a.json", "[" * 100_000, r"a\.json:1: nests too deeply"),
        ("a.yaml", "[" * 100_000, r"a\.yaml: is no YAML: it nests more than 200 levels deep"),
    ],
)
def test_unreadable_files_are_told_with_their_line(tmp_path, name, text, message):
    path = make_file(tmp_path, text, name)
    with pytest.raises(InputError, match=message):
        read_nodes(path)


def test_missing_and_binary_files_are_told(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        read_nodes(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_bytes(b"kind: \xff")
    with pytest.raises(InputError, match=r"bad\.yaml: is not UTF-8 text \(byte 6\)"):
        read_nodes(tmp_path / "bad.yaml")


def test_a_node_that_takes_no_pods_is_closed(tmp_path):
    path = make_file(tmp_path, "kind: Node\nmetadata: {name: a}\nstatus: {allocatable: {pods: 0}}")
    assert read_nodes(path)[0] == [NodeSpec("a", 0, 0, unschedulable=True)]


# Round trips: whatever can be said in specs comes back equal.

WORDS = st.text(st.sampled_from("abyzNO019.-_~"), min_size=1, max_size=8) | st.sampled_from(
    ["true", "null", "1e3", "é"]
)
KEYS = WORDS.map(lambda word: f"example.com/{word}")
AMOUNTS = st.integers(0, 2**53)


def sorted_pairs(values):
    return st.dictionaries(KEYS, values, max_size=3).map(lambda found: tuple(sorted(found.items())))


TAINTS = st.builds(Taint, KEYS, WORDS | st.just(""), st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]))
TOLERATIONS = st.builds(
    Toleration,
    KEYS | st.just(""),
    st.sampled_from(["Equal", "Exists", "Gt", "Lt"]),
    WORDS | st.just(""),
    WORDS | st.just(""),
)
MODEL_LABELS = st.dictionaries(st.sampled_from([GPU_MODEL, "nvidia.com/gpu.product"]), WORDS | st.just(""))
NODES = st.builds(
    NodeSpec,
    name=WORDS,
    cpu_milli=AMOUNTS,
    memory_bytes=AMOUNTS,
    gpu_count=st.integers(0, 16),
    gpu_model=WORDS | st.just(""),
    max_pods=st.integers(0, 1000),
    labels=st.builds(
        lambda some, more: tuple(sorted({**dict(some), **more}.items())), sorted_pairs(WORDS), MODEL_LABELS
    ),
    taints=st.lists(TAINTS, max_size=2).map(tuple),
    extended=sorted_pairs(st.integers(1, 2**62)),
    unschedulable=st.booleans(),
)
GPU_ASKS = st.one_of(
    st.just((0, 0)), st.tuples(st.just(1), st.integers(1, 1000)), st.tuples(st.integers(2, 8), st.just(1000))
)
ENDINGS = st.sampled_from([".yaml", ".json", ".jsonl"])


@st.composite
def pod_specs(draw):
    count, milli = draw(GPU_ASKS)
    return PodSpec(
        cpu_milli=draw(AMOUNTS),
        memory_bytes=draw(AMOUNTS),
        gpu_count=count,
        gpu_milli=milli,
        gpu_models=draw(st.lists(WORDS, max_size=2).map(tuple)),
        extended=draw(sorted_pairs(st.integers(1, 2**62))),
        node_selector=draw(sorted_pairs(WORDS)),
        tolerations=draw(st.lists(TOLERATIONS, max_size=2).map(tuple)),
        labels=draw(sorted_pairs(WORDS)),
        namespace=draw(st.sampled_from(["default", "ml", "batch"])),
        owner=draw(st.sampled_from(["", "ReplicaSet/a", "Job/b/c", "plain"])),
    )


@st.composite
def workloads(draw):
    specs = draw(st.lists(pod_specs(), min_size=1, max_size=4, unique=True))
    count = draw(st.integers(1, 6))
    spec_of = draw(st.lists(st.integers(0, len(specs) - 1), min_size=count, max_size=count))
    names, gang_of, gangs = [], [], []
    for index, spec in enumerate(spec_of):
        prefix = "" if specs[spec].namespace == "default" else f"{specs[spec].namespace}/"
        names.append(f"{prefix}pod-{index}")
        gang = -1
        if draw(st.booleans()):
            held = [entry.name for entry in gangs]
            name = f"{prefix}gang"
            if name not in held:
                gangs.append(Gang(name, draw(st.integers(1, 9)), draw(st.floats(0, 1e6))))
                held.append(name)
            gang = held.index(name)
        gang_of.append(gang)
    times = st.lists(st.floats(0, 1e300), min_size=count, max_size=count)
    lives = st.lists(st.floats(0, 1e300) | st.just(math.inf), min_size=count, max_size=count)
    return Workload(
        names=names,
        specs=specs,
        spec_of=np.array(spec_of),
        arrival_s=np.array(draw(times)),
        duration_s=np.array(draw(lives)),
        priority=np.array(draw(st.lists(st.integers(-(2**31), 2**31), min_size=count, max_size=count))),
        gang_of=np.array(gang_of),
        gangs=gangs,
        cpu_limit_milli=np.array(draw(st.lists(st.sampled_from([0, 0, 1, 2500]), min_size=count, max_size=count))),
        cpu_weight=np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 300.0]), min_size=count, max_size=count))),
        work_cpu_s=np.array(
            draw(st.lists(st.sampled_from([math.nan, 0.0, 1 / 3, math.inf]), min_size=count, max_size=count))
        ),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(NODES, min_size=1, max_size=4, unique_by=lambda node: node.name), ENDINGS)
def test_nodes_come_back_as_they_were_written(nodes, ending):
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"nodes{ending}"
        write_nodes(path, nodes)
        assert read_nodes(path) == (nodes, 0)
        assert [entry.name for entry in Path(folder).iterdir()] == [path.name]


@settings(max_examples=60, deadline=None)
@given(workloads(), ENDINGS)
def test_pods_come_back_as_they_were_written(workload, ending):
    with TemporaryDirectory() as folder, capture_logs():
        path = Path(folder) / f"pods{ending}"
        write_pods(path, workload)
        again, dropped = read_pods(path)
        assert dropped == 0
        assert_equal(again, workload)


def test_written_nodes_carry_the_model_label_others_look_for(tmp_path):
    path = tmp_path / "nodes.yaml"
    write_nodes(path, [NodeSpec("a", 1000, 2**30, 2, "T4")])
    (node,) = yaml.safe_load_all(path.read_text())
    assert node["metadata"]["labels"] == {GPU_MODEL: "T4"}
    assert node["status"]["allocatable"] == {
        "cpu": "1000m",
        "memory": "1073741824",
        "alibabacloud.com/gpu-count": "2",
        "alibabacloud.com/gpu-milli": "2000",
    }


def test_what_cannot_be_written_leaves_no_file(tmp_path):
    gang = Workload(["p"], [PodSpec(namespace="ml")], np.array([0]), gang_of=np.array([0]), gangs=[Gang("g", 1)])
    with pytest.raises(InputError, match=r'gang "g" has a pod of namespace "ml".*named after it: "ml/g"'):
        write(tmp_path / "nodes.yaml", tmp_path / "pods.yaml", [], gang)
    with pytest.raises(InputError, match=r'nodes\.txt: the ending "\.txt" is not known; .*, \.json, \.jsonl, '):
        write(tmp_path / "nodes.txt", tmp_path / "pods.yaml", [], gang)
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write(tmp_path / "none" / "nodes.yaml", tmp_path / "pods.yaml", [], gang)
    assert list(tmp_path.iterdir()) == []


def test_limits_weights_and_work_of_pods_that_share_cpu(tmp_path):
    pod = """
    kind: Pod
    metadata: {{name: p, annotations: {{{annotations}}}}}
    spec: {{containers: [{containers}]}}
    """

    def read(containers, annotations=""):
        path = tmp_path / "pods.yaml"
        path.write_text(dedent(pod.format(containers=containers, annotations=annotations)))
        workload, _ = read_pods(path)
        return [column[0] for column in (workload.cpu_limit_milli, workload.cpu_weight, workload.work_cpu_s)]

    one, two = "{resources: {limits: {cpu: 2}}}", "{resources: {limits: {cpu: 500m}}}"
    np.testing.assert_array_equal(read(f"{one}, {two}"), [2500, 0, math.nan])
    np.testing.assert_array_equal(read(f"{one}, {{}}"), [0, 0, math.nan])  # one without a limit may use all there is
    stated = 'foresail.dev/cpu-weight: "0.5", foresail.dev/work-cpu-s: "90", foresail.dev/cpu-limit-milli: "700"'
    np.testing.assert_array_equal(read(one, stated), [700, 0.5, 90])
    for annotation, wrong in (
        ('foresail.dev/cpu-weight: "0"', 'cpu-weight is "0"; write a number above 0'),
        ('foresail.dev/work-cpu-s: "-1"', 'work-cpu-s is "-1"; write seconds, 0 or more'),
        ('foresail.dev/cpu-limit-milli: "1.5"', 'cpu-limit-milli is "1.5"; write a whole number of milli-CPU'),
    ):
        with pytest.raises(InputError, match=wrong):
            read(one, annotation)
