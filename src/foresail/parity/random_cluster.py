"""Random clusters: nodes, objects and pods, the same ones for the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from foresail.kube.objects.values import Object
from foresail.parity.random_pod import (
    APPS,
    ARCH,
    DIGEST,
    GPU,
    HOSTNAME,
    HUGEPAGES,
    IMAGES,
    NAMESPACES,
    RACK,
    REGION,
    RESTART_ALL,
    TAINTS,
    WIDGET,
    ZONE,
    chance,
    random_pod,
    some,
)
from foresail.parity.random_storage import BETA_ZONE, CSI, claim_and_volume, cluster_storage, inline_disk

_CLAIMS_A_NAMESPACE = 7


@dataclass(frozen=True, slots=True)
class Case:
    """A pod to decide about, and what happens just before."""

    pod: Object
    leaver: float | None
    """Which of the pods on nodes is deleted first, as a share of them in order (0 … 1); None if nobody is."""
    lingers: bool
    """Whether the leaver stays on its node as terminating."""


@dataclass(frozen=True, slots=True)
class ParityCluster:
    """A cluster and what happens on it."""

    seed: int
    nodes: list[Object]
    namespaces: dict[str, dict[str, str]]
    """Name to labels."""
    objects: list[Object]
    """Everything else, in an order in which it can be made."""
    cases: list[Case]


def random_cluster(seed: int, pods: int) -> ParityCluster:
    """A cluster of 8 to 18 nodes and `pods` pods that come one after the other."""
    random = Random(seed)  # noqa: S311 - tests, not secrets
    nodes = [_node(random, f"n{index:02}") for index in range(random.randint(8, 18))]
    namespaces = {name: _namespace_labels(random) for name in NAMESPACES}
    objects = _workloads(random) + cluster_storage(random, nodes)
    for namespace in NAMESPACES:
        for index in range(_CLAIMS_A_NAMESPACE):
            objects += claim_and_volume(random, f"c{index}", namespace, nodes)
    cases = []
    for index in range(pods):
        namespace = random.choice(NAMESPACES)
        pod = random_pod(random, f"p{index:03}", _volumes(random), namespace)
        cases.append(Case(pod, random.random() if chance(random, 0.2) else None, chance(random, 0.35)))
    return ParityCluster(seed, nodes, namespaces, objects, cases)


def _volumes(random: Random) -> list[Object]:
    found: list[Object] = []
    if chance(random, 0.3):
        for index, claim in enumerate(some(random, range(_CLAIMS_A_NAMESPACE), random.choice((1, 1, 2)))):
            found.append({"name": f"v{index}", "persistentVolumeClaim": {"claimName": f"c{claim}"}})
    if chance(random, 0.12):
        found.append(inline_disk(random, "disk"))
    if chance(random, 0.03):
        found.append({"name": "tools", "image": {"reference": random.choice((*IMAGES, "img/unknown:9"))}})
    if chance(random, 0.03):
        found.append({"name": "inline", "csi": {"driver": CSI}})
    if chance(random, 0.04):
        found.append({"name": "empty", "emptyDir": {}})
    if chance(random, 0.01):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        found.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}})
    return found


def _namespace_labels(random: Random) -> dict[str, str]:
    return ({"env": random.choice(("prod", "dev"))} if chance(random, 0.75) else {}) | (
        {"team": random.choice(("a", "b"))} if chance(random, 0.75) else {}
    )


def _node(random: Random, name: str) -> Object:
    labels = {"kubernetes.io/os": "linux", ARCH: random.choice(("amd64", "amd64", "arm64"))}
    zone = random.randint(1, 3)
    stated = (
        # The one that most rules go by need not be there, nor be the node's name.
        (HOSTNAME, name if chance(random, 0.97) else "shared", 0.97),
        (ZONE, f"z{zone}", 0.88),
        (BETA_ZONE, f"z{zone}", 0.1),
        (REGION, "r2" if zone == 3 else "r1", 0.88),
        (RACK, f"k{random.randint(1, 5)}", 0.7),
        ("disk", random.choice(("ssd", "hdd")), 0.85),
        ("gen", random.choice((*"0123456789", "x")), 0.75),
        ("gpu", "yes", 0.25),
    )
    labels |= {key: value for key, value, share in stated if chance(random, share)}
    spec: Object = {}
    # A node has at most one taint of a key and an effect.
    drawn = {(key, effect): value for key, value, effect in some(random, TAINTS, 2)} if chance(random, 0.35) else {}
    taints = [
        {"key": key, "effect": effect} | ({"value": value} if value else {}) for (key, effect), value in drawn.items()
    ]
    if chance(random, 0.05):
        spec["unschedulable"] = True
        if chance(random, 0.5):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    capacity, allocatable = _offers(random)
    status: Object = {"capacity": capacity, "allocatable": allocatable, "images": _images(random)}
    if chance(random, 0.6):
        status["declaredFeatures"] = [RESTART_ALL]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": status,
    }


def _offers(random: Random) -> tuple[Object, Object]:
    """Capacity and what of it pods may have."""
    cores, gibibytes = random.choice((2, 4, 8, 12, 16)), random.choice((3, 8, 12, 16, 24))
    capacity = {"cpu": str(cores), "memory": f"{gibibytes}Gi", "pods": random.choice(("4", "8", "12", "30", "110"))}
    if chance(random, 0.06):
        # A node may keep silent about what every other one has; then it has none.
        del capacity[random.choice(("cpu", "memory", "pods"))]
    if chance(random, 0.9):
        capacity["ephemeral-storage"] = random.choice(("6Gi", "20Gi", "50Gi"))
    if chance(random, 0.7):
        capacity[WIDGET] = random.choice(("3", "10"))
    if chance(random, 0.4):
        capacity[GPU] = random.choice(("2", "4", "8"))
    if chance(random, 0.35):
        capacity[HUGEPAGES] = "128Mi"
    allocatable = dict(capacity)
    if "cpu" in capacity and chance(random, 0.5):
        allocatable["cpu"] = f"{cores * 1000 - random.choice((70, 100, 230))}m"
    if "memory" in capacity and chance(random, 0.5):
        allocatable["memory"] = random.choice(
            (f"{gibibytes * 1024 - 512}Mi", f"{gibibytes * 1000**3 - 12345}", f"{gibibytes * 1000 - 200}M", "4e9")
        )
    return capacity, allocatable


def _images(random: Random) -> list[Object]:
    found = []
    for name in some(random, tuple(IMAGES), 5, 0):
        names = [name] + ([f"{name.rpartition(':')[0]}@{DIGEST}"] if chance(random, 0.3) else [])
        # The same image may take another size on another node.
        size = IMAGES[name] + (random.randrange(40_000_000) if chance(random, 0.15) else 0)
        found.append({"names": names, "sizeBytes": size})
    return found


def _workloads(random: Random) -> list[Object]:
    """Services and controllers whose selectors the default spreading goes by."""
    found = []
    for namespace in NAMESPACES:
        for app in APPS:
            if chance(random, 0.3):
                selector = {"app": app} | ({"tier": "front"} if chance(random, 0.3) else {})
                found.append(_workload("v1", "Service", f"svc-{app}", namespace, _service_spec(selector)))
            if chance(random, 0.4):
                found.append(_workload("apps/v1", "ReplicaSet", f"rs-{app}", namespace, _selected(random, app)))
            if chance(random, 0.3):
                spec = _selected(random, app) | {"serviceName": f"svc-{app}"}
                found.append(_workload("apps/v1", "StatefulSet", f"ss-{app}", namespace, spec))
            if chance(random, 0.25):
                spec = {"selector": {"app": app}, "template": _template({"app": app}), "replicas": 0}
                found.append(_workload("v1", "ReplicationController", f"rc-{app}", namespace, spec))
    return found


def _workload(version: str, kind: str, name: str, namespace: str, spec: Object) -> Object:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _service_spec(selector: dict[str, str]) -> Object:
    # Headless: a lab has few addresses for services.
    return {"selector": selector, "clusterIP": "None", "ports": [{"port": 80}]}


def _selected(random: Random, app: str) -> Object:
    labels = {"app": app, "rev": random.choice(("r1", "r2"))}
    if chance(random, 0.5):
        selector: Object = {"matchLabels": labels}
    else:
        requirement = {"key": "app", "operator": "In", "values": [app]}
        selector = {"matchLabels": {"rev": labels["rev"]}, "matchExpressions": [requirement]}
    return {"selector": selector, "template": _template(labels), "replicas": 0}


def _template(labels: dict[str, str]) -> Object:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img/web:1"}]}}
