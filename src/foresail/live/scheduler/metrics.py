"""What the scheduler counts, under kube-scheduler's names with our prefix, so that its dashboards need one change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

if TYPE_CHECKING:
    from foresail.live.moves.tools import MoveEnd
    from foresail.live.resizes.tools import ResizeEnd
    from foresail.live.scheduler.scheduler import LiveScheduler

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
"""How an attempt to place a pod ended."""

disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped

_QUICK = tuple(0.0001 * 2**n for n in range(17))
_LONG = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)
_SLOW = tuple(0.01 * 2**n for n in range(20))


class Metrics:
    """Counters of one scheduler process, in a registry of its own."""

    def __init__(self, profile: str) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry, namespace="foresail")
        gauge = partial(Gauge, registry=self.registry, namespace="foresail")
        histogram = partial(Histogram, registry=self.registry, namespace="foresail")
        attempts = counter("schedule_attempts", "Attempts to place a pod, by how they ended.", ["result", "profile"])
        self.attempts = {result: attempts.labels(result, profile) for result in (SCHEDULED, UNSCHEDULABLE, ERROR)}
        latency = histogram(
            "scheduling_attempt_duration_seconds",
            "From the beginning of a decision to its answer; the bind is not part of it.",
            ["result", "profile"],
            buckets=_QUICK,
        )
        self.latency = {result: latency.labels(result, profile) for result in self.attempts}
        self.bind_s = histogram(
            "binding_duration_seconds", "From a decision to the API server's answer.", buckets=_QUICK
        )
        self.sli_s = histogram(
            "pod_scheduling_sli_duration_seconds", "From when a pod could be placed to its bind.", buckets=_SLOW
        )
        self.binds = counter("binds", "Binds by how they ended.", ["ending"])
        self.pending = gauge("pending_pods", "Pods that wait, by where.", ["queue"])
        self.incoming = counter("queue_incoming_pods", "Pods that came to wait, by what brought them.", ["event"])
        self.cache = gauge("scheduler_cache_size", "What the cache holds.", ["type"])
        self.records = counter("journal_records", "What happened, by what it was.", ["what"])
        self.preemptions = counter("preemption_attempts", "Attempts to make room for a pod.")
        self.victims = histogram(
            "preemption_victims", "Pods deleted to make room for one.", buckets=(1, 2, 4, 8, 16, 32, 64)
        )
        self.events = gauge("events", "Events by what became of them.", ["outcome"])
        self.reloads = counter("profile_reloads", "Profiles loaded anew while running.", ["result"])
        self.leader = gauge("leader_election_master_status", "1 while this process is the one that places pods.")
        self.controller_failures = counter(
            "controller_failures", "Turns of controllers that came to nothing: it raised, or answered with nonsense."
        )
        self.moves = counter("moves", "Moves of pods by how they ended.", ["ending"])
        self.move_s = histogram("move_seconds", "From the beginning of a move to its end.", ["ending"], buckets=_LONG)
        self.steps_lost = histogram(
            "move_steps_lost",
            "Steps that a moved training job had reported and had to do again.",
            buckets=(0, 1, 2, 5, 10, 20, 50, 100, 1000),
        )
        self.resizes = counter("resizes", "Resizes of pods by how they ended.", ["outcome"])
        self.resize_s = histogram(
            "resize_seconds",
            "From when a resize was asked for until its kubelet had set it aside (allocated), the container ran with "
            "it (done), or it had ended otherwise.",
            ["outcome"],
            buckets=_SLOW,
        )
        self.mended = counter(
            "queue_mended_pods", "Waiting pods that had dropped out of the queue and were put back; always 0."
        )

    def move_ended(self, end: MoveEnd) -> None:
        self.moves.labels(end.how).inc()
        self.move_s.labels(end.how).observe(end.took_s)
        if end.steps_lost is not None:
            self.steps_lost.observe(end.steps_lost)

    def resize_ended(self, end: ResizeEnd) -> None:
        self.resizes.labels(end.outcome.value).inc()
        if end.allocated_s is not None:
            self.resize_s.labels("allocated").observe(end.allocated_s)
        if end.outcome != "allocated":
            self.resize_s.labels(end.outcome.value).observe(end.took_s)

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)

    def look_at(self, live: LiveScheduler) -> None:
        """Take down how things stand with the scheduler now; all else is counted when it happens."""
        asleep = live.queue.asleep_count
        self.pending.labels("active").set(len(live.queue) - asleep)
        self.pending.labels("unschedulable").set(asleep)
        self.pending.labels("backoff").set(len(live.cluster.paused))
        self.pending.labels("gated").set(sum(pod.gated for pod in live.cache.pods.values()))
        self.cache.labels("nodes").set(live.cache.table.count)
        self.cache.labels("pods").set(len(live.cache.pods))
        self.cache.labels("assumed_pods").set(len(live.cluster.binding))
        self.events.labels("written").set(live.events.sent)
        self.events.labels("dropped").set(live.events.dropped)
