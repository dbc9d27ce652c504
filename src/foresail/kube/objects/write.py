"""Nodes and pods as Kubernetes objects in a file, from which they can be read back unchanged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from foresail.core.kubernetes import KubernetesPod
from foresail.core.spec import WHOLE_GPU_MILLI, NodeSpec, Toleration, Workload, written_topology
from foresail.errors import InputError
from foresail.formats import YAML_ENDINGS
from foresail.kube.objects.pod import TOLERATION_PARTS
from foresail.kube.objects.values import (
    ADDED_MODEL_LABEL,
    ANY_NUMBER_OF_PODS,
    ARRIVAL_S,
    CPU_LIMIT_MILLI,
    CPU_WEIGHT,
    CREATED,
    DELETED,
    DURATION_S,
    GANG,
    GANG_LATER,
    GANG_MIN,
    GANG_TIMEOUT_S,
    GANG_TOPOLOGY,
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODEL,
    OUR_MODEL,
    OWNER,
    TRAINING,
    WORK_CPU_S,
    labelled_model,
)
from foresail.kube.objects.write_fields import metadata_fields, spec_fields

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_LAST_STAMP_S = 1e10


def node_objects(nodes: Iterable[NodeSpec]) -> Iterator[dict[str, Any]]:
    """Nodes, so that reading them again gives equal specs."""
    return map(_node_object, nodes)


def pod_objects(workload: Workload, progress: Callable[[], None] | None = None) -> Iterator[dict[str, Any]]:
    """All pods in their order, so that reading them again gives an equal workload.

    `progress` is called as each one has been taken.
    """
    for index in range(len(workload)):
        yield _pod_object(workload, index)
        if progress is not None:
            progress()


def write_objects(path: Path, objects: Iterable[dict[str, Any]]) -> None:
    """Write objects one by one, so that memory holds only one of them; a failure leaves a part of the file."""
    ending = path.suffix.lower()
    with path.open("w", encoding="utf-8", newline="\n") as out:
        if ending in YAML_ENDINGS:
            yaml.dump_all(
                objects, out, Dumper=yaml.CSafeDumper, sort_keys=False, explicit_start=True, allow_unicode=True
            )
            return
        whole = ending == ".json"
        if whole:
            out.write('{"apiVersion": "v1", "kind": "List", "items": [')
        for index, value in enumerate(objects):
            out.write((",\n" if index else "\n") if whole else "")
            out.write(json.dumps(value) + ("" if whole else "\n"))
        if whole:
            out.write("\n]}\n")


def _node_object(node: NodeSpec) -> dict[str, Any]:
    labels = dict(node.labels)
    annotations = {}
    if node.gpu_model != labelled_model(labels):
        # Others look for the model in this label; a node that had none loses it again when it is read back.
        if GPU_MODEL in labels or not node.gpu_model:
            annotations[OUR_MODEL] = node.gpu_model
        else:
            labels[GPU_MODEL] = node.gpu_model
            annotations[ADDED_MODEL_LABEL] = GPU_MODEL
    offered: dict[str, str] = {"cpu": f"{node.cpu_milli}m", "memory": str(node.memory_bytes)}
    if node.max_pods:
        offered["pods"] = str(node.max_pods)
    elif node.kubernetes is None or not node.kubernetes.takes_no_pods:
        annotations[ANY_NUMBER_OF_PODS] = "true"
    if node.gpu_count:
        offered[GPU_COUNT] = str(node.gpu_count)
        offered[GPU_MILLI] = str(node.gpu_count * WHOLE_GPU_MILLI)
    offered |= {name: str(amount) for name, amount in node.extended}
    spec: dict[str, Any] = {}
    if node.taints:
        spec["taints"] = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    if node.unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _present(name=node.name, labels=labels, annotations=annotations),
        **_present(spec=spec),
        "status": {"allocatable": offered, "capacity": dict(offered), **_kubernetes_only(node)},
    }


def _kubernetes_only(node: NodeSpec) -> dict[str, Any]:
    if node.kubernetes is None:
        return {}
    images = [{"names": [name], "sizeBytes": size} for name, size in node.kubernetes.images]
    return _present(images=images, declaredFeatures=list(node.kubernetes.features))


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _pod_object(workload: Workload, index: int) -> dict[str, Any]:
    pod = workload.spec(index)
    prefix = "" if pod.namespace == "default" else f"{pod.namespace}/"
    labels = dict(pod.labels)
    annotations = _pod_annotations(workload, index)
    if workload.gang_of[index] >= 0:
        gang = workload.gangs[workload.gang_of[index]]
        labels[GANG] = gang.name.removeprefix(prefix)
        if not gang.name.startswith(prefix) or "/" in labels[GANG]:
            raise InputError(
                f'gang "{gang.name}" has a pod of namespace "{pod.namespace}"; a gang lives in one namespace and is '
                f'named after it: "{prefix}{gang.name.rpartition("/")[2]}"'
            )
        annotations[GANG_MIN] = str(gang.min_members)
        annotations[GANG_TIMEOUT_S] = repr(gang.timeout_s)
        if gang.later_members:
            annotations[GANG_LATER] = str(gang.later_members)
        if gang.topology:
            annotations[GANG_TOPOLOGY] = written_topology(gang)
    kind, _, owner = pod.owner.partition("/")
    if pod.owner and not owner:
        annotations[OWNER] = pod.owner
    own = pod.kubernetes or KubernetesPod()
    short = workload.names[index].removeprefix(prefix)
    asked = {"cpu": f"{pod.cpu_milli}m"} if pod.cpu_milli else {}
    asked |= {"memory": str(pod.memory_bytes)} if pod.memory_bytes else {}
    asked |= {name: str(amount) for name, amount in pod.extended}
    limit_milli = int(workload.cpu_limit_milli[index])
    limits = {name: amount for name, amount in asked.items() if name != "cpu"}
    if limit_milli and (own.container_count > 1 or not pod.cpu_milli):
        # A limit stands in for a request that is missing, and limits a pod only if every container has one.
        annotations[CPU_LIMIT_MILLI] = str(limit_milli)
    elif limit_milli:
        limits = {"cpu": f"{limit_milli}m", **limits}
    fields, more_annotations = metadata_fields(own)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _present(
            name=short,
            namespace=pod.namespace,
            labels=labels,
            annotations=annotations | more_annotations,
            ownerReferences=[{"kind": kind, "name": owner, "controller": True}] if owner else [],
            **fields,
        ),
        "spec": _present(
            priority=int(workload.priority[index]),
            nodeSelector=dict(pod.node_selector),
            tolerations=[_toleration_object(toleration) for toleration in pod.tolerations],
        )
        | spec_fields(own, short, {"requests": asked, "limits": limits}),
    }


def _toleration_object(toleration: Toleration) -> dict[str, str]:
    given = {name: getattr(toleration, name) for name in TOLERATION_PARTS}
    return {name: text for name, text in given.items() if text}


def _pod_annotations(workload: Workload, index: int) -> dict[str, str]:
    pod = workload.spec(index)
    annotations = {}
    if pod.gpu_count:
        annotations = {GPU_COUNT: str(pod.gpu_count), GPU_MILLI: str(pod.gpu_milli)}
    if pod.gpu_models:
        annotations[GPU_MODEL] = "|".join(pod.gpu_models)
    arrival_s, duration_s = float(workload.arrival_s[index]), float(workload.duration_s[index])
    # Times of day serve other programs; ours are exact to the last bit and say where the trace starts.
    if arrival_s < _LAST_STAMP_S:
        annotations[CREATED] = _stamp(arrival_s)
    if arrival_s + duration_s < _LAST_STAMP_S:
        annotations[DELETED] = _stamp(arrival_s + duration_s)
    annotations[ARRIVAL_S] = repr(arrival_s)
    annotations[DURATION_S] = repr(duration_s)
    if workload.cpu_weight[index] > 0:
        annotations[CPU_WEIGHT] = repr(float(workload.cpu_weight[index]))
    if not math.isnan(workload.work_cpu_s[index]):
        annotations[WORK_CPU_S] = repr(float(workload.work_cpu_s[index]))
    if workload.training_of[index] >= 0:
        annotations[TRAINING] = workload.trainings[workload.training_of[index]].name
    return annotations


def _stamp(seconds: float) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
