"""Where a gang would go as the table is now: one pass by the profile, then a search. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from foresail.core.clock import Clock
from foresail.core.decide import decide
from foresail.core.gang import Placements, answered, place_gang
from foresail.core.gang_search import GangSearch, NoRoomTogether, SearchLimits
from foresail.core.holds import Holds
from foresail.core.model import Pod
from foresail.core.profile import Profile
from foresail.core.table import NodeTable

_FEWER_TRIES = 10
"""Who looks at many arrangements gives each search a part of the tries of one."""


class Arranging:
    """Many looks at one gang, which have together as much time as one search."""

    def __init__(
        self,
        members: Sequence[Pod],
        table: NodeTable,
        *,
        missing: int,
        holds: Holds,
        clock: Clock,
        limits: SearchLimits,
    ) -> None:
        """`missing` of the members must find room together, beside what is held for others."""
        self.members, self.table, self.missing = members, table, missing
        self.holds, self.clock = holds, clock
        self.decide = holds.deciding(decide)
        self._limits = replace(limits, tries=max(1, limits.tries // _FEWER_TRIES))
        self._until_s = clock.now() + limits.seconds
        self.gave_up = False
        """Whether a search ended before it had tried everything."""

    def look(self, profile: Profile) -> Placements:
        """Where the members go, as few as must start together; empty if they do not fit."""
        table = self.table
        questions = place_gang(self.members, table, profile, missing=self.missing)
        placed, refusal = answered(questions, lambda pod: self.decide(pod, table, profile))
        for pod, _ in reversed(placed):
            table.forget(pod.uid)
        if placed or refusal is None:
            return placed[: self.missing]
        search = GangSearch(
            self.members,
            table,
            profile,
            missing=self.missing,
            holds=self.holds,
            clock=self.clock,
            limits=replace(self._limits, seconds=max(0.0, self._until_s - self.clock.now())),
        )
        if not search.is_worthwhile:
            return []
        outcome = search.find(refusal)
        if isinstance(outcome, NoRoomTogether):
            self.gave_up = self.gave_up or not outcome.is_proved
            return []
        return outcome
