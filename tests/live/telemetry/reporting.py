"""Jobs that run on a made-up cluster, and a store for what they report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry
from tests.live.cluster import make_cache, make_node, make_pod

from foresail.core.clock import SimClock
from foresail.live.telemetry.jobs import Jobs
from foresail.live.telemetry.metrics import TelemetryMetrics
from foresail.live.telemetry.progress import ProgressStore

NOW_S = 1_800_000_000.0
"""What the time is, in seconds since 1970."""


class Reporting:
    """A cache with a node, the jobs on it, and a store."""

    def __init__(self) -> None:
        self.cache, _ = make_cache()
        self.cache.handler("Node").replace([make_node("a", "64")])
        self.jobs = Jobs(self.cache, "foresail")
        self.clock = SimClock()
        self.registry = CollectorRegistry()
        self.metrics = TelemetryMetrics(self.registry)
        self.now_s = NOW_S
        self.store = ProgressStore(self.jobs, self.clock, self.metrics, unix_s=lambda: self.now_s)

    def run(self, name: str, *, namespace: str = "team", job: str = "", began_s: float = 0.0, **more: Any) -> str:
        """Let a pod run; its uid."""
        made = make_pod(name, "10m", "a", labels={"foresail.dev/job": job} if job else None, **more)
        made["metadata"]["namespace"] = namespace
        made["metadata"]["uid"] = uid = more.get("uid") or f"uid-{namespace}-{name}"
        if began_s:
            made["status"] |= {"startTime": _rfc3339(began_s), "phase": "Running"}
        self.cache.put_pod(made)
        return uid

    def end(self, uid: str) -> None:
        self.cache.drop_pod(uid)

    def counted(self) -> dict[tuple[str, ...], int]:
        """Rows by source and verdict."""
        return counts(self.metrics.rows)

    def step(self, job: str) -> int | None:
        known = self.store.of(job)
        return None if known is None else known.row.step


def counts(counter: Any) -> dict[tuple[str, ...], int]:
    """What a counter has counted, by the values of its labels."""
    (family,) = counter.collect()
    return {tuple(one.labels.values()): int(one.value) for one in family.samples if one.name.endswith("_total")}


def _rfc3339(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat().replace("+00:00", "Z")
