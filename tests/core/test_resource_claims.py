"""A pod whose resource claims nobody allocates is refused everywhere, whatever the profile; one that runs counts."""

import pytest

from foresail.core.asking import reasons_if_all_refuse
from foresail.core.decide import decide
from foresail.core.explain import explain
from foresail.core.kubernetes import KubernetesPod
from foresail.core.model import NoFit, Placement, Pod
from foresail.core.preemption import find_victims
from foresail.core.profile import Profile, UsedScore
from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.policies.plain.devices import LeastSufficient
from foresail.policies.plain.least_allocated import LeastAllocated
from foresail.policies.profiles.load import load_profile

WHY = 'waiting for resourceclaim "gpu", and Foresail allocates none'


def without_filters() -> Profile:
    scores = [UsedScore("least-allocated", LeastAllocated())]
    return Profile("bare", filters=[], scores=scores, devices=LeastSufficient())


def claiming(*names: str, cpu_milli: int = 1000) -> PodSpec:
    return PodSpec(cpu_milli=cpu_milli, kubernetes=KubernetesPod(resource_claims=names))


@pytest.mark.parametrize("profile", [without_filters(), load_profile("best-fit"), load_profile("kubernetes")])
def test_no_profile_places_it_and_the_reason_names_the_claim(profile):
    table = NodeTable([NodeSpec("a", 4000, 64), NodeSpec("b", 500, 64)])
    pod = table.pod("p", claiming("gpu"))
    refused = decide(pod, table, profile)
    assert isinstance(refused, NoFit)
    assert refused.reasons == {WHY: 2}
    assert reasons_if_all_refuse(pod, table, profile) == {WHY: 2}
    two = decide(table.pod("q", claiming("gpu", "nic")), table, profile)
    assert list(two.reasons) == ['waiting for resourceclaims "gpu", "nic", and Foresail allocates none']
    assert decide(table.pod("plain", PodSpec(cpu_milli=1000)), table, profile).node == "a"


def test_it_shows_in_an_explanation_of_such_a_pod_alone():
    table, profile = NodeTable([NodeSpec("a", 4000, 64)]), load_profile("best-fit")
    plain = [step.name for step in explain(table.pod("q", PodSpec()), table, profile).filters]
    steps = explain(table.pod("p", claiming("gpu")), table, profile).filters
    assert [step.name for step in steps] == ["resource-claims", *plain]
    assert [step.refused for step in steps if step.refused] == [{WHY: 1}]


def test_nobody_is_made_to_go_for_it():
    table, profile = NodeTable([NodeSpec("a", 1000, 64)]), load_profile("best-fit")
    table.assume(table.pod("low", PodSpec(cpu_milli=1000)), Placement(0, "a", ()))
    for claims, found in (((), True), (("gpu",), False)):
        pod = Pod("high", table.shape(claiming(*claims)), priority=10)
        assert (find_victims(pod, table, profile) is not None) == found


def test_one_that_runs_holds_its_room():
    table, profile = NodeTable([NodeSpec("a", 1000, 64)]), load_profile("best-fit")
    table.assume(table.pod("runs", claiming("gpu")), Placement(0, "a", ()))
    assert decide(table.pod("p", PodSpec(cpu_milli=1)), table, profile).reasons == {"have too little cpu": 1}
