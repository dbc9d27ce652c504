"""Pods that stand one behind the other, because whatever refuses the first refuses them all."""

from __future__ import annotations

from collections.abc import Hashable

from foresail.core.model import Pod
from foresail.core.spec import Gang

Order = tuple[int, float, int]
"""Higher priority first, then earlier arrival, then the order of submission; no two waiting pods share one."""

NEVER_S = float("inf")


class Lane:
    """The pods of one shape, or of one gang, in their order."""

    __slots__ = (
        "asleep",
        "deadline_s",
        "failures",
        "freed_rows",
        "gang",
        "key",
        "not_before_s",
        "offered",
        "placed",
        "pods",
        "started",
        "waiting",
        "woken",
    )

    def __init__(self, key: Hashable, gang: Gang | None) -> None:
        self.key = key
        self.gang = gang
        self.pods: list[tuple[Order, Pod]] = []
        """A heap; entries of pods that were removed stay in it until they come to its head."""
        self.waiting = 0
        """How many of the entries are of pods that still wait."""
        self.offered: Order | None = None
        """Under which order the lane stands among the ready ones."""
        self.asleep = False
        self.woken = False
        """Woken from its sleep, but its backoff has not ended."""
        self.freed_rows: dict[int, None] | None = None
        """Where room has become free since the lane fitted nowhere; None if it may fit anywhere."""
        self.failures = 0
        self.not_before_s = 0.0
        self.placed = 0
        """Members of a gang that have their node, or have had it and are finished."""
        self.started = False
        """Whether a gang has had enough members placed together; from then on each member is placed by itself."""
        self.deadline_s = NEVER_S
        """When a gang that has not started is given up."""

    @property
    def missing(self) -> int:
        """How many more members must find room together before a gang starts."""
        return 0 if self.gang is None or self.started else max(0, self.gang.at_once - self.placed)

    @property
    def lacking(self) -> int:
        """How many members a gang needs to be whole: all that are missing before it starts; if it has started and lost
        some, as many of those as wait.
        """
        if self.gang is None or not self.started:
            return self.missing
        return min(max(0, self.gang.min_members - self.placed), self.waiting)

    @property
    def is_ready(self) -> bool:
        return not self.asleep and self.waiting > 0 and self.waiting >= self.missing
