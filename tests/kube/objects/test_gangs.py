"""Gangs in every form. Kubernetes 1.35 and 1.37 are not what the lab runs: their objects are written here by their
published types, and nothing else of those versions is tried.
"""

from __future__ import annotations

from typing import Any

import pytest

from foresail.kube.objects.gangs.form import GangName, Limits
from foresail.kube.objects.gangs.forms import FORM_OF, form_of, gang_named, groups_of
from foresail.kube.objects.quantity import RequestError

KUBERNETES, WORKLOAD = "PodGroup.scheduling.k8s.io", "Workload.scheduling.k8s.io"
SIGS, VOLCANO, PLAIN = "PodGroup.scheduling.x-k8s.io", "PodGroup.scheduling.volcano.sh", ""


def stated(form: str, spec: dict[str, Any]) -> list[tuple[GangName, Limits]]:
    return groups_of(form, {"metadata": {"name": "g", "namespace": "ml"}, "spec": spec})


def named(**parts: Any) -> GangName | None:
    return gang_named(*(parts.get(name, {}) for name in ("spec", "labels", "annotations")), "ml")


def gang(minimum: int) -> dict[str, Any]:
    return {"gang": {"minCount": minimum}}


TEMPLATED = {  # Kubernetes 1.37, v1beta1
    "workloadRef": {"workloadName": "train", "templateName": "workers"},
    "schedulingPolicy": gang(4),
    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
    "disruptionMode": {"all": {}},
    "priorityClassName": "high",
    "priority": 1000,
    "preemptionPolicy": "Never",
}


@pytest.mark.parametrize(
    ("form", "spec", "limits"),
    [
        (KUBERNETES, {"schedulingPolicy": gang(3)}, Limits(3)),
        (KUBERNETES, {"schedulingPolicy": {"basic": {}}}, Limits(1)),
        (KUBERNETES, TEMPLATED, Limits(4, topology="topology.kubernetes.io/rack", priority=1000)),
        (KUBERNETES, {"schedulingPolicy": gang(2), "priority": -5}, Limits(2, priority=-5)),
        (SIGS, {"minMember": 3, "scheduleTimeoutSeconds": 20, "minResources": {"cpu": "3"}}, Limits(3, 20.0)),
        (SIGS, {}, Limits()),
        (VOLCANO, {"minMember": 3, "queue": "a", "minResources": {"cpu": "3"}, "priorityClassName": "x"}, Limits(3)),
        (VOLCANO, {"minMember": 2, "minTaskMember": {"launcher": 1, "worker": 4}}, Limits(5)),
        (VOLCANO, {"minMember": 6, "minTaskMember": {"launcher": 1, "worker": 4}}, Limits(6)),
        (VOLCANO, {"minMember": 0}, Limits()),
        (VOLCANO, {"minMember": 2, "networkTopology": {"mode": "soft", "highestTierAllowed": 1}}, Limits(2)),
    ],
)
def test_what_a_group_says_of_itself(form: str, spec: dict[str, Any], limits: Limits):
    assert stated(form, spec) == [(GangName(form, "ml", "g"), limits)]


def test_a_workload_has_several_groups():
    groups = [{"name": "driver", "policy": {"basic": {}}}, {"name": "workers", "policy": gang(4)}]
    assert stated(WORKLOAD, {"podGroups": groups}) == [
        (GangName(WORKLOAD, "ml", "g/driver"), Limits(1)),
        (GangName(WORKLOAD, "ml", "g/workers"), Limits(4)),
    ]


@pytest.mark.parametrize(
    ("form", "spec", "why"),
    [
        (KUBERNETES, {"schedulingPolicy": gang(0)}, r'^spec.schedulingPolicy.gang.minCount is "0"'),
        (KUBERNETES, {"schedulingPolicy": "gang"}, r"^spec.schedulingPolicy is"),
        (
            KUBERNETES,
            {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "has 2 constraints; write one",
        ),
        (KUBERNETES, {"schedulingConstraints": {"topology": [{"key": 3}]}}, r"topology\[0\].key is 3"),
        (KUBERNETES, {"priority": "high"}, r'^spec.priority is "high"'),
        (
            WORKLOAD,
            {"podGroups": [{"name": "a", "policy": gang(-1)}]},
            r'^spec.podGroups\[0\].policy.gang.minCount is "-1"',
        ),
        (WORKLOAD, {"podGroups": [{"policy": gang(1)}]}, r"^spec.podGroups\[0\].name is missing"),
        (WORKLOAD, {"podGroups": {"name": "a"}}, r"^spec.podGroups is"),
        (SIGS, {"minMember": -1}, r'^spec.minMember is "-1"'),
        (SIGS, {"minMember": 10**30}, r"^spec.minMember is"),
        (SIGS, {"minMember": 2, "scheduleTimeoutSeconds": -1}, r'^spec.scheduleTimeoutSeconds is "-1"'),
        (SIGS, {"minMember": 2, "scheduleTimeoutSeconds": "soon"}, r'^spec.scheduleTimeoutSeconds is "soon"'),
        (VOLCANO, {"minMember": -2}, r'^spec.minMember is "-2"'),
        (VOLCANO, {"minTaskMember": {"worker": "x"}}, r'^spec.minTaskMember.worker is "x"'),
        (VOLCANO, {"minMember": 2, "networkTopology": {"mode": "hard"}}, "HyperNodes"),
        (VOLCANO, {"minMember": 2, "networkTopology": {"highestTierAllowed": 1}}, "HyperNodes"),
    ],
)
def test_what_cannot_be_read_is_told_by_field(form: str, spec: dict[str, Any], why: str):
    with pytest.raises(RequestError, match=why):
        stated(form, spec)


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({}, None),
        ({"spec": {"schedulingGroup": {"podGroupName": "g"}}}, GangName(KUBERNETES, "ml", "g")),
        ({"spec": {"schedulingGroup": {}}}, None),
        ({"spec": {"workloadRef": {"name": "w", "podGroup": "g"}}}, GangName(WORKLOAD, "ml", "w/g")),
        (
            {"spec": {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "7"}}},
            GangName(WORKLOAD, "ml", "w/g", "7"),
        ),
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, GangName(SIGS, "ml", "g")),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, GangName(VOLCANO, "ml", "g")),
        ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, GangName(VOLCANO, "ml", "g")),
        ({"labels": {"foresail.dev/gang": "g"}}, GangName(PLAIN, "ml", "g")),
        (
            {"labels": {"scheduling.x-k8s.io/pod-group": "a", "foresail.dev/gang": "b"}},
            GangName(SIGS, "ml", "a"),
        ),
    ],
)
def test_the_gang_that_a_pod_names(parts: dict[str, Any], found: GangName | None):
    assert named(**parts) == found


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": {"schedulingGroup": {"podGroupName": "other/g"}}},
        {"spec": {"workloadRef": {"name": "other/w", "podGroup": "g"}}},
        {"spec": {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "../x"}}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "other/g"}},
        {"annotations": {"scheduling.k8s.io/group-name": "other/g"}},
        {"labels": {"foresail.dev/gang": "other/g"}},
    ],
)
def test_nobody_names_a_gang_of_another_namespace(parts: dict[str, Any]):
    with pytest.raises(RequestError, match="a gang lives in one namespace, write its name alone"):
        named(**parts)


def test_a_workload_reference_names_both_parts():
    with pytest.raises(RequestError, match="both name and podGroup"):
        named(spec={"workloadRef": {"name": "w"}})


def test_replicas_of_a_group_are_gangs_of_their_own_with_its_limits():
    one, other = (GangName(WORKLOAD, "ml", "w/g", key) for key in ("0", "1"))
    assert (str(one), str(other), one.group == other.group) == ("ml/w/g/0", "ml/w/g/1", True)
    assert one.group == GangName(WORKLOAD, "ml", "w/g")


@pytest.mark.parametrize(
    ("kind", "value", "form"),
    [
        ("PodGroup", {"apiVersion": "scheduling.k8s.io/v1alpha2"}, KUBERNETES),
        ("PodGroup", {"apiVersion": "scheduling.k8s.io/v1beta1"}, KUBERNETES),
        ("PodGroup", {"apiVersion": "scheduling.x-k8s.io/v1alpha1"}, SIGS),
        ("PodGroup", {"apiVersion": "scheduling.volcano.sh/v1beta1"}, VOLCANO),
        ("PodGroup", {"apiVersion": "somebody.else/v1"}, ""),
        ("PodGroup", {"spec": {"schedulingPolicy": {}}}, KUBERNETES),
        ("PodGroup", {"spec": {"minMember": 2}}, SIGS),
        ("Workload", {"apiVersion": "scheduling.k8s.io/v1alpha1"}, WORKLOAD),
        ("Workload", {"apiVersion": "scheduling.k8s.io/v1alpha2"}, ""),  # a mere template; its PodGroups count
        ("Workload", {"apiVersion": "kueue.x-k8s.io/v1beta1"}, ""),
    ],
)
def test_the_form_of_an_object_in_a_file(kind: str, value: dict[str, Any], form: str):
    assert form_of(kind, value) == form
    assert form == "" or form in FORM_OF
