"""Random pods that between them use every rule kube-scheduler has for placing a pod."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import TypeVar

from foresail.kube.objects.values import Object

T = TypeVar("T")

NAMESPACES = ("default", "ns-a", "ns-b", "ns-c")
APPS = ("web", "db", "cache", "batch")
ZONE, REGION, HOSTNAME = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
RACK, ARCH = "example.com/rack", "kubernetes.io/arch"
TOPOLOGY_KEYS = (HOSTNAME, HOSTNAME, ZONE, ZONE, REGION, RACK)
GPU, WIDGET, HUGEPAGES = "example.com/gpu", "example.com/widget", "hugepages-2Mi"
IMAGES = {
    "img/web:1": 41_954_173,
    "img/db:2": 734_013_096,
    "img/batch:3": 1_572_877_607,
    "img/tool:latest": 94_390_395,
    "img/cache:1": 262_157_607,
    "img/init:1": 12_595_282,
    "img/side:1": 314_585_170,
    "img/huge:1": 5_242_892_370,
    "registry.example.com:5000/team/app:2": 523_288_003,
}
DIGEST = "sha256:" + "ab" * 32
TAINTS = (
    ("dedicated", "ml", "NoSchedule"),
    ("dedicated", "db", "NoSchedule"),
    ("spot", "", "PreferNoSchedule"),
    ("soft", "x", "PreferNoSchedule"),
    ("soft", "y", "PreferNoSchedule"),
    ("maint", "now", "NoExecute"),
)
RESTART_ALL = "RestartAllContainersOnContainerExits"
RUNTIME_CLASSES: tuple[Object, ...] = (
    {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "350m", "memory": "130Mi"}}},
    {"metadata": {"name": "plain"}, "handler": "plain"},
    {
        "metadata": {"name": "vm"},
        "handler": "vm",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {ARCH: "amd64"},
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
    },
)
PRIORITIES = {"parity-high": 1000, "parity-middle": 100}
_MOST_NODES = 18
_CPU = ("50m", "100m", "250m", "400m", "700m", "1", "1500m", "0", "0.3", "33m", "0.0005")
_MEMORY = ("32Mi", "64Mi", "200M", "512Mi", "1Gi", "1500Mi", "2Gi", "0", "250000k", "123456789", "0.5Gi")
_WEIGHTS = (1, 5, 30, 50, 100)


def chance(random: Random, share: float) -> bool:
    return random.random() < share


def some(random: Random, values: Sequence[T], most: int, least: int = 1) -> list[T]:
    """A few different ones, in random order."""
    return random.sample(list(values), min(random.randint(least, most), len(values)))


def random_pod(random: Random, name: str, volumes: list[Object], namespace: str) -> Object:
    """A pod that asks for a random part of what a pod can ask for; the API server may still refuse one now and then."""
    app = random.choice(APPS)
    labels = {"app": app, "rev": random.choice(("r1", "r2")), "tier": random.choice(("front", "back"))}
    if chance(random, 0.7):
        labels["tenant"] = random.choice(("t1", "t2"))
    metadata: Object = {"name": name, "namespace": namespace} | ({"labels": labels} if chance(random, 0.96) else {})
    # An easy pod has wishes only, so that many nodes are left to be scored.
    hard = chance(random, 0.6)
    if chance(random, 0.3):
        metadata["ownerReferences"] = [_owner(random, app)]
    spec: Object = {"containers": _containers(random, hard=hard), "volumes": volumes}
    _init_containers(random, spec)
    _ports(random, spec)
    if chance(random, 0.2):
        _pod_level(random, spec)
    if chance(random, 0.15):
        spec["runtimeClassName"] = random.choice(("kata", "kata", "plain", "vm"))
    if chance(random, 0.25):
        spec["priorityClassName"] = random.choice(tuple(PRIORITIES))
    if tolerations := _tolerations(random):
        spec["tolerations"] = tolerations
    if hard and chance(random, 0.15):
        spec["nodeSelector"] = dict(some(random, _SELECTABLE, 2))
    if affinity := _affinity(random, app, hard=hard):
        spec["affinity"] = affinity
    if chance(random, 0.35):
        spec["topologySpreadConstraints"] = _spread(random, app, hard=hard)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


_SELECTABLE = (("disk", "ssd"), ("disk", "hdd"), (ARCH, "amd64"), (ZONE, "z1"), (ZONE, "z2"), ("gpu", "yes"))


def _owner(random: Random, app: str) -> Object:
    kind, version, prefix = random.choice(
        (("ReplicaSet", "apps/v1", "rs"), ("StatefulSet", "apps/v1", "ss"), ("ReplicationController", "v1", "rc"))
    )
    uid = "00000000-0000-0000-0000-000000000001"
    return {"apiVersion": version, "kind": kind, "name": f"{prefix}-{app}", "uid": uid, "controller": True}


def _containers(random: Random, *, hard: bool) -> list[Object]:
    containers = []
    for index in range(random.choice((1, 1, 1, 2, 2, 3))):
        container: Object = {"name": f"c{index}", "image": _image(random), "resources": _resources(random)}
        containers.append(container)
    first = containers[0]
    for resource, share, amounts in ((GPU, 0.1, ("1", "2", "4")), (WIDGET, 0.15, ("1", "2", "5", "0"))):
        if hard and chance(random, share):
            _exactly(first, resource, random.choice(amounts))
    if hard and chance(random, 0.07):
        _exactly(first, HUGEPAGES, random.choice(("2Mi", "64Mi", "128Mi")))
        first["resources"]["requests"].setdefault("memory", "64Mi")
    if chance(random, 0.06):
        first["restartPolicy"] = "Never"
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
        first["restartPolicyRules"] = [rule]
    return containers


def _exactly(container: Object, resource: str, amount: str) -> None:
    """Resources that nobody can share are asked for as request and limit alike."""
    for part in ("requests", "limits"):
        container["resources"].setdefault(part, {})[resource] = amount


def _image(random: Random) -> str:
    name = random.choice((*IMAGES, "img/unknown:9"))
    if name == "img/tool:latest" and chance(random, 0.5):
        return "img/tool"
    return f"{name.rpartition(':')[0]}@{DIGEST}" if chance(random, 0.07) else name


def _resources(random: Random) -> Object:
    requests: Object = {}
    if chance(random, 0.8):
        requests["cpu"] = random.choice(_CPU)
    if chance(random, 0.75):
        requests["memory"] = random.choice(_MEMORY)
    if chance(random, 0.15):
        requests["ephemeral-storage"] = random.choice(("100Mi", "100Mi", "1Gi", "5Gi"))
    resources: Object = {"requests": requests} if requests else {}
    if chance(random, 0.2):
        # A limit alone becomes the request too.
        part = {key: value for key, value in requests.items() if value != "0" and chance(random, 0.7)}
        missing = {"cpu": "300m", "memory": "300Mi"}
        resources["limits"] = part | {key: missing[key] for key in missing if key not in requests}
    return resources


def _init_containers(random: Random, spec: Object) -> None:
    containers = []
    for index in range(random.choice((0, 0, 0, 1, 2, 3))):
        container: Object = {"name": f"i{index}", "image": _image(random), "resources": _resources(random)}
        if chance(random, 0.5):
            container["restartPolicy"] = "Always"
        if chance(random, 0.05):
            _exactly(container, WIDGET, "1")
        containers.append(container)
    if containers:
        spec["initContainers"] = containers


def _ports(random: Random, spec: Object) -> None:
    if not chance(random, 0.18):
        return
    if chance(random, 0.15):
        spec["hostNetwork"] = True
    taken: set[tuple[int, str, str]] = set()
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        for _ in range(random.choice((0, 1, 1, 2))):
            port, protocol = random.choice((80, 443, 8080, 8081)), random.choice(("TCP", "TCP", "UDP"))
            address = random.choice(("", "", "10.0.0.5", "127.0.0.1", "0.0.0.0"))  # noqa: S104 - a host port, no socket of ours
            if (port, protocol, address) in taken:
                continue
            taken.add((port, protocol, address))
            entry: Object = {"containerPort": port, "hostPort": port, "protocol": protocol}
            container.setdefault("ports", []).append(entry | ({"hostIP": address} if address else {}))


def _pod_level(random: Random, spec: Object) -> None:
    """Requests for the pod as a whole, at least what its containers ask for together."""
    requests: Object = {}
    limits: Object = {}
    for resource, unit in (("cpu", "m"), ("memory", "Mi")):
        if chance(random, 0.75):
            floor = sum(_amount(one, resource) for one in (*spec["containers"], *spec.get("initContainers", [])))
            amount = f"{floor + random.choice((0, 10, 100, 500, 1000))}{unit}"
            if chance(random, 0.8):
                requests[resource] = amount
            # A limit alone is made a request by the API server, which may refuse what it made itself: it rounds amounts
            # below a thousandth of a core differently when it checks.
            if amount not in {"0m", "0Mi"} and chance(random, 0.3):
                limits[resource] = amount
    if requests or limits:
        spec["resources"] = {key: one for key, one in (("requests", requests), ("limits", limits)) if one}


_MEBIBYTES = {"Mi": 1.0, "Gi": 1024.0, "M": 1e6 / 2**20, "k": 1e3 / 2**20}


def _amount(container: Object, resource: str) -> int:
    """Milli-CPU or MiB that a container asks for, rounded up; limits too, since they may become requests."""
    most = 0
    for part in ("requests", "limits"):
        text = container["resources"].get(part, {}).get(resource, "0")
        if resource == "cpu":
            amount = int(text[:-1]) if text.endswith("m") else ceil(float(text) * 1000)
        else:
            suffix = next((suffix for suffix in _MEBIBYTES if text.endswith(suffix)), "")
            number = float(text.removesuffix(suffix))
            amount = int(number * (_MEBIBYTES[suffix] if suffix else 1 / 2**20)) + 1
        most = max(most, amount)
    return most


def _tolerations(random: Random) -> list[Object]:
    found: list[Object] = []
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        if chance(random, 0.1):
            found.append({"operator": "Exists"} | ({"effect": "NoSchedule"} if chance(random, 0.5) else {}))
            continue
        if chance(random, 0.15):
            found.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})
            continue
        key, value, effect = random.choice(TAINTS)
        stated: Object = {"key": key}
        if chance(random, 0.5):
            stated["operator"] = "Exists"
        else:
            stated |= {"operator": "Equal"} if chance(random, 0.7) else {}
            stated["value"] = random.choice((value, value, "other"))
        if chance(random, 0.6):
            stated["effect"] = random.choice((effect, effect, "NoSchedule", "PreferNoSchedule", "NoExecute"))
        if stated.get("effect") == "NoExecute" and chance(random, 0.4):
            stated["tolerationSeconds"] = random.choice((0, 60))
        found.append(stated)
    return found


def _affinity(random: Random, app: str, *, hard: bool) -> Object:
    found: Object = {}
    node: Object = {}
    if hard and chance(random, 0.2):
        terms = [_node_term(random) for _ in range(random.choice((1, 1, 2)))]
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    elif hard and chance(random, 0.05):
        terms = [{"matchFields": [_matching_field(random, "In")]} for _ in range(random.choice((1, 2, 3)))]
        if chance(random, 0.2):
            # Two names at once: nearly always a contradiction.
            terms[-1]["matchFields"].append(_matching_field(random, random.choice(("In", "NotIn"))))
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if chance(random, 0.25):
        node["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": random.choice(_WEIGHTS), "preference": _node_term(random)} for _ in range(random.choice((1, 2)))
        ]
    if node:
        found["nodeAffinity"] = node
    for kind, required, preferred in (("podAffinity", 0.2, 0.2), ("podAntiAffinity", 0.25, 0.2)):
        own: Object = {}
        if hard and chance(random, required):
            own["requiredDuringSchedulingIgnoredDuringExecution"] = [
                _pod_term(random, app, gentle=kind == "podAffinity") for _ in range(random.choice((1, 1, 1, 2)))
            ]
        if chance(random, preferred):
            own["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": random.choice(_WEIGHTS), "podAffinityTerm": _pod_term(random, app)}
                for _ in range(random.choice((1, 1, 2)))
            ]
        if own:
            found[kind] = own
    return found


def _matching_field(random: Random, operator: str) -> Object:
    return {"key": "metadata.name", "operator": operator, "values": [f"n{random.randrange(_MOST_NODES):02}"]}


def _node_term(random: Random) -> Object:
    term: Object = {}
    if chance(random, 0.03):
        return term
    if chance(random, 0.9):
        term["matchExpressions"] = [_node_requirement(random) for _ in range(random.choice((1, 1, 2)))]
    if not term or chance(random, 0.15):
        term["matchFields"] = [_matching_field(random, random.choice(("In", "NotIn", "NotIn")))]
    return term


def _node_requirement(random: Random) -> Object:
    operator = random.choice(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in {"Gt", "Lt"}:
        return {"key": "gen", "operator": operator, "values": [str(random.randint(0, 6))]}
    key, values = random.choice(
        (("disk", ("ssd", "hdd")), (ZONE, ("z1", "z2", "z3")), ("gpu", ("yes",)), (RACK, ("k1", "k2", "k3")))
    )
    if operator in {"Exists", "DoesNotExist"}:
        return {"key": key, "operator": operator}
    return {"key": key, "operator": operator, "values": some(random, values, 2)}


def label_selector(random: Random, app: str) -> Object:
    """A selector of pods: all operators, now and then the empty one."""
    chosen = app if chance(random, 0.6) else random.choice(APPS)
    draw = random.random()
    if draw < 0.05:
        return {}
    if draw < 0.6:
        return {"matchLabels": {"app": chosen} | ({"tier": "back"} if chance(random, 0.1) else {})}
    requirement = random.choice(
        (
            {"key": "app", "operator": "In", "values": [chosen, random.choice(APPS)]},
            {"key": "app", "operator": "NotIn", "values": [chosen]},
            {"key": "tier", "operator": "Exists"},
            {"key": "tier", "operator": "DoesNotExist"},
            {"key": "tier", "operator": "In", "values": [random.choice(("front", "back"))]},
        )
    )
    exact = {"matchLabels": {"app": chosen}} if requirement["key"] != "app" and chance(random, 0.7) else {}
    return exact | {"matchExpressions": [requirement]}


def _pod_term(random: Random, app: str, *, gentle: bool = False) -> Object:
    term: Object = {"topologyKey": random.choice(TOPOLOGY_KEYS)}
    if gentle and chance(random, 0.7):
        term["topologyKey"] = random.choice((ZONE, REGION))
    if chance(random, 0.97):
        term["labelSelector"] = label_selector(random, app)
        if chance(random, 0.2):
            term["matchLabelKeys"] = ["rev"]
        if chance(random, 0.12):
            term["mismatchLabelKeys"] = ["tenant"]
    if chance(random, 0.2):
        term["namespaces"] = some(random, NAMESPACES, 2)
    if chance(random, 0.25):
        term["namespaceSelector"] = random.choice(
            (
                {},
                {"matchLabels": {"team": random.choice(("a", "b"))}},
                {"matchExpressions": [{"key": "env", "operator": "In", "values": ["dev"]}]},
                {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["dev"]}]},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "env", "operator": "Exists"}]},
            )
        )
    return term


def _spread(random: Random, app: str, *, hard: bool) -> list[Object]:
    found: list[Object] = []
    seen: set[tuple[str, str]] = set()
    modes = ("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway") if hard else ("ScheduleAnyway",)
    for _ in range(random.choice((1, 1, 2, 3))):
        key, mode = random.choice(TOPOLOGY_KEYS), random.choice(modes)
        if (key, mode) in seen:
            continue
        seen.add((key, mode))
        constraint: Object = {"maxSkew": random.choice((1, 1, 2, 3)), "topologyKey": key, "whenUnsatisfiable": mode}
        if chance(random, 0.95):
            constraint["labelSelector"] = label_selector(random, app)
            if chance(random, 0.3):
                constraint["matchLabelKeys"] = some(random, ("rev", "tenant"), 2)
        if mode == "DoNotSchedule" and chance(random, 0.3):
            constraint["minDomains"] = random.randint(1, 5)
        if chance(random, 0.3):
            constraint["nodeAffinityPolicy"] = random.choice(("Honor", "Ignore"))
        if chance(random, 0.4):
            constraint["nodeTaintsPolicy"] = random.choice(("Honor", "Ignore"))
        found.append(constraint)
    return found
