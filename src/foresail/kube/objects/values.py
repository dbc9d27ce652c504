"""The names Kubernetes objects carry for us, and single values of their fields."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from foresail.kube.objects.quantity import LARGEST, NANO_PER_UNIT, Amounts, RequestError, mapping, rounded

Object = dict[str, Any]
"""A Kubernetes object as JSON has it."""

GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
CREATED = "alibabacloud.com/creation-time"
DELETED = "alibabacloud.com/deletion-time"
NVIDIA_GPU = "nvidia.com/gpu"
NVIDIA_MODEL = "nvidia.com/gpu.product"
PREFIX = "foresail.dev/"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
VOLCANO_GROUP_NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Both are Volcano's annotations, the first the older one that operators write."""
SHARED_VOLUMES = "foresail.dev/shared-volumes"
SENT_TO = "foresail.dev/sent-to"
GANG = "foresail.dev/gang"
GANG_MIN = "foresail.dev/gang-min"
GANG_TIMEOUT_S = "foresail.dev/gang-timeout-s"
GANG_LATER = "foresail.dev/gang-later"
GANG_TOPOLOGY = "foresail.dev/gang-topology"
GPU_DEVICES = "foresail.dev/gpu-devices"
ARRIVAL_S = "foresail.dev/arrival-s"
DURATION_S = "foresail.dev/duration-s"
CPU_LIMIT_MILLI = "foresail.dev/cpu-limit-milli"
CPU_WEIGHT = "foresail.dev/cpu-weight"
WORK_CPU_S = "foresail.dev/work-cpu-s"
TRAINING = "foresail.dev/training"
OWNER = "foresail.dev/owner"
JOB = "foresail.dev/job"
PROGRESS_PATTERN = "foresail.dev/progress-pattern"
PROGRESS_CONTAINER = "foresail.dev/progress-container"
PROGRESS_TOTAL = "foresail.dev/progress-total"
PROGRESS_TAGS = "foresail.dev/progress-tags"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
ANY_NUMBER_OF_PODS = "foresail.dev/any-number-of-pods"
OUR_MODEL = "foresail.dev/gpu-model"
ADDED_MODEL_LABEL = "foresail.dev/added-model-label"
SCORED_REQUEST = "foresail.dev/scored-request"
HELD_REQUEST = "foresail.dev/held-request"
STAND_IN_IMAGE = "pause"
"""Written for pods whose image nobody named, and not taken for one when read."""


def mapping_or_empty(value: object) -> Mapping[str, Any]:
    """`value` if it is a mapping; for places where a wrong shape is told elsewhere."""
    return value if isinstance(value, Mapping) else {}


def string(value: object, field_name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RequestError(f"{field_name} is {json.dumps(value, default=str)}, not text; write it in quotes")
    return value


def _key(pair: tuple[object, object]) -> str:
    return str(pair[0])


def strings(value: object, field_name: str) -> dict[str, str]:
    texts = mapping(value, field_name)
    return {
        string(key, field_name): string(text, f"{field_name}.{key}") for key, text in sorted(texts.items(), key=_key)
    }


def whole_number(value: object, field_name: str, *, least: int = 0) -> int:
    try:
        number = int(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not least <= number <= LARGEST:
        raise RequestError(f'{field_name} is "{value}"; write a whole number of {least} or more')
    return number


def seconds_of(value: object, field_name: str) -> float:
    try:
        seconds = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise RequestError(f'{field_name} is "{value}"; write seconds, 0 or more')
    return seconds


def time_of(value: object, field_name: str) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        time = datetime.fromisoformat(value.upper()) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise RequestError(f'{field_name} is "{value}"; write an RFC 3339 time such as "2023-01-31T08:00:00Z"')
    return time


def device_count(amount: int, field_name: str) -> int:
    if amount % NANO_PER_UNIT:
        raise RequestError(f"{field_name} is not a whole number; devices are asked for whole")
    return amount // NANO_PER_UNIT


def column(amount: int, divisor: int, field_name: str) -> int:
    value = rounded(amount, divisor)
    if value > LARGEST:
        raise RequestError(f"{field_name} is too large ({value}); the largest value is {LARGEST}")
    return value


def extended_resources(found: Amounts, field_name: str) -> tuple[tuple[str, int], ...]:
    known = {"cpu", "memory", "pods", GPU_COUNT, GPU_MILLI, NVIDIA_GPU}
    return tuple(
        (name, column(amount, NANO_PER_UNIT, f"{field_name}.{name}"))
        for name, amount in sorted(found.items())
        if amount and name not in known
    )


def named_metadata(value: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    metadata = mapping(value.get("metadata"), "metadata")
    name = string(metadata.get("name"), "metadata.name")
    if not name:
        raise RequestError("metadata.name is missing; give the object a name")
    return metadata, name


def qualified(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"


def labelled_model(labels: Mapping[str, str]) -> str:
    return labels.get(GPU_MODEL) or labels.get(NVIDIA_MODEL, "")
