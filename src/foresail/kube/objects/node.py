"""One Node object: what it offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foresail.core.kubernetes import KubernetesNode
from foresail.core.spec import WHOLE_GPU_MILLI, NodeSpec, Taint
from foresail.kube.objects.quantity import (
    NANO_PER_MILLI,
    NANO_PER_UNIT,
    Amounts,
    RequestError,
    amounts,
    mapping,
    sequence,
)
from foresail.kube.objects.terms import items, texts
from foresail.kube.objects.values import (
    ADDED_MODEL_LABEL,
    ANY_NUMBER_OF_PODS,
    GPU_COUNT,
    GPU_MILLI,
    GPU_MODEL,
    NVIDIA_GPU,
    OUR_MODEL,
    column,
    device_count,
    extended_resources,
    labelled_model,
    named_metadata,
    string,
    strings,
    whole_number,
)


def node_spec(value: Mapping[str, Any]) -> NodeSpec:
    """What a Node object offers."""
    metadata, name = named_metadata(value)
    spec = mapping(value.get("spec"), "spec")
    status = mapping(value.get("status"), "status")
    where = "allocatable" if status.get("allocatable") is not None else "capacity"
    offered = amounts(status.get(where), f"status.{where}")
    labels = strings(metadata.get("labels"), "metadata.labels")
    annotations = strings(metadata.get("annotations"), "metadata.annotations")
    model = annotations.get(OUR_MODEL, labelled_model(labels))
    if annotations.get(ADDED_MODEL_LABEL) == GPU_MODEL:
        labels.pop(GPU_MODEL, None)
    return NodeSpec(
        name=name,
        cpu_milli=column(offered.get("cpu", 0), NANO_PER_MILLI, f"status.{where}.cpu"),
        memory_bytes=column(offered.get("memory", 0), NANO_PER_UNIT, f"status.{where}.memory"),
        gpu_count=_node_gpus(offered, f"status.{where}"),
        gpu_model=model,
        max_pods=column(offered.get("pods", 0), NANO_PER_UNIT, f"status.{where}.pods"),
        labels=tuple(labels.items()),
        taints=tuple(_taint(taint, index) for index, taint in enumerate(sequence(spec.get("taints"), "spec.taints"))),
        extended=extended_resources(offered, f"status.{where}"),
        # A limit of 0 pods admits none, while max_pods 0 means no limit: such a node is closed.
        unschedulable=bool(spec.get("unschedulable")) or offered.get("pods") == 0,
        kubernetes=_kubernetes_only(
            status, takes_no_pods=bool(offered) and "pods" not in offered and ANY_NUMBER_OF_PODS not in annotations
        ),
    )


def _kubernetes_only(status: Mapping[str, Any], *, takes_no_pods: bool) -> KubernetesNode | None:
    found = KubernetesNode(
        images=tuple(
            (name, whole_number(image.get("sizeBytes", 0), f"{place}.sizeBytes"))
            for place, image in items(status.get("images"), "status.images")
            for name in texts(image.get("names"), f"{place}.names")
        ),
        features=texts(status.get("declaredFeatures"), "status.declaredFeatures"),
        takes_no_pods=takes_no_pods,
    )
    return None if found == KubernetesNode() else found


def _node_gpus(offered: Amounts, field_name: str) -> int:
    milli = offered.get(GPU_MILLI)
    if GPU_COUNT in offered:
        count = device_count(offered[GPU_COUNT], f"{field_name}.{GPU_COUNT}")
        if milli is not None and milli != count * WHOLE_GPU_MILLI * NANO_PER_UNIT:
            raise RequestError(
                f'{field_name}.{GPU_MILLI} is "{milli // NANO_PER_UNIT}" for {count} GPUs; '
                f"write {count * WHOLE_GPU_MILLI}, 1000 for each"
            )
        return count
    if milli is not None:
        return device_count(milli // WHOLE_GPU_MILLI, f"{field_name}.{GPU_MILLI} / 1000")
    return device_count(offered.get(NVIDIA_GPU, 0), f"{field_name}.{NVIDIA_GPU}")


def _taint(value: object, index: int) -> Taint:
    place = f"spec.taints[{index}]"
    taint = mapping(value, place)
    effect = string(taint.get("effect"), f"{place}.effect")
    if effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
        raise RequestError(f'{place}.effect is "{effect}"; write NoSchedule, PreferNoSchedule or NoExecute')
    return Taint(string(taint.get("key"), f"{place}.key"), string(taint.get("value"), f"{place}.value"), effect)
