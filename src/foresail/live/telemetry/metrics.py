"""What is counted of telemetry, beside the figures of the program that it runs in."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge


class TelemetryMetrics:
    """Figures in the registry of a program."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry, namespace="foresail")
        gauge = partial(Gauge, registry=registry, namespace="foresail")
        self.rows = counter(
            "progress_rows",
            "Rows of training jobs' reports, by how they came and what became of them.",
            ["source", "verdict"],
        )
        self.jobs = gauge("progress_jobs", "Training jobs whose progress is known.")
        self.checkpoints = counter("checkpoint_requests", "Checkpoints asked for, by what became of it.", ["outcome"])
        self.requests = counter(
            "progress_requests", "Requests to the receiver of progress, by the status of the answer.", ["status"]
        )
        self.cpu_source = gauge(
            "cpu_source", "1 for where the CPU used by pods is read from now, 0 for the others.", ["source"]
        )
        self.cpu_pods = gauge("cpu_pods", "Pods whose used CPU is known.")
        self.cpu_failures = counter("cpu_read_failures", "Looks at the CPU used by pods that failed.", ["source"])
