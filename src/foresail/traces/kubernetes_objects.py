"""Objects of a cluster beside its nodes and pods: namespaces, services, workloads and storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from foresail.core.kubernetes import Requirement, Selector
from foresail.core.objects import Claim, ClusterObjects, StorageCapacity, StorageClass, Volume
from foresail.errors import InputError
from foresail.traces.documents import objects, read_text
from foresail.traces.kubernetes_terms import items, node_terms, selector, texts
from foresail.traces.kubernetes_values import named_metadata, string, strings, whole_number
from foresail.traces.quantity import QuantityError, RequestError, mapping, units

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


def read_objects(path: str | Path, found: ClusterObjects | None = None) -> ClusterObjects:
    """All objects of a file that placing pods looks at, nodes and pods left out; added to `found` if it is given."""
    path = Path(path)
    found = ClusterObjects() if found is None else found
    text = read_text(path)
    if not any(kind in text for kind in _KINDS):
        return found  # most files hold nodes and pods alone, and reading YAML takes long
    for document in objects(path):
        try:
            put_object(found, document.kind, document.value)
        except RequestError as error:
            raise InputError(f"{document.place} ({document.kind}): {error}", path=path, line=document.line) from error
    return found


def put_object(found: ClusterObjects, kind: str, value: Mapping[str, Any]) -> bool:
    """Add an object, or replace the one of its name; False for a kind that placing pods does not look at."""
    put = _KINDS.get(kind)
    if put is None:
        return False
    metadata, name = named_metadata(value)
    put(found, name, metadata, value)
    return True


def _namespace(found: ClusterObjects, name: str, metadata: Mapping[str, Any], _value: Mapping[str, Any]) -> None:
    found.namespaces[name] = strings(metadata.get("labels"), "metadata.labels")


def _service(found: ClusterObjects, name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    key = (_namespace_of(metadata), name)
    found.services.pop(key, None)
    # A service without a selector selects nothing; an empty one would select everything but says nothing about it.
    if chosen := strings(mapping(value.get("spec"), "spec").get("selector"), "spec.selector"):
        found.services[key] = chosen


def _controller(kind: str) -> Callable[[ClusterObjects, str, Mapping[str, Any], Mapping[str, Any]], None]:
    def put(found: ClusterObjects, name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
        stated = mapping(value.get("spec"), "spec").get("selector")
        if kind == "ReplicationController":
            exact = strings(stated, "spec.selector")
            chosen: Selector | None = Selector(tuple(Requirement(key, "In", (text,)) for key, text in exact.items()))
        else:
            chosen = selector(stated, "spec.selector")
        key = (kind, _namespace_of(metadata), name)
        found.controllers.pop(key, None)
        if chosen is not None:
            found.controllers[key] = chosen

    return put


def _storage_class(found: ClusterObjects, name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    found.storage_classes[name] = StorageClass(
        name=name,
        provisioner=string(value.get("provisioner"), "provisioner"),
        waits=value.get("volumeBindingMode") == "WaitForFirstConsumer",
        allowed_topologies=tuple(
            tuple(
                Requirement(string(line.get("key"), f"{where}.key"), "In", texts(line.get("values"), f"{where}.values"))
                for where, line in items(term.get("matchLabelExpressions"), f"{place}.matchLabelExpressions")
            )
            for place, term in items(value.get("allowedTopologies"), "allowedTopologies")
        ),
    )


def _volume(found: ClusterObjects, name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    spec = mapping(value.get("spec"), "spec")
    claim = mapping(spec.get("claimRef"), "spec.claimRef")
    csi = mapping(spec.get("csi"), "spec.csi")
    affinity = mapping(spec.get("nodeAffinity"), "spec.nodeAffinity")
    found.volumes[name] = Volume(
        name=name,
        capacity_bytes=_bytes(spec.get("capacity"), "spec.capacity") or 0,
        storage_class=_class(metadata, spec),
        access_modes=frozenset(texts(spec.get("accessModes"), "spec.accessModes")),
        mode=string(spec.get("volumeMode"), "spec.volumeMode") or "Filesystem",
        phase=string(mapping(value.get("status"), "status").get("phase"), "status.phase") or "Available",
        labels=tuple(strings(metadata.get("labels"), "metadata.labels").items()),
        nodes=node_terms(affinity.get("required"), "spec.nodeAffinity.required"),
        claim=(
            string(claim.get("namespace"), "spec.claimRef.namespace"),
            string(claim.get("name"), "spec.claimRef.name"),
            string(claim.get("uid"), "spec.claimRef.uid"),
        )
        if claim
        else None,
        driver=string(csi.get("driver"), "spec.csi.driver"),
        handle=string(csi.get("volumeHandle"), "spec.csi.volumeHandle"),
        attributes_class=string(spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _claim(found: ClusterObjects, name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    spec = mapping(value.get("spec"), "spec")
    annotations = strings(metadata.get("annotations"), "metadata.annotations")
    requests = mapping(spec.get("resources"), "spec.resources").get("requests")
    namespace = _namespace_of(metadata)
    volume = string(spec.get("volumeName"), "spec.volumeName")
    found.claims[namespace, name] = Claim(
        namespace=namespace,
        name=name,
        uid=string(metadata.get("uid"), "metadata.uid"),
        storage_class=_class(metadata, spec),
        request_bytes=_bytes(requests, "spec.resources.requests"),
        access_modes=frozenset(texts(spec.get("accessModes"), "spec.accessModes")),
        mode=string(spec.get("volumeMode"), "spec.volumeMode") or "Filesystem",
        selector=selector(spec.get("selector"), "spec.selector"),
        volume=volume,
        bound=bool(volume) and _BIND_COMPLETED in annotations,
        selected_node=annotations.get(_SELECTED_NODE, ""),
        phase=string(mapping(value.get("status"), "status").get("phase"), "status.phase") or "Pending",
        attributes_class=string(spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _csi_node(found: ClusterObjects, name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    limits = {}
    for place, driver in items(mapping(value.get("spec"), "spec").get("drivers"), "spec.drivers"):
        count = mapping(driver.get("allocatable"), f"{place}.allocatable").get("count")
        if count is not None:
            limits[string(driver.get("name"), f"{place}.name")] = whole_number(count, f"{place}.allocatable.count")
    found.volume_limits[name] = limits


def _csi_driver(found: ClusterObjects, name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    found.drivers_with_capacity.discard(name)
    if mapping(value.get("spec"), "spec").get("storageCapacity") is True:
        found.drivers_with_capacity.add(name)


def _capacity(found: ClusterObjects, name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    # The largest single volume is the nearer truth where the driver tells it.
    field = "maximumVolumeSize" if value.get("maximumVolumeSize") is not None else "capacity"
    found.capacities[_namespace_of(metadata), name] = StorageCapacity(
        storage_class=string(value.get("storageClassName"), "storageClassName"),
        largest_bytes=None if value.get(field) is None else _quantity(value[field], field),
        nodes=selector(value.get("nodeTopology"), "nodeTopology"),
    )


def _attachment(found: ClusterObjects, name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    spec = mapping(value.get("spec"), "spec")
    volume = mapping(spec.get("source"), "spec.source").get("persistentVolumeName")
    found.attachments[name] = (
        string(spec.get("nodeName"), "spec.nodeName"),
        string(spec.get("attacher"), "spec.attacher"),
        string(volume, "spec.source.persistentVolumeName"),
    )


def _namespace_of(metadata: Mapping[str, Any]) -> str:
    return string(metadata.get("namespace"), "metadata.namespace") or "default"


def _class(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    annotations = strings(metadata.get("annotations"), "metadata.annotations")
    return annotations.get(_BETA_CLASS, string(spec.get("storageClassName"), "spec.storageClassName"))


def _bytes(amounts: object, place: str) -> int | None:
    stated = mapping(amounts, place).get("storage")
    return None if stated is None else _quantity(stated, f"{place}.storage")


def _quantity(value: object, place: str) -> int:
    try:
        return units(value)
    except QuantityError as error:
        raise RequestError(f"{place} {error}") from None


_KINDS: dict[str, Callable[[ClusterObjects, str, Mapping[str, Any], Mapping[str, Any]], None]] = {
    "Namespace": _namespace,
    "Service": _service,
    "ReplicaSet": _controller("ReplicaSet"),
    "ReplicationController": _controller("ReplicationController"),
    "StatefulSet": _controller("StatefulSet"),
    "StorageClass": _storage_class,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "CSINode": _csi_node,
    "CSIDriver": _csi_driver,
    "CSIStorageCapacity": _capacity,
    "VolumeAttachment": _attachment,
}
