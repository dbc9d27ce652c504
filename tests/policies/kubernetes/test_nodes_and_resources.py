"""Filters and scores that look at one node: cordons, taints, affinity to nodes, ports, resources, images, features."""

import pytest

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*terms):
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key, operator, *values):
    return {"key": key, "operator": operator, "values": list(values)}


def asks(**requests):
    return {"resources": {"requests": requests}}


def test_a_cordon_is_told_unless_the_pod_tolerates_it(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", unschedulable=True), make_node("b"))
    assert cluster.reasons(make_kube_pod()) == {"node(s) were unschedulable": 1}
    tolerant = make_kube_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert cluster.feasible(tolerant) == ["a", "b"]


def test_a_taint_is_not_named(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", taints=[{"key": "gpu", "effect": "NoSchedule"}]), make_node("b"))
    assert cluster.reasons(make_kube_pod()) == {"node(s) had untolerated taint(s)": 1}


def test_nodes_with_more_unwanted_taints_score_less(make_cluster, make_node, make_kube_pod):
    taints = [{"key": key, "effect": "PreferNoSchedule"} for key in ("x", "y")]
    cluster = make_cluster(make_node("a"), make_node("b", taints=taints[:1]), make_node("c", taints=taints))
    assert cluster.scores(make_kube_pod(), "TaintToleration") == {"a": 300, "b": 150, "c": 0}
    tolerant = make_kube_pod(tolerations=[{"key": "y", "operator": "Exists", "effect": "PreferNoSchedule"}])
    assert cluster.scores(tolerant, "TaintToleration") == {"a": 300, "b": 0, "c": 0}


@pytest.mark.parametrize(
    ("term", "feasible"),
    [
        ({"matchExpressions": [expression("gen", "Gt", "3")]}, ["b"]),
        ({"matchExpressions": [expression("gen", "Lt", "3")]}, ["a"]),
        ({"matchExpressions": [expression("gen", "NotIn", "1")]}, ["b", "c", "d"]),
        ({"matchExpressions": [expression("gen", "DoesNotExist")]}, ["d"]),
        ({"matchFields": [expression("metadata.name", "NotIn", "a")]}, ["b", "c", "d"]),
        ({}, []),
    ],
)
def test_a_required_term(make_cluster, make_node, make_kube_pod, term, feasible):
    generations = {"a": {"gen": "1"}, "b": {"gen": "8"}, "c": {"gen": "x"}, "d": {}}
    cluster = make_cluster(*(make_node(name, labels=labels) for name, labels in generations.items()))
    assert cluster.feasible(make_kube_pod(affinity=node_affinity(term))) == feasible


def test_nodes_that_no_term_names_are_not_looked_at(make_cluster, make_node, make_kube_pod):
    tainted = [{"key": "k", "effect": "NoSchedule"}]
    cluster = make_cluster(make_node("a", taints=tainted), make_node("b", taints=tainted), make_node("c"))
    named = node_affinity({"matchFields": [expression("metadata.name", "In", "a")]})
    assert cluster.reasons(make_kube_pod(affinity=named)) == {
        "node(s) didn't satisfy plugin(s) [NodeAffinity]": 2,
        "node(s) had untolerated taint(s)": 1,
    }
    open_term = node_affinity(
        {"matchFields": [expression("metadata.name", "In", "a")]}, {"matchExpressions": [expression("x", "Exists")]}
    )
    assert cluster.reasons(make_kube_pod(affinity=open_term)) == {
        "node(s) had untolerated taint(s)": 2,
        "node(s) didn't match Pod's node affinity/selector": 1,
    }


def test_a_term_that_names_two_nodes_at_once_conflicts(make_cluster, make_node, make_kube_pod):
    names = [expression("metadata.name", "In", name) for name in ("a", "b")]
    cluster = make_cluster(make_node("a"), make_node("b"))
    pod = make_kube_pod(affinity=node_affinity({"matchFields": names}))
    assert cluster.reasons(pod) == {"pod affinity terms conflict": 2}


def test_preferred_terms_add_up(make_cluster, make_node, make_kube_pod):
    wishes = [
        {"weight": weight, "preference": {"matchExpressions": [expression(key, "Exists")]}}
        for key, weight in (("x", 30), ("y", 10))
    ]
    cluster = make_cluster(make_node("a"), make_node("b", labels={"y": ""}), make_node("c", labels={"x": "", "y": ""}))
    pod = make_kube_pod(affinity={"nodeAffinity": {PREFERRED: wishes}})
    assert cluster.scores(pod, "NodeAffinity") == {"a": 0, "b": 2 * 25, "c": 200}


def port(number, **more):
    return {"ports": [{"containerPort": 1, "hostPort": number, **more}]}


def test_host_ports_of_sidecars_count_and_of_init_containers_do_not(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a"), make_node("b"))
    cluster.place(make_kube_pod(initContainers=[port(80) | {"restartPolicy": "Always"}, port(81)]), "a")
    assert cluster.reasons(make_kube_pod(containers=[port(80)])) == {
        "node(s) didn't have free ports for the requested pod ports": 1
    }
    assert cluster.feasible(make_kube_pod(containers=[port(81)])) == ["a", "b"]
    assert cluster.feasible(make_kube_pod(initContainers=[port(80)])) == ["a", "b"]


@pytest.mark.parametrize(
    ("wanted", "free"),
    [
        ({"hostIP": "10.0.0.5"}, False),
        ({"hostIP": "10.0.0.6"}, True),
        ({"hostIP": "0.0.0.0"}, False),  # noqa: S104 - a port of every address of the node
        ({}, False),
        ({"hostIP": "10.0.0.5", "protocol": "UDP"}, True),
    ],
)
def test_ports_of_two_addresses(make_cluster, make_node, make_kube_pod, wanted, free):
    cluster = make_cluster(make_node("a"))
    cluster.place(make_kube_pod(containers=[port(80, hostIP="10.0.0.5")]), "a")
    assert (cluster.feasible(make_kube_pod(containers=[port(80, **wanted)])) == ["a"]) is free


def test_all_that_a_node_is_short_of_is_told(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", cpu="1", memory="1Gi", pods="1"), make_node("b", cpu="1"))
    cluster.place(make_kube_pod(containers=[asks()]), "a")
    big = make_kube_pod(containers=[asks(**{"cpu": "2", "memory": "2Gi", "example.com/x": "1"})])
    assert cluster.reasons(big) == {
        "Too many pods": 1,
        "Insufficient cpu": 2,
        "Insufficient memory": 1,
        "Insufficient example.com/x": 2,
    }


def test_containers_that_say_nothing_count_as_a_little_and_an_explicit_0_as_nothing(
    make_cluster, make_node, make_kube_pod
):
    cluster = make_cluster(make_node("a", cpu="1", memory="1000Mi"), make_node("b", cpu="1", memory="1000Mi"))
    nothing = make_kube_pod(containers=[asks(), asks()])
    # 2 × 100m and 2 × 200Mi are taken: 80 and 60 are left
    assert cluster.scores(nothing, "NodeResourcesFit") == {"a": 70, "b": 70}
    init = make_kube_pod(containers=[asks(cpu="0", memory="0")], initContainers=[asks(cpu="0")])
    assert cluster.scores(init, "NodeResourcesFit") == {"a": 90, "b": 90}
    cluster.place(nothing, "a")
    zero = make_kube_pod(containers=[asks(cpu="0", memory="0")])
    assert cluster.scores(zero, "NodeResourcesFit") == {"a": 70, "b": 100}


def test_pod_level_requests_score_only_once_the_pod_is_on_a_node(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", cpu="1", memory="1000Mi"), make_node("b", cpu="1", memory="1000Mi"))
    pod = make_kube_pod(containers=[asks()], resources={"requests": {"cpu": "500m"}})
    assert cluster.scores(pod, "NodeResourcesFit") == {"a": (90 + 80) // 2, "b": (90 + 80) // 2}
    cluster.place(pod, "a")
    zero = make_kube_pod(containers=[asks(cpu="0", memory="0")])
    # The pod level names no memory, nor does anything else: only there the default stands in.
    assert cluster.scores(zero, "NodeResourcesFit") == {"a": (50 + 80) // 2, "b": 100}
    assert cluster.reasons(make_kube_pod(containers=[asks(cpu="600m")])) == {"Insufficient cpu": 1}


def test_the_default_stands_in_only_for_what_nothing_names(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", cpu="1", memory="1000Mi"), make_node("b"))
    pod = make_kube_pod(containers=[asks()], resources={"requests": {"cpu": "500m"}}, overhead={"memory": "100Mi"})
    cluster.place(pod, "a")
    zero = make_kube_pod(containers=[asks(cpu="0", memory="0")])
    assert cluster.scores(zero, "NodeResourcesFit") == {"a": (50 + 90) // 2, "b": 100}


def test_a_pod_that_asks_nothing_is_not_balanced(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a"), make_node("b"))
    assert cluster.scores(make_kube_pod(containers=[asks()]), "NodeResourcesBalancedAllocation") == {"a": 0, "b": 0}
    assert cluster.scores(make_kube_pod(), "NodeResourcesBalancedAllocation") == {"a": 75, "b": 75}


def test_containers_stretch_the_upper_end_of_image_sizes_alone(make_cluster, make_node, make_kube_pod):
    mib = 2**20
    cluster = make_cluster(make_node("a", images={"img/web:latest": 1046 * mib}), make_node("b"))
    one, two = ({"image": "img/web"}, {"image": "img/none:1"})
    # Half of the nodes have it: 523 MiB count, 500 above the lower end.
    assert cluster.scores(make_kube_pod(containers=[one]), "ImageLocality") == {"a": 100 * 500 // 977, "b": 0}
    pod = make_kube_pod(containers=[one], initContainers=[two])
    assert cluster.scores(pod, "ImageLocality") == {"a": 100 * 500 // 1977, "b": 0}


def test_a_registry_port_is_no_tag(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", images={"host:5000/web:latest": 2**30}), make_node("b"))
    pod = make_kube_pod(containers=[{"image": "host:5000/web"}])
    assert cluster.scores(pod, "ImageLocality")["a"] > 0


def test_features_must_be_declared(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", features=["RestartAllContainersOnContainerExits"]), make_node("b"))
    pod = make_kube_pod(containers=[{"restartPolicyRules": [{"action": "RestartAllContainers"}]}])
    assert cluster.reasons(pod) == {"node(s) didn't match Pod's required features": 1}
    assert cluster.feasible(pod) == ["a"]


def test_a_node_that_states_what_it_has_but_no_pods_takes_none(make_cluster, make_node, make_kube_pod):
    silent = make_node("a")
    del silent["status"]["allocatable"]["pods"]
    cluster = make_cluster(silent, make_node("b"))
    assert cluster.reasons(make_kube_pod()) == {"Too many pods": 1}
    assert cluster.feasible(make_kube_pod()) == ["b"]


@pytest.mark.parametrize(
    ("operator", "value", "taint", "tolerated"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "-6", True),
        ("Lt", "5", "5", False),
        # Numbers are written plainly, or they are none.
        ("Gt", "5", "06", False),
        ("Gt", "", "6", False),
        ("Gt", "5", "99999999999999999999", False),
    ],
)
def test_a_toleration_may_compare_numbers(make_cluster, make_node, make_kube_pod, operator, value, taint, tolerated):
    cluster = make_cluster(make_node("a", taints=[{"key": "spot", "value": taint, "effect": "NoSchedule"}]))
    pod = make_kube_pod(tolerations=[{"key": "spot", "operator": operator, "value": value}])
    assert cluster.feasible(pod) == (["a"] if tolerated else [])
