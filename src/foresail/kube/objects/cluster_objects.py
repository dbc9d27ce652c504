"""Objects of a cluster beside its nodes and pods: namespaces, services, workloads and storage."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from foresail.core.kubernetes import Requirement, Selector
from foresail.core.objects import Claim, ClusterObjects, DisruptionBudget, StorageCapacity, StorageClass, Volume
from foresail.errors import InputError
from foresail.kube.objects.documents import objects, read_text
from foresail.kube.objects.quantity import QuantityError, RequestError, mapping, units
from foresail.kube.objects.terms import items, node_terms, selector, texts
from foresail.kube.objects.values import named_metadata, string, strings, whole_number

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


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
    """Add an object, or replace the one of its name; False if that changes nothing that placing pods looks at."""
    known = _KINDS.get(kind)
    if known is None:
        return False
    metadata, name = named_metadata(value)
    key = known.key(metadata, name)
    entry = known.read(name, metadata, value)
    return _drop(found, known, key) if entry is None else _put(found, known, key, entry)


def drop_object(found: ClusterObjects, kind: str, value: Mapping[str, Any]) -> bool:
    """Take an object out; False if that changes nothing that placing pods looks at."""
    known = _KINDS.get(kind)
    if known is None:
        return False
    metadata, name = named_metadata(value)
    return _drop(found, known, known.key(metadata, name))


def keep_objects(found: ClusterObjects, kind: str, values: Iterable[Mapping[str, Any]]) -> bool:
    """Take out all objects of a kind but these; False if that changes nothing."""
    known = _KINDS[kind]
    keys = {known.key(*named_metadata(value)) for value in values}
    table = getattr(found, known.field)
    gone = [key for key in table if key not in keys and known.owns(key)]
    for key in gone:
        _drop(found, known, key)
    return bool(gone)


def _put(found: ClusterObjects, known: _ObjectTable, key: Hashable, entry: object) -> bool:
    table = getattr(found, known.field)
    if isinstance(table, set):
        changed = key not in table
        table.add(key)
        return changed
    changed = table.get(key) != entry
    table[key] = entry
    return bool(changed)


def _drop(found: ClusterObjects, known: _ObjectTable, key: Hashable) -> bool:
    table = getattr(found, known.field)
    if key not in table:
        return False
    if isinstance(table, set):
        table.discard(key)
    else:
        del table[key]
    return True


def _namespace(_name: str, metadata: Mapping[str, Any], _value: Mapping[str, Any]) -> dict[str, str]:
    return strings(metadata.get("labels"), "metadata.labels")


def _service(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, str] | None:
    # A service without a selector selects nothing; an empty one would select everything but says nothing about it.
    return strings(mapping(value.get("spec"), "spec").get("selector"), "spec.selector") or None


def _controller(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> Selector | None:
    return selector(mapping(value.get("spec"), "spec").get("selector"), "spec.selector")


def _replication_controller(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> Selector:
    exact = strings(mapping(value.get("spec"), "spec").get("selector"), "spec.selector")
    return Selector(tuple(Requirement(key, "In", (text,)) for key, text in exact.items()))


def _storage_class(name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> StorageClass:
    return StorageClass(
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


def _volume(name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> Volume:
    spec = mapping(value.get("spec"), "spec")
    claim = mapping(spec.get("claimRef"), "spec.claimRef")
    csi = mapping(spec.get("csi"), "spec.csi")
    affinity = mapping(spec.get("nodeAffinity"), "spec.nodeAffinity")
    return Volume(
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


def _claim(name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> Claim:
    spec = mapping(value.get("spec"), "spec")
    annotations = strings(metadata.get("annotations"), "metadata.annotations")
    requests = mapping(spec.get("resources"), "spec.resources").get("requests")
    namespace = _namespace_of(metadata)
    volume = string(spec.get("volumeName"), "spec.volumeName")
    return Claim(
        namespace=namespace,
        name=name,
        uid=string(metadata.get("uid"), "metadata.uid"),
        storage_class=_class(metadata, spec),
        request_bytes=_bytes(requests, "spec.resources.requests"),
        access_modes=frozenset(texts(spec.get("accessModes"), "spec.accessModes")),
        mode=string(spec.get("volumeMode"), "spec.volumeMode") or "Filesystem",
        selector=selector(spec.get("selector"), "spec.selector"),
        volume=volume,
        bound=bool(volume) and BIND_COMPLETED in annotations,
        selected_node=annotations.get(SELECTED_NODE, ""),
        phase=string(mapping(value.get("status"), "status").get("phase"), "status.phase") or "Pending",
        attributes_class=string(spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _csi_node(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, int]:
    limits = {}
    for place, driver in items(mapping(value.get("spec"), "spec").get("drivers"), "spec.drivers"):
        count = mapping(driver.get("allocatable"), f"{place}.allocatable").get("count")
        if count is not None:
            limits[string(driver.get("name"), f"{place}.name")] = whole_number(count, f"{place}.allocatable.count")
    return limits


def _csi_driver(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> bool | None:
    return True if mapping(value.get("spec"), "spec").get("storageCapacity") is True else None


def _capacity(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> StorageCapacity:
    # The largest single volume is the nearer truth where the driver tells it.
    field = "maximumVolumeSize" if value.get("maximumVolumeSize") is not None else "capacity"
    return StorageCapacity(
        storage_class=string(value.get("storageClassName"), "storageClassName"),
        largest_bytes=None if value.get(field) is None else _quantity(value[field], field),
        nodes=selector(value.get("nodeTopology"), "nodeTopology"),
    )


def _attachment(_name: str, _metadata: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[str, str, str]:
    spec = mapping(value.get("spec"), "spec")
    volume = mapping(spec.get("source"), "spec.source").get("persistentVolumeName")
    return (
        string(spec.get("nodeName"), "spec.nodeName"),
        string(spec.get("attacher"), "spec.attacher"),
        string(volume, "spec.source.persistentVolumeName"),
    )


def _namespace_of(metadata: Mapping[str, Any]) -> str:
    return string(metadata.get("namespace"), "metadata.namespace") or "default"


def _class(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    annotations = strings(metadata.get("annotations"), "metadata.annotations")
    return annotations.get(BETA_CLASS, string(spec.get("storageClassName"), "spec.storageClassName"))


def _bytes(amounts: object, place: str) -> int | None:
    stated = mapping(amounts, place).get("storage")
    return None if stated is None else _quantity(stated, f"{place}.storage")


def _quantity(value: object, place: str) -> int:
    try:
        return units(value)
    except QuantityError as error:
        raise RequestError(f"{place} {error}") from None


def _budget(name: str, metadata: Mapping[str, Any], value: Mapping[str, Any]) -> DisruptionBudget:
    status = mapping(value.get("status"), "status")
    return DisruptionBudget(
        namespace=_namespace_of(metadata),
        name=name,
        selector=selector(mapping(value.get("spec"), "spec").get("selector"), "spec.selector"),
        allowed=whole_number(status.get("disruptionsAllowed", 0), "status.disruptionsAllowed"),
        disrupted=frozenset(mapping(status.get("disruptedPods"), "status.disruptedPods")),
    )


def _by_name(_metadata: Mapping[str, Any], name: str) -> Hashable:
    return name


def _by_namespace(metadata: Mapping[str, Any], name: str) -> Hashable:
    return _namespace_of(metadata), name


def _any_key(_key: Any) -> bool:
    return True


class _ObjectTable(NamedTuple):
    """Where objects of a kind are kept, under which key, and how they are read; None for one that is not kept."""

    field: str
    read: Callable[[str, Mapping[str, Any], Mapping[str, Any]], object]
    key: Callable[[Mapping[str, Any], str], Hashable] = _by_name
    owns: Callable[[Any], bool] = _any_key
    """Whether a key of the field is one of this kind."""


def _controllers(kind: str, read: Callable[[str, Mapping[str, Any], Mapping[str, Any]], object]) -> _ObjectTable:
    return _ObjectTable(
        "controllers",
        read,
        lambda metadata, name: (kind, _namespace_of(metadata), name),
        lambda key: bool(key[0] == kind),
    )


_KINDS: dict[str, _ObjectTable] = {
    "Namespace": _ObjectTable("namespaces", _namespace),
    "Service": _ObjectTable("services", _service, _by_namespace),
    "ReplicaSet": _controllers("ReplicaSet", _controller),
    "ReplicationController": _controllers("ReplicationController", _replication_controller),
    "StatefulSet": _controllers("StatefulSet", _controller),
    "StorageClass": _ObjectTable("storage_classes", _storage_class),
    "PersistentVolume": _ObjectTable("volumes", _volume),
    "PersistentVolumeClaim": _ObjectTable("claims", _claim, _by_namespace),
    "CSINode": _ObjectTable("volume_limits", _csi_node),
    "CSIDriver": _ObjectTable("drivers_with_capacity", _csi_driver),
    "CSIStorageCapacity": _ObjectTable("capacities", _capacity, _by_namespace),
    "VolumeAttachment": _ObjectTable("attachments", _attachment),
    "PodDisruptionBudget": _ObjectTable("budgets", _budget, _by_namespace),
}
