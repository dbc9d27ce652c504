"""kube-scheduler's configuration as a profile: merged as kube-scheduler merges it, or refused by name."""

from __future__ import annotations

import pytest
import yaml

from foresail.core.decide import decide
from foresail.core.kubernetes import KubernetesPod, NodeTerm, PodTerm, Requirement, Selector, Weighted
from foresail.core.model import Placement
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.errors import InputError
from foresail.policies.kubernetes import SCORES
from foresail.policies.profiles.load import load_profile
from foresail.policies.profiles.scheduler_configuration import profile_data

GIB = 2**30
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def write(tmp_path):
    def to_file(*profiles, **more):
        path = tmp_path / "kube.yaml"
        stated = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        path.write_text(yaml.safe_dump(stated | ({"profiles": list(profiles)} if profiles else {}) | more))
        return path

    return to_file


def weights(profile):
    return {used.name: used.weight for used in profile.scores}


def with_args(name, args):
    return {"pluginConfig": [{"name": name, "args": args}]}


def test_without_profiles_it_is_the_default_one(write):
    profile, default = load_profile(write()), load_profile("kubernetes")
    assert profile.description["filters"] == default.description["filters"]
    assert weights(profile) == weights(default) == SCORES
    assert load_profile(profile.description).description == profile.description


def test_a_profile_is_chosen_by_its_scheduler_name(write):
    path = write({"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"score": {"disabled": [{"name": "*"}],
                 "enabled": [{"name": "ImageLocality"}]}}})  # fmt: skip
    assert load_profile(path).name == "a"
    chosen = load_profile(f"{path}#b")
    assert (chosen.name, weights(chosen)) == ("b", {"kube-image-locality": 1})
    with pytest.raises(InputError, match=r'no profile has schedulerName "c"; there are a, b'):
        load_profile(f"{path}#c")


def test_plug_ins_are_merged_in_kube_schedulers_order(write):
    plugins = {
        "multiPoint": {"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "NodeAffinity", "weight": 7}]},
        "filter": {"disabled": [{"name": "NodePorts"}, {"name": "InterPodAffinity"}]},
        "score": {
            "disabled": [{"name": "PodTopologySpread"}],
            "enabled": [{"name": "NodeResourcesFit", "weight": 5}, {"name": "ImageLocality"}],
        },
    }
    data = profile_data(write({"plugins": plugins}))
    assert data["filters"] == [
        "kube-pre-filter",
        "kube-node-unschedulable",
        "kube-taint-toleration",
        "kube-node-affinity",
        "kube-resources-fit",
        "kube-volume-restrictions",
        "kube-volume-limits",
        "kube-volume-binding",
        "kube-volume-zone",
        "kube-topology-spread",
        "kube-declared-features",
    ]
    # Configured anew for this point, then those of multiPoint, then further ones.
    assert [(table["policy"], table["weight"]) for table in data["scores"]] == [
        ("kube-resources-fit", 5),
        ("kube-taint-toleration", 3),
        ("kube-node-affinity", 7),
        ("kube-inter-pod-affinity", 2),
        ("balanced", 1),
        ("kube-image-locality", 1),
    ]


def test_a_plug_in_named_again_without_a_weight_weighs_one(write):
    plugins = {"multiPoint": {"enabled": [{"name": "TaintToleration"}]}}
    assert weights(load_profile(write({"plugins": plugins})))["kube-taint-toleration"] == 1


def test_all_can_be_disabled_and_some_enabled(write):
    plugins = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit", "weight": 2}]}}
    profile = load_profile(write({"plugins": plugins}))
    assert ([used.name for used in profile.filters], weights(profile)) == (
        ["kube-resources-fit"],
        {"kube-resources-fit": 2},
    )


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"plugins": {"score": {"enabled": [{"name": "NodeResorucesFit"}]}}},
         r'score.enabled\[0\].name is "NodeResorucesFit"; did you mean "NodeResourcesFit"\? known plug-ins are Node'),
        ({"plugins": {"scoring": {}}}, 'plugins is "scoring"; extension points are multiPoint, preEnqueue'),
        ({"plugins": {"score": {"enabled": [{"name": "NodePorts"}]}}}, "NodePorts.*it does not score"),
        ({"plugins": {"score": {"disabled": [{"name": "*"}]}}}, "no score is left"),
        ({"plugins": {"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}}, "weight is -1"),
        ({"plugins": {"multiPoint": {"disabled": [{"name": "VolumeZone"}]}}}, "can only be disabled together"),
        ({"plugins": {"preFilter": {"disabled": [{"name": "NodePorts"}]}}}, "its filter is on and needs it"),
        (with_args("Nothing", {}), r'pluginConfig\[0\].name is "Nothing"; known plug-ins are'),
        (with_args("NodePorts", {"x": 1}), r"pluginConfig\[0\].args is {'x': 1}; arguments are supported for"),
        (with_args("NodeResourcesFit", {"ignoredResources": ["a"]}), r"args.ignoredResources is \['a'\]"),
        (with_args("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}),
         'args.scoringStrategy.type is "RequestedToCapacityRatio"; supported are LeastAllocated and MostAllocated'),
        (with_args("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 1}]}),
         "supported are cpu and memory, each of weight 1"),
        (with_args("PodTopologySpread", {"defaultingType": "List", "defaultConstraints": [{"maxSkew": 0}]}),
         r"defaultConstraints\[0\].maxSkew is 0"),
        (with_args("PodTopologySpread", {"defaultingType": "System", "defaultConstraints": [{"maxSkew": 1}]}),
         "with defaultingType System there are none"),
        (with_args("InterPodAffinity", {"hardPodAffinityWeight": 101}), "hardPodAffinityWeight is 101"),
        (with_args("NodeAffinity", {"addedAffinity": {"required": 1}}), "added_affinity.required is not known here"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_with_file_field_and_value(write, profile, said):
    path = write(profile)
    with pytest.raises(InputError, match=said) as told:
        load_profile(path)
    assert str(told.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "kube.yaml:2: is no YAML"),
        ("7", "a KubeSchedulerConfiguration is a mapping"),
        ("kind: Pod", "kind is 'Pod'; a KubeSchedulerConfiguration is needed"),
        ("kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1beta3",
         "apiVersion is 'kubescheduler.config.k8s.io/v1beta3'; supported is kubescheduler.config.k8s.io/v1"),
    ],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused(tmp_path, text, said):
    path = tmp_path / "kube.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        load_profile(path)
    with pytest.raises(InputError, match="there is no such file"):
        load_profile(tmp_path / "gone.yaml")


# --- arguments, by what they decide ----------------------------------------------------------------------------------


def make_nodes(count=3, **more):
    return NodeTable(
        [
            NodeSpec(f"n{at}", 10_000, 10 * GIB, labels=(("kubernetes.io/hostname", f"n{at}"), (ZONE, f"z{at % 2}"),
                     ("pool", "ab"[at % 2])), **more)
            for at in range(count)
        ]
    )  # fmt: skip


def put(table, name, node, spec):
    pod = table.pod(name, spec)
    table.assume(pod, Placement(table.row_of[node], node, tuple(range(spec.gpu_count))))


def scores(profile, table, spec):
    pod = table.pod("new", spec)
    (used,) = profile.scores
    return used.normalize(pod, table.all, used.score(pod, table.all)).tolist()


def only(name, args):
    plugins = {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": name}]}}
    return {"plugins": plugins, **with_args(name, args)}


def test_most_allocated_with_weights_of_resources(write):
    table = make_nodes(gpu_count=4, gpu_model="")
    put(table, "old", "n1", PodSpec(5000, 2 * GIB, 1, 1000))
    spec = PodSpec(1000, GIB)
    strategy = {"type": "MostAllocated"}
    profile = load_profile(write(only("NodeResourcesFit", {"scoringStrategy": strategy})))
    assert scores(profile, table, spec) == [10, (60 + 30) // 2, 10]
    strategy["resources"] = [{"name": "cpu", "weight": 1}, {"name": "nvidia.com/gpu", "weight": 3}]
    profile = load_profile(write(only("NodeResourcesFit", {"scoringStrategy": strategy})))
    # A resource that the pod does not ask for is left out.
    assert scores(profile, table, spec) == [10, 60, 10]
    assert scores(profile, table, PodSpec(1000, GIB, 1, 1000)) == [(10 + 3 * 25) // 4, (60 + 3 * 50) // 4, 21]
    assert load_profile(profile.description).description == profile.description


def test_an_added_affinity_holds_for_every_pod(write):
    term = {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 4, "preference": term}]}
    table = make_nodes()
    enforced = load_profile(write(with_args("NodeAffinity", {"addedAffinity": required})))
    assert decide(table.pod("new", PodSpec(1000, GIB)), table, enforced).node == "n1"
    impossible = decide(table.pod("big", PodSpec(99_000, GIB)), table, enforced)
    assert impossible.reasons == {
        "node(s) didn't match scheduler-enforced node affinity": 2,
        "Insufficient cpu": 1,
    }
    wished = load_profile(write(only("NodeAffinity", {"addedAffinity": preferred})))
    assert scores(wished, table, PodSpec(1000, GIB)) == [0, 100, 0]
    own = NodeTerm(labels=(Requirement("kubernetes.io/hostname", "In", ("n0",)),))
    also = PodSpec(1000, GIB, kubernetes=KubernetesPod(preferred_nodes=(Weighted(8, own),)))
    assert scores(wished, table, also) == [100, 50, 0]


def test_default_spread_constraints_of_a_list(write):
    spec = PodSpec(1000, GIB, labels=(("app", "web"),))

    def table():
        made = make_nodes(4)
        made.objects.services["default", "web"] = {"app": "web"}
        put(made, "old", "n0", spec)
        return made

    zone = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    args = {"defaultingType": "List", "defaultConstraints": [zone]}
    hard = load_profile(write(with_args("PodTopologySpread", args)))
    nodes = table()
    feasible = [decide(nodes.pod("new", spec), nodes, hard).node]
    put(nodes, "next", feasible[0], spec)
    assert feasible[0] in {"n1", "n3"}
    spread = next(used for used in hard.filters if used.name == "kube-topology-spread")
    # One pod in each zone: either will do.
    assert spread.refuses(nodes.pod("third", spec), nodes.all).tolist() == [0, 0, 0, 0]
    soft = zone | {"whenUnsatisfiable": "ScheduleAnyway"}
    profile = load_profile(write(only("PodTopologySpread", args | {"defaultConstraints": [soft]})))
    assert scores(profile, table(), spec) == [0, 100, 0, 100]
    none = load_profile(write(only("PodTopologySpread", {"defaultingType": "List"})))
    assert scores(none, table(), spec) == [0, 0, 0, 0]
    system = load_profile(write(only("PodTopologySpread", {})))
    assert scores(system, table(), spec)[0] < scores(system, table(), spec)[1]


def test_what_the_affinities_of_pods_on_nodes_count(write):
    near = PodTerm(ZONE, Selector((Requirement("app", "In", ("web",)),)), ("default",))
    far = Weighted(3, PodTerm("kubernetes.io/hostname", near.selector, ("default",)))
    table = make_nodes(4)
    put(table, "hard", "n0", PodSpec(1000, GIB, kubernetes=KubernetesPod(affinity=(near,))))
    put(table, "soft", "n1", PodSpec(1000, GIB, kubernetes=KubernetesPod(preferred_affinity=(far,))))
    spec = PodSpec(1000, GIB, labels=(("app", "web"),))
    found = {}
    for weight in (0, 1, 6):
        found[weight] = scores(
            load_profile(write(only("InterPodAffinity", {"hardPodAffinityWeight": weight}))), table, spec
        )
    assert found == {0: [0, 100, 0, 0], 1: [33, 100, 33, 0], 6: [100, 50, 100, 0]}
    ignoring = load_profile(write(only("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True})))
    assert scores(ignoring, table, spec) == [0, 0, 0, 0]
