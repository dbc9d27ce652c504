"""A cluster in a file: all that placing pods looks at, and nothing else of what its objects say.

What is kept is an allow-list. Commands, environments, annotations of others and the parameters of volumes, where
secrets stand now and then, are never copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from foresail.atomic import replacing
from foresail.errors import InputError
from foresail.formats import OBJECT_ENDINGS, refuse_other_endings
from foresail.kube.objects.cluster_objects import BETA_CLASS, BIND_COMPLETED, SELECTED_NODE
from foresail.kube.objects.documents import Found, objects
from foresail.kube.objects.quantity import RequestError, mapping
from foresail.kube.objects.values import (
    ADDED_MODEL_LABEL,
    ARRIVAL_S,
    CPU_LIMIT_MILLI,
    CPU_WEIGHT,
    CREATED,
    DELETED,
    DURATION_S,
    GANG_LATER,
    GANG_MIN,
    GANG_TIMEOUT_S,
    GANG_TOPOLOGY,
    GPU_COUNT,
    GPU_DEVICES,
    GPU_MILLI,
    GPU_MODEL,
    HELD_REQUEST,
    OUR_MODEL,
    OWNER,
    SCORED_REQUEST,
    TRAINING,
    VOLCANO_GROUP_NAMES,
    WORK_CPU_S,
    Object,
    named_metadata,
)
from foresail.kube.objects.write import write_objects

Kept = Mapping[str, Any]
"""Field to what is kept below it, for a mapping or for every mapping of a list; None for all there is."""


def _whole(*names: str) -> Kept:
    return dict.fromkeys(names)


_NAMED = _whole("name", "namespace")
_AMOUNTS = _whole("requests", "limits")
_POD_ANNOTATIONS = _whole(
    *(GPU_COUNT, GPU_MILLI, GPU_MODEL, GPU_DEVICES, OWNER, SCORED_REQUEST, HELD_REQUEST),
    *VOLCANO_GROUP_NAMES,
    *(GANG_MIN, GANG_LATER, GANG_TIMEOUT_S, GANG_TOPOLOGY, CREATED, DELETED, ARRIVAL_S, DURATION_S),
    *(CPU_LIMIT_MILLI, CPU_WEIGHT, WORK_CPU_S, TRAINING),
)
_CONTAINER: Kept = {
    **_whole("name", "image", "restartPolicy"),
    "resources": _AMOUNTS,
    "ports": _whole("hostPort", "protocol", "hostIP"),
    "restartPolicyRules": _whole("action"),
}
_VOLUME_KINDS: Kept = {
    "persistentVolumeClaim": _whole("claimName"),
    "ephemeral": {},
    "awsElasticBlockStore": _whole("volumeID", "readOnly"),
    "gcePersistentDisk": _whole("pdName", "readOnly"),
    "iscsi": _whole("iqn", "readOnly"),
    "rbd": _whole("pool", "image", "monitors", "readOnly"),
    "image": _whole("reference"),
}
_POD: Kept = {
    "metadata": {
        **_whole("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels"),
        "annotations": _POD_ANNOTATIONS,
        "ownerReferences": _whole("kind", "name", "uid", "controller"),
    },
    "spec": {
        **_whole("schedulerName", "nodeName", "priority", "preemptionPolicy", "nodeSelector", "affinity"),
        **_whole("topologySpreadConstraints", "overhead", "hostNetwork", "hostUsers"),
        "tolerations": _whole("key", "operator", "value", "effect"),
        "schedulingGates": _whole("name"),
        "schedulingGroup": _whole("podGroupName"),
        "workloadRef": _whole("name", "podGroup", "podGroupReplicaKey"),
        "resourceClaims": _whole("name", "resourceClaimName", "resourceClaimTemplateName"),
        "resources": _AMOUNTS,
        "initContainers": _CONTAINER,
        "containers": _CONTAINER,
        "volumes": {"name": None, **_VOLUME_KINDS},
    },
    "status": _whole("phase", "nominatedNodeName", "startTime"),
}
_CONTROLLER: Kept = {"metadata": _NAMED, "spec": _whole("selector")}
_VOLUME_METADATA: Kept = {
    **_whole("name", "namespace", "uid", "labels", "deletionTimestamp"),
    "annotations": _whole(BETA_CLASS, BIND_COMPLETED, SELECTED_NODE),
}

KEPT: dict[str, Kept] = {
    "Node": {
        "metadata": {**_whole("name", "labels"), "annotations": _whole(OUR_MODEL, ADDED_MODEL_LABEL)},
        "spec": {"taints": _whole("key", "value", "effect"), "unschedulable": None},
        "status": {
            **_whole("capacity", "allocatable", "declaredFeatures"),
            "images": _whole("names", "sizeBytes"),
        },
    },
    "Namespace": {"metadata": _whole("name", "labels")},
    "PriorityClass": {"metadata": _NAMED, **_whole("value", "globalDefault", "preemptionPolicy")},
    "PodGroup": {
        "metadata": _NAMED,
        "spec": _whole(
            *("minMember", "minTaskMember", "networkTopology", "scheduleTimeoutSeconds"),
            *("schedulingPolicy", "schedulingConstraints", "priority"),
        ),
    },
    "Workload": {"metadata": _NAMED, "spec": _whole("podGroups")},
    "Service": _CONTROLLER,
    "ReplicationController": _CONTROLLER,
    "ReplicaSet": _CONTROLLER,
    "StatefulSet": _CONTROLLER,
    "PodDisruptionBudget": {**_CONTROLLER, "status": _whole("disruptionsAllowed", "disruptedPods")},
    "StorageClass": {"metadata": _NAMED, **_whole("provisioner", "volumeBindingMode", "allowedTopologies")},
    "PersistentVolume": {
        "metadata": _VOLUME_METADATA,
        "spec": {
            **_whole("capacity", "accessModes", "volumeMode", "storageClassName", "volumeAttributesClassName"),
            "claimRef": _whole("namespace", "name", "uid"),
            "csi": _whole("driver", "volumeHandle"),
            "nodeAffinity": None,
        },
        "status": _whole("phase"),
    },
    "PersistentVolumeClaim": {
        "metadata": _VOLUME_METADATA,
        "spec": {
            **_whole("accessModes", "volumeMode", "storageClassName", "volumeAttributesClassName"),
            **_whole("selector", "volumeName"),
            "resources": _whole("requests"),
        },
        "status": _whole("phase"),
    },
    "CSINode": {"metadata": _NAMED, "spec": {"drivers": {"name": None, "allocatable": _whole("count")}}},
    "CSIDriver": {"metadata": _NAMED, "spec": _whole("storageCapacity")},
    "CSIStorageCapacity": {
        "metadata": _NAMED,
        **_whole("storageClassName", "capacity", "maximumVolumeSize", "nodeTopology"),
    },
    "VolumeAttachment": {
        "metadata": _NAMED,
        "spec": {**_whole("nodeName", "attacher"), "source": _whole("persistentVolumeName")},
    },
    "Pod": _POD,
}
"""Kinds in the order of the file, each with what is kept of its objects."""


def kept(kind: str, api_version: str, value: Mapping[str, Any]) -> Object:
    """What placing pods looks at in an object."""
    found: Object = {"apiVersion": api_version, "kind": kind, **_kept(value, KEPT[kind])}
    metadata, spec, status = (found.get(part) or {} for part in ("metadata", "spec", "status"))
    if kind == "Pod":
        # Every pod has a volume for its service account; those that go anywhere tell nothing.
        volumes = [one for one in spec.pop("volumes", None) or () if not _VOLUME_KINDS.keys().isdisjoint(one)]
        spec.update({"volumes": volumes} if volumes else {})
    if kind == "Node" and "allocatable" in status:
        status.pop("capacity", None)
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    for part in ("spec", "status"):
        if not found.get(part):
            found.pop(part, None)
    return found


def _kept(value: Any, fields: Kept | None) -> Any:
    """A copy that shares nothing with the object; whole mappings are sorted, so that their order tells nothing."""
    if isinstance(value, list | tuple):
        return [_kept(item, fields) for item in value]
    if not isinstance(value, Mapping):
        return value if fields is None else None
    if fields is None:
        return {key: _kept(inner, None) for key, inner in sorted(value.items())}
    # A field that is there stays there, even if nothing below it is kept: an empty selector selects everything.
    return {key: _kept(value[key], inner) for key, inner in fields.items() if value.get(key) is not None}


def write_snapshot(path: Path, values: Iterable[Object]) -> None:
    """Write objects that `kept` made; the same ones in any order give the same bytes."""
    refuse_other_endings(path, OBJECT_ENDINGS)
    place = {kind: at for at, kind in enumerate(KEPT)}

    def order(value: Object) -> tuple[int, str, str, str]:
        about = value["metadata"]
        return place[value["kind"]], about.get("namespace") or "", about["name"], value["apiVersion"]

    with replacing(path) as part:
        write_objects(part, sorted(values, key=order))


def read_snapshot(path: Path) -> list[Found]:
    """All objects of a snapshot, or of any other file of Kubernetes objects with nodes among them."""
    refuse_other_endings(path, OBJECT_ENDINGS)
    found = list(objects(path))
    if not any(one.kind == "Node" for one in found):
        held = ", ".join(sorted({one.kind for one in found})) or "nothing"
        raise InputError(
            f"holds no Node objects (it holds {held}); take a snapshot with: foresail trace snapshot --out {path.name}",
            path=path,
        )
    for one in found:
        try:
            named_metadata(one.value)
            for field in ("spec", "status"):
                mapping(one.value.get(field), field)
        except RequestError as error:
            raise InputError(f"{one.place} ({one.kind}): {error}", path=path, line=one.line) from error
    return found


def counts(values: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Kind and number of objects, in the order of the file."""
    kinds = [value["kind"] for value in values]
    return ((kind, kinds.count(kind)) for kind in KEPT if kind in kinds)
