"""GPUs of one Pod object: how many its containers request, what annotations add, and which devices it says it has."""

from __future__ import annotations

from collections.abc import Mapping

from foresail.core.spec import WHOLE_GPU_MILLI
from foresail.kube.objects.parts import Parts
from foresail.kube.objects.quantity import NANO_PER_UNIT, Amounts, RequestError, rounded
from foresail.kube.objects.values import GPU_COUNT, GPU_MILLI, NVIDIA_GPU, device_count, whole_number

MOST_DEVICES = 256
"""GPUs of one node or pod; more is a mistake, and a table as wide as somebody cares to write would fill the memory."""

Gpus = tuple[int, int]
"""Devices, and thousandths of each."""


def pod_gpus(requested: Amounts, annotations: Mapping[str, str], parts: Parts) -> Gpus:
    """Devices and milli of each. Containers' requests are what the API server enforces: annotations may add to them,
    as for shares, which Kubernetes has no resource for, but never lower them.
    """
    enforced = parts.part(_consistent, _at_least(requested), requested, {})
    if GPU_COUNT not in annotations and GPU_MILLI not in annotations:
        return enforced
    return largest_gpus(enforced, parts.part(_consistent, enforced, requested, annotations))


def largest_gpus(one: Gpus, other: Gpus) -> Gpus:
    """As much as either has: several devices are always whole ones."""
    return max(one[0], other[0]), max(one[1], other[1])


def gpu_devices(text: object, count: int) -> tuple[int, ...] | None:
    """GPUs as the annotation lists them, None if it does not list as many as the pod has."""
    if not text or not count:
        return None
    try:
        found = tuple(sorted({int(part) for part in str(text).split(",")}))
    except ValueError:
        return None
    return found if len(found) == count and found[0] >= 0 and found[-1] < MOST_DEVICES else None


def _consistent(requested: Amounts, annotations: Mapping[str, str]) -> Gpus:
    counts = [device_count(requested[GPU_COUNT], f"the request for {GPU_COUNT}")] if GPU_COUNT in requested else []
    millis = [device_count(requested[GPU_MILLI], f"the request for {GPU_MILLI}")] if GPU_MILLI in requested else []
    if GPU_COUNT in annotations:
        counts.append(whole_number(annotations[GPU_COUNT], f"metadata.annotations.{GPU_COUNT}"))
    if GPU_MILLI in annotations:
        millis.append(whole_number(annotations[GPU_MILLI], f"metadata.annotations.{GPU_MILLI}"))
    count = max(counts, default=1 if any(millis) else 0)
    milli = max(millis, default=WHOLE_GPU_MILLI if count else 0)
    if milli > WHOLE_GPU_MILLI:
        raise RequestError(f'{GPU_MILLI} is "{milli}"; one device has 1000 milli, ask for more with {GPU_COUNT}')
    if (count == 0) != (milli == 0) or (count > 1 and milli < WHOLE_GPU_MILLI):
        raise RequestError(
            f'{GPU_COUNT} is "{count}" and {GPU_MILLI} is "{milli}"; write 1 to 1000 milli of one GPU, '
            "1000 of several, or neither"
        )
    whole = device_count(requested.get(NVIDIA_GPU, 0), f"the request for {NVIDIA_GPU}")
    return largest_gpus((count, milli), (whole, WHOLE_GPU_MILLI if whole else 0))


def _at_least(requested: Amounts) -> Gpus:
    """The smallest consistent request that is no less than what containers name, where that is not consistent."""
    count, milli, whole = (
        rounded(requested.get(name, 0), NANO_PER_UNIT) for name in (GPU_COUNT, GPU_MILLI, NVIDIA_GPU)
    )
    count = max(count, whole, -(-milli // WHOLE_GPU_MILLI))
    share = count == 1 and 0 < milli < WHOLE_GPU_MILLI and not whole
    return count, milli if share else WHOLE_GPU_MILLI if count else 0
