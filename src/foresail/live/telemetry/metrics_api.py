"""The CPU that pods use, from the metrics API (`metrics.k8s.io`), which metrics-server and others serve.

It says what pods use now and not what they have used, so that is summed up here. Needs the right to list `pods` of
`metrics.k8s.io`.
"""

from __future__ import annotations

import re

from foresail.kube.api.client import Client, Object
from foresail.kube.objects.parts import MALFORMED
from foresail.kube.objects.quantity import NANO_PER_MILLI, nano
from foresail.kube.objects.values import time_of
from foresail.live.telemetry.cpu import CpuBook
from foresail.live.telemetry.jobs import Jobs

PATH = "/apis/metrics.k8s.io/v1beta1/pods"
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)(h|ms|m|s|us|µs|ns)")
_CLOCKS_APART_S = 2.0


class MetricsApiCpu:
    """One list of all pods a look."""

    name = "metrics-api"

    def __init__(self, api: Client, jobs: Jobs) -> None:
        self.problem = ""
        self._api = api
        self._jobs = jobs

    async def look(self, book: CpuBook) -> int:
        answer = await self._api.get(PATH)
        unreadable = known = 0
        ours = {pod.full_name: pod for pod in self._jobs.pods()}
        for item in answer.get("items") or ():
            try:
                name, used_milli, at_s, window_s = read_metrics(item)
            except MALFORMED:
                unreadable += 1
                continue
            pod = ours.get(name)
            if pod is None or pod.started_s is None:
                continue
            # It names no uid: figures of before this pod began are those of one that had its name.
            if at_s - window_s >= pod.started_s - _CLOCKS_APART_S:
                book.rated(self.name, pod.uid, used_milli, at_s, pod.started_s)
                known += 1
        self.problem = f"{unreadable} pods of {PATH} cannot be read" if unreadable else ""
        return known


def read_metrics(item: Object) -> tuple[str, float, float, float]:
    """Name, milli-CPU used, when that was measured, and over how many seconds, of a PodMetrics object."""
    about = item["metadata"]
    used = sum(nano(container["usage"]["cpu"]) for container in item["containers"])
    at = time_of(item["timestamp"], "timestamp")
    if at is None:
        raise ValueError("timestamp is missing")
    return f"{about['namespace']}/{about['name']}", used / NANO_PER_MILLI, at.timestamp(), seconds_in(item["window"])


def seconds_in(text: str) -> float:
    """The seconds of a duration as Go writes it, such as 1m5.5s."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f'"{text}" is no duration')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
