"""Filters and scores that look at pods on other nodes: affinity between pods, and spreading."""

import pytest

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
NOT_WELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"
UNEVEN = "node(s) didn't match pod topology spread constraints"
NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"

WEB = {"app": "web"}
NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}


def term(labels=WEB, key=ZONE, **more):
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def near(*terms):
    return {"podAffinity": {REQUIRED: list(terms)}}


def far(*terms):
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


@pytest.fixture
def zones(make_cluster, make_node):
    """Build two zones with two nodes and one node without a zone."""
    return make_cluster(
        *(make_node(name, labels={ZONE: zone}) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"))),
        make_node("none"),
    )


def test_pods_go_where_the_pods_they_want_are(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB), "a1")
    pod = make_kube_pod(affinity=near(term()))
    assert (zones.feasible(pod), zones.reasons(pod)) == (["a1", "a2"], {NOT_NEAR: 3})


def test_one_pod_must_meet_all_terms(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB), "a1")
    zones.place(make_kube_pod(labels={"tier": "front"}), "a1")
    both = make_kube_pod(affinity=near(term(), term({"tier": "front"})))
    assert zones.feasible(both) == []
    zones.place(make_kube_pod(labels=WEB | {"tier": "front"}), "b1")
    assert zones.feasible(both) == ["b1", "b2"]


def test_the_first_pod_of_a_kind_needs_no_other_but_all_the_labels(zones, make_kube_pod):
    first = make_kube_pod(labels=WEB, affinity=near(term()))
    assert (zones.feasible(first), zones.reasons(first)) == (["a1", "a2", "b1", "b2"], {NOT_NEAR: 1})
    assert zones.feasible(make_kube_pod(labels={"app": "db"}, affinity=near(term()))) == []
    zones.place(make_kube_pod(labels=WEB), "b1")
    assert zones.feasible(first) == ["b1", "b2"]


def test_anti_affinity_holds_both_ways(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB), "a1")
    assert zones.reasons(make_kube_pod(affinity=far(term()))) == {TOO_NEAR: 2}
    zones.place(make_kube_pod(affinity=far(term({"app": "db"}, HOST))), "b1")
    assert zones.reasons(make_kube_pod(labels={"app": "db"})) == {NOT_WELCOME: 1}


def test_a_selector_that_only_forbids_means_every_namespace_for_the_waiting_pod_alone(zones, make_kube_pod):
    zones.put("Namespace", "ns-a", labels={"team": "a"})
    zones.put("Namespace", "default")
    choosy = far(term(namespaceSelector=NO_TEAM))
    zones.place(make_kube_pod(labels=WEB, namespace="ns-a"), "a1")
    assert zones.reasons(make_kube_pod(affinity=choosy)) == {TOO_NEAR: 2}
    zones.place(make_kube_pod(labels={"x": "y"}, affinity=choosy), "b1")
    assert zones.reasons(make_kube_pod(labels=WEB, namespace="ns-a")) == {}
    assert zones.reasons(make_kube_pod(labels=WEB)) == {NOT_WELCOME: 2}


def test_namespaces_are_those_named_or_selected_else_the_own(zones, make_kube_pod):
    zones.put("Namespace", "ns-a", labels={"team": "a"})
    zones.place(make_kube_pod(labels=WEB, namespace="ns-a"), "a1")
    assert zones.reasons(make_kube_pod(affinity=far(term()))) == {}
    assert zones.reasons(make_kube_pod(affinity=far(term(namespaces=["ns-a"])))) == {TOO_NEAR: 2}
    selected = far(term(namespaceSelector={"matchLabels": {"team": "a"}}))
    assert zones.reasons(make_kube_pod(affinity=selected)) == {TOO_NEAR: 2}


def test_label_keys_the_pod_has_narrow_a_term_and_others_are_dropped(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB | {"rev": "1"}), "a1")
    choosy = far(term(matchLabelKeys=["rev"]))
    assert zones.reasons(make_kube_pod(labels={"rev": "2"}, affinity=choosy)) == {}
    assert zones.reasons(make_kube_pod(labels={"rev": "1"}, affinity=choosy)) == {TOO_NEAR: 2}
    assert zones.reasons(make_kube_pod(affinity=choosy)) == {TOO_NEAR: 2}
    unlike = far(term(mismatchLabelKeys=["rev"]))
    assert zones.reasons(make_kube_pod(labels={"rev": "1"}, affinity=unlike)) == {}


def test_pods_that_are_ending_still_count_for_affinity(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB), "a1", terminating=True)
    assert zones.reasons(make_kube_pod(affinity=far(term()))) == {TOO_NEAR: 2}


def test_wishes_of_both_sides_score(zones, make_kube_pod):
    wish = {"weight": 30, "podAffinityTerm": term()}
    against = {"weight": 10, "podAffinityTerm": term({"app": "db"}, HOST)}
    zones.place(make_kube_pod(labels=WEB), "a1")
    zones.place(make_kube_pod(affinity={"podAntiAffinity": {PREFERRED: [against]}}), "b1")
    pod = make_kube_pod(labels={"app": "db"}, affinity={"podAffinity": {PREFERRED: [wish]}})
    # raw: 30 in zone a, -10 on b1, 0 elsewhere
    assert zones.scores(pod, "InterPodAffinity") == {"a1": 200, "a2": 200, "b1": 0, "b2": 50, "none": 50}


def test_required_affinity_of_pods_there_scores_1(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB, affinity=near(term())), "a1")
    wish = {"weight": 4, "podAffinityTerm": term({"x": "y"})}
    zones.place(make_kube_pod(labels={"x": "y"}), "b1")
    pod = make_kube_pod(labels=WEB, affinity={"podAffinity": {PREFERRED: [wish]}})
    assert zones.scores(pod, "InterPodAffinity") == {"a1": 50, "a2": 50, "b1": 200, "b2": 200, "none": 0}


def test_nodes_that_are_all_alike_score_0(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", labels={ZONE: "z"}), make_node("b", labels={ZONE: "z"}))
    cluster.place(make_kube_pod(labels=WEB), "a")
    pod = make_kube_pod(affinity={"podAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": term()}]}})
    assert cluster.scores(pod, "InterPodAffinity") == {"a": 0, "b": 0}


# --- spreading -------------------------------------------------------------------------------------------------------


def spread(key=ZONE, skew=1, *, hard=True, selector=WEB, **more):
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "labelSelector": selector if selector is None else {"matchLabels": selector},
        **more,
    }


def test_a_domain_takes_no_more_than_its_share(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB), "a1")
    pod = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread()])
    assert (zones.feasible(pod), zones.reasons(pod)) == (["b1", "b2"], {UNEVEN: 2, NO_LABEL: 1})
    other = make_kube_pod(labels={"app": "db"}, topologySpreadConstraints=[spread()])
    assert zones.feasible(other) == ["a1", "a2", "b1", "b2"]


def test_an_empty_selector_counts_nobody_but_the_pod_itself(zones, make_kube_pod):
    for _ in range(3):
        zones.place(make_kube_pod(labels=WEB), "a1")
    pod = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread(selector={})])
    assert zones.feasible(pod) == ["a1", "a2", "b1", "b2"]
    strict = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread(selector={}, minDomains=3)])
    assert zones.feasible(strict) == ["a1", "a2", "b1", "b2"]


def test_pods_that_are_ending_do_not_count_for_spreading_but_hold_their_room(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(make_node("a", labels={ZONE: "a"}, cpu="2"), make_node("b", labels={ZONE: "b"}, cpu="2"))
    cluster.place(make_kube_pod(labels=WEB), "a", terminating=True)
    spreading = [spread()]
    assert cluster.feasible(make_kube_pod(labels=WEB, topologySpreadConstraints=spreading)) == ["a", "b"]
    big = [{"resources": {"requests": {"cpu": "1500m"}}}]
    assert cluster.reasons(make_kube_pod(containers=big)) == {"Insufficient cpu": 1}


def test_only_nodes_with_the_labels_of_all_hard_constraints_count(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(
        make_node("a", labels={ZONE: "a", "rack": "1"}),
        make_node("b", labels={ZONE: "b", "rack": "2"}),
        make_node("c", labels={ZONE: "c"}),
    )
    for node in ("a", "b"):
        cluster.place(make_kube_pod(labels=WEB), node)
    both = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread(), spread("rack", 5)])
    # Zone c, where nobody stands, would close the others if it counted.
    assert (cluster.feasible(both), cluster.reasons(both)) == (["a", "b"], {NO_LABEL: 1})
    alone = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread()])
    assert cluster.feasible(alone) == ["c"]


def test_with_too_few_domains_the_fewest_is_0(zones, make_kube_pod):
    for node in ("a1", "b1"):
        zones.place(make_kube_pod(labels=WEB), node)
    pod = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread()])
    assert zones.feasible(pod) == ["a1", "a2", "b1", "b2"]
    pod = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread(minDomains=3)])
    assert zones.reasons(pod) == {UNEVEN: 4, NO_LABEL: 1}


def test_policies_say_which_nodes_count(make_cluster, make_node, make_kube_pod):
    cluster = make_cluster(
        make_node("a", labels={ZONE: "a", "disk": "ssd"}),
        make_node("b", labels={ZONE: "b", "disk": "hdd"}),
        make_node("c", labels={ZONE: "c", "disk": "ssd"}, taints=[{"key": "k", "effect": "NoSchedule"}]),
    )
    cluster.place(make_kube_pod(labels=WEB), "a")

    def feasible(**policies):
        constraint = spread(**policies)
        return cluster.feasible(
            make_kube_pod(labels=WEB, nodeSelector={"disk": "ssd"}, topologySpreadConstraints=[constraint])
        )

    assert feasible() == []  # zone c counts, though its taint keeps the pod away
    assert feasible(nodeTaintsPolicy="Honor") == ["a"]  # zone b does not count: the selector leaves it out
    assert feasible(nodeTaintsPolicy="Honor", nodeAffinityPolicy="Ignore") == []


def test_soft_constraints_score_and_a_node_without_the_label_scores_0(zones, make_kube_pod):
    zones.place(make_kube_pod(labels=WEB), "a1")
    pod = make_kube_pod(labels=WEB, topologySpreadConstraints=[spread(hard=False)])
    # round(1 · ln 4) is 1 in zone a, 0 in zone b
    assert zones.scores(pod, "PodTopologySpread") == {"a1": 0, "a2": 0, "b1": 200, "b2": 200, "none": 0}


def test_defaults_spread_pods_of_a_service_and_need_no_zone(zones, make_kube_pod):
    pod = make_kube_pod(labels=WEB)
    assert set(zones.scores(pod, "PodTopologySpread").values()) == {0}
    zones.put("Service", "web", spec={"selector": WEB})
    zones.place(make_kube_pod(labels=WEB), "a1")
    zones.place(make_kube_pod(labels=WEB, namespace="ns-a"), "b1")
    # hosts: ln 7 + 2; zones with the one of no zone: ln 5 + 4. a1 1.95+2+1.61+4, a2 2+1.61+4, b 2+4, none 2
    raw = {"a1": 10, "a2": 8, "b1": 6, "b2": 6, "none": 2}
    assert zones.scores(pod, "PodTopologySpread") == {
        node: 2 * (100 * (10 + 2 - count) // 10) for node, count in raw.items()
    }


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_defaults_spread_pods_of_an_owner(zones, make_kube_pod, kind):
    zones.put(kind, "web", spec={"selector": WEB if kind == "ReplicationController" else {"matchLabels": WEB}})
    zones.place(make_kube_pod(labels=WEB), "a1")
    owned = zones.scores(make_kube_pod(labels=WEB, owner=(kind, "web")), "PodTopologySpread")
    assert owned["a1"] < owned["a2"] < owned["b1"] < owned["none"]
    assert set(zones.scores(make_kube_pod(labels=WEB, owner=(kind, "gone")), "PodTopologySpread").values()) == {0}
