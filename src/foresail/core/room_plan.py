"""Where a gang that does not fit now will fit first, and when: over what is free and what others leave.

Pods whose end is known leave in that order. Of the others those are expected to leave first that came last: who has run
for long will run for long, and a pod that never ends is some day older than all that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from foresail.core.asking import Filters, Without
from foresail.core.clock import Clock
from foresail.core.decide import decide
from foresail.core.gang import Placements, answered, place_gang
from foresail.core.gang_search import GangSearch, NoRoomTogether, SearchLimits
from foresail.core.holds import Ends, Holds
from foresail.core.lane import NEVER_S
from foresail.core.model import Placement, Pod
from foresail.core.profile import Profile
from foresail.core.table import NodeTable, Placed

_FASTER = 4
"""So many times as many pods are thought away each time the gang does not fit."""
_FEWER_TRIES = 10
"""A plan takes many searches, so each has a part of the tries of one."""


class RoomPlan(NamedTuple):
    """Where the members of a gang go once others have left."""

    placements: Placements
    needed_s: float
    """When they can: by then enough others have left; infinity if nobody knows."""


class RoomPlanner:
    """One plan for one gang; the table is afterwards as it was."""

    def __init__(
        self,
        members: Sequence[Pod],
        table: NodeTable,
        profile: Profile,
        *,
        missing: int,
        holds: Holds,
        clock: Clock,
        limits: SearchLimits,
        ends: Ends,
    ) -> None:
        """`missing` of the members must find room together, beside what is held for those before them."""
        self._members, self._table, self._profile = members, table, profile
        self._missing, self._holds, self._clock, self._ends = missing, holds, clock, ends
        self._decide = holds.deciding(decide)
        self._limits = replace(limits, tries=max(1, limits.tries // _FEWER_TRIES))
        self._until_s = clock.now() + limits.seconds
        self._gave_up = False

    def find(self) -> RoomPlan | str:
        """The plan for which the fewest need to leave; or, in words, why there is none."""
        leaving = self._in_order_of_leaving()
        gone = 0
        with Without(self._table, ()) as away:

            def look(count: int) -> Placements:
                nonlocal gone
                for _, placed in leaving[gone:count]:
                    away.take_away(placed)
                for _, placed in leaving[count:gone]:
                    away.put_back(placed)
                gone = count
                return self._arrange()

            too_few, enough = 0, min(1, len(leaving))
            while not (found := look(enough)):
                if enough == len(leaving):
                    return self._why_never()
                too_few, enough = enough, min(_FASTER * enough, len(leaving))
            while enough - too_few > 1:
                between = (too_few + enough) // 2
                if placements := look(between):
                    found, enough = placements, between
                else:
                    too_few = between
        return RoomPlan(found, leaving[enough - 1][0] if enough else self._clock.now())

    def _why_never(self) -> str:
        if self._gave_up:
            return "whether its gang would fit on empty nodes took too long to find out, so no room is held for it"
        return "its gang would not fit on empty nodes either, so no room is held for it"

    def _in_order_of_leaving(self) -> list[tuple[float, Placed]]:
        """All who stand somewhere but for the gang's own, each with its end."""
        now_s, gang = self._clock.now(), self._members[0].group
        others = [placed for placed in self._table.placed.values() if placed.pod.group != gang]
        ends = [self._ends(placed.pod) for placed in others]
        # Who should have left by now tells nothing of when it will.
        timed = [(end_s if end_s > now_s else NEVER_S, placed) for end_s, placed in zip(ends, others, strict=True)]
        return sorted(timed, key=lambda one: (one[0], -one[1].pod.arrival_s))

    def _arrange(self) -> Placements:
        """Where the members go as the table is now, as few as must start together; empty if they do not fit."""
        table = self._table
        questions = place_gang(self._members, table, self._profile, missing=self._missing)
        placed, refusal = answered(questions, lambda pod: self._decide(pod, table, self._profile))
        for pod, _ in reversed(placed):
            table.forget(pod.uid)
        if placed or refusal is None:
            return placed[: self._missing]
        search = GangSearch(
            self._members,
            table,
            self._profile,
            missing=self._missing,
            holds=self._holds,
            clock=self._clock,
            limits=replace(self._limits, seconds=max(0.0, self._until_s - self._clock.now())),
        )
        if not search.is_worthwhile:
            return []
        outcome = search.find(refusal)
        if isinstance(outcome, NoRoomTogether):
            self._gave_up = self._gave_up or not outcome.is_proved
            return []
        return outcome


def still_holds(plan: RoomPlan, table: NodeTable, profile: Profile, *, holds: Holds, leaving: Sequence[Placed]) -> bool:
    """Whether the members fit where they were planned, once these have left."""
    assumed: list[Pod] = []
    with Without(table, leaving):
        try:
            for pod, placement in plan.placements:
                row = table.row_of.get(placement.node)
                if row is None:
                    return False
                filters = Filters.of(profile).for_pod(pod, table)
                if not holds.lets(filters, pod, table, row, holds.holders(pod, table).get(row, ())):
                    return False
                if any(table.gpu_free[row, device] < pod.gpu_milli for device in placement.devices):
                    return False
                table.assume(pod, Placement(row, placement.node, placement.devices))
                assumed.append(pod)
        finally:
            for pod in reversed(assumed):
                table.forget(pod.uid)
    return True
