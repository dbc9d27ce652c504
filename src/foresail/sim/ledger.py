"""What has happened to every pod of a simulated run so far."""

from __future__ import annotations

import math
from collections.abc import Sequence

from foresail.core.lifecycle import Lives, State


class Ledger:
    """One entry a pod, at the pod's index in the workload."""

    def __init__(self, names: Sequence[str], cpu_limit_milli: Sequence[int] = ()) -> None:
        count = len(names)
        self.cpu_limit_milli = list(cpu_limit_milli) or [0] * count
        """The most CPU that the pod may use now, 0 for no limit."""
        self.names = names
        self.lives = Lives()
        for index in range(count):
            self.lives.begin(index, State.EXPECTED)
        self.waits_since_s = [math.nan] * count
        self.waited_s = [0.0] * count
        """Time spent waiting, all waits together, up to the last start or failure."""
        self.ran_s = [0.0] * count
        """Time spent on nodes, runs that were cut short included, up to the last end or eviction."""
        self.start_s = [math.nan] * count
        """The last start."""
        self.end_s = [math.nan] * count
        self.start_number = [-1] * count
        """Which start of the whole run the pod's last one was; -1 if it never started."""
        self.row = [-1] * count
        self.devices: list[tuple[int, ...]] = [()] * count
        self.restarts = [0] * count
        self.reason = [""] * count
        """Why the pod failed."""
        self.starts = 0
        self.evictions = 0

    @property
    def count(self) -> dict[State, int]:
        """How many pods are in each state."""
        return self.lives.count

    @property
    def outcome(self) -> list[State]:
        """The state of every pod."""
        return [self.lives.of(index) for index in range(len(self.names))]
