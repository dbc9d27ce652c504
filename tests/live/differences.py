"""Whether a cache is what the cluster is: a comparison with a fresh list of all nodes and pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from foresail.core.spec import NodeSpec, PodSpec
from foresail.core.table import NodeTable
from foresail.kube.objects.node import node_spec
from foresail.kube.objects.quantity import RequestError
from foresail.kube.objects.values import Object
from foresail.live.cache.cache import Cache
from foresail.live.cache.pods import PodReader

Asked = dict[str, int]
"""Resource to what pods ask of it together, in the units of the node table."""


def differences(cache: Cache, nodes: Iterable[Object], pods: Iterable[Object]) -> list[str]:
    """What differs, one line each, and which nodes hold more than they have. Pods that are assumed but not bound yet
    count where they are assumed.
    """
    table, known = cache.table, cache.pods
    specs = _node_specs(nodes)
    reader = PodReader()
    truth = {pod.uid: pod for pod in (reader.read(value) for value in pods)}
    lines = [
        *_nodes(table, specs),
        *(f"pod {known[uid].full_name} ({uid}) is known but gone" for uid in sorted(known.keys() - truth.keys())),
        *(f"pod {truth[uid].full_name} ({uid}) is not known" for uid in sorted(truth.keys() - known.keys())),
    ]
    asked: dict[str, Counter[str]] = {name: Counter() for name in table.names}
    for uid, pod in truth.items():
        held = table.placed.get(uid)
        booked = "" if held is None else table.names[held.row]
        node = pod.node if pod.stands and pod.node in table.row_of else ""
        if node and booked != node:
            lines.append(f"pod {pod.full_name} is on {node} but booked on {booked or 'no node'}")
        elif booked and pod.ended:
            lines.append(f"pod {pod.full_name} has ended but is booked on {booked}")
        if held is not None and pod.stands and pod.devices not in {None, held.devices} and not cache.is_guess(uid):
            lines.append(f"pod {pod.full_name} has GPUs {pod.devices} but is booked on {held.devices}")
        if node:
            asked[node].update(_asked(pod.spec))
        elif held is not None and not pod.node and not pod.ended:
            asked[booked].update(_asked(held.pod.spec))
    lines += [
        f"pod {held.pod.name} ({held.pod.uid}) is gone but booked on {table.names[held.row]}"
        for held in table.placed.values()
        if held.pod.uid not in truth
    ]
    return lines + [line for name in sorted(asked) for line in _sums(table, name, asked[name])]


def _node_specs(nodes: Iterable[Object]) -> dict[str, NodeSpec | None]:
    found: dict[str, NodeSpec | None] = {}
    for value in nodes:
        name = value["metadata"]["name"]
        try:
            found[name] = node_spec(value)
        except RequestError:
            found[name] = None  # whatever the cache makes of it cannot be compared
    return found


def _nodes(table: NodeTable, specs: dict[str, NodeSpec | None]) -> Iterable[str]:
    for name in sorted(table.row_of.keys() - specs.keys()):
        yield f"node {name} is known but gone"
    for name, spec in sorted(specs.items(), key=lambda item: item[0]):
        if spec is None:
            continue
        row = table.row_of.get(name)
        if row is None:
            yield f"node {name} is not known"
        elif table.specs[row] != spec:
            fields = [field for field in NodeSpec.__slots__ if getattr(table.specs[row], field) != getattr(spec, field)]
            yield f"node {name} is known with another {', '.join(fields)}"


def _asked(spec: PodSpec) -> Asked:
    return {
        "pods": 1,
        "cpu": spec.cpu_milli,
        "memory": spec.memory_bytes,
        "gpu": spec.gpu_count * spec.gpu_milli,
        **dict(spec.extended),
    }


def _sums(table: NodeTable, name: str, asked: Counter[str]) -> Iterable[str]:
    row = table.row_of[name]
    taken = dict(zip(table.resources, (table.allocatable[row] - table.free[row]).tolist(), strict=True))
    has = dict(zip(table.resources, table.allocatable[row].tolist(), strict=True))
    taken["pods"] = int(table.pod_count[row])
    for resource in sorted(taken.keys() | asked.keys()):
        if taken.get(resource, 0) != asked[resource]:
            yield f"node {name}: pods ask for {asked[resource]} {resource}, {taken.get(resource, 0)} is booked"
        if resource in has and asked[resource] > has[resource]:
            yield f"node {name} is over capacity: pods ask for {asked[resource]} {resource}, it has {has[resource]}"
    most = int(table.max_pods[row])
    if most > 0 and asked["pods"] > most:
        yield f"node {name} is over capacity: {asked['pods']} pods, it takes {most}"
