"""What is kept from pod to pod never changes what the profile `kubernetes` decides, nor how it explains that."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from foresail.core import tallies
from foresail.core.explain import explain
from foresail.core.kubernetes import (
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
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, PodSpec, Taint, Toleration
from foresail.core.table import NodeTable
from foresail.policies.profiles.load import load_profile

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TOLERANT = (Toleration(operator="Exists"),)
DEDICATED, RATHER_NOT = Taint("dedicated"), Taint("busy", effect="PreferNoSchedule")


def node(name, zone, **more):
    labels = ((HOST, name), *(((ZONE, zone),) if zone else ()))
    return NodeSpec(name, 4_000, 8_000 << 20, max_pods=6, labels=labels, **more)


NODES = [
    node("a1", "a"),
    node("a2", "a", taints=(RATHER_NOT,)),
    node("b1", "b", kubernetes=KubernetesNode(images=(("nginx:1", 500 << 20),))),
    node("b2", "b", taints=(DEDICATED,)),
    node("c1", "c"),
    node("nowhere", ""),
    NodeSpec("bare", 8_000, 4_000 << 20),
]

WEB = Selector((Requirement("app", "In", ("web",)),))
NOT_WEB = Selector((Requirement("app", "NotIn", ("web",)),))
ANY_APP = Selector((Requirement("app", "Exists"),))
FRONT = Selector((Requirement("tier", "In", ("front",)), Requirement("app", "In", ("web", "db"))))
TEAM_A = Selector((Requirement("team", "In", ("a",)),))
NO_TEAM = Selector((Requirement("team", "DoesNotExist"),))
SELECTORS = st.sampled_from([WEB, NOT_WEB, ANY_APP, FRONT, Selector(), None])
KEYS = st.sampled_from([ZONE, HOST, "rack"])
TERMS = st.builds(
    PodTerm,
    st.sampled_from([ZONE, HOST]),
    SELECTORS,
    st.sampled_from([("default",), ("default", "other"), ()]),
    st.sampled_from([None, None, TEAM_A, NO_TEAM, Selector()]),
)
SPREADS = st.builds(
    SpreadConstraint,
    st.integers(1, 3),
    KEYS,
    SELECTORS,
    st.booleans(),
    min_domains=st.integers(1, 4),
    honors_affinity=st.booleans(),
    honors_taints=st.booleans(),
)


def few(strategy, most=2):
    return st.lists(strategy, max_size=most).map(tuple)


WEIGHTED = few(st.builds(Weighted, st.integers(1, 100), TERMS))
SPECIAL = st.builds(
    KubernetesPod,
    required_nodes=st.sampled_from([None, None, (NodeTerm((Requirement(ZONE, "In", ("a", "b")),)),)]),
    preferred_nodes=st.sampled_from([(), (Weighted(5, NodeTerm((Requirement(ZONE, "NotIn", ("a",)),))),)]),
    affinity=few(TERMS),
    anti_affinity=few(TERMS),
    preferred_affinity=WEIGHTED,
    preferred_anti_affinity=WEIGHTED,
    spread=few(SPREADS),
    host_ports=few(st.builds(HostPort, st.sampled_from([80, 443])), most=1),
    disks=few(st.builds(Disk, st.just("iscsi"), st.sampled_from("xy")), most=1),
    images=few(st.sampled_from(["nginx:1", "unknown:2"]), most=1),
)
LABELS = st.sampled_from([(), (("app", "web"),), (("app", "db"),), (("app", "web"), ("tier", "front"))])
SPECS = st.builds(
    PodSpec,
    st.sampled_from([0, 500, 2_000]),
    st.sampled_from([0, 100 << 20, 1_000 << 20]),
    labels=LABELS,
    namespace=st.sampled_from(["default", "other"]),
    owner=st.sampled_from(["", "ReplicaSet/web"]),
    node_selector=st.sampled_from([(), (), ((ZONE, "a"),)]),
    # A pod that tolerates all taints has its totals remembered, one that minds a taint has not.
    tolerations=st.sampled_from([(), (Toleration("dedicated", "Exists"),), TOLERANT]),
    # Most pods of most clusters ask for nothing special, and what is kept for them must not miss those that do.
    kubernetes=st.one_of(st.none(), SPECIAL),
)
ROWS = st.integers(0, len(NODES) - 1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("decide"), st.integers(0, 4), st.booleans()),
        st.tuples(st.just("place"), st.integers(0, 4), ROWS),
        st.tuples(st.just("place ending"), st.integers(0, 4), ROWS),
        st.tuples(st.just("remove"), st.integers(0, 1000), st.none()),
        st.tuples(st.just("cordon"), ROWS, st.booleans()),
        st.tuples(st.just("service"), st.sampled_from(["default", "other"]), st.booleans()),
        st.tuples(st.just("controller"), st.sampled_from(["default", "other"]), st.booleans()),
        st.tuples(st.just("namespace"), st.sampled_from(["default", "other"]), st.sampled_from([{}, {"team": "a"}])),
    ),
    max_size=20,
)


def rebuilt(table):
    """The same state in a table that has never been asked anything."""
    fresh = NodeTable(NODES)
    fresh.objects = table.objects
    for held in table.placed.values():
        fresh.assume(fresh.pod(held.pod.name, held.pod.spec), Placement(held.row, fresh.names[held.row]))
    for row in range(len(NODES)):
        fresh.set_unschedulable(row, unschedulable=bool(table.unschedulable[row]))
    return fresh


def change_objects(table, action, namespace, value):
    objects = table.objects
    if action == "namespace":
        objects.namespaces[namespace] = value
    elif action == "service":
        objects.services.pop((namespace, "web"), None)
        if value:
            objects.services[namespace, "web"] = {"app": "web"}
    else:
        objects.controllers.pop(("ReplicaSet", namespace, "web"), None)
        if value:
            objects.controllers["ReplicaSet", namespace, "web"] = ANY_APP
    table.objects_changed()


def play(specs, steps):
    """Ask a table that has been asked before, and one that has not; how often the pod found a node."""
    table, profile, found = NodeTable(NODES), load_profile("kubernetes"), 0
    for number, (action, which, value) in enumerate(steps):
        if action == "decide":
            spec, fresh = specs[which % len(specs)], rebuilt(table)
            pod = table.pod(f"pod-{number}", spec)
            told = explain(pod, table, profile, top=len(NODES))
            anew = explain(fresh.pod(pod.name, spec), fresh, load_profile("kubernetes"), top=len(NODES))
            assert told == anew
            assert explain(pod, table, profile, top=len(NODES)) == told
            check_outcome(told)
            if isinstance(told.outcome, Placement) and value:
                table.assume(pod, told.outcome)
                found += 1
        elif action.startswith("place"):
            spec = specs[which % len(specs)]
            if action == "place ending":
                spec = replace(spec, kubernetes=replace(spec.kubernetes or KubernetesPod(), terminating=True))
            table.assume(table.pod(f"pod-{number}", spec), Placement(value, NODES[value].name))
        elif action == "remove":
            if table.placed:
                table.forget(list(table.placed)[which % len(table.placed)])
        elif action == "cordon":
            table.set_unschedulable(which, unschedulable=value)
        else:
            change_objects(table, action, which, value)
    return found


def check_outcome(told):
    """`explain` asks the plug-ins themselves, so that what `decide` remembers is held against them as well."""
    if isinstance(told.outcome, Placement):
        best = told.candidates[0]
        assert (told.outcome.node, told.outcome.score) == (best.node, best.total if told.feasible > 1 else 0.0)
    else:
        refused = {}
        for step in told.filters:
            for reason, count in step.refused.items():
                refused[reason] = refused.get(reason, 0) + count
        assert told.feasible == 0
        assert told.outcome.reasons == refused


@settings(max_examples=60, deadline=None)
@given(specs=st.lists(SPECS, min_size=1, max_size=5), steps=STEPS)
def test_a_table_that_remembers_answers_as_one_that_was_never_asked(specs, steps):
    play(specs, steps)


def test_counts_that_were_dropped_for_want_of_room_are_made_again(monkeypatch):
    apart = KubernetesPod(anti_affinity=(PodTerm(HOST, WEB, ("default",)),))
    near = KubernetesPod(
        preferred_affinity=(Weighted(3, PodTerm(ZONE, WEB, ("default",))),),
        spread=(SpreadConstraint(1, ZONE, ANY_APP, hard=True),),
    )
    specs = [PodSpec(100, 100 << 20, labels=(("app", "web"),), kubernetes=own) for own in (apart, near, None)]
    steps = [("decide", number % 3, True) for number in range(9)] + [("remove", 4, None), ("decide", 0, True)] * 3
    with_room = play(specs, steps)
    monkeypatch.setattr(tallies, "_MOST_BYTES", 2 * 8 * len(NODES))  # two counts at a time
    assert play(specs, steps) == with_room == 11


def test_remembered_totals_follow_the_nodes_that_changed():
    specs = [PodSpec(500, 100 << 20, labels=(("app", "web"),), tolerations=TOLERANT), PodSpec(100, 1_000 << 20)]
    specs.append(replace(specs[0], kubernetes=KubernetesPod(anti_affinity=(PodTerm(HOST, WEB, ("default",)),))))
    asks = [("decide", which, True) for which in (0, 0, 0, 1, 0, 1, 0, 2, 0, 0, 1, 0)]
    assert (
        play(specs, [*asks, ("remove", 3, None), *asks, ("cordon", 4, True), *asks, ("cordon", 4, False), *asks]) > 30
    )
