"""How a bulk-synchronous job runs on a cluster. Settings alone, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass

from foresail.errors import OptionError


@dataclass(frozen=True, slots=True)
class GangSettings:
    """Where the pods of a job run, and how long anything of it may take."""

    namespace: str = "default"
    """Where pods, Leases and records are."""
    scheduler: str = "foresail"
    """Who places the pods: their spec.schedulerName."""
    image: str = ""
    """With Python, stress-ng and foresail.workloads; by default the one of a lab's nodes."""
    memory: str = "64Mi"
    """Memory of each pod, request and limit."""
    host_network: bool = False
    """Whether pods use their node's network, as a lab's must to reach its API server or ZooKeeper."""
    api_server: str = ""
    """Where tasks find the API server, for the barrier lease; empty for the one that every pod knows."""
    start_within_s: float = 180.0
    """All pods run within this time, or the job fails."""
    superstep_within_s: float = 600.0
    """A superstep that takes longer than this makes the job fail."""
    resize_within_s: float = 30.0
    """A pod that its node has not given what it is to get within this time keeps what it had."""
    attempts: int = 5
    """A task whose pod was lost so often in one superstep makes the job fail."""

    def __post_init__(self) -> None:
        for name in ("start_within_s", "superstep_within_s", "resize_within_s"):
            if not 0 < getattr(self, name) < float("inf"):
                raise OptionError(f"{name} is {getattr(self, name):g}; it is a time in seconds, above 0")
        if self.attempts < 1:
            raise OptionError(f"attempts is {self.attempts}; it is 1 or more")
