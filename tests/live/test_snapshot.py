"""A cluster as a file: what is kept, what is not, and that nobody can tell the file from the cluster."""

import asyncio
import copy
import itertools
import json

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.shown import ZONE, by_name
from tests.live.cache.test_recorded import TRUTH
from tests.live.cluster import make_group, make_node, make_pod

from foresail.core.objects import ClusterObjects
from foresail.errors import InputError
from foresail.kube.api.errors import Forbidden
from foresail.kube.api.kinds import KINDS
from foresail.kube.objects.cluster_objects import put_object, read_objects
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.pod import pod_spec_of
from foresail.kube.objects.values import GANG, GANG_MIN, GPU_DEVICES, GPU_MILLI, POD_GROUP
from foresail.live.cache.listing import filled, list_all, listed
from foresail.live.snapshot import PodChoice, cluster_of, snapshot_of, take_snapshot
from foresail.policies.plain.devices import LeastSufficient
from foresail.traces.kubernetes import read_nodes, read_pods
from foresail.traces.snapshot import KEPT, counts, kept, read_snapshot, write_snapshot

SECRET = "hunter2"  # noqa: S105 - to look for it


def written(path, lists, choice=None):
    write_snapshot(path, snapshot_of(lists, choice or PodChoice()))
    return path


def read_back(path):
    return cluster_of(read_snapshot(path), LeastSufficient())


def same(cache, other):
    assert by_name(other.table) == by_name(cache.table)
    assert other.table.objects == cache.table.objects
    left_out = cache.pods.keys() - other.pods.keys()
    assert other.unreadable == {key: why for key, why in cache.unreadable.items() if key not in left_out}
    assert {uid: pod for uid, pod in cache.pods.items() if uid in other.pods} == other.pods
    assert all(pod.ended for uid, pod in cache.pods.items() if uid not in other.pods)
    gangs = {pod.gang for pod in cache.pods.values() if pod.gang}
    for gang in gangs:
        name = f"{gang.namespace}/{gang.name}"
        assert other.placed_members(name) == cache.placed_members(name)
    assert [other.as_waiting(uid) for uid in other.pods if isinstance(other.as_waiting(uid), str)] == [
        cache.as_waiting(uid) for uid in other.pods if isinstance(cache.as_waiting(uid), str)
    ]


# --- what is not kept -------------------------------------------------------------------------------------------------


def test_a_secret_of_a_pod_is_not_in_the_file_and_what_is_there_is_no_more_than_needed(tmp_path):
    pod = make_pod(
        "p",
        node="a",
        gpus=2,
        labels={"app": "web"},
        annotations={GPU_DEVICES: "0,1", "kubectl.kubernetes.io/last-applied-configuration": SECRET, "token": SECRET},
        volumes=[
            {"name": "password", "secret": {"secretName": SECRET}},
            {"name": "disk", "iscsi": {"iqn": "i", "chapAuthSession": True, "secretRef": {"name": SECRET}}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ],
        tolerations=[{"key": "spot", "operator": "Exists", "tolerationSeconds": 3}],
        imagePullSecrets=[{"name": SECRET}],
        serviceAccountName=SECRET,
        priority=7,
        status={"phase": "Running", "message": SECRET, "containerStatuses": [{"name": "main", "imageID": SECRET}]},
    )
    pod["metadata"]["managedFields"] = [{"manager": SECRET}]
    pod["metadata"]["resourceVersion"] = "12"
    container = pod["spec"]["containers"][0]
    container["env"] = [{"name": "PASSWORD", "value": SECRET}]
    container["args"] = container["command"] = ["--password", SECRET]
    container["livenessProbe"] = {"exec": {"command": [SECRET]}}
    pod["spec"]["initContainers"] = [{**copy.deepcopy(container), "name": "init"}]
    path = written(tmp_path / "cluster.yaml", {"Node": [make_node("a", gpus=2)], "Pod": [pod]})
    assert SECRET not in path.read_text()
    (found,) = [dict(one.value) for one in read_snapshot(path) if one.kind == "Pod"]
    asked = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}}
    assert found == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "default",
            "uid": "uid-p",
            "labels": {"app": "web"},
            "annotations": {GPU_DEVICES: "0,1"},
        },
        "spec": {
            "schedulerName": "foresail",
            "nodeName": "a",
            "priority": 7,
            "tolerations": [{"key": "spot", "operator": "Exists"}],
            "initContainers": [{**asked, "name": "init"}],
            "containers": [asked],
            "volumes": [
                {"name": "disk", "iscsi": {"iqn": "i"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        },
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize("kind", KEPT)
def test_nothing_of_an_object_is_kept_that_is_not_on_the_list(kind):
    value = {
        "metadata": {"name": "x", "annotations": {"a": SECRET}, "finalizers": [SECRET]},
        "spec": {"new": SECRET, "parameters": {"password": SECRET}, "csi": {"nodePublishSecretRef": {"name": SECRET}}},
        "status": {"new": [SECRET]},
        "parameters": {"password": SECRET},
        "data": {"password": SECRET},
    }
    assert SECRET not in json.dumps(kept(kind, "v1", value))


def test_every_kind_that_is_watched_can_be_written():
    assert {kind.kind for kind in KINDS.values()} <= KEPT.keys()


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".yaml", ".json", ".jsonl"])
def test_a_real_cluster_comes_back_from_its_file(tmp_path, ending):
    path = written(tmp_path / f"cluster{ending}", TRUTH)
    cache = filled(TRUTH, LeastSufficient())
    same(cache, read_back(path))
    nodes, _ = read_nodes(path)
    assert {node.name: node for node in nodes} == {node.name: node for node in cache.table.specs}
    workload, _ = read_pods(path)
    specs = {name if "/" in name else f"default/{name}": workload.spec(at) for at, name in enumerate(workload.names)}
    assert specs == {pod.full_name: pod.spec for pod in read_back(path).pods.values()}
    assert read_objects(path) == cache.table.objects


def test_one_state_of_a_cluster_has_one_file(tmp_path):
    first = written(tmp_path / "a.yaml", TRUTH).read_bytes()
    turned = {name: copy.deepcopy(values[::-1]) for name, values in reversed(TRUTH.items())}
    for value in itertools.chain.from_iterable(turned.values()):
        metadata = value["metadata"]
        metadata["resourceVersion"] = "999"
        if metadata.get("labels"):
            metadata["labels"] = dict(reversed(metadata["labels"].items()))
    assert written(tmp_path / "b.yaml", turned).read_bytes() == first


def test_what_a_recording_says_of_nodes_pods_and_volumes_is_kept(recorded_decisions):
    pods = objects = 0
    for name in ("decisions.jsonl", "decisions-wide.jsonl"):
        told, found = ClusterObjects(), ClusterObjects()
        for text in (recorded_decisions / name).read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            pods += 1
            assert pod_spec_of(kept("Pod", "v1", line["pod"])) == pod_spec_of(line["pod"])
            for offered in line.get("nodes") or ():
                assert node_spec(kept("Node", "v1", offered)) == node_spec(offered)
            for value in line.get("objects") or ():
                objects += 1
                put_object(told, value["kind"], value)
                put_object(found, value["kind"], kept(value["kind"], "v1", value))
        assert found == told
    assert (pods, objects > 100) == (1680, True)


pick = st.integers(0, 1000)
AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}
        ]
    }
}


def node(name, at):
    node = make_node(
        name,
        cpu=str(1 + at % 9),
        gpus=at % 4,
        labels={ZONE: "xyz"[at % 3], **({"nvidia.com/gpu.product": "T4"} if at % 2 else {})},
        taints=[{"key": "spot", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}] if at % 5 == 0 else [],
        unschedulable=at % 7 == 0,
        allocatable={"example.com/disk": str(at % 3)},
    )
    if at % 3 == 0:
        node["status"]["images"] = [{"names": ["app:1", "app@sha256:0"], "sizeBytes": at}]
    if at % 11 == 0:
        node["status"]["capacity"] = node["status"].pop("allocatable")
    return node


def pod(name, at, on):
    more, spec = {}, {}
    if at % 4 == 0:
        more = {"labels": {GANG: "g"}, "annotations": {GANG_MIN: "2"}}
    elif at % 4 == 1:
        more = {"labels": {POD_GROUP: "sigs", "app": "web"}}
        spec["affinity"] = AFFINITY
    elif at % 4 == 2:
        spec["schedulingGroup"] = {"podGroupName": "group"}
        more = {"annotations": {"note": SECRET, **({GPU_DEVICES: "1"} if on and at % 3 == 1 else {})}}
    if at % 6 == 0:
        spec |= {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}], "hostNetwork": True}
    if at % 10 == 0:
        spec["schedulingGates"] = [{"name": "wait"}]
    if at % 9 == 0:
        more.setdefault("annotations", {})[GPU_MILLI] = "not a number"
    value = make_pod(
        name,
        f"{1 + at % 9}00m",
        on,
        uid=f"{at}-{name}",
        gpus=at % 3,
        deleted=at % 8 == 0,
        priority=at % 5,
        **more,
        **spec,
    )
    value["metadata"]["creationTimestamp"] = f"2026-01-01T00:{at % 60:02}:00Z"
    value["metadata"]["ownerReferences"] = [
        {"kind": "ReplicaSet", "name": "web", "controller": at % 2 == 0, "uid": "u"}
    ]
    if on and at % 5 == 0:
        value["status"] = {"phase": ["Succeeded", "Failed"][at % 2]}
    elif on:
        value["status"] = {
            "phase": "Running",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": f"{at % 4}"}}}],
        }
    return value


def around(at):
    """Objects beside nodes and pods."""
    meta = {"name": "x", "namespace": "default"}
    return {
        "Namespace": [{"metadata": {"name": "default", "labels": {"team": str(at % 2)}}}],
        "Service": [
            {"metadata": meta, "spec": {"selector": {"app": "web"} if at % 2 else None, "clusterIP": "1.2.3.4"}}
        ],
        "ReplicaSet": [{"metadata": meta, "spec": {"selector": {} if at % 3 else {"matchLabels": {"app": "web"}}}}],
        "PersistentVolumeClaim": [
            {
                "metadata": {
                    **meta,
                    "uid": "c",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes", "x": SECRET},
                },
                "spec": {
                    "volumeName": "v",
                    "resources": {"requests": {"storage": f"{at}Gi"}},
                    "storageClassName": "fast",
                },
                "status": {"phase": "Bound"},
            }
        ],
        "PodDisruptionBudget": [
            {
                "metadata": meta,
                "spec": {"selector": {}},
                "status": {"disruptionsAllowed": at, "disruptedPods": {"p": "t"}},
            }
        ],
        "PodGroup": [make_group("group", 1 + at % 3)],
        "PodGroup.scheduling.x-k8s.io": [{"metadata": {**meta, "name": "sigs"}, "spec": {"minMember": 1 + at % 2}}],
    }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(pick, max_size=4), st.lists(st.tuples(pick, st.sampled_from(["", "n0", "n1", "gone"])), max_size=8), pick
)
def test_a_cache_filled_from_the_file_is_the_cache_filled_from_the_cluster(tmp_path_factory, nodes, pods, other):
    lists = {
        **around(other),
        "Node": [node(f"n{index}", at) for index, at in enumerate([*nodes, other])],
        "Pod": [pod(f"p{index}", at, on) for index, (at, on) in enumerate(pods)],
    }
    path = tmp_path_factory.mktemp("snapshot") / f"cluster{'.yaml' if other % 2 else '.json'}"
    before = copy.deepcopy(lists)
    written(path, lists)
    assert lists == before
    assert SECRET not in path.read_text()
    same(filled(lists, LeastSufficient()), read_back(path))


# --- which pods -------------------------------------------------------------------------------------------------------


def test_which_pods_are_taken():
    pods = [
        make_pod("placed", node="a"),
        make_pod("done", node="a", phase="Succeeded"),
        make_pod("member", node="a", phase="Succeeded", labels={GANG: "g"}, annotations={GANG_MIN: "1"}),
        make_pod("waits"),
        make_pod("failed", phase="Failed"),
        make_pod("elsewhere"),
    ]
    pods[5]["metadata"]["namespace"] = "team"

    def names(choice):
        return [value["metadata"]["name"] for value in snapshot_of({"Pod": pods}, choice)]

    assert names(PodChoice()) == ["placed", "member", "waits", "elsewhere"]
    assert names(PodChoice(namespaces={"team"})) == ["placed", "member", "elsewhere"]
    assert names(PodChoice(placed=False, namespaces={"default"})) == ["waits"]


def test_a_group_that_several_versions_serve_is_written_once():
    group = make_group("g", 2)
    lists = {"PodGroup": [group], "PodGroup.v1alpha3": [group], "PodGroup.scheduling.x-k8s.io": [group]}
    found = list(snapshot_of(lists, PodChoice()))
    assert [value["apiVersion"] for value in found] == ["scheduling.k8s.io/v1alpha2", "scheduling.x-k8s.io/v1alpha1"]
    assert dict(counts(found)) == {"PodGroup": 2}


# --- files that are no snapshots --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"kind": "Pod", "metadata": {"name": "p"}}', "holds no Node objects .it holds Pod.; take a snapshot with"),
        ('[{"kind": "Node", "metadata": {}}]', "document 1 item 1 .Node.: metadata.name is missing"),
        ('[{"kind": "Node", "metadata": {"name": "a"}, "spec": 3}]', 'spec is "3"; write a mapping'),
        ("", "it holds nothing"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused(tmp_path, text, said):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_snapshot(path)


# --- listing ----------------------------------------------------------------------------------------------------------


def answering(lists, refused=(), served=True):
    path_of = {kind.path: name for name, kind in KINDS.items()}

    async def answer(request):
        name = path_of.get(request.path, request.path.rpartition("/")[2])
        if name.startswith("v1"):
            resources = [{"name": "podgroups"}] if served else []
            return web.json_response({"resources": resources})
        if name in refused:
            return web.json_response({"reason": "Forbidden", "message": "no", "code": 403}, status=403)
        if name not in lists:
            status = 404 if name in KINDS and KINDS[name].optional else 200
            return web.json_response({"items": [], "metadata": {"resourceVersion": "1"}}, status=status)
        return web.json_response({"items": lists[name], "metadata": {"resourceVersion": "1"}})

    return answer


def test_every_kind_is_listed_once_and_those_that_are_not_served_are_empty(server):
    lists = {"Node": [make_node("a")], "Pod": [make_pod("p", node="a")], "PodGroup": [make_group("g", 2)]}
    seen = []

    async def story():
        async with server(answering(lists)) as api:
            found = await list_all(api, on_progress=lambda done, total: seen.append((done, total)))
            cache = await listed(api, LeastSufficient())
            return found, cache, await take_snapshot(api)

    found, cache, taken = asyncio.run(story())
    assert {name: len(values) for name, values in found.items() if values} == {"Node": 1, "Pod": 1, "PodGroup": 1}
    assert found.keys() == KINDS.keys()
    assert seen == [(done, len(KINDS)) for done in range(len(KINDS) + 1)]
    assert (list(cache.table.placed), [gang.name for gang in cache.groups("PodGroup")]) == (["uid-p"], ["g"])
    assert dict(counts(taken)) == {"Node": 1, "PodGroup": 1, "Pod": 1}


def test_a_missing_right_is_told(server):
    async def story(refused, on_refused=None):
        async with server(answering({"Node": [make_node("a")]}, refused={refused})) as api:
            return await take_snapshot(api, on_refused=on_refused)

    told = []

    def note(kind, error):
        told.append((kind.kind, error.missing))

    for refused, on_refused in (("priorityclasses", None), ("Service", note), ("PodGroup", note)):
        with pytest.raises(Forbidden, match=refused.lower()):
            asyncio.run(story(refused, on_refused))
    assert told == []
    # What only pods of other files may name is done without, if somebody is told.
    assert dict(counts(asyncio.run(story("priorityclasses", note)))) == {"Node": 1}
    rule = '- {apiGroups: ["scheduling.k8s.io"], resources: ["priorityclasses"], verbs: ["list"]}'
    assert told == [("PriorityClass", f"our ClusterRole lacks the rule: {rule}")]


def test_no_right_is_needed_for_what_a_cluster_does_not_serve(server):
    refused = {name for name, kind in KINDS.items() if kind.optional}

    async def story():
        async with server(answering({"Node": [make_node("a")]}, refused=refused, served=False)) as api:
            return await take_snapshot(api)

    assert dict(counts(asyncio.run(story()))) == {"Node": 1}
