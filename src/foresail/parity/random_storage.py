"""Random storage: classes, drivers, volumes and claims in every state that placing a pod depends on."""

from __future__ import annotations

from random import Random

from foresail.kube.objects.values import Object
from foresail.parity.random_pod import HOSTNAME, NAMESPACES, REGION, ZONE, chance, some

CSI, CAPACITY_CSI = "csi.example.com", "cap.example.com"
WAIT, ZONED, LOCAL, CAPACITY, IMMEDIATE = "sc-wait", "sc-zone", "sc-local", "sc-cap", "sc-imm"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
HOLD = "foresail.dev/hold"
"""Finalizer that keeps an object in deletion until its cluster is taken down."""
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_ZONES = ("z1", "z2", "z3")
_MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany")


def cluster_storage(random: Random, nodes: list[Object]) -> list[Object]:
    """What is there before any claim: classes, drivers and their limits, capacities, attachments, local volumes."""
    names = [node["metadata"]["name"] for node in nodes]
    found = [*_classes(random), *_drivers()]
    found += [_csi_node(random, name) for name in names if chance(random, 0.9)]
    for zone in some(random, _ZONES, 3):
        capacity = {"capacity": random.choice(("1Gi", "5Gi", "20Gi"))}
        if chance(random, 0.3):
            capacity["maximumVolumeSize"] = random.choice(("1Gi", "2Gi"))
        nodes_of = random.choices(({"matchLabels": {ZONE: zone}}, {}, None), (18, 1, 1))[0]
        found.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": f"cap-{zone}", "namespace": "default"},
                "storageClassName": CAPACITY,
                **({} if nodes_of is None else {"nodeTopology": nodes_of}),
                **capacity,
            }
        )
    for index in range(random.randint(1, 4)):
        volume = f"pv-att-{index}"
        found.append(_volume(volume, "1Gi", "none", ["ReadWriteOnce"]))
        found.append(_attachment(f"va-{index}", volume, random.choice(names)))
    found += [_local_volume(random, index, names) for index in range(random.randint(4, 9))]
    for index in range(random.randint(0, 3)):
        # Ready before anybody asked; better than waiting for a new one.
        made = _volume(
            f"pv-ready-{index}", random.choice(("1Gi", "3Gi")), random.choice((WAIT, ZONED)), ["ReadWriteOnce"]
        )
        _bind_to_places(random, made, nodes)
        if chance(random, 0.3):
            made["spec"]["volumeAttributesClassName"] = "gold"
        found.append(made | {"status": {"phase": "Available"}})
    return found


def _classes(random: Random) -> list[Object]:
    def storage_class(name: str, provisioner: str, mode: str = "WaitForFirstConsumer", **more: object) -> Object:
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            **more,
        }

    first = [{"key": ZONE, "values": some(random, _ZONES, 2)}]
    if chance(random, 0.5):
        first.append({"key": "disk", "values": ["ssd"]})
    topologies = [{"matchLabelExpressions": first}]
    if chance(random, 0.5):
        topologies.append({"matchLabelExpressions": [{"key": REGION, "values": ["r2"]}]})
    return [
        storage_class(IMMEDIATE, CSI, "Immediate"),
        storage_class(WAIT, CSI),
        storage_class(ZONED, CSI, allowedTopologies=topologies),
        storage_class(LOCAL, "kubernetes.io/no-provisioner"),
        storage_class(CAPACITY, CAPACITY_CSI),
    ]


def _drivers() -> list[Object]:
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": name},
            "spec": {"attachRequired": not capacity, "storageCapacity": capacity},
        }
        for name, capacity in ((CSI, False), (CAPACITY_CSI, True))
    ]


def _csi_node(random: Random, name: str) -> Object:
    drivers = []
    for driver, share in ((CSI, 0.95), (CAPACITY_CSI, 0.7)):
        if chance(random, share):
            stated: Object = {"name": driver, "nodeID": name, "topologyKeys": [ZONE]}
            if chance(random, 0.85):
                stated["allocatable"] = {"count": random.choice((1, 1, 2, 3))}
            drivers.append(stated)
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": drivers},
    }


def _volume(name: str, size: str, storage_class: str, modes: list[str], **more: object) -> Object:
    spec: Object = {
        "capacity": {"storage": size},
        "accessModes": modes,
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": storage_class,
        **more,
    }
    if "local" not in spec:
        spec["csi"] = {"driver": CSI, "volumeHandle": f"h-{name}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _on(key: str, values: list[str], operator: str = "In") -> Object:
    return {
        "required": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]
        }
    }


def _local_volume(random: Random, index: int, names: list[str]) -> Object:
    name = f"pv-local-{index}"
    modes = ["ReadWriteOnce"] + (["ReadWriteMany"] if chance(random, 0.3) else [])
    made = _volume(
        name,
        random.choice(("1Gi", "2Gi", "5Gi", "10Gi")),
        LOCAL,
        modes,
        local={"path": f"/mnt/{name}"},
        volumeMode="Block" if chance(random, 0.15) else "Filesystem",
        nodeAffinity=_on(HOSTNAME, [random.choice(names)]),
    )
    if chance(random, 0.5):
        made["metadata"]["labels"] = {"media": random.choice(("fast", "slow"))}
    if chance(random, 0.15):
        # Kept for one claim, whoever else would like it.
        namespace, claim = random.choice(NAMESPACES), f"c{random.randrange(7)}"
        made["spec"]["claimRef"] = {"namespace": namespace, "name": claim}
    made["status"] = {"phase": random.choices(("Available", "Released"), (9, 1))[0]}
    return made


def claim_and_volume(random: Random, name: str, namespace: str, nodes: list[Object]) -> list[Object]:
    """A claim in a random state, with the volume it is bound to if there is one; none at all for a missing claim."""
    state = random.choices(
        ("bound", "waiting", "local", "immediate", "missing", "lost", "volume-gone", "deleting"),
        (40, 25, 16, 4, 3, 2, 2, 1),
    )[0]
    if state == "missing":
        return []
    size = random.choice(("500Mi", "1Gi", "2Gi", "3Gi", "8Gi"))
    modes = ["ReadWriteOncePod"] if chance(random, 0.2) else [random.choice(_MODES)]
    claim: Object = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": modes, "resources": {"requests": {"storage": size}}},
    }
    if state == "immediate":
        if (chosen := random.choice((IMMEDIATE, IMMEDIATE, "", None))) is not None:
            claim["spec"]["storageClassName"] = chosen
    elif state == "local":
        _wait_for_local(random, claim)
    elif state == "waiting":
        claim["spec"]["storageClassName"] = random.choice((WAIT, WAIT, ZONED, CAPACITY, CAPACITY))
        if chance(random, 0.2):
            claim["spec"]["volumeAttributesClassName"] = "gold"
        if chance(random, 0.1):
            annotations = {"volume.kubernetes.io/selected-node": random.choice(nodes)["metadata"]["name"]}
            claim["metadata"]["annotations"] = annotations
    else:
        return _bound(random, claim, nodes, state)
    return [claim]


def _wait_for_local(random: Random, claim: Object) -> None:
    spec = claim["spec"]
    spec |= {"storageClassName": LOCAL, "accessModes": ["ReadWriteOnce"]}
    spec["resources"]["requests"]["storage"] = random.choice(("500Mi", "1Gi", "2Gi", "4Gi"))
    if chance(random, 0.25):
        line = {"key": "media", "operator": random.choice(("In", "NotIn")), "values": ["slow"]}
        spec["selector"] = random.choice(({"matchLabels": {"media": "fast"}}, {"matchExpressions": [line]}))
    if chance(random, 0.08):
        del spec["storageClassName"]
        claim["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": LOCAL}
    if chance(random, 0.15):
        spec["volumeMode"] = "Block"
    if chance(random, 0.08):
        spec["volumeName"] = f"pv-local-{random.randrange(4)}"


def _bound(random: Random, claim: Object, nodes: list[Object], state: str) -> list[Object]:
    """Give a claim a volume, and then perhaps take one of them away."""
    metadata, spec = claim["metadata"], claim["spec"]
    namespace, name = metadata["namespace"], metadata["name"]
    volume = f"pv-{namespace}-{name}"
    spec |= {"storageClassName": random.choice((WAIT, IMMEDIATE)), "volumeName": volume}
    metadata["annotations"] = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    if state == "lost":
        claim["status"] = {"phase": "Lost"}
    if state == "deleting":
        metadata["finalizers"] = [HOLD]
    if state in {"volume-gone", "lost"}:
        return [claim]
    size = spec["resources"]["requests"]["storage"]
    made = _volume(volume, size, spec["storageClassName"], spec["accessModes"])
    _bind_to_places(random, made, nodes)
    if chance(random, 0.1):
        made["spec"]["csi"]["volumeHandle"] = "h-shared"
    elif chance(random, 0.1):
        del made["spec"]["csi"]
        made["spec"]["nfs"] = {"server": "10.0.0.9", "path": f"/{volume}"}
    made["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
    if chance(random, 0.15):
        # Attached where its pod will perhaps be: not to be counted twice.
        return [made, claim, _attachment(f"va-{namespace}-{name}", volume, random.choice(nodes)["metadata"]["name"])]
    return [made, claim]


def _attachment(name: str, volume: str, node: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {"attacher": CSI, "source": {"persistentVolumeName": volume}, "nodeName": node},
    }


def _bind_to_places(random: Random, volume: Object, nodes: list[Object]) -> None:
    draw = random.random()
    if draw < 0.35:
        labels = {}
        zones = some(random, _ZONES, 2)
        if chance(random, 0.85):
            labels[random.choice((ZONE, ZONE, BETA_ZONE))] = "__".join(zones)
        if chance(random, 0.4):
            labels[REGION] = random.choice(("r1", "r2"))
        volume["metadata"]["labels"] = labels
    elif draw < 0.6:
        volume["spec"]["nodeAffinity"] = _on(ZONE, some(random, _ZONES, 2), random.choice(("In", "In", "NotIn")))
    elif draw < 0.7:
        names = [node["metadata"]["name"] for node in nodes]
        volume["spec"]["nodeAffinity"] = _on(HOSTNAME, some(random, names, 6, 2))
    elif draw < 0.8:
        terms = [
            {"matchExpressions": [{"key": "gen", "operator": random.choice(("Gt", "Lt")), "values": ["4"]}]},
            {"matchExpressions": [{"key": "disk", "operator": random.choice(("Exists", "DoesNotExist"))}]},
        ]
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": some(random, terms, 2)}}


def inline_disk(random: Random, name: str) -> Object:
    """A disk that a pod names itself; two pods may not write to one on the same node."""
    kind = random.choice(("awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd"))
    number = random.choice((1, 2))
    disks: dict[str, Object] = {
        "awsElasticBlockStore": {"volumeID": f"vol-{number}"},
        "gcePersistentDisk": {"pdName": f"pd-{number}"},
        "iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": f"iqn.2024-01.com.example:{number}", "lun": 0},
        "rbd": {"monitors": some(random, ("m1", "m2", "m3"), 2, 2), "image": f"i{number}", "pool": "rbd"},
    }
    stated = disks[kind]
    if kind != "awsElasticBlockStore" and chance(random, 0.4):
        stated["readOnly"] = True
    return {"name": name, kind: stated}
