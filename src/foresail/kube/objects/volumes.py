"""Volumes, claims, ports, images and features of one Pod object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from foresail.core.kubernetes import ANY_ADDRESS, ClaimVolume, Disk, HostPort
from foresail.kube.objects.quantity import RequestError, mapping
from foresail.kube.objects.terms import items, texts
from foresail.kube.objects.values import STAND_IN_IMAGE, string, whole_number

_DISK_NAMES = {"awsElasticBlockStore": ("volumeID",), "gcePersistentDisk": ("pdName",), "iscsi": ("iqn",)}


def claims_and_disks(spec: Mapping[str, Any], pod_name: str) -> tuple[tuple[ClaimVolume, ...], tuple[Disk, ...]]:
    """Volumes that tie a pod to nodes; the others (config maps, secrets, empty folders) go anywhere."""
    claims: list[ClaimVolume] = []
    disks: list[Disk] = []
    for place, volume in items(spec.get("volumes"), "spec.volumes"):
        if volume.get("persistentVolumeClaim") is not None:
            where = f"{place}.persistentVolumeClaim"
            name = string(mapping(volume["persistentVolumeClaim"], where).get("claimName"), f"{where}.claimName")
            if not name:
                raise RequestError(f"{where}.claimName is missing; name the claim")
            claims.append(ClaimVolume(name))
        elif volume.get("ephemeral") is not None:
            claims.append(ClaimVolume(f"{pod_name}-{string(volume.get('name'), f'{place}.name')}", ephemeral=True))
        disks += _disks(volume, place)
    return tuple(claims), tuple(disks)


def _disks(volume: Mapping[str, Any], place: str) -> Iterator[Disk]:
    for kind, parts in _DISK_NAMES.items():
        if volume.get(kind) is not None:
            stated = mapping(volume[kind], f"{place}.{kind}")
            name = "/".join(string(stated.get(part), f"{place}.{kind}.{part}") for part in parts)
            yield Disk(kind, name, stated.get("readOnly") is True)
    if volume.get("rbd") is not None:
        stated = mapping(volume["rbd"], f"{place}.rbd")
        pool = string(stated.get("pool"), f"{place}.rbd.pool") or "rbd"
        image = string(stated.get("image"), f"{place}.rbd.image")
        monitors = tuple(sorted(texts(stated.get("monitors"), f"{place}.rbd.monitors")))
        yield Disk("rbd", f"{pool}/{image}", stated.get("readOnly") is True, monitors)


def resource_claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Claims of dynamic resource allocation; one that a template makes for each pod by its name within the pod."""
    return tuple(
        string(claim.get("resourceClaimName"), f"{place}.resourceClaimName")
        or string(claim.get("name"), f"{place}.name")
        for place, claim in items(spec.get("resourceClaims"), "spec.resourceClaims")
    )


def host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Ports of the node taken by containers and sidecars; an ordinary init container is gone when they matter."""
    found = []
    sidecars = [
        (place, container)
        for place, container in items(spec.get("initContainers"), "spec.initContainers")
        if container.get("restartPolicy") == "Always"
    ]
    for where, container in (*sidecars, *items(spec.get("containers"), "spec.containers")):
        for place, port in items(container.get("ports"), f"{where}.ports"):
            if port.get("hostPort"):
                found.append(
                    HostPort(
                        whole_number(port["hostPort"], f"{place}.hostPort"),
                        string(port.get("protocol"), f"{place}.protocol") or "TCP",
                        string(port.get("hostIP"), f"{place}.hostIP") or ANY_ADDRESS,
                    )
                )
    return tuple(found)


def images(spec: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """Images with their tags, and the number of containers, init containers among them."""
    found, count = [], 0
    for kind in ("initContainers", "containers"):
        for place, container in items(spec.get(kind), f"spec.{kind}"):
            count += 1
            found.append(string(container.get("image"), f"{place}.image"))
    for place, volume in items(spec.get("volumes"), "spec.volumes"):
        if volume.get("image") is not None:
            found.append(
                string(mapping(volume["image"], f"{place}.image").get("reference"), f"{place}.image.reference")
            )
    return tuple(_tagged(name) for name in found if name not in {"", STAND_IN_IMAGE}), max(count, 1)


def _tagged(name: str) -> str:
    # A colon before the last slash is a port of the registry, not a tag.
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def features(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """What the kubelet must be able to do for this pod."""
    needed = []
    if any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("initContainers", "containers")
        for place, container in items(spec.get(kind), f"spec.{kind}")
        for _, rule in items(container.get("restartPolicyRules"), f"{place}.restartPolicyRules")
    ):
        needed.append("RestartAllContainersOnContainerExits")
    if spec.get("hostNetwork") is True and spec.get("hostUsers") is False:
        needed.append("UserNamespacesHostNetworkSupport")
    return tuple(needed)
