"""The cache, event by event: what it books, and what it tells."""

import pytest
from tests.live.cluster import Heard, make_cache, make_group, make_node, make_pod
from tests.live.differences import differences

from foresail.core.model import Placement
from foresail.kube.objects.values import GANG, GANG_MIN, GPU_COUNT, GPU_DEVICES, GPU_MILLI, POD_GROUP
from foresail.policies.gpu_sharing.fgd import Fgd
from foresail.policies.plain.devices import MostFree, RandomDevice


def free_cpu(cache):
    return {name: int(cache.table.free[row, 0]) for name, row in cache.table.row_of.items()}


def on(cache):
    return {uid: cache.table.names[held.row] for uid, held in cache.table.placed.items()}


def with_nodes(*names, **more):
    cache, heard = make_cache()
    cache.handler("Node").replace([make_node(name, **more) for name in names])
    heard.told()
    return cache, heard, cache.handler("Pod")


def test_pods_on_a_node_that_is_not_known_wait_aside_and_go_aside_again_with_it():
    cache, heard = make_cache()
    pods, nodes = cache.handler("Pod"), cache.handler("Node")
    pods.apply("ADDED", make_pod("p", node="a"))
    assert (on(cache), heard.told()) == ({}, [])
    nodes.apply("ADDED", make_node("a"))
    assert (free_cpu(cache), heard.told()) == ({"a": 3000}, [("came", "0"), ("anything",)])
    nodes.apply("DELETED", make_node("a"))
    assert (on(cache), heard.told()) == ({}, [("anything",)])
    nodes.apply("ADDED", make_node("a"))
    assert on(cache) == {"uid-p": "a"}


def test_pods_of_others_count_until_they_have_ended():
    cache, heard, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", node="a", schedulerName="default-scheduler"))
    assert (free_cpu(cache), heard.told()) == ({"a": 3000}, [("came", "0")])
    pods.apply("MODIFIED", make_pod("p", node="a", schedulerName="default-scheduler", deleted=True))
    assert (free_cpu(cache), heard.told()) == ({"a": 3000}, [("room", "0")])
    assert cache.table.placed["uid-p"].pod.spec.kubernetes.terminating
    pods.apply("MODIFIED", make_pod("p", node="a", schedulerName="default-scheduler", phase="Succeeded"))
    assert (free_cpu(cache), heard.told()) == ({"a": 4000}, [("room", "0")])
    pods.apply("DELETED", make_pod("p", node="a"))
    assert (cache.pods, heard.told()) == ({}, [])


def test_what_comes_twice_or_out_of_order_changes_nothing():
    cache, heard, pods = with_nodes("a")
    pods.apply("DELETED", make_pod("unknown"))
    pods.apply("MODIFIED", make_pod("p", node="a"))
    heard.told()
    touches, structure = cache.table.touches, cache.table.structure
    pods.apply("ADDED", make_pod("p", node="a"))
    pods.apply("MODIFIED", make_pod("p", node="a"))
    cache.handler("Node").apply("MODIFIED", make_node("a"))
    cache.handler("Node").replace([make_node("a")])
    pods.replace([make_pod("p", node="a")])
    assert (cache.table.touches, cache.table.structure, heard.told()) == (touches, structure, [])


def test_a_waiting_pod_is_told_once_and_again_when_it_asks_something_else():
    _, heard, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", schedulingGates=[{"name": "wait"}]))
    pods.apply("ADDED", make_pod("other", schedulerName="default-scheduler"))
    assert heard.told() == []
    pods.apply("MODIFIED", make_pod("p"))
    pods.apply("MODIFIED", make_pod("p", status={"conditions": [{"type": "PodScheduled", "status": "False"}]}))
    assert heard.told() == [("waits", "uid-p")]
    pods.apply("MODIFIED", make_pod("p", labels={"app": "web"}))
    pods.apply("MODIFIED", make_pod("p", labels={"app": "web"}, priority=7))
    assert heard.told() == [("gone", "uid-p"), ("waits", "uid-p")] * 2
    pods.apply("MODIFIED", make_pod("p", labels={"app": "web"}, priority=7, deleted=True))
    pods.apply("DELETED", make_pod("p"))
    assert heard.told() == [("gone", "uid-p")]


def test_a_bound_event_confirms_what_was_assumed_and_an_unbound_one_does_not_undo_it():
    cache, heard, pods = with_nodes("a", "b")
    pods.apply("ADDED", make_pod("p"))
    cache.table.assume(cache.waiting("uid-p"), Placement(0, "a"))
    pods.apply("MODIFIED", make_pod("p", labels={"late": "news"}))
    pods.replace([make_pod("p", labels={"late": "news"})])
    assert on(cache) == {"uid-p": "a"}
    pods.apply("MODIFIED", make_pod("p", node="a"))
    assert (on(cache), free_cpu(cache)) == ({"uid-p": "a"}, {"a": 3000, "b": 4000})
    assert heard.told() == [("waits", "uid-p")]


def test_a_pod_that_stands_elsewhere_than_assumed_is_moved():
    cache, heard, pods = with_nodes("a", "b")
    pods.apply("ADDED", make_pod("p"))
    cache.table.assume(cache.waiting("uid-p"), Placement(0, "a"))
    pods.apply("MODIFIED", make_pod("p", node="b"))
    assert free_cpu(cache) == {"a": 4000, "b": 3000}
    assert heard.told() == [("waits", "uid-p"), ("room", "0"), ("came", "1"), ("gone", "uid-p")]
    pods.apply("ADDED", make_pod("q"))
    cache.table.assume(cache.waiting("uid-q"), Placement(0, "a"))
    pods.apply("DELETED", make_pod("q"))
    assert (on(cache), heard.told()) == ({"uid-p": "b"}, [("waits", "uid-q"), ("room", "0"), ("gone", "uid-q")])


def test_a_new_pod_of_the_same_name_takes_the_place_of_the_old_one():
    cache, heard, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", node="a", uid="old"))
    heard.told()
    pods.apply("ADDED", make_pod("p", uid="new"))
    pods.apply("DELETED", make_pod("p", uid="old"))
    assert (list(cache.pods), on(cache), heard.told()) == (["new"], {}, [("room", "0"), ("waits", "new")])


def test_a_relist_drops_what_is_missing():
    cache, heard, pods = with_nodes("a", "b")
    pods.replace([make_pod("p", node="a"), make_pod("q"), make_pod("r", node="b")])
    heard.told()
    pods.replace([make_pod("r", node="b")])
    assert heard.told() == [("room", "0"), ("gone", "uid-q")]
    cache.handler("Node").replace([make_node("b")])
    assert (on(cache), cache.table.names, heard.told()) == ({"uid-r": "b"}, ["b"], [("anything",)])


def resized(asked, allocated, actual, **status):
    state = {"name": "main", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}
    return make_pod("p", asked, node="a", status={"containerStatuses": [state], **status})


@pytest.mark.parametrize(
    ("asked", "allocated", "actual", "counts"),
    [("1", "1", "1", 1000), ("2", "1", "1", 2000), ("500m", "1", "1500m", 1500), ("500m", "2", "1", 2000)],
)
def test_a_pod_counts_for_the_most_of_what_it_asks_has_been_granted_and_uses(asked, allocated, actual, counts):
    cache, _, pods = with_nodes("a")
    pods.apply("ADDED", resized(asked, allocated, actual))
    assert free_cpu(cache) == {"a": 4000 - counts}


def test_a_resize_that_the_node_refuses_does_not_count_and_one_that_ends_frees_room():
    cache, heard, pods = with_nodes("a")
    pods.apply("ADDED", resized("3", "1", "1", conditions=[{"type": "PodResizePending", "reason": "Infeasible"}]))
    assert free_cpu(cache) == {"a": 3000}
    pods.apply("MODIFIED", resized("500m", "1", "1"))
    heard.told()
    pods.apply("MODIFIED", resized("500m", "500m", "500m"))
    assert (free_cpu(cache), heard.told()) == ({"a": 3500}, [("room", "0")])


def test_a_pod_that_cannot_be_read_is_told_and_still_counts_as_a_pod():
    cache, heard, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", cpu="lots"))
    why = heard.told()[0][2]
    assert why.startswith('spec.containers[0].resources.requests.cpu is "lots"; write a Kubernetes quantity')
    assert cache.unreadable == {"uid-p": why}
    pods.apply("MODIFIED", make_pod("p", cpu="lots", node="a"))
    assert (free_cpu(cache), cache.table.pod_count.tolist()) == ({"a": 4000}, [1])
    pods.apply("DELETED", make_pod("p", cpu="lots", node="a"))
    assert (cache.unreadable, cache.table.pod_count.tolist()) == ({}, [0])
    pods.apply("ADDED", {"metadata": {"name": "odd", "uid": "odd"}, "spec": {"nodeName": "a", "containers": 7}})
    assert cache.table.pod_count.tolist() == [1]


def test_a_node_that_cannot_be_read_keeps_what_was_known_of_it():
    cache, _, pods = with_nodes("a")
    cache.handler("Node").replace([make_node("a", cpu="lots"), make_node("b", gpus=9999)])
    pods.apply("ADDED", make_pod("p", node="a"))
    assert free_cpu(cache) == {"a": 3000}
    assert sorted(cache.unreadable) == ["Node a", "Node b"]
    cache.handler("Node").apply("MODIFIED", make_node("a", cpu="8"))
    assert (free_cpu(cache), sorted(cache.unreadable)) == ({"a": 7000}, ["Node b"])
    cache.handler("Node").apply("ADDED", make_node("c", cpu="lots"))
    cache.handler("Node").apply("DELETED", make_node("b"))
    assert sorted(cache.unreadable) == ["Node c"]
    cache.handler("Node").replace([make_node("a")])
    assert cache.unreadable == {}


def test_objects_of_one_name_in_two_namespaces_are_told_apart():
    cache, _ = make_cache()
    for name, wrong, right in (
        ("PersistentVolumeClaim", {"resources": {"requests": {"storage": "lots"}}}, {}),
        ("PodGroup", {"schedulingPolicy": {"gang": {"minCount": "lots"}}}, {}),
    ):
        handler = cache.handler(name)

        def make(namespace, spec):
            return {"metadata": {"name": "data", "namespace": namespace}, "spec": spec}

        handler.apply("ADDED", make("a", wrong))
        handler.apply("ADDED", make("b", right))
        assert list(cache.unreadable) == [f"{name} a/data"]
        handler.apply("ADDED", make("b", wrong))
        handler.apply("MODIFIED", make("a", right))
        assert list(cache.unreadable) == [f"{name} b/data"]
        handler.apply("DELETED", make("b", wrong))
        assert cache.unreadable == {}


def test_gpus_are_those_that_the_pod_carries_and_guesses_make_way_for_them():
    cache, _, pods = with_nodes("a", gpus=4)
    pods.apply("ADDED", make_pod("guess", node="a", gpus=2))
    assert cache.table.placed["uid-guess"].devices == (0, 1)
    pods.apply("ADDED", make_pod("known", node="a", gpus=2, annotations={GPU_DEVICES: "0,1"}))
    assert cache.table.placed["uid-guess"].devices == (2, 3)
    pods.apply("ADDED", make_pod("wrong", node="a", gpus=1, annotations={GPU_DEVICES: "99999999"}))
    assert cache.table.gpu_free.tolist() == [[-1000, 0, 0, 0]]
    cache.handler("Node").apply("MODIFIED", make_node("a", gpus=0))
    assert cache.table.free[0, 2] == -5000
    pods.apply("ADDED", make_pod("many", node="a", gpus=8))
    cache.handler("Node").apply("MODIFIED", make_node("a", gpus=4))
    assert cache.table.free[0, 2] == -9000
    for name in ("guess", "known", "wrong", "many"):
        pods.apply("DELETED", make_pod(name))
    assert cache.table.gpu_free.tolist() == [[1000] * 4 + [0] * 4]


def devices(cache):
    return {held.pod.name.removeprefix("default/"): held.devices for held in cache.table.placed.values()}


def make_share(name, node="a", **annotations):
    return make_pod(name, "100m", node, annotations={GPU_COUNT: "1", GPU_MILLI: "300", **annotations})


def test_another_device_rule_guesses_anew_and_leaves_alone_what_is_known():
    cache, heard, pods = with_nodes("a", gpus=4)
    for name in ("x", "y"):
        pods.apply("ADDED", make_share(name))
    pods.apply("ADDED", make_share("known", **{GPU_DEVICES: "3"}))
    pods.apply("ADDED", make_share("ours", node=""))
    cache.table.assume(cache.waiting("uid-ours"), Placement(0, "a", (0,)))
    pods.apply("MODIFIED", make_share("ours"))
    assert devices(cache) == {"x": (3,), "y": (3,), "known": (3,), "ours": (0,)}
    heard.told()
    cache.guess_by(MostFree())
    assert (devices(cache), heard.told()) == ({"x": (1,), "y": (2,), "known": (3,), "ours": (0,)}, [("anything",)])
    pods.apply("ADDED", make_share("z"))
    assert devices(cache)["z"] in {(0,), (1,), (2,)}
    assert cache.table.gpu_free.min() == 400
    fresh, _ = make_cache()
    fresh.guess_by(MostFree())
    fresh.handler("Node").replace([make_node("a", gpus=4)])
    fresh.handler("Pod").replace([*map(make_share, "zyx"), make_share("known", **{GPU_DEVICES: "3"})])
    pods.apply("DELETED", make_share("ours"))
    assert devices(cache) == devices(fresh)


class Broken:
    def devices(self, pod, _nodes, _row):
        if pod.name == "default/x":
            raise IndexError("no such place")
        return 1, 1, -1, 99, 2, 3


def test_a_device_rule_that_draws_learns_or_fails_guesses_all_the_same():
    guessed = {"x": (0,), "y": (0,)}
    for rule, found in ((Fgd(), guessed), (RandomDevice(), guessed), (Broken(), {"x": (0,), "y": (1,)})):
        cache, _, pods = with_nodes("a", gpus=4)
        cache.guess_by(rule)
        for name in ("x", "y"):
            pods.apply("ADDED", make_share(name))
        assert devices(cache) == found


def test_a_gang_member_waits_for_its_group_object():
    cache, heard, pods = with_nodes("a")
    groups = cache.handler("PodGroup")
    pods.apply("ADDED", make_pod("p", schedulingGroup={"podGroupName": "g"}))
    assert heard.told() == [("waits for", "uid-p", "its PodGroup default/g (scheduling.k8s.io) does not exist")]
    assert cache.waiting("uid-p") is None
    groups.apply("ADDED", make_group("g", 2))
    assert (heard.told(), cache.waiting("uid-p").gang.min_members) == ([("waits", "uid-p")], 2)
    groups.replace([make_group("g", 3)])
    assert heard.told() == [("gone", "uid-p"), ("waits", "uid-p")]
    groups.replace([make_group("g", 3), make_group("h", 3)])
    assert heard.told() == []
    groups.replace([])
    assert [what for what, *_ in heard.told()] == ["gone", "waits for"]


def test_a_gang_member_is_told_what_is_wrong_with_its_group_object():
    cache, heard, pods = with_nodes("a")
    groups = cache.handler("PodGroup")
    groups.apply("ADDED", make_group("g", 0))
    pods.apply("ADDED", make_pod("p", schedulingGroup={"podGroupName": "g"}))
    its = "its PodGroup default/g (scheduling.k8s.io)"
    wrong = f'{its} cannot be read: spec.schedulingPolicy.gang.minCount is "0"; write a whole number of 1 or more'
    assert heard.told() == [("waits for", "uid-p", wrong)]
    groups.apply("DELETED", make_group("g", 0))
    assert heard.told() == [("waits for", "uid-p", f"{its} does not exist")]
    groups.replace([make_group("g", 0)])
    assert heard.told() == [("waits for", "uid-p", wrong)]
    groups.apply("MODIFIED", make_group("g", 1))
    assert (heard.told(), dict(cache.unreadable)) == ([("waits", "uid-p")], {})
    groups.apply("MODIFIED", make_group("g", 0))
    assert heard.told() == []  # what it said before still counts
    groups.replace([])
    assert [what for what, *_ in heard.told()] == ["gone", "waits for"]


def test_the_other_forms_of_a_gang():
    cache, heard, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", labels={POD_GROUP: "g"}))
    cache.handler("PodGroup").apply("ADDED", make_group("g", 2))
    assert [what for what, *_ in heard.told()] == ["waits for"]
    cache.handler("PodGroup.scheduling.x-k8s.io").apply(
        "ADDED",
        {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 3, "scheduleTimeoutSeconds": 20}},
    )
    gang = cache.waiting("uid-p").gang
    assert (gang.name, gang.min_members, gang.timeout_s) == ("default/g", 3, 20)
    pods.apply("ADDED", make_pod("q", labels={GANG: "own"}, annotations={GANG_MIN: "4"}))
    assert cache.waiting("uid-q").gang.min_members == 4
    pods.apply("ADDED", make_pod("r", labels={GANG: "own"}))
    assert heard.told()[-1][:2] == ("unreadable", "uid-r")


def test_members_that_have_their_node_are_counted():
    cache, _, pods = with_nodes("a")
    gang = {"labels": {GANG: "g"}, "annotations": {GANG_MIN: "2"}}
    pods.replace(
        [
            make_pod("waits", **gang),
            make_pod("stands", node="a", **gang),
            make_pod("over", node="a", phase="Succeeded", **gang),
            make_pod("failed", node="a", phase="Failed", **gang),
            make_pod("ending", node="a", deleted=True, **gang),
        ]
    )
    assert (cache.placed_members("default/g"), cache.placed_members("default/h")) == (2, 0)
    assert cache.table.peers("gang/default/g").tolist() == [2]
    pods.replace([])
    assert cache.placed_members("default/g") == 0


def test_objects_wake_others_only_when_something_looks_different():
    cache, heard, _ = with_nodes("a")
    services, budgets = cache.handler("Service"), cache.handler("PodDisruptionBudget")
    service = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"selector": {"app": "web"}}}
    services.apply("ADDED", service)
    structure = cache.table.structure
    services.apply("MODIFIED", {**service, "status": {"loadBalancer": {}}})
    services.replace([service])
    assert (heard.told(), cache.table.structure) == ([("anything",)], structure)
    services.apply("DELETED", service)
    services.apply("DELETED", service)
    assert (heard.told(), cache.table.objects.services) == ([("anything",)], {})
    budget = {
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
    }
    budgets.replace([budget])
    known = cache.table.objects.budgets["ns", "b"]
    assert (known.allowed, known.disrupted, known.selector.selects({"app": "web"})) == (1, {"p"}, True)
    budgets.apply("ADDED", {"metadata": {"name": "bad"}, "status": {"disruptionsAllowed": "few"}})
    assert (heard.told(), list(cache.unreadable)) == ([], ["PodDisruptionBudget bad"])


def test_a_relist_of_one_kind_of_controllers_leaves_the_others():
    cache, _, _ = with_nodes("a")
    owner = {"metadata": {"name": "o", "namespace": "ns"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    for kind in ("ReplicaSet", "StatefulSet"):
        cache.handler(kind).replace([owner])
    cache.handler("ReplicaSet").replace([])
    assert list(cache.table.objects.controllers) == [("StatefulSet", "ns", "o")]


def test_months_of_labels_that_no_two_pods_share_do_not_fill_the_memory():
    cache, _, pods = with_nodes("a")
    for number in range(3000):
        pod = make_pod("p", node="a", uid=str(number), labels={"run": str(number)})
        pods.apply("ADDED", pod)
    assert cache.table.shape_count < 1100
    assert free_cpu(cache) == {"a": 3000}


def test_differences_name_what_is_wrong():
    cache, _, pods = with_nodes("a", "b")
    nodes = [make_node("a"), make_node("b")]
    stands = [make_pod("p", node="a"), make_pod("q", node="b"), make_pod("w")]
    pods.replace(stands)
    assert differences(cache, nodes, stands) == []
    cache.table.assume(cache.waiting("uid-w"), Placement(0, "a"))
    assert differences(cache, nodes, stands) == []
    truth = [make_pod("p", cpu="5", node="a"), make_pod("q", node="a"), make_pod("new", node="b"), make_pod("w")]
    assert differences(cache, [make_node("a", cpu="6"), make_node("c")], truth) == [
        "node b is known but gone",
        "node a is known with another cpu_milli",
        "node c is not known",
        "pod default/new (uid-new) is not known",
        "pod default/q is on a but booked on b",
        "pod default/new is on b but booked on no node",
        "node a: pods ask for 7000 cpu, 2000 is booked",
        "node a is over capacity: pods ask for 7000 cpu, it has 4000",
        "node a: pods ask for 3 pods, 2 is booked",
    ]


def test_a_version_of_an_api_that_is_not_served_takes_no_groups_of_another_away():
    cache, heard, pods = with_nodes("a")
    served, missing = cache.handler("PodGroup"), cache.handler("PodGroup.v1beta1")
    served.replace([make_group("g", 2)])
    pods.apply("ADDED", make_pod("p", schedulingGroup={"podGroupName": "g"}))
    missing.replace([])  # as often as it is looked for
    assert heard.told() == [("waits", "uid-p")]
    missing.replace([make_group("g", 2)])
    served.replace([])
    assert heard.told() == []
    missing.replace([])
    assert heard.told() == [
        ("gone", "uid-p"),
        ("waits for", "uid-p", "its PodGroup default/g (scheduling.k8s.io) does not exist"),
    ]


@pytest.mark.parametrize("label", [GANG, POD_GROUP])
def test_members_may_be_selected_by_the_label_of_their_gang(label):
    cache, _, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", labels={label: "g"}, annotations={GANG_MIN: "2"}))
    assert cache.pods["uid-p"].spec.labels == ((label, "g"),)


def test_a_member_that_is_made_anew_stands_where_its_torn_gang_did():
    cache, _, pods = with_nodes("a")
    first, later = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"

    def put(name, created, node="", phase=""):
        pod = make_pod(name, node=node, phase=phase, labels={GANG: "g"}, annotations={GANG_MIN: "3"})
        pod["metadata"]["creationTimestamp"] = created
        pods.apply("MODIFIED", pod)

    def arrived(name):
        return cache.waiting(f"uid-{name}").arrival_s

    put("p", first)
    put("new", later)
    assert arrived("new") - arrived("p") == 3600  # nobody has a node yet: each stands for itself
    begun_s, came_s = arrived("p"), arrived("new")
    put("p", first, node="a")
    put("q", first, node="a")
    assert arrived("new") == begun_s
    put("q", first, node="a", phase="Failed")
    assert arrived("new") == begun_s
    put("r", first, node="a")
    put("s", first, node="a")
    assert arrived("new") == came_s  # the gang is whole without it
    for name in "pqrs":
        cache.drop_pod(f"uid-{name}")
    assert arrived("new") == came_s
    alone = make_pod("alone", labels={GANG: "other"}, annotations={GANG_MIN: "3"})
    assert cache.expect(alone).arrival_s == 0.0  # a pod that is not there yet, and the first of its gang


def make_workload(name, **least):
    groups = [{"name": group, "policy": {"gang": {"minCount": count}}} for group, count in least.items()]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"podGroups": groups}}


def workload_pod(name, group, key=""):
    about = {"name": "w", "podGroup": group, **({"podGroupReplicaKey": key} if key else {})}
    return make_pod(name, workloadRef=about)


def test_replicas_of_a_workloads_group_are_gangs_of_their_own():
    cache, heard, pods = with_nodes("a")
    workloads = cache.handler("Workload")
    pods.apply("ADDED", workload_pod("p", "workers", "0"))
    pods.apply("ADDED", workload_pod("q", "workers", "1"))
    its = "its Workload default/w (scheduling.k8s.io)"
    assert {why for _, _, why in heard.told()} == {f"{its} does not exist"}
    workloads.apply("ADDED", make_workload("w", driver=1))
    assert {why for _, _, why in heard.told()} == {f'{its} has no group "workers"'}
    workloads.apply("MODIFIED", make_workload("w", driver=1, workers=2))
    assert heard.told() == [("waits", "uid-p"), ("waits", "uid-q")]
    gangs = [cache.waiting(f"uid-{name}").gang for name in "pq"]
    assert [(gang.name, gang.min_members) for gang in gangs] == [
        ("default/w/workers/0", 2),
        ("default/w/workers/1", 2),
    ]
    assert [pod.name for pod in cache.members("default/w/workers/1")] == ["q"]
    workloads.apply("MODIFIED", make_workload("w", workers=2))
    assert heard.told() == []
    workloads.apply("MODIFIED", make_workload("w", workers=3))
    assert [cache.waiting(f"uid-{name}").gang.min_members for name in "pq"] == [3, 3]
    heard.told()
    workloads.apply("DELETED", make_workload("w", workers=3))
    assert [what for what, *_ in heard.told()] == ["gone", "waits for"] * 2


def test_a_volcano_group_and_one_of_another_form_with_its_name():
    cache, heard, pods = with_nodes("a")
    groups = cache.handler("PodGroup.scheduling.volcano.sh")
    pods.apply("ADDED", make_pod("p", annotations={"scheduling.k8s.io/group-name": "g"}))
    cache.handler("PodGroup.scheduling.x-k8s.io").replace(
        [{"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 9}}]
    )
    assert heard.told() == [("waits for", "uid-p", "its PodGroup default/g (scheduling.volcano.sh) does not exist")]
    groups.replace([{"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 2}}])
    assert (heard.told(), cache.waiting("uid-p").gang.min_members) == ([("waits", "uid-p")], 2)


def test_the_priority_of_a_group_counts_instead_of_its_members():
    cache, heard, pods = with_nodes("a")
    groups = cache.handler("PodGroup")
    pods.apply("ADDED", make_pod("p", schedulingGroup={"podGroupName": "g"}, priority=5))
    group = make_group("g", 1)
    groups.apply("ADDED", group)
    assert cache.waiting("uid-p").priority == 5
    groups.apply("MODIFIED", {**group, "spec": {**group["spec"], "priority": 70}})
    assert cache.waiting("uid-p").priority == 70
    assert [what for what, *_ in heard.told()][-2:] == ["gone", "waits"]


def test_a_pod_that_names_a_gang_of_another_namespace_is_told_so():
    _, heard, pods = with_nodes("a")
    pods.apply("ADDED", make_pod("p", annotations={"scheduling.k8s.io/group-name": "other/g"}))
    about = "metadata.annotations.scheduling.k8s.io/group-name"
    why = f'{about} is "other/g"; a gang lives in one namespace, write its name alone'
    assert heard.told() == [("unreadable", "uid-p", why)]


# --- listeners -------------------------------------------------------------------------------------------------------


def test_every_listener_is_told_the_same():
    cache, first = make_cache()
    cache.handler("Node").replace([make_node("a")])
    first.told()
    second = Heard()
    cache.tell(second)
    pods = cache.handler("Pod")
    pods.apply("ADDED", make_pod("waits"))
    pods.apply("ADDED", make_pod("stands", node="a"))
    pods.apply("MODIFIED", make_pod("waits", node="a"))
    pods.apply("DELETED", make_pod("stands", node="a"))
    assert first.log == second.log != []
    assert first.running == second.running
    assert len(first.running) == 3


def seen(heard):
    """Pods with a node as they came, changed and left: name, CPU and phase before and after."""
    heard.running, found = [], heard.running
    return [tuple(one and (one.name, one.spec.cpu_milli, one.phase) for one in pair) for pair in found]


def test_changes_of_running_pods_are_told_whoever_placed_them():
    cache, heard = make_cache()
    cache.handler("Node").replace([make_node("a")])
    pods = cache.handler("Pod")
    pods.apply("ADDED", make_pod("p", schedulerName="other"))
    assert seen(heard) == []
    pods.apply("MODIFIED", make_pod("p", node="a", schedulerName="other"))
    assert seen(heard) == [(("p", 1000, ""), ("p", 1000, ""))]
    pods.apply("MODIFIED", make_pod("p", "2", node="a", phase="Running", schedulerName="other"))
    assert seen(heard) == [(("p", 1000, ""), ("p", 2000, "Running"))]
    pods.apply("MODIFIED", make_pod("p", "2", node="a", phase="Running", schedulerName="other"))
    assert seen(heard) == []
    pods.apply("MODIFIED", make_pod("p", "2", node="a", phase="Running", schedulerName="other", deleted=True))
    assert seen(heard) == [(("p", 2000, "Running"), ("p", 2000, "Running"))]
    pods.apply("MODIFIED", make_pod("p", "2", node="a", phase="Succeeded", schedulerName="other"))
    assert seen(heard) == [(("p", 2000, "Running"), None)]
    pods.apply("DELETED", make_pod("p", "2", node="a", phase="Succeeded", schedulerName="other"))
    assert seen(heard) == []


def test_a_running_pod_that_is_deleted_or_missing_in_a_list_has_left():
    cache, heard = make_cache()
    cache.handler("Node").replace([make_node("a")])
    pods = cache.handler("Pod")
    pods.replace([make_pod("p", node="a"), make_pod("q", node="a")])
    seen(heard)
    pods.apply("DELETED", make_pod("p", node="a"))
    pods.replace([])
    assert seen(heard) == [(("p", 1000, ""), None), (("q", 1000, ""), None)]
