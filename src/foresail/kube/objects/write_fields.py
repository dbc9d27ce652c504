"""What only Kubernetes says of a pod, as fields of a Pod object from which it can be read back unchanged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foresail.core.kubernetes import (
    Disk,
    KubernetesPod,
    NodeTerm,
    PodTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Weighted,
)
from foresail.kube.objects.values import HELD_REQUEST, SCORED_REQUEST, STAND_IN_IMAGE

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_DISK_NAMES = {"awsElasticBlockStore": "volumeID", "gcePersistentDisk": "pdName", "iscsi": "iqn"}
_ENDING = "2000-01-01T00:00:00Z"

Fields = dict[str, Any]


def metadata_fields(own: KubernetesPod) -> tuple[Fields, dict[str, str]]:
    """Fields of the metadata, and annotations."""
    annotations = {
        name: f"{request[0]}/{request[1]}"
        for name, request in ((SCORED_REQUEST, own.scored_request), (HELD_REQUEST, own.held_request))
        if request is not None
    }
    return ({"deletionTimestamp": _ENDING} if own.terminating else {}), annotations


def spec_fields(own: KubernetesPod, pod_name: str, resources: Fields) -> Fields:
    """Fields of the spec, its containers among them; the first of them asks for all the resources."""
    fields: Fields = {"containers": _containers(own, resources)}
    affinity = {
        "nodeAffinity": _node_affinity(own),
        "podAffinity": _pod_affinity(own.affinity, own.preferred_affinity),
        "podAntiAffinity": _pod_affinity(own.anti_affinity, own.preferred_anti_affinity),
    }
    fields["affinity"] = {kind: terms for kind, terms in affinity.items() if terms}
    fields["topologySpreadConstraints"] = [_spread(constraint) for constraint in own.spread]
    fields["volumes"] = _volumes(own, pod_name)
    fields["resourceClaims"] = [
        {"name": f"claim{at}", "resourceClaimName": name} for at, name in enumerate(own.resource_claims)
    ]
    if "UserNamespacesHostNetworkSupport" in own.features:
        fields |= {"hostNetwork": True, "hostUsers": False}
    return {name: value for name, value in fields.items() if value not in ({}, [])}


def _containers(own: KubernetesPod, resources: Fields) -> list[Fields]:
    images = [*own.images[: own.container_count], *[STAND_IN_IMAGE] * (own.container_count - len(own.images))]
    containers: list[Fields] = [{"name": f"c{index}", "image": image} for index, image in enumerate(images)]
    containers[0] |= {"name": "main", "resources": resources}
    for container in containers[1:]:
        container["resources"] = {"requests": {"cpu": "0", "memory": "0"}}
    if own.host_ports:
        containers[0]["ports"] = [
            {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol, "hostIP": port.address}
            for port in own.host_ports
        ]
    if "RestartAllContainersOnContainerExits" in own.features:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}
        containers[0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return containers


def _volumes(own: KubernetesPod, pod_name: str) -> list[Fields]:
    volumes: list[Fields] = []
    for index, volume in enumerate(own.claims):
        if volume.ephemeral:
            name = volume.claim.removeprefix(f"{pod_name}-")
            volumes.append({"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
        else:
            volumes.append({"name": f"claim-{index}", "persistentVolumeClaim": {"claimName": volume.claim}})
    volumes += [{"name": f"disk-{index}", disk.kind: _disk(disk)} for index, disk in enumerate(own.disks)]
    volumes += [
        {"name": f"image-{index}", "image": {"reference": image}}
        for index, image in enumerate(own.images[own.container_count :])
    ]
    return volumes


def _disk(disk: Disk) -> Fields:
    fields: Fields = {"readOnly": True} if disk.read_only else {}
    if disk.kind != "rbd":
        return {_DISK_NAMES[disk.kind]: disk.name, **fields}
    pool, _, image = disk.name.partition("/")
    return {"pool": pool, "image": image, "monitors": list(disk.monitors), **fields}


def _node_affinity(own: KubernetesPod) -> Fields:
    fields: Fields = {}
    if own.required_nodes is not None:
        fields[_REQUIRED] = {"nodeSelectorTerms": [_node_term(term) for term in own.required_nodes]}
    if own.preferred_nodes:
        fields[_PREFERRED] = [
            {"weight": wish.weight, "preference": _node_term(wish.term)} for wish in own.preferred_nodes
        ]
    return fields


def _node_term(term: NodeTerm) -> Fields:
    return {"matchExpressions": _requirements(term.labels), "matchFields": _requirements(term.names)}


def _pod_affinity(required: Iterable[PodTerm], preferred: Iterable[Weighted[PodTerm]]) -> Fields:
    fields = {
        _REQUIRED: [_pod_term(term) for term in required],
        _PREFERRED: [{"weight": wish.weight, "podAffinityTerm": _pod_term(wish.term)} for wish in preferred],
    }
    return {name: terms for name, terms in fields.items() if terms}


def _pod_term(term: PodTerm) -> Fields:
    return {
        "topologyKey": term.topology_key,
        "labelSelector": _selector(term.selector),
        "namespaces": list(term.namespaces),
        "namespaceSelector": _selector(term.namespace_selector),
    }


def _spread(constraint: SpreadConstraint) -> Fields:
    return {
        "maxSkew": constraint.max_skew,
        "topologyKey": constraint.topology_key,
        "labelSelector": _selector(constraint.selector),
        "whenUnsatisfiable": "DoNotSchedule" if constraint.hard else "ScheduleAnyway",
        **({"minDomains": constraint.min_domains} if constraint.min_domains > 1 else {}),
        "nodeAffinityPolicy": "Honor" if constraint.honors_affinity else "Ignore",
        "nodeTaintsPolicy": "Honor" if constraint.honors_taints else "Ignore",
    }


def _selector(selector: Selector | None) -> Fields | None:
    return None if selector is None else {"matchExpressions": _requirements(selector.requirements)}


def _requirements(requirements: Iterable[Requirement]) -> list[Fields]:
    return [{"key": line.key, "operator": line.operator, "values": list(line.values)} for line in requirements]
